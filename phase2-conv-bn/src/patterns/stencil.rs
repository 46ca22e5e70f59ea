//! A step of heat in an insulated box, in three steps: each cell becomes a weighted sum of itself and its six neighbours.

use bench::ladder::{self, Cost};
use common::check::Tolerance;
use common::limits::fits_i32;
use common::prelude::*;

use super::{Answer, Pattern, PatternRun, Trial};
use crate::Step;

/// All steps, in the order in which they are read.
pub static LADDER: &[Step<Method>] = &[NAIVE, TILE, COLUMNS];

/// Entry in the registry of patterns.
pub const PATTERN: Pattern = Pattern { name: "stencil", about: "a step of heat in a box, 7 points", run };

/// The fraction of a difference in temperature that crosses a face in one step: `K` of the kernels.
pub const K: f64 = 0.1f32 as f64;

/// Step 1. Hypothesis: seven loads for one value, but the caches have five of them, and nearly all of the rest. Change: none, this is
/// the first version.
pub const NAIVE: Step<Method> = Step {
    number: 1,
    name: "naive",
    idea: "a thread per cell, seven loads",
    source: kernel_source!("stencil_01_naive"),
    method: Method::Plane,
};

/// Step 2. Hypothesis: what the caches did for a plane, shared memory does with fewer requests; from memory comes what came before.
/// Change: a tile with a halo.
pub const TILE: Step<Method> = Step {
    number: 2,
    name: "shared tile",
    idea: "a tile of the plane in shared memory, with a halo",
    source: kernel_source!("stencil_02_tile"),
    method: Method::Plane,
};

/// Step 3. Hypothesis: each cell is loaded by one thread once, so that little but the halo is left above the floor. Change: a block
/// walks up through planes, with the cells below and above in registers.
pub const COLUMNS: Step<Method> = Step {
    number: 3,
    name: "columns",
    idea: "a block walks up the box, three cells of a column in registers",
    source: kernel_source!("stencil_03_columns"),
    method: Method::Column,
};

/// Host side that a step's kernel needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// One block per tile of a plane.
    Plane,
    /// One block per tile and several planes.
    Column,
}

impl ladder::Method for Method {
    type Loaded = Stencil;

    /// Loads the kernel.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    fn load(step: &Step<Self>, device: &Device) -> Result<Stencil> {
        let module = device.load(&step.source)?;
        let constant = |name| Ok::<_, Error>(module.constant(name)? as u32);
        let planes = match step.method {
            Method::Plane => 1,
            Method::Column => constant("PLANES")?,
        };
        Ok(Stencil { kernel: module.kernel("heat")?, tile: [constant("TILE_X")?, constant("TILE_Y")?, planes] })
    }
}

/// A step, loaded on a device. It takes every box of up to 2³¹ − 1 cells.
#[derive(Clone, Debug)]
pub struct Stencil {
    kernel: Kernel,
    /// Cells of a block along x, y and z.
    tile: [u32; 3],
}

impl Stencil {
    /// Queues one step of heat from `old` into `next`, both \[z, y, x\] of the shape `shape` and on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if there are too many cells, or the lengths do not match the shape; [`Error::WrongDevice`].
    pub fn launch(&self, stream: &Stream, old: &Buffer<f32>, next: &mut Buffer<f32>, shape: [usize; 3]) -> Result<()> {
        let [z, y, x] = shape;
        let fits = |what, value| Ok::<_, Error>(fits_i32("stencil", what, value)?.unsigned_abs());
        let cells = fits("the number of cells", z.checked_mul(y).and_then(|plane| plane.checked_mul(x)))? as usize;
        if old.len() != cells || next.len() != cells {
            let detail = format!("a box {shape:?}, but {} cells and room for {}", old.len(), next.len());
            return Err(Error::shape("stencil", detail));
        }
        if cells == 0 {
            return Ok(());
        }
        let lengths = [fits("the cells along x", Some(x))?, fits("along y", Some(y))?, fits("along z", Some(z))?];
        // As many as there are cells at most.
        let blocks: u32 = lengths.iter().zip(self.tile).map(|(length, tile)| length.div_ceil(tile)).product();
        let mut launch = stream.launch_builder(&self.kernel);
        launch.arg(old).arg(next).arg_bytes(bytemuck::bytes_of(&lengths));
        let block_dim = (self.tile[0], self.tile[1], 1);
        let config = LaunchConfig { grid_dim: (blocks, 1, 1), block_dim, shared_mem_bytes: 0 };
        // SAFETY: the kernels read cells inside the box and write each cell once; `Box` is three 32-bit numbers in this order.
        unsafe { launch.launch(config) }
    }
}

/// The cells after one step, in f64, and the tolerance of f32.
pub fn reference(old: &[f32], [z, y, x]: [usize; 3]) -> Answer<f64> {
    let at = |i: usize, j: usize, k: usize| f64::from(old[(k * y + j) * x + i]);
    let before = |i: usize| i.saturating_sub(1);
    let after = |i: usize, length: usize| (i + 1).min(length - 1);
    let cell = |i: usize, j: usize, k: usize| {
        let c = at(i, j, k);
        let in_row = at(before(i), j, k) + at(after(i, x), j, k);
        let in_plane = at(i, before(j), k) + at(i, after(j, y), k);
        let in_column = at(i, j, before(k)) + at(i, j, after(k, z));
        c + K * (in_row + in_plane + in_column - 6.0 * c)
    };
    let values = (0..z).flat_map(|k| (0..y).flat_map(move |j| (0..x).map(move |i| (i, j, k))));
    // Nine operations, of intermediate values that are at most |c| + K · 12 · the largest.
    let largest = old.iter().fold(0.0, |most, &value| f64::max(most, f64::from(value.abs())));
    Answer {
        values: values.map(|(i, j, k)| cell(i, j, k)).collect(),
        tolerance: Tolerance::elementwise(9, (1.0 + 12.0 * K) * largest),
    }
}

fn run(trial: &Trial<'_>) -> Result<Vec<PatternRun>> {
    let shape @ [z, y, x] = trial.size([64, 64, 64], [512, 512, 512]);
    let n = z * y * x;
    let values = Tensor::random(&shape, 5).into_vec()?;
    let expected = reference(&values, shape);
    let stream = trial.device.stream();
    let old = stream.clone_htod(&values)?;
    let mut next = stream.alloc_uninit::<f32>(n)?;
    let runs = LADDER.iter().map(|step| {
        let stencil = step.load(trial.device)?;
        let run = trial.run(step, &mut next, &expected, |stream, next| stencil.launch(stream, &old, next, shape))?;
        let cost = Cost { bytes: 8.0 * n as f64, values: n as f64, ..Cost::default() };
        Ok(PatternRun { size: format!("{z} × {y} × {x} cells"), step: step.title(), cost, run })
    });
    runs.collect()
}
