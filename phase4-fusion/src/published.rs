//! The third gallery: ten asynchronous mistakes that were published as bugs of well-known projects.
//!
//! Each is rebuilt as a small kernel of the course, from what was published about it: `kernels/published_NN_name.cu`, and
//! `kernels/repaired_NN_name.cu`, which differs only in the mistake. The page `research/published.md` links each report.

use bench::gallery::{Broken, Case, Compared, Gallery, Shown};
use common::check::{self, Tolerance};
use common::device::{TensorElement, TensorMapConfig};
use common::prelude::*;

use crate::broken::{
    dot as product_of, grid, halves as bf16_values, launch, reverse, tensor_core_tolerance, tiles, values,
};

/// The gallery.
pub static GALLERY: Gallery = Gallery { command: "published", title: "ten published mistakes", entries: &PUBLISHED };

/// [`GALLERY`], for the command line.
pub enum Ten {}

impl Shown for Ten {
    const GALLERY: &'static Gallery = &GALLERY;
}

/// The gallery's kernels: first the fences, then the waits.
pub static PUBLISHED: [Broken; 10] = [
    Broken {
        number: "01",
        name: "combine",
        title: "DeepEP: a refill without a fence",
        question: "What tells the copy engine that a stage has been read?",
        slow: false,
        sizes: &[5, 0, 1, 2, 3, 8],
        broken: kernel_source!("published_01_combine"),
        repaired: kernel_source!("repaired_01_combine"),
        run: combine,
    },
    Broken {
        number: "02",
        name: "states",
        title: "FlashKDA: a fence in an empty loop",
        question: "Who executes a fence if a sequence has no tokens?",
        slow: false,
        sizes: &[5, 1, 2, 3],
        broken: kernel_source!("published_02_states"),
        repaired: kernel_source!("repaired_02_states"),
        run: states,
    },
    Broken {
        number: "03",
        name: "activate",
        title: "cuDNN Frontend: a barrier, no fence",
        question: "Who reads the tile after the barrier?",
        slow: false,
        sizes: &[50, 1, 31, 32, 33],
        broken: kernel_source!("published_03_activate"),
        repaired: kernel_source!("repaired_03_activate"),
        run: activate,
    },
    Broken {
        number: "04",
        name: "product",
        title: "TileLang: operands without a fence",
        question: "Who writes the operands, and who reads them?",
        slow: false,
        sizes: &[100, 1, 63, 64, 65],
        broken: kernel_source!("published_04_product"),
        repaired: kernel_source!("repaired_04_product"),
        run: product,
    },
    Broken {
        number: "05",
        name: "steps",
        title: "nvFuser: a stage released too soon",
        question: "When has a product read its operands?",
        slow: false,
        sizes: &[5, 0, 1, 2, 3],
        broken: kernel_source!("published_05_steps"),
        repaired: kernel_source!("repaired_05_steps"),
        run: steps,
    },
    Broken {
        number: "06",
        name: "halves",
        title: "CUTLASS: an arrival for its own block",
        question: "Which threads may read what was written before an arrival?",
        slow: false,
        sizes: &[5, 1, 2, 33],
        broken: kernel_source!("published_06_halves"),
        repaired: kernel_source!("repaired_06_halves"),
        run: halves,
    },
    Broken {
        number: "07",
        name: "pairs",
        title: "CUTLASS: a copy that nobody waits for",
        question: "Who waits for the second block's copy?",
        slow: false,
        sizes: &[5, 1, 2, 33],
        broken: kernel_source!("published_07_pairs"),
        repaired: kernel_source!("repaired_07_pairs"),
        run: pairs,
    },
    Broken {
        number: "08",
        name: "dot",
        title: "FlashInfer: a barrier for some warps",
        question: "How many threads does `__syncthreads()` wait for?",
        slow: false,
        sizes: &[5, 0, 1, 2, 3, 4],
        broken: kernel_source!("published_08_dot"),
        repaired: kernel_source!("repaired_08_dot"),
        run: dot,
    },
    Broken {
        number: "09",
        name: "ring",
        title: "FlashInfer: the wrong stage's barrier",
        question: "Which stage does each wait ask about?",
        slow: false,
        sizes: &[4, 0, 1, 2, 3, 5, 9],
        broken: kernel_source!("published_09_ring"),
        repaired: kernel_source!("repaired_09_ring"),
        run: ring,
    },
    Broken {
        number: "10",
        name: "reverse",
        title: "nvFuser: a barrier used too early",
        question: "From when on may a thread arrive at a barrier?",
        slow: false,
        sizes: &[5, 1, 2, 33],
        broken: kernel_source!("published_10_reverse"),
        repaired: kernel_source!("repaired_10_reverse"),
        run: reverse,
    },
];

