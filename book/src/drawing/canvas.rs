//! Elements of pictures: boxes, grids, arrows and texts, with positions and looks but without colours.
//!
//! Colours are the page's: each element has a class, and `style.css` gives classes their colours in every theme. A look differs from the
//! others by its hatching or its outline, too, so that a picture can be read in print. All pictures have one width, in which texts are at
//! least [`SMALL`] high: so they can be read on a phone.

use svg::{
    Document, Node,
    node::{Text as Content, element::Element},
};

use crate::content::Picture;

/// The width of all pictures, in the units of their coordinates. A phone shows about 360 pixels of it.
pub const WIDTH: f64 = 400.0;
/// The height of plain text.
pub const TEXT: f64 = 12.5;
/// The height of the smallest text.
pub const SMALL: f64 = 11.5;

/// Shapes of points, drawn from their middle: a disc, a square, a diamond, triangles up and down, a cross, an upright one, a bar.
const MARKS: [&str; 8] = [
    "m-3.4 0a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0 -6.8 0z",
    "m-3.1 -3.1h6.2v6.2h-6.2z",
    "m0 -4.4l4.4 4.4l-4.4 4.4l-4.4 -4.4z",
    "m0 -4.2l4.2 7.4h-8.4z",
    "m0 4.2l4.2 -7.4h-8.4z",
    "m-4 -2.2l1.8 -1.8l2.2 2.2l2.2 -2.2l1.8 1.8l-2.2 2.2l2.2 2.2l-1.8 1.8l-2.2 -2.2l-2.2 2.2l-1.8 -1.8l2.2 -2.2z",
    "m-1.3 -4.2h2.6v2.9h2.9v2.6h-2.9v2.9h-2.6v-2.9h-2.9v-2.6h2.9z",
    "m-4.4 -1.5h8.8v3h-8.8z",
];

/// Look of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Its edge.
    Outline,
    /// Its edge as a thick line.
    Thick,
    /// Its edge as a dashed line.
    Dashed,
    /// A little darker or lighter than the page.
    Faint,
    /// In the first hue.
    First,
    /// In the second hue, hatched from corner to corner.
    Second,
    /// In the third hue, dotted.
    Third,
}

impl Look {
    fn class(self) -> &'static str {
        match self {
            Look::Outline => "box",
            Look::Thick => "box thick",
            Look::Dashed => "box dashed",
            Look::Faint => "box faint",
            Look::First => "box first",
            Look::Second => "box second",
            Look::Third => "box third",
        }
    }

    /// The pattern that lies over its hue, if it has one: name, side and path of the repeated piece.
    fn pattern(self) -> Option<(&'static str, f64, &'static str)> {
        match self {
            Look::Second => Some(("hatched", 6.0, "M-1 1L1 -1M0 6L6 0M5 7L7 5")),
            Look::Third => Some(("dotted", 5.0, "M1.5 2.5h1.6")),
            _ => None,
        }
    }
}

/// Look of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stroke {
    /// Thin, in the colour of text.
    Plain,
    /// The same, dashed.
    Dashed,
    /// In the first hue, thicker.
    First,
    /// In the second hue, thicker and in long dashes.
    Second,
    /// In the third hue, thicker and dotted.
    Third,
    /// In the fourth hue, thicker and in dashes and dots.
    Fourth,
    /// Barely visible, like the lines of a grid.
    Faint,
}

impl Stroke {
    fn class(self) -> &'static str {
        match self {
            Stroke::Plain => "line",
            Stroke::Dashed => "line dashed",
            Stroke::First => "line first",
            Stroke::Second => "line second",
            Stroke::Third => "line third",
            Stroke::Fourth => "line fourth",
            Stroke::Faint => "line faint",
        }
    }
}

/// Horizontal alignment of a text at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// Its middle is there.
    Middle,
    /// It ends there.
    End,
}

/// Style of a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Style {
    /// Font height.
    pub size: f64,
    /// Alignment.
    pub anchor: Anchor,
    /// Class that weights or colours it, if any.
    pub class: &'static str,
}

impl Style {
    /// Plain text that begins at its position.
    pub const START: Style = Style { size: TEXT, anchor: Anchor::Start, class: "" };
    /// Plain text centred on its position.
    pub const MIDDLE: Style = Style { anchor: Anchor::Middle, ..Style::START };
    /// Plain text that ends at its position.
    pub const END: Style = Style { anchor: Anchor::End, ..Style::START };

    /// The same, smaller.
    #[must_use]
    pub const fn small(self) -> Style {
        Style { size: SMALL, ..self }
    }

