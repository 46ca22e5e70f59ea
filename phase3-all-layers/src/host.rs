//! Networks whose activations are on the host: by the CPU alone, and by the two halfway houses of the course, in which tensors
//! travel between the host and a device.
//!
//! | layers by | implementation of ResNet18 |
//! | --- | --- |
//! | [`Cpu`] | 1: the CPU alone |
//! | [`RoundTrip`] | 2, phase 1: the CPU computes, and every tensor travels to the device and back first |
//! | [`ConvOnDevice`] | 3, phase 2: convolutions and BatchNorm on the device, with copies around each pair |

use std::collections::HashMap;
use std::time::{Duration, Instant};

use common::cpu;
use common::prelude::*;
use common::reference::{self, BatchNorm, MaxPool2d};
use phase2_conv_bn::conv::{self, Prepared};
use phase2_conv_bn::norm::batch_norm::{self, Normaliser};
use rayon::ThreadPool;

use crate::layers::kinds;
use crate::parameters::Parameters;
use crate::resnet::Convolution;

/// The layers of ResNet, for tensors on the host.
pub trait HostLayers: Send {
    /// A convolution of `x` \[N, C, H, W\] and the BatchNorm behind it.
    ///
    /// # Errors
    /// As [`cpu::conv2d`] and [`Parameters::get`]; what a device reports.
    fn conv_norm(&mut self, layer: &Convolution, x: &Tensor) -> Result<Tensor>;

    /// max(x, 0), in place.
    ///
    /// # Errors
    /// What a device reports.
    fn relu(&mut self, x: &mut Tensor) -> Result<()>;

    /// Max pooling of `x` \[N, C, H, W\].
    ///
    /// # Errors
    /// As [`reference::max_pool2d`]; what a device reports.
    fn max_pool(&mut self, x: &Tensor, pool: MaxPool2d) -> Result<Tensor>;

    /// `y` += `x`.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes differ; what a device reports.
    fn add(&mut self, y: &mut Tensor, x: &Tensor) -> Result<()>;

    /// The means \[N, C, 1, 1\] of the planes of `x` \[N, C, H, W\].
    ///
    /// # Errors
    /// As [`reference::adaptive_avg_pool2d`]; what a device reports.
    fn average_pool(&mut self, x: &Tensor) -> Result<Tensor>;

    /// x·Wᵀ + bias \[N, outputs\] of `x` \[N, in\], with the parameters `name.weight` and `name.bias`.
    ///
    /// # Errors
    /// As [`Parameters::get`]; what a device reports.
    fn linear(&mut self, name: &str, x: &Tensor, outputs: usize) -> Result<Tensor>;
}

/// The layers on the CPU, and what each kind took.
#[derive(Debug)]
pub struct Cpu<'a> {
    parameters: &'a Parameters,
    /// One thread, for plain loops; `None` for a CPU at its best.
    plain: Option<ThreadPool>,
    /// By kind, in the order in which they first came.
    times: Vec<(&'static str, Duration)>,
}

impl<'a> Cpu<'a> {
    /// A CPU at its best ([`common::cpu`]), with these parameters.
    pub fn new(parameters: &'a Parameters) -> Cpu<'a> {
        Cpu { parameters, plain: None, times: Vec::new() }
    }

    /// The plain loops of a beginner, on one thread.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the system has no thread for it.
    pub fn plain(parameters: &'a Parameters) -> Result<Cpu<'a>> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
        let pool = pool.map_err(|error| Error::Invalid(format!("no thread for the CPU's part: {error}")))?;
        Ok(Cpu { plain: Some(pool), ..Cpu::new(parameters) })
    }

    /// Milliseconds that layers of each kind took so far.
    pub fn times_ms(&self) -> impl Iterator<Item = (&'static str, f64)> {
        self.times.iter().map(|&(kind, time)| (kind, time.as_secs_f64() * 1e3))
    }

    /// Does one of the two and notes its time.
    fn timed<T: Send>(
        &mut self,
        kind: &'static str,
        fast: impl FnOnce() -> Result<T> + Send,
        plain: impl FnOnce() -> Result<T> + Send,
    ) -> Result<T> {
        let begin = Instant::now();
        let result = match &self.plain {
            Some(pool) => pool.install(plain)?,
            None => fast()?,
        };
        self.note(kind, begin.elapsed());
        Ok(result)
    }

    fn note(&mut self, kind: &'static str, time: Duration) {
        match self.times.iter_mut().find(|(other, _)| *other == kind) {
            Some((_, sum)) => *sum += time,
            None => self.times.push((kind, time)),
        }
    }
}

impl HostLayers for Cpu<'_> {
    fn conv_norm(&mut self, layer: &Convolution, x: &Tensor) -> Result<Tensor> {
        let (parameters, params) = (self.parameters, layer.params);
        let (weight, norm) = (layer.weight(parameters)?, layer.norm(parameters)?);
        let plain = || reference::conv2d_f32(x, weight, None, params);
        let mut y = self.timed(kinds::CONV, || cpu::conv2d(x, weight, None, params), plain)?;
        let begin = Instant::now();
        match &self.plain {
            Some(pool) => y = pool.install(|| reference::batch_norm_f32(&y, &norm))?,
            None => cpu::batch_norm_in_place(&mut y, &norm)?,
        }
        self.note(kinds::NORM, begin.elapsed());
        Ok(y)
    }

