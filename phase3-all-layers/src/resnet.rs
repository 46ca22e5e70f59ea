//! ResNet of basic blocks (He et al., 2015), ResNet18 among them: inference in f32, NCHW, with torchvision's parameter names.

use common::cpu;
use common::prelude::*;
use common::reference::{self, BatchNorm, Conv2dParams, MaxPool2d};
use phase2_conv_bn::conv::{self, step07_winograd::Prepared};
use phase2_conv_bn::norm::{batch_norm, relu};

use crate::layers::{AdaptiveAvgPool, Add, Linear, MaxPool};
use crate::parameters::Parameters;
use crate::workspace::Workspace;

/// Added to a BatchNorm's variance.
const EPS: f32 = 1e-5;
/// Behind the first convolution.
const POOL: MaxPool2d = MaxPool2d { window: 3, stride: 2, padding: 1 };
/// Of the first convolution.
const OPENING: Conv2dParams = Conv2dParams { stride: [2, 2], padding: [3, 3], dilation: [1, 1], groups: 1 };

/// The widths of a network, which decide everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Channels of the four layers; the first convolution has those of the first.
    pub widths: [usize; 4],
    /// Basic blocks of the four layers.
    pub blocks: [usize; 4],
    /// Outputs.
    pub classes: usize,
}

impl Config {
    /// ResNet18 for ImageNet: 11,689,512 parameters.
    pub const RESNET18: Config = Config { widths: [64, 128, 256, 512], blocks: [2; 4], classes: 1000 };

    fn opening(&self) -> Convolution {
        Convolution {
            conv: "conv1".to_owned(),
            norm: "bn1".to_owned(),
            shape: [self.widths[0], 3, 7, 7],
            params: OPENING,
        }
    }

    /// All blocks, in order.
    fn all_blocks(&self) -> Vec<BlockShape> {
        let mut inputs = self.widths[0];
        let mut all = Vec::new();
        for (layer, (&width, &blocks)) in (1..).zip(self.widths.iter().zip(&self.blocks)) {
            for block in 0..blocks {
                let stride = if layer > 1 && block == 0 { 2 } else { 1 };
                let part = |conv: &str, norm: &str, inputs, window, stride| Convolution {
                    conv: format!("layer{layer}.{block}.{conv}"),
                    norm: format!("layer{layer}.{block}.{norm}"),
                    shape: [width, inputs, window, window],
                    params: Conv2dParams::new(stride, window / 2),
                };
                all.push(BlockShape {
                    first: part("conv1", "bn1", inputs, 3, stride),
                    second: part("conv2", "bn2", width, 3, 1),
                    shortcut: (stride != 1 || inputs != width)
                        .then(|| part("downsample.0", "downsample.1", inputs, 1, stride)),
                });
                inputs = width;
            }
        }
        all
    }

    /// Name and shape of every tensor of the network.
    pub fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        let blocks = self.all_blocks().into_iter();
        let convolutions = blocks.flat_map(|block| [Some(block.first), Some(block.second), block.shortcut]).flatten();
        let mut shapes = Vec::new();
        for Convolution { conv, norm, shape, .. } in std::iter::once(self.opening()).chain(convolutions) {
            shapes.push((format!("{conv}.weight"), shape.to_vec()));
            for part in ["weight", "bias", "running_mean", "running_var"] {
                shapes.push((format!("{norm}.{part}"), vec![shape[0]]));
            }
        }
        shapes.push(("fc.weight".to_owned(), vec![self.classes, self.widths[3]]));
        shapes.push(("fc.bias".to_owned(), vec![self.classes]));
        shapes
    }

    /// Untrained parameters that a seed decides: weights uniform with the variance that keeps activations' (He et al., 2015), and
    /// running statistics, scales and shifts that differ from channel to channel, so that a mix-up shows.
    pub fn seeded(&self, seed: u64) -> Parameters {
        Parameters::new(self.shapes().into_iter().zip(0u64..).map(|((name, shape), index)| {
            let random = Tensor::random(&shape, seed.wrapping_mul(1000).wrapping_add(index));
            let inputs: usize = shape.iter().skip(1).product();
            let (centre, spread) = match name.rsplit('.').next() {
                Some("running_var") => (1.0, 0.5),
                Some("weight") if shape.len() == 1 => (1.0, 0.25),
                Some("weight") => (0.0, (6.0 / inputs as f32).sqrt()),
                _ => (0.0, 0.1),
            };
            let values = random.as_slice().unwrap_or_default().iter().map(|value| centre + spread * value).collect();
            (name, Tensor::from_vec(&shape, values).unwrap_or(random))
        }))
    }
}

