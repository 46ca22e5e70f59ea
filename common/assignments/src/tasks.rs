//! What an exercise's kernel is given, and what it must give back.

use anyhow::{Context, Result};
use common::Tensor;
use common::check::Tolerance;
use common::device::LaunchConfig;

use crate::exercise::Sizes;

/// By the names in `exercise.toml`.
pub const TASKS: [(&str, Task); 3] = [("vector_add", vector_add), ("saxpy", saxpy), ("transpose", transpose)];

/// Makes one case from its sizes and a seed.
pub type Task = fn(&Sizes, u64) -> Result<Setup>;

/// One launch.
pub struct Setup {
    /// In the order of the kernel's parameters.
    pub args: Vec<Argument>,
    /// The geometry.
    pub launch: LaunchConfig,
}

/// An argument of the kernel.
pub enum Argument {
    /// Values that the kernel reads and leaves as they are.
    Input(Vec<f32>),
    /// Values that it writes.
    Output(Output),
    /// A number.
    U32(u32),
    /// A number.
    F32(f32),
}

/// What a kernel writes.
pub struct Output {
    /// What is there before; NaN everywhere if `None`.
    pub before: Option<Vec<f32>>,
    /// The reference's values.
    pub expected: Vec<f64>,
    /// The shape, to name indices by.
    pub shape: Vec<usize>,
    /// How far from the reference a value may lie.
    pub tolerance: Tolerance,
}

/// The task of that name.
pub fn find(name: &str) -> Option<Task> {
    TASKS.iter().find(|(task, _)| *task == name).map(|&(_, task)| task)
}

fn size(sizes: &Sizes, name: &str) -> Result<usize> {
    sizes.get(name).copied().with_context(|| format!("the case has no size `{name}`"))
}

/// Distinct values in (−1, 1).
fn values(n: usize, seed: u64) -> Result<Vec<f32>> {
    Ok(Tensor::random(&[n], seed).into_vec()?)
}

fn written(expected: Vec<f64>, shape: &[usize], tolerance: Tolerance) -> Argument {
    Argument::Output(Output { before: None, expected, shape: shape.to_vec(), tolerance })
}

fn vector_add(sizes: &Sizes, seed: u64) -> Result<Setup> {
    let n = size(sizes, "n")?;
    let (a, b) = (values(n, seed)?, values(n, seed.wrapping_add(1))?);
    // One addition, rounded once: the same bits.
    let expected = a.iter().zip(&b).map(|(a, b)| f64::from(a + b)).collect();
    let out = written(expected, &[n], Tolerance::exact());
    let args = vec![Argument::Input(a), Argument::Input(b), out, Argument::U32(n as u32)];
    Ok(Setup { args, launch: LaunchConfig::linear(n as u32, 256) })
}

fn saxpy(sizes: &Sizes, seed: u64) -> Result<Setup> {
    const FACTOR: f32 = 0.7;
    let n = size(sizes, "n")?;
    let (x, y) = (values(n, seed)?, values(n, seed.wrapping_add(1))?);
    let expected = x.iter().zip(&y).map(|(&x, &y)| f64::from(FACTOR) * f64::from(x) + f64::from(y)).collect();
    // A product and a sum, fused or not, of values below 1.
    let tolerance = Tolerance::elementwise(2, 2.0);
    let out = Argument::Output(Output { before: Some(y), expected, shape: vec![n], tolerance });
    let args = vec![Argument::F32(FACTOR), Argument::Input(x), out, Argument::U32(n as u32)];
    // The grid does not grow with n.
    Ok(Setup { args, launch: LaunchConfig { grid_dim: (3, 1, 1), block_dim: (128, 1, 1), shared_mem_bytes: 0 } })
}

fn transpose(sizes: &Sizes, seed: u64) -> Result<Setup> {
    let (rows, columns) = (size(sizes, "rows")?, size(sizes, "columns")?);
    let x = values(rows * columns, seed)?;
    let expected = (0..x.len()).map(|i| f64::from(x[i % rows * columns + i / rows])).collect();
    let out = written(expected, &[columns, rows], Tolerance::exact());
    let args = vec![Argument::Input(x), out, Argument::U32(rows as u32), Argument::U32(columns as u32)];
    let tiles = |n: usize| n.div_ceil(32) as u32;
    let grid_dim = (tiles(columns), tiles(rows), 1);
    Ok(Setup { args, launch: LaunchConfig { grid_dim, block_dim: (32, 8, 1), shared_mem_bytes: 0 } })
}
