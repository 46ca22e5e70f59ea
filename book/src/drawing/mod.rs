//! Pictures that explain: `drawing NAME`, for the names in [`DRAWINGS`].
//!
//! A drawing is a file here of some fifty lines, which puts boxes, grids and arrows on a [`canvas::Canvas`]. Its numbers come
//! from their sources: sizes of tiles from the kernel's source, rates from a record, shapes from a model's own graph.

pub mod canvas;
pub mod plot;

mod all_reduce_ways;
mod attention_blocks;
mod attention_scores;
mod block_scales;
mod clip_stages;
mod device;
mod halo;
mod im2col;
mod mbarrier_life;
mod memory;
mod merge_path;
mod models;
mod online_softmax;
mod register_tile;
mod resnet18;
mod streams;
mod threads;
mod tile_along_k;
mod unet;
mod warp_lanes;
mod warp_tiles;
mod waves;
mod winograd;

use std::{
    fs, io,
    path::{Path, PathBuf},
    str::FromStr,
};

use crate::{
    content::Picture,
    record::{self, RecordError},
};

/// Why a picture can't be drawn.
#[derive(Debug, thiserror::Error)]
pub enum DrawingError {
    /// There is none of that name.
    #[error("no drawing `{name}`; there are: {known}")]
    Unknown {
        /// As requested.
        name: String,
        /// Known names.
        known: String,
    },
    /// A source could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The source.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A record has no such number.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A table or a model is not as the drawing expects.
    #[error(transparent)]
    Common(#[from] common::Error),
    /// A source or a record lacks what the drawing shows.
    #[error("{place} has no {what}")]
    Missing {
        /// The source or the table.
        place: String,
        /// The missing item.
        what: String,
    },
}

/// One drawing.
#[derive(Clone, Copy, Debug)]
pub struct Drawing {
    /// Name in the markers and, after `drawing-`, of its file.
    pub name: &'static str,
    /// Draws it, for the workspace in this folder.
    pub draw: fn(&Path) -> Result<Picture, DrawingError>,
}

/// All drawings.
pub const DRAWINGS: &[Drawing] = &[
    Drawing { name: "threads", draw: threads::draw },
    Drawing { name: "device", draw: device::draw },
    Drawing { name: "phase1", draw: device::draw_steps },
    Drawing { name: "memory", draw: memory::draw },
    Drawing { name: "streams", draw: streams::draw },
    Drawing { name: "streams-measured", draw: streams::draw_measured },
    Drawing { name: "warp-lanes", draw: warp_lanes::draw },
    Drawing { name: "tile-along-k", draw: tile_along_k::draw },
    Drawing { name: "register-tile", draw: register_tile::draw },
    Drawing { name: "warp-tiles", draw: warp_tiles::draw },
    Drawing { name: "halo", draw: halo::draw },
    Drawing { name: "im2col", draw: im2col::draw },
    Drawing { name: "winograd", draw: winograd::draw },
    Drawing { name: "merge-path", draw: merge_path::draw },
    Drawing { name: "attention-scores", draw: attention_scores::draw },
    Drawing { name: "online-softmax", draw: online_softmax::draw },
    Drawing { name: "attention-blocks", draw: attention_blocks::draw },
    Drawing { name: "mbarrier-life", draw: mbarrier_life::draw },
    Drawing { name: "block-scales", draw: block_scales::draw },
    Drawing { name: "waves", draw: waves::draw },
    Drawing { name: "waves-slices", draw: waves::draw_slices },
    Drawing { name: "resnet18", draw: resnet18::draw },
    Drawing { name: "unet", draw: unet::draw },
    Drawing { name: "clip-stages", draw: clip_stages::draw },
    Drawing { name: "all-reduce-ways", draw: all_reduce_ways::draw },
];

/// The drawing of this name.
///
/// # Errors
/// [`DrawingError::Unknown`], or why it can't be drawn.
pub fn picture(workspace: &Path, name: &str) -> Result<Picture, DrawingError> {
    let Some(drawing) = DRAWINGS.iter().find(|drawing| drawing.name == name) else {
        let known = DRAWINGS.iter().map(|drawing| drawing.name).collect::<Vec<_>>().join(", ");
        return Err(DrawingError::Unknown { name: name.to_owned(), known });
    };
    (drawing.draw)(workspace)
}

/// Numbers that a source declares: `constexpr int NAME = 16, …` in a kernel, `const NAME: f64 = …` in Rust.
struct Constants {
    path: PathBuf,
    source: String,
}

impl Constants {
    /// Constants of the source at this path in the workspace.
    fn of(workspace: &Path, path: &str) -> Result<Constants, DrawingError> {
        let path = workspace.join(path);
        let source = fs::read_to_string(&path).map_err(|source| DrawingError::Read { path: path.clone(), source })?;
        Ok(Constants { path, source })
    }

    /// The whole number of this name in a kernel's source.
    fn get(&self, name: &str) -> Result<usize, DrawingError> {
        self.find(&["constexpr int ", "constexpr unsigned "], name)
    }

    /// The floating-point number of this name in a Rust source.
    fn rate(&self, name: &str) -> Result<f64, DrawingError> {
        self.find(&["const "], &format!("{name}: f64"))
    }

