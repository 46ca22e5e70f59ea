//! The gallery of broken kernels: twelve with one bug each, and their repaired versions.
//!
//! Each kernel comes as `kernels/broken_NN_name.cu` and `kernels/repaired_NN_name.cu`, which differ only in the bug, and one
//! function here launches either version and compares the result with a reference. The files are named after what they compute:
//! finding the bug is up to the reader. [`bench::gallery`] runs them, and compares who finds what.

use bench::gallery::{Broken, Case, Compared, Gallery, Shown, Version};
use common::check::{self, Tolerance};
use common::device::LaunchArgs;
use common::prelude::*;

/// The gallery.
pub static GALLERY: Gallery = Gallery { command: "broken", title: "twelve broken kernels", entries: &BROKEN };

/// [`GALLERY`], for the command line.
pub enum Twelve {}

impl Shown for Twelve {
    const GALLERY: &'static Gallery = &GALLERY;
}

/// The gallery's kernels, in rising difficulty.
pub static BROKEN: [Broken; 12] = [
    Broken {
        number: "01",
        name: "difference",
        title: "a missing barrier",
        question: "Who wrote the left neighbour, and when?",
        slow: false,
        sizes: &[200, 1, 2, 31, 32, 33, 255, 256],
        broken: kernel_source!("broken_01_difference"),
        repaired: kernel_source!("repaired_01_difference"),
        run: difference,
    },
    Broken {
        number: "02",
        name: "scale",
        title: "a bound for one element of four",
        question: "What does the last thread do?",
        slow: false,
        sizes: &[1001, 0, 1, 2, 3, 4, 5, 1023, 1024, 1025],
        broken: kernel_source!("broken_02_scale"),
        repaired: kernel_source!("repaired_02_scale"),
        run: scale,
    },
    Broken {
        number: "03",
        name: "column-sums",
        title: "an accumulator never set to zero",
        question: "What do the sums start from?",
        slow: false,
        sizes: &[100, 0, 1, 2, 33, 257],
        broken: kernel_source!("broken_03_column_sums"),
        repaired: kernel_source!("repaired_03_column_sums"),
        run: column_sums,
    },
    Broken {
        number: "04",
        name: "transpose",
        title: "bank conflicts",
        question: "How many passes does a warp need to read its part of the tile?",
        slow: true,
        sizes: &[100, 1, 31, 32, 33, 65],
        broken: kernel_source!("broken_04_transpose"),
        repaired: kernel_source!("repaired_04_transpose"),
        run: transpose,
    },
    Broken {
        number: "05",
        name: "scale-rows",
        title: "uncoalesced accesses",
        question: "How far apart are the values that a warp loads together?",
        slow: true,
        sizes: &[100, 1, 31, 32, 33, 257],
        broken: kernel_source!("broken_05_scale_rows"),
        repaired: kernel_source!("repaired_05_scale_rows"),
        run: scale_rows,
    },
    Broken {
        number: "06",
        name: "block-sum",
        title: "a barrier that some never reach",
        question: "Who waits for whom?",
        slow: false,
        sizes: &[1000, 0, 1, 2, 255, 256, 257],
        broken: kernel_source!("broken_06_block_sum"),
        repaired: kernel_source!("repaired_06_block_sum"),
        run: block_sum,
    },
    Broken {
        number: "07",
        name: "warp-sum",
        title: "a mask that names absent lanes",
        question: "Which lanes does the mask name, and which lanes take part?",
        slow: false,
        sizes: &[1000, 0, 1, 2, 31, 32, 33, 257],
        broken: kernel_source!("broken_07_warp_sum"),
        repaired: kernel_source!("repaired_07_warp_sum"),
        run: warp_sum,
    },
    Broken {
        number: "08",
        name: "rank-of",
        title: "a buffer used again too soon",
        question: "Two buffers: is that enough?",
        slow: false,
        sizes: &[1000, 0, 1, 127, 128, 129, 257],
        broken: kernel_source!("broken_08_rank_of"),
        repaired: kernel_source!("repaired_08_rank_of"),
        run: rank_of,
    },
    Broken {
        number: "09",
        name: "ring-walk",
        title: "an index that overflows",
        question: "How large does the product become?",
        slow: false,
        sizes: &[100_003, 0, 1, 2, 255, 256, 257, 34_749],
        broken: kernel_source!("broken_09_ring_walk"),
        repaired: kernel_source!("repaired_09_ring_walk"),
        run: ring_walk,
    },
    Broken {
        number: "10",
        name: "frame",
        title: "a misaligned vector load",
        question: "Which values of `start` are fine?",
        slow: false,
        sizes: &[75, 0, 1, 255, 256, 257],
        broken: kernel_source!("broken_10_frame"),
        repaired: kernel_source!("repaired_10_frame"),
        run: frame,
    },
    Broken {
        number: "11",
        name: "add-rows",
        title: "a pointer to freed memory",
        question: "Nothing is wrong with the kernels. Who owns the rows?",
        slow: false,
        sizes: &[1000, 1, 2, 255, 256, 257],
        // The bug is on the host: one file for both versions.
        broken: kernel_source!("broken_11_add_rows"),
        repaired: kernel_source!("broken_11_add_rows"),
        run: add_rows,
    },
    Broken {
        number: "12",
        name: "count-above",
        title: "a race between blocks",
        question: "What happens between the load and the store of `+=`?",
        slow: false,
        sizes: &[100_003, 0, 1, 255, 256, 257],
        broken: kernel_source!("broken_12_count_above"),
        repaired: kernel_source!("repaired_12_count_above"),
        run: count_above,
    },
];