    fn relu(&mut self, x: &mut Tensor) -> Result<()> {
        let begin = Instant::now();
        match &self.plain {
            Some(pool) => *x = pool.install(|| reference::relu_f32(x))?,
            None => cpu::relu_in_place(x)?,
        }
        self.note(kinds::RELU, begin.elapsed());
        Ok(())
    }

    fn max_pool(&mut self, x: &Tensor, pool: MaxPool2d) -> Result<Tensor> {
        self.timed(kinds::MAX_POOL, || cpu::max_pool2d(x, pool), || reference::max_pool2d(x, pool))
    }

    fn add(&mut self, y: &mut Tensor, x: &Tensor) -> Result<()> {
        let begin = Instant::now();
        cpu::add_in_place(y, x)?;
        self.note(kinds::ADD, begin.elapsed());
        Ok(())
    }

    fn average_pool(&mut self, x: &Tensor) -> Result<Tensor> {
        let [count, channels, ..] = x.dims4()?;
        let means = || {
            let means = reference::adaptive_avg_pool2d(x, [1, 1])?.values;
            Tensor::from_vec(&[count, channels, 1, 1], means.iter().map(|&mean| mean as f32).collect())
        };
        self.timed(kinds::AVERAGE_POOL, means, means)
    }

    fn linear(&mut self, name: &str, x: &Tensor, outputs: usize) -> Result<Tensor> {
        let [count, inputs] = x.dims(name)?;
        let weight = self.parameters.get(&format!("{name}.weight"), &[outputs, inputs])?;
        let bias = self.parameters.get(&format!("{name}.bias"), &[outputs])?;
        let fast = || cpu::linear(x, weight, bias);
        let (x, weight, bias) = (x.as_slice()?, weight.as_slice()?, bias.as_slice()?);
        let plain = || {
            let dot = |i: usize| {
                let (x, weight) = (&x[i / outputs * inputs..][..inputs], &weight[i % outputs * inputs..][..inputs]);
                x.iter().zip(weight).fold(bias[i % outputs], |sum, (x, weight)| sum + x * weight)
            };
            Tensor::from_vec(&[count, outputs], (0..count * outputs).map(dot).collect())
        };
        self.timed(kinds::LINEAR, fast, plain)
    }
}

/// The CPU computes, but not before each layer's tensors have been to the device and back: what copies cost, and nothing else.
#[derive(Debug)]
pub struct RoundTrip<'a> {
    cpu: Cpu<'a>,
    stream: Stream,
}

impl<'a> RoundTrip<'a> {
    /// With these parameters, over this device.
    pub fn new(device: &Device, parameters: &'a Parameters) -> RoundTrip<'a> {
        RoundTrip { cpu: Cpu::new(parameters), stream: device.stream() }
    }

    /// The same values, by way of the device.
    fn travelled(&self, x: &Tensor) -> Result<Tensor> {
        let there = self.stream.clone_htod(x.as_slice()?)?;
        Tensor::from_vec(x.shape(), self.stream.clone_dtoh(&there)?)
    }
}

impl HostLayers for RoundTrip<'_> {
    fn conv_norm(&mut self, layer: &Convolution, x: &Tensor) -> Result<Tensor> {
        let y = self.cpu.conv_norm(layer, &self.travelled(x)?)?;
        self.travelled(&y)
    }

    fn relu(&mut self, x: &mut Tensor) -> Result<()> {
        *x = self.travelled(x)?;
        self.cpu.relu(x)?;
        *x = self.travelled(x)?;
        Ok(())
    }

    fn max_pool(&mut self, x: &Tensor, pool: MaxPool2d) -> Result<Tensor> {
        let y = self.cpu.max_pool(&self.travelled(x)?, pool)?;
        self.travelled(&y)
    }

