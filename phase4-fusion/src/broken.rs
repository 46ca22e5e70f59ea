//! The second gallery: twelve asynchronous mistakes of Hopper kernels, and their repaired versions.
//!
//! As in phase 1's gallery, each kernel comes as `kernels/broken_NN_name.cu` and `kernels/repaired_NN_name.cu`, which differ only in
//! the bug, and one function here launches either and compares the result with a reference. [`bench::gallery`] does the rest.
//!
//! An asynchronous copy or product may be complete at once or much later, and a kernel must be right for both. On a GPU it is
//! usually complete early, so that a missing wait or fence goes unnoticed; on the simulator, it is as late as PTX allows, unless
//! [`common::device::SimOptions::asynchrony`] says otherwise.

use bench::gallery::{Broken, Case, Compared, Gallery, Shown};
use common::check::{self, Tolerance};
use common::device::{LaunchArgs, Swizzle, TensorElement, TensorMapConfig};
use common::prelude::*;
use common::tensor::bf16;

/// The gallery.
pub static GALLERY: Gallery = Gallery { command: "broken", title: "twelve asynchronous mistakes", entries: &BROKEN };

/// [`GALLERY`], for the command line.
pub enum Twelve {}

impl Shown for Twelve {
    const GALLERY: &'static Gallery = &GALLERY;
}

/// The gallery's kernels, in rising difficulty.
pub static BROKEN: [Broken; 12] = [
    Broken {
        number: "01",
        name: "reverse",
        title: "a barrier in place of a wait",
        question: "What does `__syncthreads()` wait for, and what not?",
        slow: false,
        sizes: &[5, 1, 2, 33],
        broken: kernel_source!("broken_01_reverse"),
        repaired: kernel_source!("repaired_01_reverse"),
        run: reverse,
    },
    Broken {
        number: "02",
        name: "smooth",
        title: "a wait that leaves one copy too many",
        question: "How many groups may be under way when row + 1 is read?",
        slow: false,
        sizes: &[20, 0, 1, 2, 3, 4, 5, 33],
        broken: kernel_source!("broken_02_smooth"),
        repaired: kernel_source!("repaired_02_smooth"),
        run: smooth,
    },
    Broken {
        number: "03",
        name: "add",
        title: "more bytes announced than come",
        question: "How many bytes does the last block wait for, and how many come?",
        slow: false,
        sizes: &[250, 1, 2, 63, 64, 65],
        broken: kernel_source!("broken_03_add"),
        repaired: kernel_source!("repaired_03_add"),
        run: add,
    },
    Broken {
        number: "04",
        name: "transpose",
        title: "a barrier used before all can see it",
        question: "From when on may a thread wait at a barrier?",
        slow: false,
        sizes: &[100, 1, 31, 32, 33, 65],
        broken: kernel_source!("broken_04_transpose"),
        repaired: kernel_source!("repaired_04_transpose"),
        run: transpose,
    },
    Broken {
        number: "05",
        name: "sum-frames",
        title: "the parity of the wrong count",
        question: "Which phase of its barrier does the third wait ask for?",
        slow: false,
        sizes: &[9, 0, 1, 2, 3, 4, 5],
        broken: kernel_source!("broken_05_sum_frames"),
        repaired: kernel_source!("repaired_05_sum_frames"),
        run: sum_frames,
    },
    Broken {
        number: "06",
        name: "interleave",
        title: "a missing proxy fence",
        question: "Who writes the tile, and who reads it?",
        slow: false,
        sizes: &[5, 1, 2, 33],
        broken: kernel_source!("broken_06_interleave"),
        repaired: kernel_source!("repaired_06_interleave"),
        run: interleave,
    },
    Broken {
        number: "07",
        name: "outer-product",
        title: "a source overwritten too soon",
        question: "When has the copy read its source?",
        slow: false,
        sizes: &[9, 0, 1, 2, 3],
        broken: kernel_source!("broken_07_outer_product"),
        repaired: kernel_source!("repaired_07_outer_product"),
        run: outer_product,
    },
    Broken {
        number: "08",
        name: "histogram",
        title: "a copy left behind",
        question: "What is still under way when the last thread returns?",
        slow: false,
        sizes: &[5000, 0, 1, 255, 256, 257],
        broken: kernel_source!("broken_08_histogram"),
        repaired: kernel_source!("repaired_08_histogram"),
        run: histogram,
    },
    Broken {
        number: "09",
        name: "matvec",
        title: "a stage released too soon",
        question: "What does the copying thread do after 128 arrivals?",
        slow: false,
        sizes: &[20, 0, 1, 2, 3, 4, 7],
        broken: kernel_source!("broken_09_matvec"),
        repaired: kernel_source!("repaired_09_matvec"),
        run: matvec,
    },
    Broken {
        number: "10",
        name: "scores",
        title: "sums read while they are computed",
        question: "Which products does `wgmma_wait<1>()` leave?",
        slow: false,
        sizes: &[100, 1, 63, 64, 65, 128],
        broken: kernel_source!("broken_10_scores"),
        repaired: kernel_source!("repaired_10_scores"),
        run: scores,
    },
    Broken {
        number: "11",
        name: "fading-sum",
        title: "a missing wgmma fence",
        question: "Who wrote the sums last when a product begins?",
        slow: false,
        sizes: &[3, 0, 1, 2],
        broken: kernel_source!("broken_11_fading_sum"),
        repaired: kernel_source!("repaired_11_fading_sum"),
        run: fading_sum,
    },
    Broken {
        number: "12",
        name: "row-sums",
        title: "a block that leaves too soon",
        question: "How long does a block's shared memory exist?",
        slow: false,
        sizes: &[1000, 0, 1, 31, 511, 512, 513],
        broken: kernel_source!("broken_12_row_sums"),
        repaired: kernel_source!("repaired_12_row_sums"),
        run: row_sums,
    },
];

