//! ResNet of basic blocks (He et al., 2015), ResNet18 among them: inference in f32, NCHW, with torchvision's parameter names.

use common::prelude::*;
use common::reference::{BatchNorm, Conv2dParams, MaxPool2d};
use phase2_conv_bn::conv;
use phase2_conv_bn::gemm;
use phase2_conv_bn::norm::{batch_norm, relu};

use crate::host::{ConvNorm, Cpu, HostLayers};
use crate::layers::{AdaptiveAvgPool, Add, Linear, MaxPool, kinds};
use crate::module::Module;
use crate::parameters::Parameters;
use crate::workspace::{Activation, Pass};

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
                    name: format!("layer{layer}.{block}"),
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

    /// Untrained parameters that a seed decides, as [`Parameters::seeded`] makes them: with a gain of 6 weights keep the variance
    /// of activations through a ReLU (He et al., "Delving Deep into Rectifiers", 2015).
    pub fn seeded(&self, seed: u64) -> Parameters {
        Parameters::seeded(self.shapes(), seed, 6.0)
    }
}

/// A convolution without bias and the BatchNorm behind it.
#[derive(Debug)]
pub struct Convolution {
    /// Names of the two.
    conv: String,
    norm: String,
    /// Of the weight.
    shape: [usize; 4],
    /// The convolution's geometry.
    pub params: Conv2dParams,
}

impl Convolution {
    /// The convolution's name among the parameters.
    pub fn name(&self) -> &str {
        &self.conv
    }

    /// The convolution's weight.
    ///
    /// # Errors
    /// As [`Parameters::get`].
    pub fn weight<'a>(&self, parameters: &'a Parameters) -> Result<&'a Tensor> {
        parameters.get(&format!("{}.weight", self.conv), &self.shape)
    }

    /// What BatchNorm does.
    ///
    /// # Errors
    /// As [`Parameters::get`].
    pub fn norm<'a>(&self, parameters: &'a Parameters) -> Result<BatchNorm<'a>> {
        let part = |part: &str| parameters.get(&format!("{}.{part}", self.norm), &self.shape[..1]);
        let (weight, bias, mean, variance) =
            (part("weight")?, part("bias")?, part("running_mean")?, part("running_var")?);
        Ok(BatchNorm { weight, bias, mean, variance, eps: EPS })
    }
}

/// One basic block; its input passes through the shortcut, if there is one, before it is added.
struct BlockShape {
    name: String,
    first: Convolution,
    second: Convolution,
    shortcut: Option<Convolution>,
}

/// The logits \[N, classes\] of images \[N, 3, H, W\], with activations on the host and layers by `layers`. `observe` sees the
/// output of each block and its name.
///
/// # Errors
/// Those of the layers.
pub fn forward_on_host(
    config: &Config,
    layers: &mut dyn HostLayers,
    images: &Tensor,
    mut observe: impl FnMut(&str, &Tensor) + Send,
) -> Result<Tensor> {
    // By a thread of the pool: handing each layer to it, and waiting for it, costs a small layer more than its work.
    rayon::scope(|_| {
        let mut x = layers.conv_norm(&config.opening(), images)?;
        layers.relu(&mut x)?;
        x = layers.max_pool(&x, POOL)?;
        for BlockShape { name, first, second, shortcut } in config.all_blocks() {
            let mut y = layers.conv_norm(&first, &x)?;
            layers.relu(&mut y)?;
            y = layers.conv_norm(&second, &y)?;
            if let Some(shortcut) = shortcut {
                x = layers.conv_norm(&shortcut, &x)?;
            }
            layers.add(&mut y, &x)?;
            layers.relu(&mut y)?;
            x = y;
            observe(&name, &x);
        }
        let [count, channels, ..] = x.dims4()?;
        let means = layers.average_pool(&x)?.reshape(&[count, channels])?;
        layers.linear("fc", &means, config.classes)
    })
}

/// The logits \[N, classes\] of images \[N, 3, H, W\], on the CPU.
///
/// # Errors
/// As [`Parameters::get`], [`common::cpu::conv2d`] and [`common::reference::max_pool2d`]; [`Error::Invalid`] if the images are on
/// a device.
pub fn forward_on_cpu(config: &Config, parameters: &Parameters, images: &Tensor) -> Result<Tensor> {
    forward_on_host(config, &mut Cpu::new(parameters), images, |_, _| ())
}

/// A [`Convolution`] on a device, and its geometry.
type Loaded = (ConvNorm, Conv2dParams);

#[derive(Debug)]
struct Block {
    first: Loaded,
    second: Loaded,
    shortcut: Option<Loaded>,
}

