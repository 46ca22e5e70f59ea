//! [`Unfused`]: all layers on a device.

use std::borrow::{Borrow, BorrowMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use common::prelude::*;
use common::reference::{self, AttentionSize, Conv2dParams};
use phase2_conv_bn::conv::{self, Prepared};
use phase2_conv_bn::gemm::{self, Epilogue, Layout};
use phase2_conv_bn::norm::batch_norm::{self, Normaliser};
use phase2_conv_bn::norm::relu::{self, Relu};

use super::Shared;
use super::workspace::{Intermediate, Pass};
use crate::layers::{
    AdaptiveAvgPool, Add, AddChannel, Attention, Concatenate, Gelu, LayerNorm, LayerNormStep, Linear, MaxPool, RowNorm,
    Silu, TimestepEmbedding, Transpose, Upsample, kinds,
};
use crate::nn::{Backend, Operation, Value, needs_others, second};

/// Kernel files that replace a backend's own, such as texts with a mistake that a check must find.
#[derive(Clone, Debug)]
pub struct Sources {
    /// Kernel file of [`LayerNorm`]'s last step.
    pub layer_norm: KernelSource,
    /// Kernel file of [`Gelu`].
    pub gelu: KernelSource,
    /// Kernel file of [`RowNorm`].
    pub row_norm: KernelSource,
}

impl Default for Sources {
    fn default() -> Sources {
        Sources { layer_norm: LayerNorm::SOURCE, gelu: Gelu::SOURCE, row_norm: RowNorm::SOURCE }
    }
}

/// All layers on a device, each a kernel of its own: nothing is fused yet. Layers of one backend share kernels and their scratch
/// memory; they outlive it.
#[derive(Debug)]
pub struct Unfused {
    stream: Stream,
    sources: Sources,
    conv: OnceLock<Arc<conv::Tuned>>,
    gemm: OnceLock<gemm::Tuned>,
    normaliser: OnceLock<Normaliser>,
    bases: Shared<Tensor>,
    prepared_bytes: AtomicUsize,
}

/// The value in `cell`, from `load` if it is empty.
fn loaded<T: Clone>(cell: &OnceLock<T>, load: impl FnOnce() -> Result<T>) -> Result<T> {
    if let Some(there) = cell.get() {
        return Ok(there.clone());
    }
    let new = load()?;
    Ok(cell.get_or_init(|| new).clone())
}

impl Unfused {
    /// A backend on this device. Kernels are loaded with the first layer that needs them.
    pub fn new(device: &Device) -> Unfused {
        Unfused::with_sources(device, Sources::default())
    }

    /// The same with other kernels.
    pub fn with_sources(device: &Device, sources: Sources) -> Unfused {
        Unfused {
            stream: device.stream(),
            sources,
            conv: OnceLock::new(),
            gemm: OnceLock::new(),
            normaliser: OnceLock::new(),
            bases: Shared::default(),
            prepared_bytes: AtomicUsize::new(0),
        }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        self.stream.device()
    }

    /// Bytes of device memory besides parameters and activations: Winograd's transforms of all weights loaded so far; and the
    /// memory that kernels have needed so far, for tables and for the parts of results that several blocks share.
    pub fn scratch_bytes(&self) -> [u64; 2] {
        let conv = self.conv.get().map_or(0, |conv| conv.workspace_bytes());
        let gemm = self.gemm.get().map_or(0, gemm::Tuned::workspace_bytes);
        [self.prepared_bytes.load(Ordering::Relaxed) as u64, (conv + gemm) as u64]
    }

    fn there(&self, tensor: &Tensor) -> Result<Tensor> {
        tensor.to_device(self.device())
    }

    fn gemm(&self) -> Result<gemm::Tuned> {
        loaded(&self.gemm, || gemm::Tuned::load(self.device()))
    }

    fn conv2d(&self, weight: &Tensor, bias: Option<&Tensor>, params: Conv2dParams) -> Result<Kernels> {
        let conv = loaded(&self.conv, || Ok(Arc::new(conv::Tuned::load(self.device())?)))?;
        let (weight, bias) = (self.there(weight)?, bias.map(|bias| self.there(bias)).transpose()?);
        let prepared = conv.prepare(&self.stream, &weight, params)?;
        self.prepared_bytes.fetch_add(prepared.as_ref().map_or(0, Prepared::num_bytes), Ordering::Relaxed);
        Ok(Kernels::Conv2d { conv, weight, bias, prepared, params })
    }

    fn batch_norm(&self, parts: [&Tensor; 4], eps: f32) -> Result<Kernels> {
        let normaliser = loaded(&self.normaliser, || batch_norm::VECTORISED.load(self.device()))?;
        let [weight, bias, mean, variance] = parts.map(|part| self.there(part));
        let (weight, bias, mean, variance) = (weight?, bias?, mean?, variance?);
        let norm = reference::BatchNorm { weight: &weight, bias: &bias, mean: &mean, variance: &variance, eps };
        Ok(Kernels::BatchNorm(normaliser.layer(&self.stream, &norm)?))
    }

    /// The rows of `basis`, divided by their norms on the device.
    fn basis(&self, basis: &Arc<Tensor>) -> Result<Arc<Tensor>> {
        self.bases.of(basis, || {
            let rows = self.there(basis)?;
            let mut divided = Tensor::empty_on(self.device(), rows.shape())?;
            RowNorm::load_from(self.device(), &self.sources.row_norm)?.launch(&self.stream, &rows, &mut divided)?;
            Ok(divided)
        })
    }
}

/// An operation with its kernels, and its parameters on the device.
#[derive(Debug)]
pub struct Ready {
    /// Without its parameters.
    operation: Operation,
    kernels: Kernels,
}

#[derive(Debug)]
enum Kernels {
    Conv2d {
        conv: Arc<conv::Tuned>,
        weight: Tensor,
        bias: Option<Tensor>,
        /// Winograd's transform of the weight, where the chooser uses one.
        prepared: Option<Prepared>,
        params: Conv2dParams,
    },
    BatchNorm(batch_norm::Layer),
    LayerNorm {
        kernels: LayerNorm,
        weight: Tensor,
        bias: Tensor,
        eps: f32,
    },
    Linear(Linear),
    Basis {
        gemm: gemm::Tuned,
        rows: Arc<Tensor>,
        layout: Layout,
    },
    Relu(Relu),
    Gelu(Gelu),
    Silu(Silu),
    MaxPool(MaxPool),
    AveragePool(AdaptiveAvgPool),
    Add(Add),
    AddChannel(AddChannel),
    Concatenate(Concatenate),
    Upsample(Upsample),
    Transpose(Transpose),
    Attention {
        kernels: Attention,
        heads: usize,
    },
    TimestepEmbedding(TimestepEmbedding),
    /// A sum over one rank: there is nothing to add.
    AllReduce,
}

/// Tensors that a launch reads and writes besides its result.
#[derive(Debug, Default)]
pub(super) struct Operands<'a> {
    /// x; `None` if the result replaces it in place.
    pub x: Option<&'a Tensor>,
    /// The second operand.
    pub with: Option<&'a Tensor>,
    /// Scratch memory of [`Ready::scratch_shape`].
    pub scratch: Option<&'a mut Tensor>,
}

