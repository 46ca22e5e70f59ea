//! What standard output is: a terminal of some width that shows colours, or a file.

use ::console::Term;

/// The columns of the terminal that tables are made for. A wider one shows no more.
pub const WIDTH: usize = 100;

/// No table fits less; such a terminal breaks the lines itself.
const NARROWEST: usize = 24;

/// What a text is laid out for.
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

    /// What standard output is now. Colours are for terminals, unless `NO_COLOR` is set or `CLICOLOR` is 0; `CLICOLOR_FORCE` asks for
    /// them in a pipe too.
    pub fn of_stdout() -> Terminal {
        let out = Term::stdout();
        let columns = if out.is_term() { out.size_checked().map(|(_, columns)| usize::from(columns)) } else { None };
        // A terminal that does not know its width says 0.
        let width = columns.filter(|&columns| columns > 0).unwrap_or(WIDTH);
        Terminal { width: width.clamp(NARROWEST, WIDTH), colors: ::console::colors_enabled() }
    }
}
