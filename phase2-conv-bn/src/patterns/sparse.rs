//! A sparse matrix times a vector, y = A·x, in three steps: on a matrix whose rows are equally long, and on one where few rows
//! have most of the non-zeros.

use bench::ladder::{self, Cost, StepRun};
use common::check::{Mismatch, Report, Tolerance, compare};
use common::limits::fits_i32;
use common::prelude::*;

use super::{Pattern, PatternRun, Trial, count, random_u32};
use crate::Step;

/// All steps, in the order in which they are read.
pub static LADDER: &[Step<Method>] = &[SCALAR, VECTOR, MERGE];

/// Entry in the registry of patterns.
pub const PATTERN: Pattern = Pattern { name: "spmv", about: "a sparse matrix times a vector", run };

/// Step 1. Hypothesis: a thread per row reads the non-zeros of 32 rows at a time, each from a sector of its own; and the longest row
/// keeps one thread busy while all others have ended. Change: none, this is the first version.
pub const SCALAR: Step<Method> = Step {
    number: 1,
    name: "scalar",
    idea: "a thread per row",
    source: kernel_source!("spmv_01_scalar"),
    method: Method::Rows,
};

/// Step 2. Hypothesis: lanes that read neighbouring non-zeros touch an eighth of the sectors; half of the lanes have nothing to do if
/// a row has 16. Change: a warp per row.
pub const VECTOR: Step<Method> = Step {
    number: 2,
    name: "vector",
    idea: "a warp per row",
    source: kernel_source!("spmv_02_vector"),
    method: Method::Rows,
};

/// Step 3. Hypothesis: with equal shares of non-zeros and ends of rows, the lengths of rows don't matter: both matrices take the same
/// time. Change: threads share out the path that merges the two lists, not the rows.
pub const MERGE: Step<Method> = Step {
    number: 3,
    name: "merge",
    idea: "equal shares of non-zeros and ends of rows",
    source: kernel_source!("spmv_03_merge"),
    method: Method::Path,
};

/// Host side that a step's kernels need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Each thread or warp takes a row.
    Rows,
    /// Each block takes a share of the path; a second kernel adds the carries.
    Path,
}

impl ladder::Method for Method {
    type Loaded = Product;

    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    fn load(step: &Step<Self>, device: &Device) -> Result<Product> {
        let module = device.load(&step.source)?;
        let constant = |name| Ok::<_, Error>(module.constant(name)? as u32);
        let threads = constant("THREADS")?;
        let shares = match step.method {
            Method::Rows => {
                let rows = module.find_constant("ROWS_PER_BLOCK").map_or(threads, |rows| rows.unsigned_abs() as u32);
                Shares::Rows { rows }
            }
            Method::Path => Shares::Path(Box::new(PathShares {
                add_carries: module.kernel("add_carries")?,
                tile: constant("TILE")?,
                carries: constant("CARRIES")?,
                workspace: None,
            })),
        };
        Ok(Product { spmv: module.kernel("spmv")?, threads, shares })
    }
}

/// A sparse matrix, its rows' non-zeros one after another: compressed sparse rows (CSR).
#[derive(Clone, Debug, PartialEq)]
pub struct Csr {
    /// Number of columns.
    pub width: usize,
    /// Where each row begins among the non-zeros, and where the last one ends; \[rows + 1\].
    pub starts: Vec<u32>,
    /// Column of each non-zero, below `width`. A row may name a column twice: the values are added.
    pub columns: Vec<u32>,
    /// Value of each non-zero.
    pub values: Vec<f32>,
}