/// A network on a device, each layer a kernel of its own: nothing is fused yet.
#[derive(Debug)]
pub struct ResNet {
    conv: conv::Tuned,
    relu: relu::Relu,
    add: Add,
    max_pool: MaxPool,
    average_pool: AdaptiveAvgPool,
    opening: Loaded,
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
            ConvNorm::load(&stream, &conv, &normaliser, layer, parameters).map(|loaded| (loaded, layer.params))
        };
        let block = |BlockShape { first, second, shortcut, .. }: BlockShape| {
            let shortcut = shortcut.as_ref().map(load).transpose()?;
            Ok::<_, Error>(Block { first: load(&first)?, second: load(&second)?, shortcut })
        };
        let weight = parameters.get("fc.weight", &[config.classes, config.widths[3]])?;
        Ok(ResNet {
            opening: load(&config.opening())?,
            blocks: config.all_blocks().into_iter().map(block).collect::<Result<_>>()?,
            linear: Linear::load(
                device,
                &gemm::Tuned::load(device)?,
                weight,
                parameters.get("fc.bias", &[config.classes])?,
            )?,
            relu: relu::VECTORISED.load(device)?,
            add: Add::load(device)?,
            max_pool: MaxPool::load(device, POOL)?,
            average_pool: AdaptiveAvgPool::load(device)?,
            conv,
        })
    }

    /// Bytes of device memory beside parameters and activations: Winograd's transforms of the weights; and what kernels have asked
    /// for so far, for tables and for the parts of results that several blocks share.
    pub fn scratch_bytes(&self) -> [u64; 2] {
        let of_block = |block: &'_ Block| {
            let parts = [Some(&block.first), Some(&block.second), block.shortcut.as_ref()];
            parts.into_iter().flatten().map(|(part, _)| part.prepared_bytes()).sum::<usize>()
        };
        let prepared = self.opening.0.prepared_bytes() + self.blocks.iter().map(of_block).sum::<usize>();
        [prepared as u64, (self.conv.workspace_bytes() + self.linear.workspace_bytes()) as u64]
    }

    fn convolve(&self, pass: &Pass<'_>, layer: &Loaded, x: &Tensor) -> Result<Activation> {
        let (ConvNorm { weight, prepared, norm }, params) = layer;
        let mut y = pass.activation(&params.output_shape(x, weight)?)?;
        pass.queue(kinds::CONV, |stream| {
            self.conv.launch_prepared(stream, x, weight, prepared.as_ref(), None, *params, &mut y)
        })?;
        pass.queue(kinds::NORM, |stream| norm.launch_in_place(stream, &mut y))?;
        Ok(y)
    }

    fn relu(&self, pass: &Pass<'_>, x: &mut Activation) -> Result<()> {
        pass.queue(kinds::RELU, |stream| self.relu.launch_in_place(stream, x))
    }

    fn block(&self, pass: &Pass<'_>, block: &Block, x: Activation) -> Result<Activation> {
        let mut between = self.convolve(pass, &block.first, &x)?;
        self.relu(pass, &mut between)?;
        let mut y = self.convolve(pass, &block.second, &between)?;
        drop(between);
        let x = match &block.shortcut {
            Some(shortcut) => self.convolve(pass, shortcut, &x)?,
            None => x,
        };
        pass.queue(kinds::ADD, |stream| self.add.launch(stream, &mut y, &x))?;
        self.relu(pass, &mut y)?;
        Ok(y)
    }
}

impl Module for ResNet {
    /// The logits \[N, classes\] of images \[N, 3, H, W\].
    fn forward(&self, pass: &Pass<'_>, images: &Tensor) -> Result<Activation> {
        let mut opened = self.convolve(pass, &self.opening, images)?;
        self.relu(pass, &mut opened)?;
        let mut x = pass.activation(&POOL.output_shape(&opened)?)?;
        pass.queue(kinds::MAX_POOL, |stream| self.max_pool.launch(stream, &opened, &mut x))?;
        drop(opened);
        for block in &self.blocks {
            x = self.block(pass, block, x)?;
        }
        let [count, channels, ..] = x.dims4()?;
        let mut means = pass.activation(&[count, channels, 1, 1])?;
        pass.queue(kinds::AVERAGE_POOL, |stream| self.average_pool.launch(stream, &x, &mut means))?;
        let means = means.reshape(&[count, channels])?;
        let mut logits = pass.activation(&[count, self.linear.outputs()])?;
        pass.queue(kinds::LINEAR, |stream| self.linear.launch(stream, &means, &mut logits))?;
        Ok(logits)
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