/// Launches one of the gallery's kernels with the arguments that `push` appends, which must match its file.
pub(crate) fn launch<'k>(
    case: &'k Case,
    kernel: &'k Kernel,
    config: LaunchConfig,
    push: impl FnOnce(&mut LaunchArgs<'k>),
) -> Result<()> {
    // SAFETY: all versions write global memory only inside buffers of the sizes given here: what a bug changes is when. A copy
    // that comes after its block has ended may write shared memory of a later block of this launch, whose values are then
    // wrong; one that never comes lets the launch run into a time limit. Both are outcomes like any other.
    unsafe { case.launch(kernel, config, push) }
}

/// Distinct values in (−1, 1).
pub(crate) fn values(n: usize, seed: u64) -> Result<Vec<f32>> {
    Tensor::random(&[n], seed).into_vec()
}

/// Distinct values for tensor cores.
pub(crate) fn halves(n: usize, seed: u64) -> Result<Vec<bf16>> {
    Ok(values(n, seed)?.into_iter().map(bf16::from_f32).collect())
}

pub(crate) fn grid(blocks: usize, threads: u32) -> LaunchConfig {
    LaunchConfig { grid_dim: (blocks as u32, 1, 1), block_dim: (threads, 1, 1), shared_mem_bytes: 0 }
}

/// The size is a number of runs.
pub(crate) fn reverse(case: &Case, runs: usize) -> Result<Compared> {
    const RUN: usize = 256;
    let x = values(runs * RUN, 1)?;
    let kernel = case.kernel("reverse")?;
    let x_dev = case.stream.clone_htod(&x)?;
    let mut y = case.stream.alloc_poisoned::<f32>(x.len())?;
    launch(case, &kernel, grid(runs, RUN as u32), |args| {
        args.arg(&x_dev).arg(&mut y);
    })?;
    let expected: Vec<f32> = x.chunks(RUN).flat_map(|run| run.iter().rev().copied()).collect();
    Ok(check::compare(&case.read(&y)?, &expected, Tolerance::exact()))
}