/// Launches one of the gallery's kernels with the arguments that `push` appends, which must match its file.
fn launch<'k>(
    case: &'k Case,
    kernel: &'k Kernel,
    config: LaunchConfig,
    push: impl FnOnce(&mut LaunchArgs<'k>),
) -> Result<()> {
    // SAFETY: the repaired kernels stay inside buffers of the sizes given here. Of the broken ones, only `scale` writes
    // outside, up to 12 bytes past y but not past the next multiple of 16, which is padding on every device. Reads of
    // others that are out of bounds, misaligned or too late cause a fault at worst, which is an outcome like any other.
    unsafe { case.launch(kernel, config, push) }
}

/// Distinct values in (−1, 1).
fn values(n: usize, seed: u64) -> Result<Vec<f32>> {
    Tensor::random(&[n], seed).into_vec()
}

/// Tolerance for sums of `terms` values in (−1, 1).
fn sum_tolerance(terms: usize) -> Tolerance {
    Tolerance::dot(terms, terms as f64)
}

fn sum(values: impl IntoIterator<Item = f32>) -> f64 {
    values.into_iter().map(f64::from).sum()
}

/// Columns of a matrix that is neither square nor a multiple of a tile.
fn columns_for(rows: usize) -> usize {
    rows / 2 + 3
}

