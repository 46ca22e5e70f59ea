//! The work of a launch: [`PlannedKernel`], the one trait of a plan's kernels.

use std::fmt;

use common::prelude::*;
use phase3_all_layers::backends::workspace::Intermediate;
use phase3_all_layers::nn::Operation;

use super::rank_sum::Finish;
use super::value::Form;
use crate::models::Arithmetic;
use crate::models::runner::{Flow, Flowing};

/// A kernel of a plan with its parameters on the device: what one launch queues.
pub trait PlannedKernel: fmt::Debug + Send + Sync {
    /// Its name in tables.
    fn name(&self) -> String;

    /// Queues it on its operands, and gives the memory of its result.
    ///
    /// # Errors
    /// Errors of the launch.
    fn run<'p>(&'p self, call: Call<'p>, x: Flowing<'p>, with: Option<Flowing<'p>>) -> Result<Intermediate>;

    /// Bytes of its parameters.
    fn parameter_bytes(&self) -> u64 {
        0
    }

    /// Bytes that were made of parameters ahead, such as a transform of weights.
    fn prepared_bytes(&self) -> u64 {
        0
    }

    /// Columns that it reads of each row of its second operand, if not all of them.
    fn columns_read(&self) -> Option<usize> {
        None
    }
}

/// A launch's place in a pass: where it gets the memory of its result, and is queued.
#[derive(Debug)]
pub struct Call<'p> {
    pass: &'p Flow,
    form: &'p Form,
    kind: &'static str,
}

impl Call<'_> {
    /// Memory for the result.
    ///
    /// # Errors
    /// As [`Flow::intermediate_of`].
    pub fn result(&self) -> Result<Intermediate> {
        self.pass.intermediate_of(&self.form.shape, self.form.element, self.form.format)
    }

    /// Memory for f32 that is needed during the launch alone.
    ///
    /// # Errors
    /// As [`Flow::intermediate`].
    pub fn scratch(&self, shape: &[usize]) -> Result<Intermediate> {
        self.pass.intermediate(shape)
    }

    /// Does `work`, which queues the launch, unless the pass is only being planned.
    ///
    /// # Errors
    /// Errors of `work`.
    pub fn queue(&self, work: impl FnOnce(&Stream) -> Result<()>) -> Result<()> {
        self.pass.queue(self.kind, work)
    }

    /// The result of a launch that reads its operands and writes into memory of its own.
    ///
    /// # Errors
    /// Errors of `work`.
    pub fn out_of_place(&self, work: impl FnOnce(&Stream, &mut Tensor) -> Result<()>) -> Result<Intermediate> {
        let mut y = self.result()?;
        self.queue(|stream| work(stream, &mut y))?;
        Ok(y)
    }
}

/// A kernel, its operands, and why it was chosen.
#[derive(Debug)]
pub struct Launch {
    /// The operations that it does, such as `3×3 BN Add ReLU`.
    pub layers: String,
    /// The kernel's name.
    pub kernel: String,
    /// Reason for the choice.
    pub why: String,
    /// Bytes that it reads and writes, each value once.
    pub bytes: u64,
    /// Multiplications and additions of a product; `None` if it is none.
    pub flops: Option<u64>,
    /// The format that was asked for. The kernel says what it computes with where there is none for that.
    pub format: Arithmetic,
    /// The node of the fused graph ([`fuse::all`](crate::models::fuse::all)) that it belongs to: of a conversion, the one that needs it.
    pub node: usize,
    pub(super) kind: &'static str,
    pub(super) form: Form,
    pub(super) work: Work,
}

/// The owner of a launch.
#[derive(Debug)]
pub(super) enum Work {
    /// This plan's pass.
    Kernel(Box<dyn PlannedKernel>),
    /// All ranks together, when each one's pass has come to it.
    RankSum(Box<Finish>),
}

impl Work {
    pub(super) fn name(&self) -> String {
        match self {
            Work::Kernel(kernel) => kernel.name(),
            Work::RankSum(_) => "sum of ranks".to_owned(),
        }
    }

    /// The kernel, if it is this rank's own.
    pub(super) fn kernel(&self) -> Option<&dyn PlannedKernel> {
        match self {
            Work::Kernel(kernel) => Some(&**kernel),
            Work::RankSum(_) => None,
        }
    }
}

impl Launch {
    /// Whether it changes a layout or a type and nothing else.
    pub fn is_conversion(&self) -> bool {
        self.kind == Description::CONVERSION
    }

    /// Its place in a pass.
    pub(super) fn call<'p>(&'p self, pass: &'p Flow) -> Call<'p> {
        Call { pass, form: &self.form, kind: self.kind }
    }
}

/// Facts of a launch for tables, beside its kernel.
pub(super) struct Description {
    pub(super) layers: String,
    pub(super) why: String,
    pub(super) kind: &'static str,
    pub(super) flops: Option<u64>,
}

impl Description {
    /// The kind of launches that change a layout or a type.
    const CONVERSION: &'static str = "Layout";

    /// A launch that does these operations and is no product.
    pub(super) fn of(operations: &[Operation], why: impl Into<String>) -> Description {
        let kind = operations.first().map_or("", Operation::kind);
        Description { layers: names(operations), why: why.into(), kind, flops: None }
    }

    /// A launch that changes a layout or a type.
    pub(super) fn conversion(why: impl Into<String>) -> Description {
        Description { layers: "layout".to_owned(), why: why.into(), kind: Description::CONVERSION, flops: None }
    }

    /// The same of a product of this many multiplications and additions.
    pub(super) fn with_flops(self, flops: usize) -> Description {
        Description { flops: Some(flops as u64), ..self }
    }
}

/// The operations of a launch, in short.
pub(in crate::models) fn names(operations: &[Operation]) -> String {
    let name = |operation: &Operation| match operation {
        Operation::Conv2d { weight, params, .. } => {
            let (window, stride) = (&weight.shape()[2..], params.stride[0]);
            let stride = if stride == 1 { String::new() } else { format!("/{stride}") };
            format!("{}×{}{stride}", window[0], window[1])
        }
        Operation::BatchNorm { .. } => "BN".to_owned(),
        Operation::Linear { weight, .. } => format!("{} {}→{}", operation.kind(), weight.shape()[1], weight.shape()[0]),
        other => other.kind().to_owned(),
    };
    operations.iter().map(name).collect::<Vec<_>>().join(" ")
}

/// Bytes of all of these tensors.
pub(super) fn bytes_of<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> u64 {
    tensors.into_iter().map(|tensor| tensor.num_bytes() as u64).sum()
}
