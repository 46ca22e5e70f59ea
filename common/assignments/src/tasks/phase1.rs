//! Tasks of phase 1.

use anyhow::Result;
use common::check::Tolerance;
use common::device::LaunchConfig;

use super::{Argument, Case, Setup, Task, grid};

pub(super) const TASKS: &[(&str, Task)] = &[("vector_add", vector_add), ("saxpy", saxpy)];

fn vector_add(case: &Case<'_>) -> Result<Setup> {
    let n = case.size("n")?;
    let (a, b) = (case.values(&[n], 0), case.values(&[n], 1));
    // One addition, rounded once: the same bits.
    let expected = a.as_slice()?.iter().zip(b.as_slice()?).map(|(a, b)| f64::from(a + b)).collect();
    let out = Argument::written(&[n], expected, Tolerance::exact());
    let args = vec![Argument::Input(a), Argument::Input(b), out, Argument::count(n)];
    Ok(Setup { args, launch: LaunchConfig::linear(n as u32, 256) })
}

fn saxpy(case: &Case<'_>) -> Result<Setup> {
    const FACTOR: f32 = 0.7;
    let n = case.size("n")?;
    let (x, y) = (case.values(&[n], 0), case.values(&[n], 1));
    let sum = |(&x, &y): (&f32, &f32)| f64::from(FACTOR) * f64::from(x) + f64::from(y);
    let expected = x.as_slice()?.iter().zip(y.as_slice()?).map(sum).collect();
    // A product and a sum, fused or not, of values below 1.
    let y = Argument::updated(y, expected, Tolerance::elementwise(2, 2.0));
    let args = vec![Argument::F32(FACTOR), Argument::Input(x), y, Argument::count(n)];
    // The grid does not grow with n.
    Ok(Setup { args, launch: grid([3, 1, 1], [128, 1, 1]) })
}