/// The size is a number of rows.
fn smooth(case: &Case, rows: usize) -> Result<Compared> {
    const COLUMNS: usize = 150;
    let x = values(rows * COLUMNS, 1)?;
    let kernel = case.kernel("smooth")?;
    let x_dev = case.stream.clone_htod(&x)?;
    let mut y = case.stream.alloc_poisoned::<f32>(x.len())?;
    launch(case, &kernel, LaunchConfig::linear(COLUMNS as u32, 128), |args| {
        args.arg(&x_dev).arg(&mut y).arg(&(rows as u32)).arg(&(COLUMNS as u32));
    })?;
    let mean = |i: usize| {
        let above = i.checked_sub(COLUMNS).unwrap_or(i);
        let below = if i + COLUMNS < x.len() { i + COLUMNS } else { i };
        (x[above] + x[i] + x[below]) / 3.0
    };
    let expected: Vec<f32> = (0..x.len()).map(mean).collect();
    Ok(check::compare(&case.read(&y)?, &expected, Tolerance::exact()))
}

/// The size is a number of groups of 4 values, 16 bytes.
fn add(case: &Case, quads: usize) -> Result<Compared> {
    let n = 4 * quads;
    let (x, y) = (values(n, 1)?, values(n, 2)?);
    let kernel = case.kernel("add")?;
    let (x_dev, y_dev) = (case.stream.clone_htod(&x)?, case.stream.clone_htod(&y)?);
    let mut z = case.stream.alloc_poisoned::<f32>(n)?;
    launch(case, &kernel, LaunchConfig::for_threads(n as u32), |args| {
        args.arg(&x_dev).arg(&y_dev).arg(&mut z).arg(&(n as u32));
    })?;
    let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
    Ok(check::compare(&case.read(&z)?, &expected, Tolerance::exact()))
}

/// The size is a number of rows.
fn transpose(case: &Case, rows: usize) -> Result<Compared> {
    // The bytes of a row must be a multiple of 16.
    let columns = (rows / 2 + 3).next_multiple_of(4);
    let x = values(rows * columns, 1)?;
    let kernel = case.kernel("transpose")?;
    let x_dev = case.stream.clone_htod(&x)?;
    let mut y = case.stream.alloc_poisoned::<f32>(x.len())?;
    let config = TensorMapConfig::tiled(TensorElement::F32, &[columns as u64, rows as u64], &[32, 32]);
    let map = case.stream.tensor_map(&x_dev, &config)?;
    let tiles = |n: usize| n.div_ceil(32) as u32;
    let config =
        LaunchConfig { grid_dim: (tiles(columns), tiles(rows), 1), block_dim: (32, 32, 1), shared_mem_bytes: 0 };
    launch(case, &kernel, config, |args| {
        args.arg(&map).arg(&mut y).arg(&(rows as u32)).arg(&(columns as u32));
    })?;
    let expected: Vec<f32> = (0..x.len()).map(|i| x[i % rows * columns + i / rows]).collect();
    Ok(check::compare(&case.read(&y)?, &expected, Tolerance::exact()))
}

/// The size is a number of frames.
fn sum_frames(case: &Case, count: usize) -> Result<Compared> {
    const PIXELS: usize = 3 * 128;
    let frames = values(count * PIXELS, 1)?;
    let kernel = case.kernel("sum_frames")?;
    let frames_dev = case.stream.clone_htod(&frames)?;
    let mut sums = case.stream.alloc_poisoned::<f32>(PIXELS)?;
    launch(case, &kernel, grid(PIXELS / 128, 128), |args| {
        args.arg(&frames_dev).arg(&mut sums).arg(&(count as u32)).arg(&(PIXELS as u32));
    })?;
    let pixel = |pixel: usize| frames.iter().skip(pixel).step_by(PIXELS).map(|&value| f64::from(value)).sum::<f64>();
    let expected: Vec<f64> = (0..PIXELS).map(pixel).collect();
    Ok(check::compare(&case.read(&sums)?, &expected, Tolerance::dot(count, count as f64)))
}

/// The size is a number of blocks of 128 pixels.
fn interleave(case: &Case, blocks: usize) -> Result<Compared> {
    let pixels = blocks * 128;
    let planes = values(3 * pixels, 1)?;
    let kernel = case.kernel("interleave")?;
    let planes_dev = case.stream.clone_htod(&planes)?;
    let mut image = case.stream.alloc_poisoned::<f32>(planes.len())?;
    launch(case, &kernel, grid(blocks, 128), |args| {
        args.arg(&planes_dev).arg(&mut image).arg(&(pixels as u32));
    })?;
    let expected: Vec<f32> = (0..planes.len()).map(|i| planes[i % 3 * pixels + i / 3]).collect();
    Ok(check::compare(&case.read(&image)?, &expected, Tolerance::exact()))
}