impl Csr {
    /// A matrix whose row r has `lengths[r]` non-zeros, near its diagonal: within 2048 columns of it, or further if the row has
    /// more non-zeros. Values are random in \[−1, 1).
    pub fn with_lengths(lengths: &[usize], width: usize, seed: u64) -> Csr {
        let total: usize = lengths.iter().sum();
        let mut random = random_u32(2 * total, seed).into_iter();
        let mut next = || random.next().unwrap_or_default();
        let mut matrix = Csr { width, starts: vec![0], columns: Vec::new(), values: Vec::new() };
        matrix.columns.reserve_exact(total);
        matrix.values.reserve_exact(total);
        for (row, &length) in lengths.iter().enumerate() {
            let reach = length.max(4096).min(width);
            let first = row.saturating_sub(reach / 2).min(width - reach);
            for _ in 0..length {
                matrix.columns.push((first + next() as usize % reach) as u32);
                matrix.values.push(in_unit(next()));
            }
            matrix.starts.push(matrix.columns.len() as u32);
        }
        matrix
    }

    /// A square matrix of `rows` rows of `length` non-zeros each.
    pub fn regular(rows: usize, length: usize, seed: u64) -> Csr {
        Csr::with_lengths(&vec![length; rows], rows, seed)
    }

    /// A square matrix whose rows have lengths in proportion to 1, 2^−¾, 3^−¾, …, about `mean` on average, in random order: a
    /// power law, as in the links of pages or the friends of people.
    pub fn power_law(rows: usize, mean: usize, seed: u64) -> Csr {
        let weights: Vec<f64> = (1..=rows).map(|rank| (rank as f64).powf(-0.75)).collect();
        let scale = (rows * mean) as f64 / weights.iter().sum::<f64>();
        let mut lengths: Vec<usize> = weights.iter().map(|weight| (scale * weight).round() as usize).collect();
        // Fisher and Yates.
        for (i, random) in random_u32(rows, seed ^ 1).into_iter().enumerate() {
            lengths.swap(i, i + random as usize % (rows - i));
        }
        Csr::with_lengths(&lengths, rows, seed)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// Number of non-zeros.
    pub fn nonzeros(&self) -> usize {
        self.values.len()
    }

    /// Length of the longest row.
    pub fn longest_row(&self) -> usize {
        self.starts.windows(2).map(|row| (row[1] - row[0]) as usize).max().unwrap_or(0)
    }

    /// A·x and the tolerance of an f32 result.
    ///
    /// # Panics
    /// If x is not as long as the matrix is wide.
    pub fn reference(&self, x: &[f32]) -> Expected {
        assert_eq!(x.len(), self.width, "x has a value per column");
        let rows = self.starts.windows(2).map(|row| row[0] as usize..row[1] as usize);
        let rows = rows.map(|row| {
            let length = row.len();
            let terms = row.map(|i| f64::from(self.values[i]) * f64::from(x[self.columns[i] as usize]));
            let (sum, magnitude) =
                terms.fold((0.0, 0.0), |(sum, magnitude), term| (sum + term, magnitude + term.abs()));
            (sum, Tolerance::dot(length, magnitude).absolute)
        });
        let (values, bounds) = rows.unzip();
        Expected { values, bounds }
    }

    /// Copies it to the device.
    ///
    /// # Errors
    /// [`Error::Shape`] if rows and non-zeros together do not fit 31 bits; errors of the device.
    pub fn to_device(&self, stream: &Stream) -> Result<DeviceCsr> {
        fits_i32("a sparse matrix", "the number of rows and non-zeros", self.rows().checked_add(self.nonzeros()))?;
        Ok(DeviceCsr {
            width: self.width,
            starts: stream.clone_htod(&self.starts)?,
            columns: stream.clone_htod(&self.columns)?,
            values: stream.clone_htod(&self.values)?,
        })
    }
}

/// Maps to \[−1, 1), in steps of 2⁻²³.
fn in_unit(random: u32) -> f32 {
    (random >> 8) as f32 / (1 << 23) as f32 - 1.0
}

/// `n` random values in \[−1, 1).
pub fn random_vector(n: usize, seed: u64) -> Vec<f32> {
    random_u32(n, seed).into_iter().map(in_unit).collect()
}

/// Expected values of y.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Per row, in f64.
    pub values: Vec<f64>,
    /// Tolerance of f32, for a sum in any order: |error| ≤ γ(length) · Σ|aᵢ·xᵢ|, [`Tolerance::dot`]. A long row has a wide bound,
    /// which does not loosen a short row's.
    pub bounds: Vec<f64>,
}

