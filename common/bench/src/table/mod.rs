//! Tables of results: filled once, printed as text, Markdown, CSV or JSON. [`crate::record`] saves and compares them.
//!
//! A table declares its columns as [`ColumnSpec`]s. A [`TableBuilder`] fills rows and a [`Row`] reads them by these, never by
//! index.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `model` | title, columns, cells, rows |
//! | `builder` | filling a table |
//! | `check` | bounds of a table from elsewhere |
//! | `text` | the table for a terminal |
//! | `formats` | Markdown, CSV and JSON |

mod builder;
pub(crate) mod check;
mod formats;
mod model;
#[cfg(test)]
mod tests;
mod text;

pub use builder::{RowBuilder, TableBuilder};
pub use formats::Format;
pub(crate) use model::number;
pub use model::{Cell, Column, ColumnSpec, DeviceKind, Row, Standing, Table};
pub use text::wrap;

pub use crate::terminal::WIDTH;