/// The size is a number of rows.
fn outer_product(case: &Case, rows: usize) -> Result<Compared> {
    const COLUMNS: usize = 2 * 256;
    let (left, right) = (values(rows, 1)?, values(COLUMNS, 2)?);
    let kernel = case.kernel("outer_product")?;
    let (left_dev, right_dev) = (case.stream.clone_htod(&left)?, case.stream.clone_htod(&right)?);
    let mut products = case.stream.alloc_poisoned::<f32>(rows * COLUMNS)?;
    launch(case, &kernel, grid(COLUMNS / 256, 256), |args| {
        args.arg(&left_dev).arg(&right_dev).arg(&mut products).arg(&(rows as u32)).arg(&(COLUMNS as u32));
    })?;
    let expected: Vec<f32> = left.iter().flat_map(|left| right.iter().map(move |right| left * right)).collect();
    Ok(check::compare(&case.read(&products)?, &expected, Tolerance::exact()))
}

/// The size is a number of bytes.
fn histogram(case: &Case, n: usize) -> Result<Compared> {
    let x: Vec<u8> = values(n, 1)?.iter().map(|x| (128.0 * (x * x * x + 1.0)) as u8).collect();
    let kernel = case.kernel("histogram")?;
    let x_dev = case.stream.clone_htod(&x)?;
    let mut counts = case.stream.alloc_zeros::<u32>(256)?;
    // Each block has several bytes per thread to count.
    launch(case, &kernel, LaunchConfig::for_threads(n.div_ceil(4) as u32), |args| {
        args.arg(&x_dev).arg(&mut counts).arg(&(n as u32));
    })?;
    let mut expected = [0u32; 256];
    x.iter().for_each(|&x| expected[usize::from(x)] += 1);
    Ok(check::compare(&case.read(&counts)?, &expected, Tolerance::exact()))
}

/// The size is a number of columns.
fn matvec(case: &Case, columns: usize) -> Result<Compared> {
    const ROWS: usize = 3 * 128;
    let (matrix, x) = (values(columns * ROWS, 1)?, values(columns, 2)?);
    let kernel = case.kernel("matvec")?;
    let (matrix_dev, x_dev) = (case.stream.clone_htod(&matrix)?, case.stream.clone_htod(&x)?);
    let mut y = case.stream.alloc_poisoned::<f32>(ROWS)?;
    launch(case, &kernel, grid(ROWS / 128, 160), |args| {
        args.arg(&matrix_dev).arg(&x_dev).arg(&mut y).arg(&(ROWS as u32)).arg(&(columns as u32));
    })?;
    let row = |row: usize| {
        let values = matrix.iter().skip(row).step_by(ROWS);
        values.zip(&x).map(|(&a, &x)| f64::from(a) * f64::from(x)).sum::<f64>()
    };
    let expected: Vec<f64> = (0..ROWS).map(row).collect();
    Ok(check::compare(&case.read(&y)?, &expected, Tolerance::dot(columns, columns as f64)))
}

/// Tensor map for tiles of 64 rows and 64 columns of a matrix of bf16 with this many rows and columns.
pub(crate) fn tiles(rows: usize, columns: usize) -> TensorMapConfig {
    let map = TensorMapConfig::tiled(TensorElement::Bf16, &[columns as u64, rows as u64], &[64, 64]);
    TensorMapConfig { swizzle: Swizzle::Bytes128, ..map }
}

/// The product of two rows.
pub(crate) fn dot(a: &[bf16], b: &[bf16]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a.to_f64() * b.to_f64()).sum()
}

/// Tolerance of a sum of `terms` products of values in (−1, 1) on tensor cores, which cut bits off where an addition would round:
/// twice the error.
pub(crate) fn tensor_core_tolerance(terms: usize) -> Tolerance {
    Tolerance::dot(2 * terms, terms as f64)
}