/// A convolution without bias and the BatchNorm behind it.
struct Convolution {
    /// Names of the two.
    conv: String,
    norm: String,
    /// Of the weight.
    shape: [usize; 4],
    params: Conv2dParams,
}

impl Convolution {
    fn weight<'a>(&self, parameters: &'a Parameters) -> Result<&'a Tensor> {
        parameters.get(&format!("{}.weight", self.conv), &self.shape)
    }

    fn norm<'a>(&self, parameters: &'a Parameters) -> Result<BatchNorm<'a>> {
        let part = |part: &str| parameters.get(&format!("{}.{part}", self.norm), &self.shape[..1]);
        let (weight, bias, mean, variance) =
            (part("weight")?, part("bias")?, part("running_mean")?, part("running_var")?);
        Ok(BatchNorm { weight, bias, mean, variance, eps: EPS })
    }
}

/// One basic block; its input passes through the shortcut, if there is one, before it is added.
struct BlockShape {
    first: Convolution,
    second: Convolution,
    shortcut: Option<Convolution>,
}

/// The logits \[N, classes\] of images \[N, 3, H, W\], on the CPU.
///
/// # Errors
/// As [`Parameters::get`], [`cpu::conv2d`] and [`reference::max_pool2d`]; [`Error::Invalid`] if the images are on a device.
pub fn forward_on_cpu(config: &Config, parameters: &Parameters, images: &Tensor) -> Result<Tensor> {
    let convolve = |layer: &Convolution, x: &Tensor| {
        cpu::batch_norm(&cpu::conv2d(x, layer.weight(parameters)?, None, layer.params)?, &layer.norm(parameters)?)
    };
    let mut x = convolve(&config.opening(), images)?;
    cpu::relu_in_place(&mut x)?;
    x = reference::max_pool2d(&x, POOL)?;
    for BlockShape { first, second, shortcut } in config.all_blocks() {
        let mut y = convolve(&first, &x)?;
        cpu::relu_in_place(&mut y)?;
        y = convolve(&second, &y)?;
        if let Some(shortcut) = shortcut {
            x = convolve(&shortcut, &x)?;
        }
        y.as_mut_slice()?.iter_mut().zip(x.as_slice()?).for_each(|(y, x)| *y += x);
        cpu::relu_in_place(&mut y)?;
        x = y;
    }
    let [count, channels] = [images.dims4()?[0], config.widths[3]];
    let means: Vec<f32> = reference::adaptive_avg_pool2d(&x, [1, 1])?.values.iter().map(|&mean| mean as f32).collect();
    let weight = parameters.get("fc.weight", &[config.classes, channels])?;
    let bias = parameters.get("fc.bias", &[config.classes])?.as_slice()?;
    let mut logits = cpu::gemm(&means, weight.as_slice()?, count, config.classes, channels, true)?;
    for row in logits.chunks_mut(config.classes.max(1)) {
        row.iter_mut().zip(bias).for_each(|(value, bias)| *value += bias);
    }
    Tensor::from_vec(&[count, config.classes], logits)
}

/// A [`Convolution`] on a device.
#[derive(Debug)]
struct ConvNorm {
    weight: Tensor,
    /// Winograd's transform of the weight, where the chooser has a use for it.
    prepared: Option<Prepared>,
    params: Conv2dParams,
    norm: batch_norm::Layer,
}

#[derive(Debug)]
struct Block {
    first: ConvNorm,
    second: ConvNorm,
    shortcut: Option<ConvNorm>,
}

/// A network on a device, each layer a kernel of its own: nothing is fused yet.
#[derive(Debug)]
pub struct ResNet {
    config: Config,
    conv: conv::Tuned,
    relu: relu::Relu,
    add: Add,
    max_pool: MaxPool,
    average_pool: AdaptiveAvgPool,
    opening: ConvNorm,
    blocks: Vec<Block>,
    linear: Linear,
}