impl Ready {
    /// The operation; it has only the shapes of its parameters.
    pub fn operation(&self) -> &Operation {
        &self.operation
    }

    /// Shape of the scratch memory that it needs for `x`.
    fn scratch_shape(&self, x: &Tensor) -> Result<Option<[usize; 3]>> {
        match self.operation {
            Operation::Attention { heads } => Ok(Some(AttentionSize::of(x, heads)?.scores_shape())),
            _ => Ok(None),
        }
    }

    /// Queues it.
    pub(super) fn launch(&self, stream: &Stream, operands: Operands<'_>, y: &mut Tensor) -> Result<()> {
        let Operands { x, with, scratch } = operands;
        // `Unfused::run` passes x unless the operation works in place, and the second operand where there are two.
        let x = || second(x);
        match &self.kernels {
            Kernels::Conv2d { conv, weight, bias, prepared, params } => {
                let epilogue = Epilogue { bias: bias.as_ref(), ..Epilogue::default() };
                conv.launch_prepared(stream, x()?, weight, prepared.as_ref(), &epilogue, *params, y)
            }
            Kernels::BatchNorm(norm) => norm.launch_in_place(stream, y),
            Kernels::LayerNorm { kernels, weight, bias, eps } => {
                kernels.launch(stream, x()?, &reference::LayerNorm { weight, bias, eps: *eps }, y)
            }
            Kernels::Linear(linear) => linear.launch(stream, x()?, y),
            Kernels::Basis { gemm, rows, layout } => gemm.launch(stream, x()?, rows, *layout, &Epilogue::default(), y),
            Kernels::Relu(relu) => relu.launch_in_place(stream, y),
            Kernels::Gelu(gelu) => gelu.launch_in_place(stream, y),
            Kernels::Silu(silu) => silu.launch_in_place(stream, y),
            Kernels::MaxPool(pool) => pool.launch(stream, x()?, y),
            Kernels::AveragePool(pool) => pool.launch(stream, x()?, y),
            Kernels::Add(add) => add.launch(stream, y, second(with)?),
            Kernels::AddChannel(add) => add.launch(stream, y, second(with)?),
            Kernels::Concatenate(concatenate) => concatenate.launch(stream, x()?, second(with)?, y),
            Kernels::Upsample(upsample) => upsample.launch(stream, x()?, y),
            Kernels::Transpose(transpose) => transpose.launch(stream, x()?, y),
            Kernels::Attention { kernels, heads } => kernels.launch(stream, x()?, *heads, second(scratch)?, y),
            Kernels::TimestepEmbedding(embedding) => embedding.launch(stream, x()?, y),
            Kernels::AllReduce => Ok(()),
        }
    }
}