/// The size is a number of experts per token.
fn combine(case: &Case, experts: usize) -> Result<Compared> {
    const TOKENS: usize = 3;
    const COLUMNS: usize = 128;
    let (rows, weights) = (values(TOKENS * experts * COLUMNS, 1)?, values(TOKENS * experts, 2)?);
    let kernel = case.kernel("combine")?;
    let (rows_dev, weights_dev) = (case.stream.clone_htod(&rows)?, case.stream.clone_htod(&weights)?);
    let mut y = case.stream.alloc_poisoned::<f32>(TOKENS * COLUMNS)?;
    launch(case, &kernel, grid(TOKENS, 160), |args| {
        args.arg(&rows_dev).arg(&weights_dev).arg(&mut y).arg(&(experts as u32));
    })?;
    let sum = |i: usize| {
        let experts = (0..experts).map(|expert| i / COLUMNS * experts + expert);
        experts.map(|row| f64::from(rows[row * COLUMNS + i % COLUMNS]) * f64::from(weights[row])).sum::<f64>()
    };
    let expected: Vec<f64> = (0..TOKENS * COLUMNS).map(sum).collect();
    Ok(check::compare(&case.read(&y)?, &expected, Tolerance::dot(experts, experts as f64)))
}

/// The size is a number of sequences, of which every third is empty.
fn states(case: &Case, sequences: usize) -> Result<Compared> {
    const COLUMNS: usize = 128;
    // Of 2, 0 and 1 tokens, and so on.
    let starts: Vec<u32> =
        (0..=sequences as u32).map(|sequence| (sequence + 1) / 3 * 2 + sequence.div_ceil(3)).collect();
    let tokens = values(starts[sequences] as usize * COLUMNS, 1)?;
    let kernel = case.kernel("states")?;
    let (tokens_dev, starts_dev) = (case.stream.clone_htod(&tokens)?, case.stream.clone_htod(&starts)?);
    let mut last = case.stream.alloc_poisoned::<f32>(sequences * COLUMNS)?;
    launch(case, &kernel, grid(sequences, COLUMNS as u32), |args| {
        args.arg(&tokens_dev).arg(&starts_dev).arg(&mut last);
    })?;
    let state = |i: usize| {
        let tokens =
            (starts[i / COLUMNS]..starts[i / COLUMNS + 1]).map(|token| tokens[token as usize * COLUMNS + i % COLUMNS]);
        tokens.fold(0.0, |state, token| 0.5 * state + f64::from(token))
    };
    let expected: Vec<f64> = (0..sequences * COLUMNS).map(state).collect();
    Ok(check::compare(&case.read(&last)?, &expected, Tolerance::dot(2, 2.0)))
}

/// The size is a number of rows.
fn activate(case: &Case, rows: usize) -> Result<Compared> {
    // The bytes of a row must be a multiple of 16.
    let columns = (rows / 2 + 3).next_multiple_of(4);
    let x = values(rows * columns, 1)?;
    let kernel = case.kernel("activate")?;
    let x_dev = case.stream.clone_htod(&x)?;
    let y = case.stream.alloc_poisoned::<f32>(x.len())?;
    let config = TensorMapConfig::tiled(TensorElement::F32, &[columns as u64, rows as u64], &[32, 32]);
    let map = case.stream.tensor_map(&y, &config)?;
    let tiles = |n: usize| n.div_ceil(32) as u32;
    let config =
        LaunchConfig { grid_dim: (tiles(columns), tiles(rows), 1), block_dim: (32, 8, 1), shared_mem_bytes: 0 };
    launch(case, &kernel, config, |args| {
        args.arg(&x_dev).arg(&map).arg(&(rows as u32)).arg(&(columns as u32));
    })?;
    let expected: Vec<f32> = x.iter().map(|x| x.max(0.0)).collect();
    Ok(check::compare(&case.read(&y)?, &expected, Tolerance::exact()))
}

/// The size is a number of rows of a.
fn product(case: &Case, a_rows: usize) -> Result<Compared> {
    const COLUMNS: usize = 64;
    let b_rows = a_rows / 2 + 20;
    let (a, b) = (bf16_values(a_rows * COLUMNS, 1)?, bf16_values(b_rows * COLUMNS, 2)?);
    let kernel = case.kernel("product")?;
    let (a_dev, b_dev) = (case.stream.clone_htod(&a)?, case.stream.clone_htod(&b)?);
    let mut y = case.stream.alloc_poisoned::<f32>(a_rows * b_rows)?;
    let grid_dim = (b_rows.div_ceil(64) as u32, a_rows.div_ceil(64) as u32, 1);
    let config = LaunchConfig { grid_dim, block_dim: (128, 1, 1), shared_mem_bytes: 0 };
    launch(case, &kernel, config, |args| {
        args.arg(&a_dev).arg(&b_dev).arg(&mut y).arg(&(a_rows as u32)).arg(&(b_rows as u32));
    })?;
    let row = |a| b.chunks(COLUMNS).map(move |b| product_of(a, b));
    let expected: Vec<f64> = a.chunks(COLUMNS).flat_map(row).collect();
    Ok(check::compare(&case.read(&y)?, &expected, tensor_core_tolerance(COLUMNS)))
}