impl Expected {
    /// Compares every row with its own bound.
    ///
    /// # Errors
    /// [`Mismatch`].
    pub fn check(&self, y: &[f32]) -> Result<Report, Mismatch> {
        let widest = self.bounds.iter().copied().fold(0.0, f64::max);
        let report = compare(y, &self.values, Tolerance::absolute(widest))?;
        // `compare` has seen that the lists are equally long, and that there is no NaN.
        let rows = y.iter().zip(&self.values).zip(&self.bounds).enumerate();
        let mut wrong = rows.filter(|(_, ((y, expected), bound))| (f64::from(**y) - **expected).abs() > **bound);
        match wrong.next() {
            None => Ok(report),
            Some((first, ((&y, &expected), &allowed))) => Err(Mismatch::Values {
                wrong: 1 + wrong.count(),
                first,
                actual: f64::from(y),
                expected,
                allowed,
                report,
            }),
        }
    }
}

/// A [`Csr`] in a device's memory.
#[derive(Debug)]
pub struct DeviceCsr {
    width: usize,
    starts: Buffer<u32>,
    columns: Buffer<u32>,
    values: Buffer<f32>,
}

/// A step, loaded on a device. It takes every matrix with up to 2³¹ − 1 rows and non-zeros together.
#[derive(Debug)]
pub struct Product {
    spmv: Kernel,
    threads: u32,
    shares: Shares,
}

/// Share of a block.
#[derive(Debug)]
enum Shares {
    /// This many rows.
    Rows { rows: u32 },
    /// A part of the path.
    Path(Box<PathShares>),
}

/// How blocks share out the path.
#[derive(Debug)]
struct PathShares {
    add_carries: Kernel,
    /// Steps of a block.
    tile: u32,
    /// Number of carries per block of the second kernel.
    carries: u32,
    workspace: Option<Workspace>,
}

/// Carries from blocks to the second kernel: a row and its sum so far, one per block.
#[derive(Debug)]
struct Workspace {
    rows: Buffer<u32>,
    sums: Buffer<f32>,
}

impl Product {
    /// Queues y = A·x. All are on the stream's device.
    ///
    /// Step 3 keeps a workspace of 8 bytes per 896 rows and non-zeros; the first launch allocates it, and any launch that needs
    /// more grows it.
    ///
    /// # Errors
    /// [`Error::Shape`] if the lengths of x or y do not match the columns or rows; [`Error::WrongDevice`],
    /// [`Error::OutOfMemory`].
    pub fn launch(&mut self, stream: &Stream, a: &DeviceCsr, x: &Buffer<f32>, y: &mut Buffer<f32>) -> Result<()> {
        let height = a.starts.len() - 1;
        if x.len() != a.width || y.len() != height {
            let detail = format!("a matrix [{height}, {}], x of {} values and y of {}", a.width, x.len(), y.len());
            return Err(Error::shape("a sparse matrix times a vector", detail));
        }
        // `Csr::to_device` has seen that they fit.
        let (rows, nonzeros) = (height as u32, a.values.len() as u32);
        if rows == 0 {
            return Ok(());
        }
        let of_blocks = |blocks, threads| LaunchConfig { grid_dim: (blocks, 1, 1), ..LaunchConfig::linear(0, threads) };
        let mut launch = stream.launch_builder(&self.spmv);
        launch.arg(&a.starts).arg(&a.columns).arg(&a.values).arg(x).arg(&mut *y);
        let path = match &mut self.shares {
            Shares::Rows { rows: per_block } => {
                launch.arg(&rows);
                // SAFETY: the kernels read the matrix by its starts, x by its columns, which are below its length, and write y[r]
                // for r < rows.
                return unsafe { launch.launch(of_blocks(rows.div_ceil(*per_block), self.threads)) };
            }
            Shares::Path(path) => path,
        };
        let PathShares { add_carries, tile, carries, workspace } = &mut **path;
        let (tile, carries) = (*tile, *carries);
        let blocks = (rows + nonzeros).div_ceil(tile);
        let fits = |workspace: &Workspace| {
            workspace.rows.len() >= blocks as usize && workspace.rows.device() == stream.device()
        };
        let Workspace { rows: carry_rows, sums } = match workspace.take().filter(fits) {
            Some(kept) => workspace.insert(kept),
            None => workspace.insert(Workspace {
                rows: stream.alloc_uninit(blocks as usize)?,
                sums: stream.alloc_uninit(blocks as usize)?,
            }),
        };
        launch.arg(&mut *carry_rows).arg(&mut *sums).arg(&rows).arg(&nonzeros);
        // SAFETY: as above; a block writes its own carry, and each row is ended by one block, which writes it.
        unsafe { launch.launch(of_blocks(blocks, self.threads)) }?;

        let mut launch = stream.launch_builder(add_carries);
        launch.arg(&*carry_rows).arg(&*sums).arg(y).arg(&rows).arg(&blocks);
        // SAFETY: the kernel reads the blocks' carries and adds to y[r] for r < rows, each by one warp.
        unsafe { launch.launch(of_blocks(blocks.div_ceil(carries), 32 * carries)) }
    }
}