    fn add(&mut self, y: &mut Tensor, x: &Tensor) -> Result<()> {
        *y = self.travelled(y)?;
        self.cpu.add(y, &self.travelled(x)?)?;
        *y = self.travelled(y)?;
        Ok(())
    }

    fn average_pool(&mut self, x: &Tensor) -> Result<Tensor> {
        let y = self.cpu.average_pool(&self.travelled(x)?)?;
        self.travelled(&y)
    }

    fn linear(&mut self, name: &str, x: &Tensor, outputs: usize) -> Result<Tensor> {
        let y = self.cpu.linear(name, &self.travelled(x)?, outputs)?;
        self.travelled(&y)
    }
}

/// Convolutions and BatchNorm on the device, the rest on the CPU: each pair's input is copied there, its result back.
#[derive(Debug)]
pub struct ConvOnDevice<'a> {
    cpu: Cpu<'a>,
    stream: Stream,
    conv: conv::Tuned,
    normaliser: Normaliser,
    /// Weights on the device, by the convolution's name: they are copied once.
    loaded: HashMap<String, ConvNorm>,
}

/// A [`Convolution`] on a device.
#[derive(Debug)]
pub(crate) struct ConvNorm {
    pub weight: Tensor,
    /// Winograd's transform of the weight, where the chooser has a use for it.
    pub prepared: Option<Prepared>,
    pub norm: batch_norm::Layer,
}

impl ConvNorm {
    /// Bytes that the transformed weight takes beside the weight.
    pub fn prepared_bytes(&self) -> usize {
        self.prepared.as_ref().map_or(0, Prepared::num_bytes)
    }

    /// Copies the parameters of `layer` to the stream's device.
    pub fn load(
        stream: &Stream,
        conv: &conv::Tuned,
        normaliser: &Normaliser,
        layer: &Convolution,
        parameters: &Parameters,
    ) -> Result<ConvNorm> {
        let on_host = layer.norm(parameters)?;
        let parts = [layer.weight(parameters)?, on_host.weight, on_host.bias, on_host.mean, on_host.variance];
        let [weight, scale, bias, mean, variance] = parts.map(|part| part.to_device(stream.device()));
        let (weight, scale, bias, mean, variance) = (weight?, scale?, bias?, mean?, variance?);
        let norm = BatchNorm { weight: &scale, bias: &bias, mean: &mean, variance: &variance, eps: on_host.eps };
        let (prepared, norm) = (conv.prepare(stream, &weight, layer.params)?, normaliser.layer(stream, &norm)?);
        Ok(ConvNorm { weight, prepared, norm })
    }
}

impl<'a> ConvOnDevice<'a> {
    /// With these parameters, on this device.
    ///
    /// # Errors
    /// As [`Device::kernel`].
    pub fn load(device: &Device, parameters: &'a Parameters) -> Result<ConvOnDevice<'a>> {
        Ok(ConvOnDevice {
            cpu: Cpu::new(parameters),
            stream: device.stream(),
            conv: conv::Tuned::load(device)?,
            normaliser: batch_norm::VECTORISED.load(device)?,
            loaded: HashMap::new(),
        })
    }
}

impl HostLayers for ConvOnDevice<'_> {
    fn conv_norm(&mut self, layer: &Convolution, x: &Tensor) -> Result<Tensor> {
        let ConvOnDevice { cpu, stream, conv, normaliser, loaded } = self;
        if !loaded.contains_key(layer.name()) {
            let copied = ConvNorm::load(stream, conv, normaliser, layer, cpu.parameters)?;
            loaded.insert(layer.name().to_owned(), copied);
        }
        let ConvNorm { weight, prepared, norm } = &loaded[layer.name()];
        let x = x.to_device(stream.device())?;
        let mut y = Tensor::empty_on(stream.device(), &layer.params.output_shape(&x, weight)?)?;
        conv.launch_prepared(stream, &x, weight, prepared.as_ref(), None, layer.params, &mut y)?;
        norm.launch_in_place(stream, &mut y)?;
        y.to_host()
    }

    fn relu(&mut self, x: &mut Tensor) -> Result<()> {
        self.cpu.relu(x)
    }

    fn max_pool(&mut self, x: &Tensor, pool: MaxPool2d) -> Result<Tensor> {
        self.cpu.max_pool(x, pool)
    }

    fn add(&mut self, y: &mut Tensor, x: &Tensor) -> Result<()> {
        self.cpu.add(y, x)
    }

    fn average_pool(&mut self, x: &Tensor) -> Result<Tensor> {
        self.cpu.average_pool(x)
    }

    fn linear(&mut self, name: &str, x: &Tensor, outputs: usize) -> Result<Tensor> {
        self.cpu.linear(name, x, outputs)
    }
}
