//! Which format each layer of a model is computed in: the cheapest whose error stays within a budget.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`calibrate`] | measures the error that each layer alone causes in each format, and the range of its values |
//! | [`emulate`] | on the host: what a node makes of its operands when they are rounded to a format |
//! | [`cost`] | what a plan takes: measured launch by launch, or the floor that bytes and FLOPs set |
//! | [`mod@choose`] | the cheapest formats within the budget |
//! | [`failures`] | what breaks a format, made on purpose |
//!
//! Formats are chosen for layers that multiply; layers between them (pooling, sums, norms) have the format of their operand.
//!
//! How errors of single layers add up is a model, chosen by measurement: [`Calibration::predicted`]. The command and the table
//! show it next to two others and to the measured error.

pub mod calibrate;
pub mod choose;
pub mod cost;
pub mod emulate;
pub mod failures;

pub use calibrate::{Calibration, Candidate, Errors, Layer};
pub use choose::{Adaptive, choose};
pub use cost::Costs;

use super::Arithmetic;

/// Formats of a layer, the most exact first.
pub const FORMATS: [Arithmetic; 5] =
    [Arithmetic::F32, Arithmetic::Tf32, Arithmetic::F16, Arithmetic::Fp8, Arithmetic::Int8];

/// Format in which a layer's result is stored for the layers that follow it.
pub fn stored(format: Arithmetic) -> Arithmetic {
    match format {
        Arithmetic::F32 | Arithmetic::Tf32 => format,
        Arithmetic::F16 | Arithmetic::Int8 | Arithmetic::Fp8 => Arithmetic::F16,
    }
}
