//! [`Cpu`]: all layers on the host.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use common::cpu;
use common::prelude::*;
use common::reference::{self, BatchNorm, LayerNorm};
use rayon::ThreadPool;

use super::Shared;
use crate::nn::{Backend, Grain, Module, Operation, Value, needs_others, second};

/// The layers on the CPU, and the time of each kind.
#[derive(Debug, Default)]
pub struct Cpu {
    /// One thread, for plain loops; `None` for a CPU at its best.
    plain: Option<ThreadPool>,
    /// By kind, in order of first use.
    times: Mutex<Vec<(&'static str, Duration)>>,
    /// Normalised rows.
    bases: Shared<Tensor>,
}

impl Cpu {
    /// A CPU at its best ([`common::cpu`]).
    pub fn new() -> Cpu {
        Cpu::default()
    }

    /// The plain loops of a beginner, on one thread, for the layers of ResNet.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the system cannot start a thread.
    pub fn plain() -> Result<Cpu> {
        Ok(Cpu { plain: Some(cpu::one_pinned_thread()?), ..Cpu::new() })
    }

    /// Milliseconds that layers of each kind have taken so far.
    pub fn times_ms(&self) -> Vec<(&'static str, f64)> {
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.iter().map(|&(kind, time)| (kind, time.as_secs_f64() * 1e3)).collect()
    }

    fn note(&self, kind: &'static str, time: Duration) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        match times.iter_mut().find(|(other, _)| *other == kind) {
            Some((_, sum)) => *sum += time,
            None => times.push((kind, time)),
        }
    }
}

/// A backend whose inputs and outputs are on the host.
pub trait OnHost: Backend<Pass = Self, Output = Tensor> + Sync {
    /// Output of `module` for `x`, both on the host.
    ///
    /// # Errors
    /// Errors of [`Module::forward`]; [`Error::Invalid`] if `x` is on a device.
    fn infer(&self, module: &(impl Module<Self> + Sync), x: &Tensor) -> Result<Tensor> {
        self.observe(module, x, |_, _| ())
    }

    /// [`OnHost::infer`], with `observe` called with the name and the output of each block.
    ///
    /// # Errors
    /// Same as there.
    fn observe(
        &self,
        module: &(impl Module<Self> + Sync),
        x: &Tensor,
        observe: impl FnMut(&str, &Tensor) + Send,
    ) -> Result<Tensor> {
        observed(self, module, x, Grain::Block, observe)
    }

    /// [`OnHost::infer`], with `observe` called with the name and the output of each layer.
    ///
    /// # Errors
    /// Same as there.
    fn observe_layers(
        &self,
        module: &(impl Module<Self> + Sync),
        x: &Tensor,
        observe: impl FnMut(&str, &Tensor) + Send,
    ) -> Result<Tensor> {
        observed(self, module, x, Grain::Layer, observe)
    }
}

fn observed<B: OnHost>(
    backend: &B,
    module: &(impl Module<B> + Sync),
    x: &Tensor,
    by: Grain,
    observe: impl FnMut(&str, &Tensor) + Send,
) -> Result<Tensor> {
    let observe = Mutex::new(observe);
    let observe = |name: &str, y: &Tensor| observe.lock().unwrap_or_else(PoisonError::into_inner)(name, y);
    // By a thread of the pool: handing each layer to it, and waiting for it, costs a small layer more than its work.
    let y = rayon::scope(|_| module.forward(Value::given(backend, x).observed_by(by, &observe))?.own())?;
    if y.is_on_device() { y.to_host() } else { Ok(y) }
}

impl OnHost for Cpu {}

impl Backend for Cpu {
    /// The rows of a basis in it are already normalised.
    type Layer = Operation;
    type Pass = Cpu;
    type Output = Tensor;

    fn load(&self, operation: Operation) -> Result<Operation> {
        Ok(match operation {
            Operation::Basis { rows, transposed } => {
                Operation::Basis { rows: self.bases.of(&rows, || cpu::row_norm(&rows))?, transposed }
            }
            other => other,
        })
    }

    fn run(layer: &Operation, x: Value<'_, Cpu>, with: Option<Value<'_, Cpu>>) -> Result<Tensor> {
        let (cpu, begin) = (x.pass(), Instant::now());
        let y = match &cpu.plain {
            Some(pool) => by_plain_loops(pool, layer, x, with),
            None => fast(layer, x, with),
        }?;
        cpu.note(layer.kind(), begin.elapsed());
        Ok(y)
    }

    fn copy(_: &Cpu, x: &Tensor) -> Result<Tensor> {
        x.to_host()
    }
}

