//! The transpose of a matrix, in three steps: no arithmetic at all, only the order in which memory is touched.

use bench::ladder::{self, Cost};
use common::check::Tolerance;
use common::limits::fits_i32;
use common::prelude::*;

use super::{Answer, Pattern, PatternRun, Trial};
use crate::Step;

/// All steps, in the order in which they are read.
pub static LADDER: &[Step<Method>] = &[NAIVE, SHARED, PADDED];

/// Entry in the registry of patterns.
pub const PATTERN: Pattern = Pattern { name: "transpose", about: "the transpose of a matrix", run };

/// Step 1. Hypothesis: each store of a warp touches 32 sectors for 128 bytes, so the stores cost eight times what they need. Change:
/// none, this is the first version.
pub const NAIVE: Step<Method> = Step {
    number: 1,
    name: "naive",
    idea: "a thread per value; stores go down a column",
    source: kernel_source!("transpose_01_naive"),
    method: Method,
};

/// Step 2. Hypothesis: with the turn made in shared memory, loads and stores are both whole sectors, but the reads of a column meet
/// in one bank. Change: a tile in shared memory.
pub const SHARED: Step<Method> = Step {
    number: 2,
    name: "shared tile",
    idea: "a tile in shared memory, loaded by rows and stored by columns",
    source: kernel_source!("transpose_02_shared"),
    method: Method,
};

/// Step 3. Hypothesis: without bank conflicts the transpose takes as long as a copy. Change: rows of 33 words.
pub const PADDED: Step<Method> = Step {
    number: 3,
    name: "padded tile",
    idea: "a word of padding per row, so that a column lies in 32 banks",
    source: kernel_source!("transpose_03_padded"),
    method: Method,
};

/// Host side that a step's kernel needs: the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method;

impl ladder::Method for Method {
    type Loaded = Transpose;

    /// Loads the kernel.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    fn load(step: &Step<Self>, device: &Device) -> Result<Transpose> {
        let module = device.load(&step.source)?;
        let constant = |name| Ok::<_, Error>(module.constant(name)? as u32);
        Ok(Transpose {
            kernel: module.kernel("transpose")?,
            tile: constant("TILE")?,
            thread_rows: constant("THREAD_ROWS")?,
        })
    }
}

/// A step, loaded on a device. It takes every matrix of up to 2³¹ − 1 values.
#[derive(Clone, Debug)]
pub struct Transpose {
    kernel: Kernel,
    tile: u32,
    thread_rows: u32,
}

impl Transpose {
    /// Queues the transpose of `x`, \[rows, columns\] in row-major order, into `y`, \[columns, rows\]. Both are on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`] if there are too many values, or the lengths are not rows times columns; [`Error::WrongDevice`].
    pub fn launch(
        &self,
        stream: &Stream,
        x: &Buffer<f32>,
        y: &mut Buffer<f32>,
        [rows, columns]: [usize; 2],
    ) -> Result<()> {
        let fits = |what, value| Ok::<_, Error>(fits_i32("transpose", what, value)?.unsigned_abs());
        let values = fits("the number of values", rows.checked_mul(columns))? as usize;
        if x.len() != values || y.len() != values {
            let detail = format!("a matrix [{rows}, {columns}], but {} values and room for {}", x.len(), y.len());
            return Err(Error::shape("transpose", detail));
        }
        if values == 0 {
            return Ok(());
        }
        let (rows, columns) = (fits("the rows", Some(rows))?, fits("the columns", Some(columns))?);
        // As many as there are values at most.
        let tiles = rows.div_ceil(self.tile) * columns.div_ceil(self.tile);
        let mut launch = stream.launch_builder(&self.kernel);
        launch.arg(x).arg(y).arg(&rows).arg(&columns);
        let block_dim = (self.tile, self.thread_rows, 1);
        let config = LaunchConfig { grid_dim: (tiles, 1, 1), block_dim, shared_mem_bytes: 0 };
        // SAFETY: the kernels read values inside the matrix and write each value of its transpose once.
        unsafe { launch.launch(config) }
    }
}

/// The transpose, with every value copied unchanged.
pub fn reference(x: &[f32], [rows, columns]: [usize; 2]) -> Answer<f32> {
    let values = (0..columns).flat_map(|column| (0..rows).map(move |row| x[row * columns + column])).collect();
    Answer { values, tolerance: Tolerance::exact() }
}

fn run(trial: &Trial<'_>) -> Result<Vec<PatternRun>> {
    let shape @ [rows, columns] = trial.size([512, 256], [8192, 16_384]);
    let n = rows * columns;
    let values = Tensor::random(&shape, 4).into_vec()?;
    let expected = reference(&values, shape);
    let stream = trial.device.stream();
    let x = stream.clone_htod(&values)?;
    let mut y = stream.alloc_uninit::<f32>(n)?;
    let runs = LADDER.iter().map(|step| {
        let transpose = step.load(trial.device)?;
        let run = trial.run(step, &mut y, &expected, |stream, y| transpose.launch(stream, &x, y, shape))?;
        let cost = Cost { bytes: 8.0 * n as f64, values: n as f64, ..Cost::default() };
        Ok(PatternRun { size: format!("{rows} × {columns} values"), step: step.title(), cost, run })
    });
    runs.collect()
}