/// The size is a number of steps of 64 columns.
fn steps(case: &Case, count: usize) -> Result<Compared> {
    const A_ROWS: usize = 100;
    const B_ROWS: usize = 70;
    // No matrix without columns: a tensor map has none.
    let columns = count.max(1) * 64;
    let (a, b) = (bf16_values(A_ROWS * columns, 1)?, bf16_values(B_ROWS * columns, 2)?);
    let kernel = case.kernel("steps")?;
    let (a_dev, b_dev) = (case.stream.clone_htod(&a)?, case.stream.clone_htod(&b)?);
    let mut y = case.stream.alloc_poisoned::<f32>(A_ROWS * B_ROWS)?;
    let a_map = case.stream.tensor_map(&a_dev, &tiles(A_ROWS, columns))?;
    let b_map = case.stream.tensor_map(&b_dev, &tiles(B_ROWS, columns))?;
    let grid_dim = (B_ROWS.div_ceil(64) as u32, A_ROWS.div_ceil(64) as u32, 1);
    let config = LaunchConfig { grid_dim, block_dim: (160, 1, 1), shared_mem_bytes: 0 };
    launch(case, &kernel, config, |args| {
        args.arg(&a_map).arg(&b_map).arg(&mut y).arg(&(A_ROWS as u32)).arg(&(B_ROWS as u32)).arg(&(count as u32));
    })?;
    let row = |a: &[_]| {
        let a = a[..count * 64].to_vec();
        b.chunks(columns).map(move |b| product_of(&a, b)).collect::<Vec<_>>()
    };
    let expected: Vec<f64> = a.chunks(columns).flat_map(row).collect();
    Ok(check::compare(&case.read(&y)?, &expected, tensor_core_tolerance(count * 64)))
}

/// The size is a number of rows of 256 values.
fn halves(case: &Case, rows: usize) -> Result<Compared> {
    sums_of_halves(case, "halves", rows)
}

/// The size is a number of rows of 256 values.
fn pairs(case: &Case, rows: usize) -> Result<Compared> {
    sums_of_halves(case, "pairs", rows)
}

fn sums_of_halves(case: &Case, name: &str, rows: usize) -> Result<Compared> {
    const HALF: usize = 128;
    let x = values(rows * 2 * HALF, 1)?;
    let kernel = case.kernel(name)?;
    let x_dev = case.stream.clone_htod(&x)?;
    let mut y = case.stream.alloc_poisoned::<f32>(rows * HALF)?;
    launch(case, &kernel, grid(2 * rows, HALF as u32), |args| {
        args.arg(&x_dev).arg(&mut y);
    })?;
    let expected: Vec<f32> = (0..rows * HALF).map(|i| i + i / HALF * HALF).map(|i| x[i] + x[i + HALF]).collect();
    Ok(check::compare(&case.read(&y)?, &expected, Tolerance::exact()))
}

/// The size is a number of rows.
fn dot(case: &Case, rows: usize) -> Result<Compared> {
    const COLUMNS: usize = 300;
    let (matrix, x) = (values(rows * COLUMNS, 1)?, values(COLUMNS, 2)?);
    let kernel = case.kernel("dot")?;
    let (matrix_dev, x_dev) = (case.stream.clone_htod(&matrix)?, case.stream.clone_htod(&x)?);
    let mut y = case.stream.alloc_poisoned::<f32>(rows)?;
    launch(case, &kernel, grid(2, 160), |args| {
        args.arg(&matrix_dev).arg(&x_dev).arg(&mut y).arg(&(rows as u32)).arg(&(COLUMNS as u32));
    })?;
    let row = |row: &[f32]| row.iter().zip(&x).map(|(&a, &x)| f64::from(a) * f64::from(x)).sum::<f64>();
    let expected: Vec<f64> = matrix.chunks(COLUMNS).map(row).collect();
    Ok(check::compare(&case.read(&y)?, &expected, Tolerance::dot(COLUMNS, COLUMNS as f64)))
}

/// The size is a number of rows.
fn ring(case: &Case, rows: usize) -> Result<Compared> {
    const COLUMNS: usize = 2 * 128;
    let matrix = values(rows * COLUMNS, 1)?;
    let kernel = case.kernel("ring")?;
    let matrix_dev = case.stream.clone_htod(&matrix)?;
    let mut y = case.stream.alloc_poisoned::<f32>(COLUMNS)?;
    launch(case, &kernel, grid(COLUMNS / 128, 160), |args| {
        args.arg(&matrix_dev).arg(&mut y).arg(&(rows as u32)).arg(&(COLUMNS as u32));
    })?;
    let column = |column| matrix.iter().skip(column).step_by(COLUMNS).map(|&value| f64::from(value)).sum::<f64>();
    let expected: Vec<f64> = (0..COLUMNS).map(column).collect();
    Ok(check::compare(&case.read(&y)?, &expected, Tolerance::dot(rows, rows as f64)))
}
