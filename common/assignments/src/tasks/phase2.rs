//! Tasks of phase 2.

use anyhow::Result;
use common::check::Tolerance;
use common::reference;

use super::{Argument, Case, Setup, Task, grid};

pub(super) const TASKS: &[(&str, Task)] = &[("transpose", transpose)];

fn transpose(case: &Case<'_>) -> Result<Setup> {
    let (rows, columns) = (case.size("rows")?, case.size("columns")?);
    let x = case.values(&[1, rows, columns], 0);
    let y = Argument::written(&[columns, rows], reference::transpose(&x)?.to_f64()?, Tolerance::exact());
    let args = vec![Argument::Input(x), y, Argument::count(rows), Argument::count(columns)];
    Ok(Setup { args, launch: grid([columns.div_ceil(32), rows.div_ceil(32), 1], [32, 8, 1]) })
}