    /// The number of this name in a declaration that begins in one of these ways.
    fn find<T: FromStr>(&self, beginnings: &[&str], name: &str) -> Result<T, DrawingError> {
        let declared = |line| beginnings.iter().find_map(|beginning| str::strip_prefix(line, *beginning));
        let mut pairs = self
            .source
            .lines()
            .filter_map(declared)
            .filter_map(|line| line.split(';').next())
            .flat_map(|line| line.split(','))
            .filter_map(|pair| pair.split_once('='));
        let value = pairs.find_map(|(left, right)| (left.trim() == name).then(|| right.trim().parse().ok())).flatten();
        let missing =
            || DrawingError::Missing { place: self.path.display().to_string(), what: format!("constant {name}") };
        value.ok_or_else(missing)
    }
}

/// A table of a record, for the numbers in a drawing.
struct Recorded {
    name: &'static str,
    found: record::Found,
}

impl Recorded {
    fn open(workspace: &Path, name: &'static str) -> Result<Recorded, DrawingError> {
        Ok(Recorded { name, found: record::find(workspace, name)? })
    }

    fn missing(&self, what: String) -> DrawingError {
        DrawingError::Missing { place: self.name.to_owned(), what }
    }

    /// The text of `column` in the row that begins with `row`.
    fn text(&self, row: &str, column: &str) -> Result<String, DrawingError> {
        let column = self.found.table.column(column)?;
        let is_it = |cells: &&Vec<bench::table::Cell>| {
            cells.first().is_some_and(|cell| matches!(cell, bench::table::Cell::Text(text) if text == row))
        };
        let cells = self.found.table.rows().iter().find(is_it);
        let cell = cells.and_then(|cells| cells.get(column));
        let cell = cell.ok_or_else(|| self.missing(format!("row `{row}`")))?;
        Ok(record::text(cell, &self.found.table.columns[column]))
    }

    /// The number that a text of it begins with.
    fn leading(&self, row: &str, column: &str) -> Result<f64, DrawingError> {
        let text = self.text(row, column)?;
        let number = text.split_whitespace().next().and_then(|number| number.parse().ok());
        number.ok_or_else(|| self.missing(format!("number in row `{row}`")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
    }

    /// Left and right ends of a text, if its letters are about as wide as those of the book's font.
    fn ends(text: &roxmltree::Node<'_, '_>) -> (f64, f64) {
        let number = |name: &str| text.attribute(name).unwrap().parse::<f64>().unwrap();
        let width = text.text().unwrap().chars().count() as f64 * number("font-size") * 0.54;
        let x = number("x");
        match text.attribute("text-anchor").unwrap() {
            "start" => (x, x + width),
            "middle" => (x - width / 2.0, x + width / 2.0),
            _ => (x - width, x),
        }
    }

    /// Plots that no page shows, since they do not fit a phone.
    const FOR_REPORTS: [&str; 1] = ["roofline-all"];

    #[test]
    fn every_picture_can_be_read_in_every_theme_and_on_a_phone() {
        let workspace = workspace();
        let drawings = DRAWINGS.iter().map(|drawing| (drawing.name, (drawing.draw)(&workspace)));
        let plots = phase5_bench::plot::names().filter(|name| !FOR_REPORTS.contains(name));
        let plots = plots.map(|name| (name, plot::picture(&workspace, name)));
        for (name, picture) in drawings.chain(plots) {
            let picture = picture.unwrap_or_else(|error| panic!("{name}: {error}"));
            let document = roxmltree::Document::parse(&picture.svg).unwrap_or_else(|error| panic!("{name}: {error}"));
            let root = document.root_element();
            assert_eq!(root.attribute("role"), Some("img"), "{name}");
            assert!(root.attribute("aria-label").is_some_and(|words| words.len() > 80), "{name} says nothing in words");
            assert!(picture.caption.len() > 20, "{name} has no caption");
            for element in root.descendants().filter(|node| node.is_element()) {
                for attribute in element.attributes() {
                    let (key, value) = (attribute.name(), attribute.value());
                    assert!(!matches!(key, "stroke" | "style" | "color"), "{name}: a fixed {key}");
                    assert!(key != "fill" || value.starts_with("url(#"), "{name}: a fixed fill {value}");
                    assert!(
                        key != "id" || value.starts_with(&*picture.name),
                        "{name}: {value} may be another picture's"
                    );
                }
                if element.has_tag_name("text") {
                    let size: f64 = element.attribute("font-size").unwrap().parse().unwrap();
                    assert!(size * 360.0 / canvas::WIDTH > 10.0, "{name}: {size} is too small for a phone");
                    let (left, right) = ends(&element);
                    let text = element.text().unwrap();
                    assert!(left >= 0.0 && right <= canvas::WIDTH, "{name}: `{text}` from {left} to {right}");
                }
            }
        }
    }

    #[test]
    fn an_unknown_drawing_and_a_lost_constant_are_named() {
        let error = picture(&workspace(), "cat").unwrap_err().to_string();
        assert!(error.starts_with("no drawing `cat`; there are: threads, device, "), "{error}");
        let source = "constexpr int BM = 64, BN = 32;  // tile\nconstexpr int ALL = BM * BN;\n".to_owned();
        let constants = Constants { path: PathBuf::from("a.cu"), source };
        assert_eq!((constants.get("BM").unwrap(), constants.get("BN").unwrap()), (64, 32));
        for name in ["ALL", "BK"] {
            assert_eq!(constants.get(name).unwrap_err().to_string(), format!("a.cu has no constant {name}"));
        }
    }
}
