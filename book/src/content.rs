//! What generators make.

use std::error::Error;

/// What a generator makes, or why it makes nothing.
pub type Produced = Result<Content, Box<dyn Error + Send + Sync>>;

/// What stands between two markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Markdown.
    Text(String),
    /// A picture with a caption.
    Picture(Picture),
    /// Whatever stands there: it cannot be made on this machine. The name of the picture that it includes, if any, without the ending.
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
    /// Name of its file, without the ending.
    pub name: String,
    /// Class of the figure, for the style sheet.
    pub class: &'static str,
    /// The picture, which says in words what it shows.
    pub svg: String,
    /// In HTML.
    pub caption: String,
}

impl From<Picture> for Content {
    fn from(picture: Picture) -> Content {
        Content::Picture(picture)
    }
}
