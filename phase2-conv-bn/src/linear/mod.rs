//! A linear layer with ReLU, y = relu(x·Wᵀ + bias): the naive fused kernel, the GEMM ladder's best with the same epilogue, and a
//! library's product followed by a kernel of its own for bias and ReLU.
//!
//! | step | kernel | the idea |
//! | --- | --- | --- |
//! | [`NAIVE`] | `linear_01_naive.cu` | one thread an output; everything fused, and slow |
//! | [`TUNED`] | those of [`crate::gemm`] | bias and ReLU as the epilogue of a good product |
//! | [`LIBRARY`] | cuBLAS, `linear_02_bias_relu.cu` | a very good product, and a second pass over y |
//!
//! [`backward`] has the gradients, `linear_03_backward.cu`; [`traffic`] counts the bytes that each version moves.

pub mod backward;
pub mod traffic;

use common::prelude::*;

use crate::gemm::{Epilogue, Layout, Tuned};
use crate::limits::fits_i32;

/// All steps, in the order in which they are read.
pub static LADDER: &[Step] = &[NAIVE, TUNED, LIBRARY];

/// Step 1. Hypothesis: one launch in place of two, no intermediate tensor, so fusing must pay. Change: none, this is the first
/// version. Measured: the `linear-relu` table of `cargo run -p phase5-bench`; it does not pay.
pub const NAIVE: Step =
    Step { number: 1, name: "naive", idea: "one thread an output, fused", source: Some(kernel_source!("linear_01_naive")) };

/// Step 2. Hypothesis: step 1 is slow as a product, not as a fusion; the ladder's product takes the same epilogue for nothing.
/// Change: the product. Measured: as step 1.
pub const TUNED: Step = Step { number: 2, name: "tuned", idea: "the GEMM ladder's best with its epilogue", source: None };

/// The yardstick: cuBLAS's product, then bias and ReLU in place. Measured: as step 1.
pub const LIBRARY: Step = Step {
    number: 3,
    name: "cuBLAS + ReLU",
    idea: "a library's product, a second kernel for bias and ReLU",
    source: Some(kernel_source!("linear_02_bias_relu")),
};

/// A version of the layer.
#[derive(Clone, Debug)]
pub struct Step {
    number: u32,
    name: &'static str,
    idea: &'static str,
    /// Its own kernel file, if it has one.
    source: Option<KernelSource>,
}

impl Step {
    /// Its place in the ladder, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// What tables call it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What is new in it, in a few words.
    pub fn idea(&self) -> &'static str {
        self.idea
    }

    /// Its own kernel file, if it has one.
    pub fn source(&self) -> Option<&KernelSource> {
        self.source.as_ref()
    }

    /// The same step with another text, such as a kernel with a mistake that a check must find.
    pub fn with_source(&self, source: KernelSource) -> Step {
        Step { source: Some(source), ..self.clone() }
    }

    /// Loads what the step needs.
    ///
    /// # Errors
    /// As [`Device::kernel`] and [`Tuned::load`]; [`Error::Unsupported`] from [`LIBRARY`] where the library is absent.
    pub fn load(&self, device: &Device) -> Result<LinearRelu> {
        let method = match (self.number, &self.source) {
            (1, Some(source)) => Method::Naive(device.kernel(source, "linear_relu_naive")?),
            (3, Some(source)) => Method::Library(BiasRelu { kernel: device.kernel(source, "bias_relu")? }),
            _ => Method::Tuned(Tuned::load(device)?),
        };
        Ok(LinearRelu { method })
    }
}
