//! SVG by hand: shapes, text, and one style sheet for light and dark.

use std::fmt::Write;

/// Width of every picture.
pub(super) const WIDTH: f64 = 884.0;

/// Roles of drawn things, which give their colours: name, property, on light pages, on dark ones.
const ROLES: [(&str, &str, &str, &str); 29] = [
    ("paper", "fill", "#ffffff", "#14181d"),
    ("ink", "fill", "#1f2328", "#e6e9ec"),
    ("dim", "fill", "#59636e", "#a0a9b3"),
    ("edge", "stroke", "#a9b2bc", "#4c555f"),
    ("mark", "stroke", "#1f2328", "#e6e9ec"),
    ("wire", "stroke", "#3b82d0", "#5b9de6"),
    ("empty", "fill", "#eef1f4", "#22272e"),
    ("pale", "fill", "#cfe2f8", "#1f3d5f"),
    ("full", "fill", "#2f7bd1", "#5aa2f0"),
    ("on-full", "fill", "#ffffff", "#0b1520"),
    ("warn", "fill", "#c2570c", "#f0883e"),
    ("on-warn", "fill", "#ffffff", "#1d1003"),
    ("good", "fill", "#1f7a3d", "#4cc46c"),
    ("on-good", "fill", "#ffffff", "#06170b"),
    ("wait", "fill", "#d5dae0", "#363d46"),
    ("product", "fill", "#7a3fb5", "#b78af0"),
    ("store", "fill", "#0f7f8a", "#3fc1cc"),
    ("copy", "fill", "#7a8a1e", "#b5c94c"),
    ("stop", "stroke", "#b3261e", "#ff7b72"),
    ("stop-text", "fill", "#b3261e", "#ff7b72"),
    ("pick", "stroke", "#b3261e", "#ff7b72"),
    ("r0", "fill", "#d6e6fb", "#1f3f66"),
    ("r1", "fill", "#fbe3cc", "#5c3a16"),
    ("r2", "fill", "#d5f0dc", "#1c4a2b"),
    ("r3", "fill", "#ecdcf9", "#45295f"),
    ("r4", "fill", "#fbd9dd", "#5e2530"),
    ("r5", "fill", "#d2f0f2", "#134a4f"),
    ("r6", "fill", "#f4efc3", "#4d4711"),
    ("r7", "fill", "#e3e6ea", "#3a424c"),
];

/// The text styles.
const FONTS: &str = ".ptx-picture text{font:11px system-ui,'DejaVu Sans',sans-serif}\
.ptx-picture .h{font-size:15px;font-weight:600}.ptx-picture .s{font-size:12.5px}.ptx-picture .n{font-size:10px}\
.ptx-picture .t{font-size:9px}.ptx-picture .c{font-family:ui-monospace,'DejaVu Sans Mono',monospace;font-size:12px}\
.ptx-picture .m{text-anchor:middle}.ptx-picture .e{text-anchor:end}.ptx-picture .l{fill:none}";

/// A picture being drawn, from the top down.
pub(super) struct Svg {
    body: String,
    used: [bool; ROLES.len()],
    /// Height of the picture so far.
    pub y: f64,
}

/// A number with at most two decimals.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Text escaped for XML. Control characters, which XML forbids, are left out.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' => escaped.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => escaped.push(c),
        }
    }
    escaped
}

/// At most `count` characters of `text`.
pub(super) fn shortened(text: &str, count: usize) -> String {
    if text.chars().count() <= count {
        return text.to_owned();
    }
    text.chars().take(count.saturating_sub(1)).chain(['…']).collect()
}

impl Svg {
    /// A picture with its heading: the subject, the code, and a summary.
    pub(super) fn new(heading: &str, code: &str, summary: &[String]) -> Self {
        let mut svg = Self { body: String::new(), used: [false; ROLES.len()], y: 26.0 };
        svg.text("h ink", 12.0, svg.y, &shortened(heading, 100));
        if !code.is_empty() {
            svg.y += 20.0;
            svg.text("c dim", 12.0, svg.y, &shortened(code, 118));
        }
        for line in summary {
            svg.y += 19.0;
            svg.text("s ink", 12.0, svg.y, line);
        }
        svg.y += 14.0;
        svg
    }