fn run(trial: &Trial<'_>) -> Result<Vec<PatternRun>> {
    let rows = trial.size(1 << 12, 1 << 21);
    let stream = trial.device.stream();
    let x_values = random_vector(rows, 6);
    let x = stream.clone_htod(&x_values)?;
    let mut y = stream.alloc_uninit::<f32>(rows)?;
    let mut runs = Vec::new();
    for (kind, matrix) in [("regular", Csr::regular(rows, 16, 7)), ("power law", Csr::power_law(rows, 16, 7))] {
        let expected = matrix.reference(&x_values);
        let a = matrix.to_device(&stream)?;
        // Each non-zero with its column, the starts, x and y.
        let bytes = 8.0 * matrix.nonzeros() as f64 + 4.0 * (3 * rows + 1) as f64;
        let cost = Cost { flops: 2.0 * matrix.nonzeros() as f64, bytes, values: matrix.nonzeros() as f64 };
        for step in LADDER {
            (trial.announce)(&step.title());
            let mut product = step.load(trial.device)?;
            let run = StepRun::profiled(trial.device, || {
                stream.poison(&mut y)?;
                let launch = |y: &mut Buffer<f32>| product.launch(&stream, &a, &x, y);
                ladder::run_with(&stream, trial.bench, &mut y, launch, |y| Ok(expected.check(&stream.clone_dtoh(y)?)))
            })?;
            let size = format!("{} rows, 16 non-zeros per row on average", count(rows));
            runs.push(PatternRun { size, step: format!("{}, {kind}", step.title()), cost, run });
        }
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_law_has_a_few_long_rows_and_the_mean_asked_for() {
        let matrix = Csr::power_law(4096, 16, 1);
        let mean = matrix.nonzeros() as f64 / 4096.0;
        assert!((15.5..16.5).contains(&mean), "{mean}");
        assert!(matrix.longest_row() > 1000, "{}", matrix.longest_row());
        assert!(matrix.columns.iter().all(|&column| column < 4096));
        assert_eq!(Csr::regular(100, 16, 1).longest_row(), 16);
    }

    #[test]
    fn a_short_row_does_not_get_the_bound_of_a_long_one() {
        let matrix = Csr::with_lengths(&[4000, 1], 1, 2);
        let expected = matrix.reference(&[1.0]);
        let y: Vec<f32> = expected.values.iter().map(|&value| value as f32).collect();
        assert!(expected.check(&y).is_ok());
        let off = [y[0], y[1] + (expected.bounds[0] / 2.0) as f32];
        assert!(matches!(expected.check(&off), Err(Mismatch::Values { wrong: 1, first: 1, .. })));
        assert!(expected.check(&[y[0], f32::NAN]).is_err());
    }
}
