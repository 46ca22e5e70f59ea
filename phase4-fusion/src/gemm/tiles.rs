//! The tiles of the last steps, when each is best, and the kernels of one.

use common::device::Module;
use common::prelude::*;

use super::{Layout, Precision};
use crate::tile::TileShape;

// ANCHOR: shapes
// Blocks per multiprocessor and steps along K for which an H200 was measured to be fastest with each.
pub(super) const LARGE: TileShape = TileShape { least: 2.0, ..TileShape::any("Large", "_128x256") };
pub(super) const SQUARE: TileShape = TileShape { least: 0.52, ..TileShape::any("Square", "_128x128") };
pub(super) const PAIRED: TileShape = TileShape { least: 0.5, steps: 48, ..TileShape::any("Paired", "_64x128_pair") };
pub(super) const MEDIUM: TileShape = TileShape { least: 0.5, ..TileShape::any("Medium", "_64x128") };
pub(super) const FOURTHS: TileShape =
    TileShape { least: 0.4, most: 0.6, steps: 48, ..TileShape::any("Fourths", "_128x128_4") };
pub(super) const EIGHTHS: TileShape = TileShape { most: 0.25, steps: 64, ..TileShape::any("Eighths", "_64x64_8") };
pub(super) const QUARTERS: TileShape = TileShape { most: 0.5, steps: 24, ..TileShape::any("Quarters", "_64x64_4") };
pub(super) const SMALL: TileShape = TileShape::any("Small", "_64x64");

/// All of them, in the order in which they are asked whether they fit.
pub(super) const ORDER: [TileShape; 8] = [LARGE, SQUARE, PAIRED, MEDIUM, FOURTHS, EIGHTHS, QUARTERS, SMALL];
// ANCHOR_END: shapes

/// The kernels of a tile, by precision and layout.
#[derive(Clone, Debug)]
pub(super) struct Kernels(Vec<(Precision, Layout, Kernel)>);

impl Kernels {
    /// `gemm_nt_f16` and so on, with this suffix.
    pub(super) fn load(module: &Module, precisions: &[Precision], suffix: &str) -> Result<Kernels> {
        let mut kernels = Vec::new();
        for &precision in precisions {
            for &layout in precision.layouts() {
                let name = format!("gemm_{}_{}{suffix}", layout.suffix(), precision.suffix());
                kernels.push((precision, layout, module.kernel(&name)?));
            }
        }
        Ok(Kernels(kernels))
    }

    pub(super) fn get(&self, precision: Precision, layout: Layout) -> Option<&Kernel> {
        self.0.iter().find(|(of, with, _)| (*of, *with) == (precision, layout)).map(|(.., kernel)| kernel)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Kernel> {
        self.0.iter().map(|(.., kernel)| kernel)
    }
}
