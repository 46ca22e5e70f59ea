//! Kind of standard output: a terminal with its width and colours, or a file.

use ::console::Term;

/// Width of the terminal that tables are made for. A wider one shows no more.
pub const WIDTH: usize = 100;

/// Minimum width of a table; a narrower terminal breaks the lines itself.
const NARROWEST: usize = 24;

/// Output that a text is laid out for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Characters per line.
    pub width: usize,
    /// Whether colours are shown.
    pub colors: bool,
}

impl Terminal {
    /// A file or a pipe.
    pub const PLAIN: Terminal = Terminal { width: WIDTH, colors: false };

    /// Current standard output: its width is `COLUMNS` if that is set, as for other commands. Colours are for terminals, unless
    /// `NO_COLOR` is set or `CLICOLOR` is 0; `CLICOLOR_FORCE` asks for them in a pipe too.
    pub fn of_stdout() -> Terminal {
        let out = Term::stdout();
        let told = std::env::var("COLUMNS").ok();
        let measured = if out.is_term() { out.size_checked().map(|(_, columns)| usize::from(columns)) } else { None };
        Terminal { width: width(told.as_deref(), measured), colors: ::console::colors_enabled() }
    }
}

/// The width to lay out for: that of `COLUMNS`, else that of the terminal, which is 0 if unknown.
fn width(told: Option<&str>, measured: Option<usize>) -> usize {
    let told = told.and_then(|told| told.trim().parse().ok());
    let known = [told, measured].into_iter().flatten().find(|&columns| columns > 0);
    known.unwrap_or(WIDTH).clamp(NARROWEST, WIDTH)
}

#[cfg(test)]
mod tests {
    use super::{NARROWEST, WIDTH, width};

    #[test]
    fn columns_come_before_the_terminal_and_a_width_of_0_is_none() {
        assert_eq!(width(None, None), WIDTH);
        assert_eq!(width(None, Some(0)), WIDTH);
        assert_eq!(width(None, Some(80)), 80);
        assert_eq!(width(Some("60"), Some(80)), 60);
        assert_eq!(width(Some("60"), Some(0)), 60);
        assert_eq!(width(Some("0"), Some(80)), 80);
        assert_eq!(width(Some("wide"), None), WIDTH);
        assert_eq!((width(Some("3"), None), width(Some("500"), None)), (NARROWEST, WIDTH));
    }
}