/// The size is a number of queries.
fn scores(case: &Case, query_count: usize) -> Result<Compared> {
    const DEPTH: usize = 64;
    let key_count = query_count / 2 + 100;
    let (queries, keys) = (halves(query_count * DEPTH, 1)?, halves(key_count * DEPTH, 2)?);
    let kernel = case.kernel("scores")?;
    let (queries_dev, keys_dev) = (case.stream.clone_htod(&queries)?, case.stream.clone_htod(&keys)?);
    let mut scores = case.stream.alloc_poisoned::<f32>(query_count * key_count)?;
    let query_map = case.stream.tensor_map(&queries_dev, &tiles(query_count, DEPTH))?;
    let key_map = case.stream.tensor_map(&keys_dev, &tiles(key_count, DEPTH))?;
    let grid_dim = (key_count.div_ceil(128) as u32, query_count.div_ceil(64) as u32, 1);
    let config = LaunchConfig { grid_dim, block_dim: (128, 1, 1), shared_mem_bytes: 0 };
    launch(case, &kernel, config, |args| {
        args.arg(&query_map).arg(&key_map).arg(&mut scores).arg(&(query_count as u32)).arg(&(key_count as u32));
    })?;
    let row = |query| keys.chunks(DEPTH).map(move |key| dot(query, key));
    let expected: Vec<f64> = queries.chunks(DEPTH).flat_map(row).collect();
    Ok(check::compare(&case.read(&scores)?, &expected, tensor_core_tolerance(DEPTH)))
}

/// The size is a number of steps.
fn fading_sum(case: &Case, steps: usize) -> Result<Compared> {
    const A_ROWS: usize = 100;
    const B_ROWS: usize = 70;
    const STEP: usize = 64;
    const FADE: f32 = 0.75;
    // No matrix without columns: a tensor map has none.
    let columns = steps.max(1) * STEP;
    let (a, b) = (halves(A_ROWS * columns, 1)?, halves(B_ROWS * columns, 2)?);
    let kernel = case.kernel("fading_sum")?;
    let (a_dev, b_dev) = (case.stream.clone_htod(&a)?, case.stream.clone_htod(&b)?);
    let mut y = case.stream.alloc_poisoned::<f32>(A_ROWS * B_ROWS)?;
    let a_map = case.stream.tensor_map(&a_dev, &tiles(A_ROWS, columns))?;
    let b_map = case.stream.tensor_map(&b_dev, &tiles(B_ROWS, columns))?;
    let grid_dim = (B_ROWS.div_ceil(64) as u32, A_ROWS.div_ceil(64) as u32, 1);
    let config = LaunchConfig { grid_dim, block_dim: (128, 1, 1), shared_mem_bytes: 0 };
    launch(case, &kernel, config, |args| {
        args.arg(&a_map).arg(&b_map).arg(&mut y).arg(&FADE);
        args.arg(&(A_ROWS as u32)).arg(&(B_ROWS as u32)).arg(&(steps as u32));
    })?;
    let sum = |a: &[bf16], b: &[bf16]| {
        let products = a.chunks(STEP).zip(b.chunks(STEP)).take(steps);
        products.fold(0.0, |sum, (a, b)| sum * f64::from(FADE) + dot(a, b))
    };
    let row = |a| b.chunks(columns).map(move |b| sum(a, b));
    let expected: Vec<f64> = a.chunks(columns).flat_map(row).collect();
    Ok(check::compare(&case.read(&y)?, &expected, tensor_core_tolerance(steps * (STEP + 1))))
}

/// The size is a number of columns.
fn row_sums(case: &Case, columns: usize) -> Result<Compared> {
    const ROWS: usize = 5;
    let matrix = values(ROWS * columns, 1)?;
    let kernel = case.kernel("row_sums")?;
    let matrix_dev = case.stream.clone_htod(&matrix)?;
    let mut sums = case.stream.alloc_poisoned::<f32>(ROWS)?;
    launch(case, &kernel, grid(4 * ROWS, 128), |args| {
        args.arg(&matrix_dev).arg(&mut sums).arg(&(columns as u32));
    })?;
    let row =
        |row: usize| matrix[row * columns..(row + 1) * columns].iter().map(|&value| f64::from(value)).sum::<f64>();
    let expected: Vec<f64> = (0..ROWS).map(row).collect();
    Ok(check::compare(&case.read(&sums)?, &expected, Tolerance::dot(columns, columns as f64)))
}