impl Backend for Unfused {
    type Layer = Ready;
    type Pass = Pass;
    type Output = Intermediate;

    fn load(&self, operation: Operation) -> Result<Ready> {
        let device = self.device();
        let kernels = match &operation {
            Operation::Conv2d { weight, bias, params } => self.conv2d(weight, bias.as_deref(), *params)?,
            Operation::BatchNorm { weight, bias, mean, variance, eps } => {
                self.batch_norm([weight, bias, mean, variance], *eps)?
            }
            Operation::LayerNorm { weight, bias, eps } => Kernels::LayerNorm {
                kernels: LayerNorm::load_from(device, LayerNormStep::Shuffle, &self.sources.layer_norm)?,
                weight: self.there(weight)?,
                bias: self.there(bias)?,
                eps: *eps,
            },
            Operation::Linear { weight, bias } => Kernels::Linear(Linear::load(device, &self.gemm()?, weight, bias)?),
            Operation::Basis { rows, transposed } => Kernels::Basis {
                gemm: self.gemm()?,
                rows: self.basis(rows)?,
                layout: if *transposed { Layout::Transposed } else { Layout::RowMajor },
            },
            Operation::Relu => Kernels::Relu(relu::VECTORISED.load(device)?),
            Operation::Gelu => Kernels::Gelu(Gelu::load_from(device, &self.sources.gelu)?),
            Operation::Silu => Kernels::Silu(Silu::load(device)?),
            Operation::MaxPool(pool) => Kernels::MaxPool(MaxPool::load(device, *pool)?),
            Operation::AveragePool => Kernels::AveragePool(AdaptiveAvgPool::load(device)?),
            Operation::Add => Kernels::Add(Add::load(device)?),
            Operation::AddChannel => Kernels::AddChannel(AddChannel::load(device)?),
            Operation::Concatenate => Kernels::Concatenate(Concatenate::load(device)?),
            Operation::Upsample { factor } => Kernels::Upsample(Upsample::load(device, *factor)?),
            Operation::Transpose => Kernels::Transpose(Transpose::load(device)?),
            Operation::Attention { heads } => Kernels::Attention { kernels: Attention::load(device)?, heads: *heads },
            Operation::TimestepEmbedding { channels } => {
                Kernels::TimestepEmbedding(TimestepEmbedding::load(device, *channels)?)
            }
            Operation::AllReduce { ranks: 1 } => Kernels::AllReduce,
            Operation::AllReduce { ranks } => return Err(needs_others(*ranks, device.short_name())),
        };
        Ok(Ready { operation: operation.outline(), kernels })
    }

    fn run(ready: &Ready, x: Value<'_, Self>, with: Option<Value<'_, Self>>) -> Result<Intermediate> {
        let (pass, kind) = (x.pass(), ready.operation.kind());
        let shape = ready.operation.output_shape(&x, with.as_deref())?;
        let with = with.as_deref();
        if ready.operation.is_in_place() {
            let mut y = x.own()?;
            pass.queue(kind, |stream| ready.launch(stream, Operands { with, ..Operands::default() }, &mut y))?;
            return Ok(y);
        }
        let mut scratch = ready.scratch_shape(&x)?.map(|shape| pass.intermediate(&shape)).transpose()?;
        let mut y = pass.intermediate(&shape)?;
        pass.queue(kind, |stream| {
            let operands = Operands { x: Some(&x), with, scratch: scratch.as_deref_mut() };
            ready.launch(stream, operands, &mut y)
        })?;
        Ok(y)
    }

    fn copy(pass: &Pass, x: &Tensor) -> Result<Intermediate> {
        let mut y = pass.intermediate_of(x.shape(), x.element_type(), x.format())?;
        pass.queue(kinds::COPY, |stream| x.copy_to(stream, &mut y))?;
        Ok(y)
    }
}

impl Borrow<Tensor> for Intermediate {
    fn borrow(&self) -> &Tensor {
        self
    }
}

impl BorrowMut<Tensor> for Intermediate {
    fn borrow_mut(&mut self) -> &mut Tensor {
        self
    }
}