impl ResNet {
    /// Loads the kernels and copies the parameters to the device.
    ///
    /// # Errors
    /// As [`Parameters::get`], [`Device::kernel`] and [`Tensor::to_device`].
    pub fn load(device: &Device, config: Config, parameters: &Parameters) -> Result<ResNet> {
        let stream = device.stream();
        let conv = conv::Tuned::load(device)?;
        let normaliser = batch_norm::VECTORISED.load(device)?;
        let load = |layer: &Convolution| {
            let on_host = layer.norm(parameters)?;
            let parts = [layer.weight(parameters)?, on_host.weight, on_host.bias, on_host.mean, on_host.variance];
            let [weight, scale, bias, mean, variance] = parts.map(|part| part.to_device(device));
            let (weight, scale, bias, mean, variance) = (weight?, scale?, bias?, mean?, variance?);
            let norm = BatchNorm { weight: &scale, bias: &bias, mean: &mean, variance: &variance, eps: EPS };
            let (prepared, norm) = (conv.prepare(&stream, &weight)?, normaliser.layer(&stream, &norm)?);
            Ok::<_, Error>(ConvNorm { prepared, params: layer.params, norm, weight })
        };
        let block = |BlockShape { first, second, shortcut }: BlockShape| {
            let shortcut = shortcut.as_ref().map(load).transpose()?;
            Ok::<_, Error>(Block { first: load(&first)?, second: load(&second)?, shortcut })
        };
        let weight = parameters.get("fc.weight", &[config.classes, config.widths[3]])?;
        Ok(ResNet {
            opening: load(&config.opening())?,
            blocks: config.all_blocks().into_iter().map(block).collect::<Result<_>>()?,
            linear: Linear::load(device, weight, parameters.get("fc.bias", &[config.classes])?)?,
            relu: relu::VECTORISED.load(device)?,
            add: Add::load(device)?,
            max_pool: MaxPool::load(device, POOL)?,
            average_pool: AdaptiveAvgPool::load(device)?,
            config,
            conv,
        })
    }

    /// Queues a pass over `images` \[N, 3, H, W\] on the stream's device. The logits \[N, classes\] are the caller's, who may give
    /// them back to the workspace.
    ///
    /// # Errors
    /// [`Error::Shape`] if the images do not fit, [`Error::Invalid`] if they are on the host, [`Error::WrongDevice`],
    /// [`Error::OutOfMemory`] on the first pass of a shape.
    pub fn forward(&self, stream: &Stream, images: &Tensor, workspace: &mut Workspace) -> Result<Tensor> {
        let mut x = self.convolve(stream, &self.opening, images, workspace)?;
        self.relu.launch_in_place(stream, &mut x)?;
        let mut pooled = workspace.take(&POOL.output_shape(&x)?)?;
        self.max_pool.launch(stream, &x, &mut pooled)?;
        workspace.give(x);
        x = pooled;
        for Block { first, second, shortcut } in &self.blocks {
            let mut between = self.convolve(stream, first, &x, workspace)?;
            self.relu.launch_in_place(stream, &mut between)?;
            let mut y = self.convolve(stream, second, &between, workspace)?;
            workspace.give(between);
            if let Some(shortcut) = shortcut {
                let by_shortcut = self.convolve(stream, shortcut, &x, workspace)?;
                workspace.give(std::mem::replace(&mut x, by_shortcut));
            }
            self.add.launch(stream, &mut y, &x)?;
            self.relu.launch_in_place(stream, &mut y)?;
            workspace.give(std::mem::replace(&mut x, y));
        }
        let [count, channels, ..] = x.dims4()?;
        let mut means = workspace.take(&[count, channels, 1, 1])?;
        self.average_pool.launch(stream, &x, &mut means)?;
        workspace.give(x);
        let means = means.reshape(&[count, channels])?;
        let mut logits = workspace.take(&[count, self.config.classes])?;
        self.linear.launch(stream, &means, &mut logits)?;
        workspace.give(means.reshape(&[count, channels, 1, 1])?);
        Ok(logits)
    }

    fn convolve(&self, stream: &Stream, layer: &ConvNorm, x: &Tensor, workspace: &mut Workspace) -> Result<Tensor> {
        let ConvNorm { weight, prepared, params, norm } = layer;
        let mut y = workspace.take(&params.output_shape(x, weight)?)?;
        self.conv.launch_prepared(stream, x, weight, prepared.as_ref(), None, *params, &mut y)?;
        norm.launch_in_place(stream, &mut y)?;
        Ok(y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resnet18_has_torchvisions_tensors() {
        let shapes = Config::RESNET18.shapes();
        assert_eq!(shapes.len(), 20 * 5 + 2);
        let trained = shapes.iter().filter(|(name, _)| !name.contains("running"));
        assert_eq!(trained.map(|(_, shape)| shape.iter().product::<usize>()).sum::<usize>(), 11_689_512);
        for (name, shape) in [
            ("layer1.0.conv1.weight", vec![64, 64, 3, 3]),
            ("layer2.0.downsample.0.weight", vec![128, 64, 1, 1]),
            ("layer4.1.bn2.running_var", vec![512]),
            ("fc.weight", vec![1000, 512]),
        ] {
            assert!(shapes.contains(&(name.to_owned(), shape)), "{name}");
        }
        assert!(!shapes.iter().any(|(name, _)| name.starts_with("layer1.0.downsample")));
    }
}