    /// The same, bold.
    #[must_use]
    pub const fn bold(self) -> Style {
        Style { class: "bold", ..self }
    }

    /// The same, in the colour of a class.
    #[must_use]
    pub const fn of(self, class: &'static str) -> Style {
        Style { class, ..self }
    }
}

/// A rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    /// Its left edge.
    pub x: f64,
    /// Its upper edge.
    pub y: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

impl Area {
    /// The rectangle with this upper left corner and this size.
    pub const fn new(x: f64, y: f64, width: f64, height: f64) -> Area {
        Area { x, y, width, height }
    }

    /// The right edge.
    pub const fn right(&self) -> f64 {
        self.x + self.width
    }

    /// The lower edge.
    pub const fn bottom(&self) -> f64 {
        self.y + self.height
    }

    /// The middle, from left to right.
    pub const fn middle(&self) -> f64 {
        self.x + self.width / 2.0
    }

    /// The middle, from top to bottom.
    pub const fn centre(&self) -> f64 {
        self.y + self.height / 2.0
    }

    /// The cells of a grid of equal cells that fills the area: from `row` and `column` on, `down` × `across` of them.
    pub fn cells(&self, grid: [usize; 2], [row, column]: [usize; 2], [down, across]: [usize; 2]) -> Area {
        let (height, width) = (self.height / grid[0] as f64, self.width / grid[1] as f64);
        Area {
            x: self.x + column as f64 * width,
            y: self.y + row as f64 * height,
            width: across as f64 * width,
            height: down as f64 * height,
        }
    }
}

/// A picture in the making.
#[derive(Debug)]
pub struct Canvas {
    name: String,
    elements: Vec<Element>,
    patterns: Vec<Look>,
    has_arrows: bool,
}

/// Rounds to the digits that a screen shows.
fn short(value: f64) -> f64 {
    (value * 100.0).round() / 100.0 + 0.0
}

/// An element with these attributes.
fn element<const N: usize>(name: &str, attributes: [(&str, String); N]) -> Element {
    let mut element = Element::new(name);
    for (key, value) in attributes {
        element.assign(key, value);
    }
    element
}

fn number(value: f64) -> String {
    short(value).to_string()
}

impl Canvas {
    /// An empty picture. The name is that of the picture's file, and begins the identifiers in it: it must be unique in the book.
    pub fn new(name: impl Into<String>) -> Canvas {
        Canvas { name: name.into(), elements: Vec::new(), patterns: Vec::new(), has_arrows: false }
    }

    /// A rectangle.
    pub fn area(&mut self, area: Area, look: Look) {
        let place = |class: &str| {
            let [x, y, width, height] = [area.x, area.y, area.width, area.height].map(number);
            element("rect", [("class", class.to_owned()), ("x", x), ("y", y), ("width", width), ("height", height)])
        };
        self.elements.push(place(look.class()));
        if let Some((pattern, ..)) = look.pattern() {
            if !self.patterns.contains(&look) {
                self.patterns.push(look);
            }
            let mut over = place("pattern");
            over.assign("fill", format!("url(#{}-{pattern})", self.name));
            self.elements.push(over);
        }
    }

    /// A rectangle with lines of text in its middle, the first of them bold.
    pub fn titled(&mut self, area: Area, look: Look, lines: &[&str]) {
        const LINE: f64 = 16.0;
        self.area(area, look);
        let first = area.centre() - LINE * (lines.len() as f64 - 1.0) / 2.0 + TEXT * 0.35;
        for (at, line) in lines.iter().enumerate() {
            let style = if at == 0 { Style::MIDDLE.bold() } else { Style::MIDDLE.small() };
            self.text((area.middle(), first + at as f64 * LINE), style, line);
        }
    }

    /// The lines of a grid of rows and columns, its edge among them.
    pub fn grid(&mut self, area: Area, [rows, columns]: [usize; 2]) {
        let mut path = String::new();
        for row in 1..rows {
            let y = area.y + area.height * row as f64 / rows as f64;
            path += &format!("M{} {}H{}", number(area.x), number(y), number(area.right()));
        }
        for column in 1..columns {
            let x = area.x + area.width * column as f64 / columns as f64;
            path += &format!("M{} {}V{}", number(x), number(area.y), number(area.bottom()));
        }
        self.elements.push(element("path", [("class", Stroke::Faint.class().to_owned()), ("d", path)]));
        self.area(area, Look::Outline);
    }

    /// A line of text in the middle of an area.
    pub fn inside(&mut self, area: Area, text: &str) {
        self.text((area.middle(), area.centre() + TEXT * 0.35), Style::MIDDLE, text);
    }