fn difference(case: &Case, columns: usize) -> Result<Compared> {
    const ROWS: usize = 5;
    let x = values(ROWS * columns, 1)?;
    let kernel = case.kernel("difference")?;
    let x_dev = case.stream.clone_htod(&x)?;
    let mut y = case.stream.alloc_poisoned::<f32>(x.len())?;
    let config = LaunchConfig { grid_dim: (ROWS as u32, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };
    launch(case, &kernel, config, |args| {
        args.arg(&x_dev).arg(&mut y).arg(&(columns as u32));
    })?;
    // One subtraction: exactly the same bits.
    let left = |i: usize| if i.is_multiple_of(columns) { 0.0 } else { x[i - 1] };
    let expected: Vec<f32> = (0..x.len()).map(|i| x[i] - left(i)).collect();
    Ok(check::compare(&case.read(&y)?, &expected, Tolerance::exact()))
}

fn scale(case: &Case, n: usize) -> Result<Compared> {
    const FACTOR: f32 = 0.7;
    let x = values(n, 1)?;
    let kernel = case.kernel("scale")?;
    let x_dev = case.stream.clone_htod(&x)?;
    let mut y = case.stream.alloc_poisoned::<f32>(n)?;
    let config = LaunchConfig::for_threads(n.div_ceil(4) as u32);
    launch(case, &kernel, config, |args| {
        args.arg(&x_dev).arg(&mut y).arg(&FACTOR).arg(&(n as u32));
    })?;
    let expected: Vec<f32> = x.iter().map(|x| FACTOR * x).collect();
    Ok(check::compare(&case.read(&y)?, &expected, Tolerance::exact()))
}

fn column_sums(case: &Case, rows: usize) -> Result<Compared> {
    let columns = columns_for(rows);
    let matrix = values(rows * columns, 1)?;
    let kernel = case.kernel("column_sums")?;
    let matrix_dev = case.stream.clone_htod(&matrix)?;
    let mut sums = match case.version {
        // Uninitialised: poison would be a value, which a tool could not tell from an intended one.
        Version::Broken => case.stream.alloc_uninit::<f32>(columns)?,
        Version::Repaired => case.stream.alloc_poisoned::<f32>(columns)?,
    };
    launch(case, &kernel, LaunchConfig::for_threads(columns as u32), |args| {
        args.arg(&matrix_dev).arg(&mut sums).arg(&(rows as u32)).arg(&(columns as u32));
    })?;
    let column = |column: usize| (0..rows).map(move |row| row * columns + column);
    let expected: Vec<f64> = (0..columns).map(|at| sum(column(at).map(|i| matrix[i]))).collect();
    Ok(check::compare(&case.read(&sums)?, &expected, sum_tolerance(rows)))
}

fn transpose(case: &Case, rows: usize) -> Result<Compared> {
    let columns = columns_for(rows);
    let x = values(rows * columns, 1)?;
    let kernel = case.kernel("transpose")?;
    let x_dev = case.stream.clone_htod(&x)?;
    let mut y = case.stream.alloc_poisoned::<f32>(x.len())?;
    let tiles = |n: usize| n.div_ceil(32) as u32;
    let config =
        LaunchConfig { grid_dim: (tiles(columns), tiles(rows), 1), block_dim: (32, 32, 1), shared_mem_bytes: 0 };
    launch(case, &kernel, config, |args| {
        args.arg(&x_dev).arg(&mut y).arg(&(rows as u32)).arg(&(columns as u32));
    })?;
    let expected: Vec<f32> = (0..x.len()).map(|i| x[i % rows * columns + i / rows]).collect();
    Ok(check::compare(&case.read(&y)?, &expected, Tolerance::exact()))
}

fn scale_rows(case: &Case, rows: usize) -> Result<Compared> {
    let columns = columns_for(rows);
    let (x, factors) = (values(rows * columns, 1)?, values(rows, 2)?);
    let kernel = case.kernel("scale_rows")?;
    let (x_dev, factors_dev) = (case.stream.clone_htod(&x)?, case.stream.clone_htod(&factors)?);
    let mut y = case.stream.alloc_poisoned::<f32>(x.len())?;
    let threads = match case.version {
        Version::Broken => rows,
        Version::Repaired => columns,
    };
    launch(case, &kernel, LaunchConfig::for_threads(threads as u32), |args| {
        args.arg(&x_dev).arg(&factors_dev).arg(&mut y).arg(&(rows as u32)).arg(&(columns as u32));
    })?;
    let expected: Vec<f32> = (0..x.len()).map(|i| factors[i / columns] * x[i]).collect();
    Ok(check::compare(&case.read(&y)?, &expected, Tolerance::exact()))
}

fn block_sum(case: &Case, n: usize) -> Result<Compared> {
    sums_of_runs(case, "block_sum", n, 256)
}

fn warp_sum(case: &Case, n: usize) -> Result<Compared> {
    sums_of_runs(case, "warp_sum", n, 32)
}

/// Runs a kernel in which each block adds up `run` values, one per thread.
fn sums_of_runs(case: &Case, name: &str, n: usize, run: usize) -> Result<Compared> {
    let x = values(n, 1)?;
    let kernel = case.kernel(name)?;
    let config = LaunchConfig::linear(n as u32, run as u32);
    let x_dev = case.stream.clone_htod(&x)?;
    // Zero values still need one block, which returns the sum 0.
    let mut sums = case.stream.alloc_poisoned::<f32>(config.grid_dim.0 as usize)?;
    launch(case, &kernel, config, |args| {
        args.arg(&x_dev).arg(&mut sums).arg(&(n as u32));
    })?;
    let block = |i: usize| &x[(i * run).min(n)..((i + 1) * run).min(n)];
    let expected: Vec<f64> = (0..sums.len()).map(|i| sum(block(i).iter().copied())).collect();
    Ok(check::compare(&case.read(&sums)?, &expected, sum_tolerance(run)))
}

fn rank_of(case: &Case, n: usize) -> Result<Compared> {
    let x = values(n, 1)?;
    let kernel = case.kernel("rank_of")?;
    let x_dev = case.stream.clone_htod(&x)?;
    let mut ranks = case.stream.alloc_poisoned::<u32>(n)?;
    launch(case, &kernel, LaunchConfig::linear(n as u32, 128), |args| {
        args.arg(&x_dev).arg(&mut ranks).arg(&(n as u32));
    })?;
    let mut sorted = x.clone();
    sorted.sort_by(f32::total_cmp);
    let expected: Vec<u32> = x.iter().map(|x| sorted.partition_point(|other| other < x) as u32).collect();
    Ok(check::compare(&case.read(&ranks)?, &expected, Tolerance::exact()))
}

fn ring_walk(case: &Case, n: usize) -> Result<Compared> {
    // With this step the product passes 2³¹ from i = 34 748 on.
    const STEP: i32 = 61_803;
    let x = values(n, 1)?;
    let kernel = case.kernel("ring_walk")?;
    let x_dev = case.stream.clone_htod(&x)?;
    let mut y = case.stream.alloc_poisoned::<f32>(n)?;
    launch(case, &kernel, LaunchConfig::for_threads(n as u32), |args| {
        args.arg(&x_dev).arg(&mut y).arg(&STEP).arg(&(n as i32));
    })?;
    let expected: Vec<f32> = (0..n as u64).map(|i| x[(i * STEP as u64 % n as u64) as usize]).collect();
    Ok(check::compare(&case.read(&y)?, &expected, Tolerance::exact()))
}

fn frame(case: &Case, quads: usize) -> Result<Compared> {
    // 10 ms at 44.1 kHz.
    const START: usize = 441;
    let x = values(START + 4 * quads, 1)?;
    let kernel = case.kernel("frame")?;
    let x_dev = case.stream.clone_htod(&x)?;
    let mut y = case.stream.alloc_poisoned::<f32>(4 * quads)?;
    launch(case, &kernel, LaunchConfig::for_threads(quads as u32), |args| {
        args.arg(&x_dev).arg(&mut y).arg(&(START as u32)).arg(&(quads as u32));
    })?;
    Ok(check::compare(&case.read(&y)?, &x[START..], Tolerance::exact()))
}

fn add_rows(case: &Case, columns: usize) -> Result<Compared> {
    let rows = [1, 2, 3].map(|seed| Tensor::random(&[columns], seed));
    let sums = match case.version {
        Version::Broken => {
            // ANCHOR: freed
            let (table, _) = upload(case, &rows)?;
            add(case, &table, rows.len(), columns)?
            // ANCHOR_END: freed
        }
        Version::Repaired => {
            // ANCHOR: kept
            let (table, _rows) = upload(case, &rows)?;
            add(case, &table, rows.len(), columns)?
            // ANCHOR_END: kept
        }
    };
    let host = rows.iter().map(Tensor::as_slice).collect::<Result<Vec<_>>>()?;
    let expected: Vec<f64> = (0..columns).map(|column| sum(host.iter().map(|row| row[column]))).collect();
    Ok(check::compare(&sums, &expected, sum_tolerance(rows.len())))
}

// ANCHOR: upload
/// Uploads each row to its own buffer; returns the table of their addresses as well.
fn upload(case: &Case, rows: &[Tensor]) -> Result<(Buffer<u64>, Vec<Buffer<f32>>)> {
    let set_row = case.kernel("set_row")?;
    let mut table = case.stream.alloc_zeros::<u64>(rows.len())?;
    let mut buffers = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        let buffer = case.stream.clone_htod(row.as_slice()?)?;
        launch(case, &set_row, LaunchConfig::linear(1, 1), |args| {
            args.arg(&mut table).arg(&(i as u32)).arg(&buffer);
        })?;
        buffers.push(buffer);
    }
    Ok((table, buffers))
}
// ANCHOR_END: upload

/// The sum of the rows that `table` points to.
fn add(case: &Case, table: &Buffer<u64>, rows: usize, columns: usize) -> Result<Vec<f32>> {
    let add_rows = case.kernel("add_rows")?;
    let mut sums = case.stream.alloc_poisoned::<f32>(columns)?;
    launch(case, &add_rows, LaunchConfig::for_threads(columns as u32), |args| {
        args.arg(table).arg(&mut sums).arg(&(rows as u32)).arg(&(columns as u32));
    })?;
    case.read(&sums)
}

fn count_above(case: &Case, n: usize) -> Result<Compared> {
    const THRESHOLD: f32 = 0.25;
    let x = values(n, 1)?;
    let kernel = case.kernel("count_above")?;
    let x_dev = case.stream.clone_htod(&x)?;
    let mut count = case.stream.alloc_zeros::<u32>(1)?;
    launch(case, &kernel, LaunchConfig::for_threads(n as u32), |args| {
        args.arg(&x_dev).arg(&THRESHOLD).arg(&mut count).arg(&(n as u32));
    })?;
    let expected = x.iter().filter(|&&x| x > THRESHOLD).count() as u32;
    Ok(check::compare(&case.read(&count)?, &[expected], Tolerance::exact()))
}