    /// Adds the classes' colours to the style sheet.
    fn class(&mut self, classes: &str) {
        for class in classes.split(' ') {
            if let Some(at) = ROLES.iter().position(|(name, ..)| *name == class) {
                self.used[at] = true;
            }
        }
    }

    pub(super) fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        self.class(class);
        let (x, y) = (number(x), number(y));
        let _ = writeln!(self.body, r#"<text class="{class}" x="{x}" y="{y}">{}</text>"#, escaped(text));
    }

    pub(super) fn rect(&mut self, class: &str, [x, y, width, height]: [f64; 4]) {
        self.titled_rect(class, [x, y, width, height], "");
    }

    /// A rectangle with a tooltip.
    pub(super) fn titled_rect(&mut self, class: &str, place: [f64; 4], title: &str) {
        self.class(class);
        let [x, y, width, height] = place.map(number);
        let _ = write!(self.body, r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}""#);
        if title.is_empty() {
            self.body.push_str("/>\n");
        } else {
            let _ = writeln!(self.body, "><title>{}</title></rect>", escaped(title));
        }
    }

    pub(super) fn shaded_rect(&mut self, class: &str, place: [f64; 4], opacity: f64) {
        self.class(class);
        let [x, y, width, height] = place.map(number);
        let shade = if opacity < 1.0 { format!(r#" fill-opacity="{}""#, number(opacity)) } else { String::new() };
        let _ =
            writeln!(self.body, r#"<rect class="{class}" x="{x}" y="{y}" width="{width}" height="{height}"{shade}/>"#);
    }

    /// A path of `M x y`, `L x y` … : the points are given at once.
    pub(super) fn line(&mut self, class: &str, width: f64, points: &[[f64; 2]]) {
        self.class(class);
        let points = points.iter().zip(std::iter::once('M').chain(std::iter::repeat('L')));
        let path: String = points.map(|([x, y], to)| format!("{to}{} {}", number(*x), number(*y))).collect();
        let _ = writeln!(self.body, r#"<path class="{class} l" stroke-width="{}" d="{path}"/>"#, number(width));
    }

    /// Squares with the meanings of their colours, in a row; moves `y` down.
    pub(super) fn legend(&mut self, entries: &[(&str, &str)]) {
        let mut x = 12.0;
        self.y += 20.0;
        for (class, text) in entries {
            let y = self.y;
            self.rect(class, [x, y - 9.0, 12.0, 10.0]);
            self.text("n dim", x + 17.0, y, text);
            x += 17.0 + text.chars().count() as f64 * 5.6 + 22.0;
        }
    }

    /// The file. `description` is for readers who cannot see the drawing.
    pub(super) fn finish(mut self, title: &str, description: &str) -> String {
        self.used[0] = true; // the paper
        let rules = |column: fn(&(&str, &str, &'static str, &'static str)) -> &'static str| -> Vec<(String, String)> {
            let used = ROLES.iter().zip(self.used).filter(|(_, used)| *used);
            used.map(|(role, _)| (role.0.to_owned(), format!("{{{}:{}}}", role.1, column(role)))).collect()
        };
        let sheet = |within: &str, rules: &[(String, String)]| -> String {
            rules.iter().map(|(name, body)| format!("{within}.ptx-picture .{name}{body}")).collect()
        };
        let (light, dark) = (rules(|role| role.2), rules(|role| role.3));
        let style = format!(
            ".ptx-picture{{color-scheme:light dark}}{FONTS}{}\n@media(prefers-color-scheme:dark){{{}}}\n{}\n{}",
            sheet("", &light),
            sheet("", &dark),
            sheet(":is(.light,.rust) ", &light),
            sheet(":is(.coal,.navy,.ayu) ", &dark)
        );
        let height = number((self.y + 14.0).ceil());
        let width = number(WIDTH);
        let (title, description) = (escaped(title), escaped(description));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"ptx-picture\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" style=\"max-width:100%;height:auto\" role=\"img\">\n\
             <title>{title}</title>\n<desc>{description}</desc>\n<style>{style}</style>\n\
             <rect class=\"paper\" width=\"{width}\" height=\"{height}\" rx=\"6\"/>\n{}</svg>\n",
            self.body
        )
    }
}