    /// An entry of a legend: a look and what it means. The position is where its baseline begins.
    pub fn key(&mut self, (x, y): (f64, f64), look: Look, text: &str) {
        self.area(Area::new(x, y - 11.0, 20.0, 14.0), look);
        self.text((x + 26.0, y), Style::START, text);
    }

    /// A line of text; the position is that of its baseline.
    pub fn text(&mut self, (x, y): (f64, f64), style: Style, text: &str) {
        let anchor = match style.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let class = format!("text {}", style.class).trim_end().to_owned();
        let attributes = [
            ("class", class),
            ("x", number(x)),
            ("y", number(y)),
            ("font-size", number(style.size)),
            ("text-anchor", anchor.to_owned()),
        ];
        let mut element = element("text", attributes);
        element.append(Content::new(text));
        self.elements.push(element);
    }

    /// A line through these points.
    pub fn line(&mut self, points: &[(f64, f64)], stroke: Stroke) {
        self.path(points, stroke);
    }

    /// A line through these points, with a head at its end.
    pub fn arrow(&mut self, points: &[(f64, f64)], stroke: Stroke) {
        self.has_arrows = true;
        let head = format!("url(#{}-head)", self.name);
        self.path(points, stroke).assign("marker-end", head);
    }

    /// A line between two points, with a head at either end.
    pub fn both_ways(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.has_arrows = true;
        let head = format!("url(#{}-head)", self.name);
        let path = self.path(&[from, to], Stroke::Plain);
        path.assign("marker-start", head.clone());
        path.assign("marker-end", head);
    }

    fn path(&mut self, points: &[(f64, f64)], stroke: Stroke) -> &mut Element {
        let places = points.iter().map(|(x, y)| format!("{} {}", number(*x), number(*y)));
        let path = format!("M{}", places.collect::<Vec<_>>().join("L"));
        let at = self.elements.len();
        self.elements.push(element("path", [("class", stroke.class().to_owned()), ("d", path)]));
        &mut self.elements[at]
    }

    /// A point of a chart, in one of the `MARKS`, which repeat.
    pub fn mark(&mut self, (x, y): (f64, f64), mark: usize, hue: &str) {
        let path = format!("M{} {}{}", number(x), number(y), MARKS[mark % MARKS.len()]);
        self.elements.push(element("path", [("class", format!("dot {hue}").trim_end().to_owned()), ("d", path)]));
    }

    /// A bar of a chart, in a hue.
    pub fn bar(&mut self, area: Area, hue: &str) {
        let [x, y, width, height] = [area.x, area.y, area.width, area.height].map(number);
        let class = format!("dot {hue}");
        self.elements
            .push(element("rect", [("class", class), ("x", x), ("y", y), ("width", width), ("height", height)]));
    }

    /// The picture, of this height. `alternative` describes it in words, `caption` (in HTML) stands below it.
    pub fn finish(self, height: f64, alternative: &str, caption: impl Into<String>) -> Picture {
        let mut document = Document::new();
        document.assign("class", "drawing");
        document.assign("viewBox", format!("0 0 {} {}", number(WIDTH), number(height)));
        document.assign("role", "img");
        document.assign("aria-label", alternative);
        let mut definitions = Element::new("defs");
        for (name, side, path) in self.patterns.iter().filter_map(|look| look.pattern()) {
            let side = number(side);
            let attributes = [
                ("id", format!("{}-{name}", self.name)),
                ("patternUnits", "userSpaceOnUse".to_owned()),
                ("width", side.clone()),
                ("height", side),
            ];
            let mut pattern = element("pattern", attributes);
            pattern.append(element("path", [("class", name.to_owned()), ("d", path.to_owned())]));
            definitions.append(pattern);
        }
        if self.has_arrows {
            let attributes = [
                ("id", format!("{}-head", self.name)),
                ("viewBox", "0 0 8 8".to_owned()),
                ("refX", "7".to_owned()),
                ("refY", "4".to_owned()),
                ("markerWidth", "7".to_owned()),
                ("markerHeight", "7".to_owned()),
                ("markerUnits", "userSpaceOnUse".to_owned()),
                ("orient", "auto-start-reverse".to_owned()),
            ];
            let mut head = element("marker", attributes);
            head.append(element("path", [("class", "head".to_owned()), ("d", "M0 0L8 4L0 8z".to_owned())]));
            definitions.append(head);
        }
        if !self.patterns.is_empty() || self.has_arrows {
            document.append(definitions);
        }
        for element in self.elements {
            document.append(element);
        }
        Picture { name: self.name, class: "drawing", svg: document.to_string(), caption: caption.into(), folded: None }
    }
}