fn fast(layer: &Operation, x: Value<'_, Cpu>, with: Option<Value<'_, Cpu>>) -> Result<Tensor> {
    /// `x`, changed in place.
    fn changed(x: Value<'_, Cpu>, change: impl FnOnce(&mut Tensor) -> Result<()>) -> Result<Tensor> {
        let mut x = x.own()?;
        change(&mut x)?;
        Ok(x)
    }
    match layer {
        Operation::Conv2d { weight, bias, params } => cpu::conv2d(&x, weight, bias.as_deref(), *params),
        Operation::BatchNorm { weight, bias, mean, variance, eps } => {
            changed(x, |x| cpu::batch_norm_in_place(x, &BatchNorm { weight, bias, mean, variance, eps: *eps }))
        }
        Operation::LayerNorm { weight, bias, eps } => cpu::layer_norm(&x, &LayerNorm { weight, bias, eps: *eps }),
        Operation::Linear { weight, bias } => cpu::linear(&x, weight, bias),
        Operation::Basis { rows, transposed } => {
            let (shape, inputs) = (layer.output_shape(&x, None)?, rows.shape()[usize::from(*transposed)]);
            let y = cpu::gemm(x.as_slice()?, rows.as_slice()?, shape[0], shape[1], inputs, *transposed)?;
            Tensor::from_vec(&shape, y)
        }
        Operation::Relu => changed(x, cpu::relu_in_place),
        Operation::Gelu => changed(x, cpu::gelu_in_place),
        Operation::Silu => changed(x, cpu::silu_in_place),
        Operation::MaxPool(pool) => cpu::max_pool2d(&x, *pool),
        Operation::AveragePool => average_pool(&x),
        Operation::Add => changed(x, |x| cpu::add_in_place(x, &*second(with)?)),
        Operation::AddChannel => changed(x, |x| cpu::add_channel_in_place(x, &*second(with)?)),
        Operation::Concatenate => cpu::concatenate(&x, &*second(with)?),
        Operation::Upsample { factor } => cpu::upsample_nearest(&x, *factor),
        Operation::Transpose => match *x.shape() {
            [batch, rows, height, width] => cpu::transpose(&*x.reshape(&[batch, rows, height * width])?),
            _ => cpu::transpose(&x),
        },
        Operation::Attention { heads } => cpu::attention(&x, *heads),
        Operation::TimestepEmbedding { channels } => cpu::timestep_embedding(&x, *channels),
        Operation::AllReduce { ranks: 1 } => x.own(),
        Operation::AllReduce { ranks } => Err(needs_others(*ranks, "the CPU")),
    }
}

fn by_plain_loops(
    pool: &ThreadPool,
    layer: &Operation,
    x: Value<'_, Cpu>,
    with: Option<Value<'_, Cpu>>,
) -> Result<Tensor> {
    let on_host: &Tensor = &x;
    match layer {
        Operation::Conv2d { weight, bias, params } => {
            pool.install(|| reference::conv2d_f32(on_host, weight, bias.as_deref(), *params))
        }
        Operation::BatchNorm { weight, bias, mean, variance, eps } => {
            let norm = BatchNorm { weight, bias, mean, variance, eps: *eps };
            pool.install(|| reference::batch_norm_f32(on_host, &norm))
        }
        Operation::Relu => pool.install(|| reference::relu_f32(on_host)),
        Operation::MaxPool(max_pool) => pool.install(|| reference::max_pool2d(on_host, *max_pool)),
        Operation::AveragePool => pool.install(|| average_pool(on_host)),
        Operation::Linear { weight, bias } => pool.install(|| plain_linear(layer, on_host, weight, bias)),
        _ => fast(layer, x, with),
    }
}

fn average_pool(x: &Tensor) -> Result<Tensor> {
    let [count, channels, ..] = x.dims4()?;
    let means = reference::adaptive_avg_pool2d(x, [1, 1])?.values;
    Tensor::from_vec(&[count, channels, 1, 1], means.iter().map(|&mean| mean as f32).collect())
}

fn plain_linear(layer: &Operation, x: &Tensor, weight: &Arc<Tensor>, bias: &Arc<Tensor>) -> Result<Tensor> {
    let shape = layer.output_shape(x, None)?;
    let &[outputs, inputs] = weight.shape() else { return cpu::linear(x, weight, bias) };
    x.expect_shape("linear", &[shape[0], inputs])?;
    let (x, weight, bias) = (x.as_slice()?, weight.as_slice()?, bias.as_slice()?);
    let dot = |i: usize| {
        let (x, weight) = (&x[i / outputs * inputs..][..inputs], &weight[i % outputs * inputs..][..inputs]);
        x.iter().zip(weight).fold(bias[i % outputs], |sum, (x, weight)| sum + x * weight)
    };
    Tensor::from_vec(&shape, (0..shape.iter().product()).map(dot).collect())
}
