//! The host side of steps 6 to 15: implicit GEMM with a table of taps and one tile.

use std::sync::{Mutex, PoisonError};

use common::prelude::*;

use super::parts::{Cost, Cuts, Workspace, push_parts};
use super::table::{self, NO_BITS, TapTables};
use super::{Algorithm, Call, Geometry, block_count, processors, unsupported};

/// Number of blocks among which the taps of a tile are cut.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cutting {
    /// None: the kernel does not support cuts.
    Never,
    /// The fastest number by the cost of a block.
    Fastest(Cost),
    /// This many, or fewer if there are fewer steps.
    Fixed(usize),
}

/// One kernel, `conv_table`, with the sizes of its tile from the kernel file.
#[derive(Debug)]
pub(super) struct Tabled {
    step: &'static str,
    kernel: Kernel,
    /// Output channels and pixels of a block.
    tile: [usize; 2],
    /// Taps of a step.
    taps: usize,
    threads: u32,
    cutting: Cutting,
    processors: usize,
    tables: TapTables,
    workspace: Mutex<Workspace>,
}

impl Tabled {
    /// The kernel of `source`.
    pub(super) fn load(
        device: &Device,
        source: &KernelSource,
        step: &'static str,
        cutting: Cutting,
    ) -> Result<Box<dyn Algorithm>> {
        let module = device.load(source)?;
        Ok(Box::new(Tabled {
            step,
            kernel: module.kernel("conv_table")?,
            tile: [module.constant("BM")?, module.constant("BN")?],
            taps: module.constant("BK")?,
            threads: module.constant("THREADS")? as u32,
            cutting,
            processors: processors(device),
            tables: TapTables::default(),
            workspace: Mutex::default(),
        }))
    }

    fn cuts(&self, geometry: &Geometry) -> Cuts {
        let steps = (geometry.taps.unsigned_abs() as usize).div_ceil(self.taps);
        match self.cutting {
            Cutting::Never => Cuts::new(steps, 1),
            Cutting::Fastest(cost) => cost.best(geometry.tiles(self.tile), steps, self.processors).0,
            Cutting::Fixed(count) => Cuts::new(steps, count),
        }
    }
}

impl Algorithm for Tabled {
    fn queue(&self, call: Call<'_>) -> Result<()> {
        let geometry = call.geometry;
        if !table::has_bits(&geometry) {
            return Err(unsupported(call.stream, self.step, NO_BITS));
        }
        let table = self.tables.get(call.stream, self.step, &geometry)?;
        let tiles = geometry.tiles(self.tile);
        let blocks = block_count(call.stream, self.step, tiles)?;
        let cuts = self.cuts(&geometry);
        let steps_each = cuts.steps_each as i32;
        let mut workspace = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = workspace.get(call.stream, tiles, cuts.count, self.tile[0] * self.tile[1])?;
        let mut launch = call.stream.launch_builder(&self.kernel);
        launch.arg(call.input).arg(call.weight).arg(call.bias).arg(call.output).arg(&*table);
        if let Cutting::Never = self.cutting {
            launch.arg(&geometry);
        } else {
            push_parts(&mut launch, parts);
            launch.arg(&geometry).arg(&steps_each);
        }
        let config = LaunchConfig {
            grid_dim: (blocks, cuts.count as u32, 1),
            block_dim: (self.threads, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: there is a block for each cut of each tile; the kernel compares channels, pixels and taps with the geometry,
        // which was derived from the shapes of the tensors given; the table has an entry for each tap that a step reads, and
        // the workspace a part for each block and a counter for each tile.
        unsafe { launch.launch(config) }
    }

    fn workspace_bytes(&self, geometry: &Geometry) -> usize {
        let cuts = self.cuts(geometry).count;
        let parts = if cuts > 1 { geometry.tiles(self.tile) * (cuts * self.tile[0] * self.tile[1] + 1) } else { 0 };
        parts * size_of::<f32>() + table::len(geometry) * size_of::<[i32; 2]>()
    }
}
