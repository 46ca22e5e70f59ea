//! Output of generators.

use std::error::Error;

/// Content from a generator, or why there is none.
pub type Produced = Result<Content, Box<dyn Error + Send + Sync>>;

/// Content between two markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Markdown.
    Text(String),
    /// A picture with a caption.
    Picture(Picture),
    /// Leave unchanged: it cannot be made on this machine. The name of the picture that it includes, if any, without the
    /// extension.
    Kept(Option<String>),
}

impl From<String> for Content {
    fn from(text: String) -> Content {
        Content::Text(text)
    }
}

/// A picture with a caption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Name of its file, without the extension.
    pub name: String,
    /// Class of the figure, for the style sheet.
    pub class: &'static str,
    /// The picture, with a description of its contents in words.
    pub svg: String,
    /// Caption in HTML.
    pub caption: String,
    /// Summary that it is folded under, if it gives something away.
    pub folded: Option<&'static str>,
}

impl From<Picture> for Content {
    fn from(picture: Picture) -> Content {
        Content::Picture(picture)
    }
}
