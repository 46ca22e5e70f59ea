//! The fifth implementation of the models: rewrites of the one description that phase 3 has of each.
//!
//! [`nn::graph`](phase3_all_layers::nn::graph) writes a model down as a list of operations. Then
//!
//! | module | what it does |
//! | --- | --- |
//! | [`fuse`] | gathers the operations that one kernel does: a convolution with its BatchNorm, sum and activation |
//! | [`parameters`] | folds BatchNorm into a scale and a shift, fills weights up with zeros, rounds them |
//! | [`plan`] | chooses type, layout and kernel for each launch, with conversions where two of them differ; says why |
//! | [`runner`] | runs a plan in memory that is planned once |
//! | [`int8`] | ResNet18's steps of 8-bit integers, by a calibration |
//! | [`adaptive`] | a format for each layer, under an error budget |
//!
//! Where tensor cores are not used, a convolution runs in f32 with phase 2's epilogue: a sum and a ReLU. Operations without a
//! kernel in a plan run as in phase 3; so every model runs, and a plan shows what is left to do.

pub mod adaptive;
mod e4m3;
pub mod fuse;
pub mod int8;
pub mod parameters;
pub mod plan;
pub mod runner;

use std::fmt;

use crate::gemm::Precision;

/// Arithmetic of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Arithmetic {
    /// f32 throughout.
    #[default]
    F32,
    /// f32 in memory, of which tensor cores multiply 19 bits.
    Tf32,
    /// f16 in memory, sums in f32.
    F16,
    /// 8-bit integers between ResNet18's convolutions, sums in i32; the rest in f16.
    Int8,
    /// 8-bit floats in linear layers, sums in f32, results in f16. Only single layers use it.
    #[value(skip)]
    Fp8,
}

impl Arithmetic {
    /// Arithmetic that every model supports, the most exact first.
    pub const ALL: [Arithmetic; 3] = [Arithmetic::F32, Arithmetic::Tf32, Arithmetic::F16];

    /// Type that tensor cores multiply; `None` if they are not used.
    pub fn on_tensor_cores(self) -> Option<Precision> {
        match self {
            Arithmetic::F32 => None,
            Arithmetic::Tf32 => Some(Precision::Tf32),
            // What bytes lie among.
            Arithmetic::F16 | Arithmetic::Int8 | Arithmetic::Fp8 => Some(Precision::F16),
        }
    }

    /// Relative error of a value rounded to the format: tensor cores cut f32 off after ten bits, f16 is rounded to ten. For int8
    /// relative to the largest value: half a step.
    pub fn round_off(self) -> f64 {
        match self {
            Arithmetic::F32 => 2f64.powi(-24),
            Arithmetic::Tf32 => 2f64.powi(-10),
            Arithmetic::F16 => 2f64.powi(-11),
            Arithmetic::Int8 => 0.5 / 127.0,
            Arithmetic::Fp8 => 2f64.powi(-4),
        }
    }
}

impl fmt::Display for Arithmetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Arithmetic::F32 => "f32",
            Arithmetic::Tf32 => "tf32",
            Arithmetic::F16 => "f16",
            Arithmetic::Int8 => "int8",
            Arithmetic::Fp8 => "fp8",
        })
    }
}
