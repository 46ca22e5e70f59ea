//! ResNet of basic blocks (He et al., 2015), ResNet18 among them: inference in f32, NCHW, with torchvision's parameter names.

use common::prelude::*;
use common::reference::{Conv2dParams, MaxPool2d};

use crate::nn::{Backend, Layer, Module, Operation, Parameters, Scope, Value, shapes};

/// After the first convolution.
const POOL: MaxPool2d = MaxPool2d { window: 3, stride: 2, padding: 1 };

/// Sizes of a network, which determine everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Channels of the four layers; the first convolution has those of the first layer.
    pub widths: [usize; 4],
    /// Basic blocks of the four layers.
    pub blocks: [usize; 4],
    /// Outputs.
    pub classes: usize,
}

impl Config {
    /// ResNet18 for ImageNet: 11,689,512 parameters.
    pub const RESNET18: Config = Config { widths: [64, 128, 256, 512], blocks: [2; 4], classes: 1000 };

    /// Name and shape of every tensor of the network.
    pub fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        shapes(|scope| ResNet::new(scope, *self))
    }

    /// Untrained parameters determined by a seed, as from [`Parameters::seeded`]: with a gain of 6 weights keep the variance of
    /// activations through a ReLU (He et al., "Delving Deep into Rectifiers", 2015).
    pub fn seeded(&self, seed: u64) -> Parameters {
        Parameters::seeded(self.shapes(), seed, 6.0)
    }
}

/// A convolution without bias and the BatchNorm that follows it.
#[derive(Debug)]
struct ConvNorm<B: Backend> {
    conv: Layer<B>,
    norm: Layer<B>,
}

impl<B: Backend> ConvNorm<B> {
    fn new([conv, norm]: [Scope<'_, B>; 2], weight: [usize; 4], stride: usize) -> Result<Self> {
        let [outputs, _, window, _] = weight;
        let params = Conv2dParams::new(stride, window / 2);
        Ok(ConvNorm { conv: Layer::conv2d(&conv, weight, params)?, norm: Layer::batch_norm(&norm, outputs)? })
    }
}

impl<B: Backend> Module<B> for ConvNorm<B> {
    fn forward<'p>(&'p self, x: Value<'p, B>) -> Result<Value<'p, B>> {
        self.norm.forward(self.conv.forward(x)?)
    }
}

/// relu(conv(relu(conv(x))) + x), each convolution 3×3 and with its BatchNorm; x goes through a shortcut where the sum needs another
/// shape.
#[derive(Debug)]
struct BasicBlock<B: Backend> {
    name: String,
    first: ConvNorm<B>,
    second: ConvNorm<B>,
    shortcut: Option<ConvNorm<B>>,
    relu: Layer<B>,
    add: Layer<B>,
}

impl<B: Backend> BasicBlock<B> {
    fn new(scope: &Scope<'_, B>, inputs: usize, outputs: usize, stride: usize) -> Result<Self> {
        let first = ConvNorm::new(["conv1", "bn1"].map(|part| scope.sub(part)), [outputs, inputs, 3, 3], stride)?;
        let second = ConvNorm::new(["conv2", "bn2"].map(|part| scope.sub(part)), [outputs, outputs, 3, 3], 1)?;
        let shortcut = if stride != 1 || inputs != outputs {
            let parts = [0, 1].map(|part| scope.sub("downsample").sub(part));
            Some(ConvNorm::new(parts, [outputs, inputs, 1, 1], stride)?)
        } else {
            None
        };
        let (relu, add) = (Layer::new(scope, Operation::Relu)?, Layer::new(scope, Operation::Add)?);
        Ok(BasicBlock { name: scope.name().to_owned(), first, second, shortcut, relu, add })
    }
}

// ANCHOR: block
impl<B: Backend> Module<B> for BasicBlock<B> {
    fn forward<'p>(&'p self, x: Value<'p, B>) -> Result<Value<'p, B>> {
        let y = self.first.forward(x.clone())?;
        let y = self.relu.forward(y)?;
        let y = self.second.forward(y)?;
        let x = match &self.shortcut {
            Some(shortcut) => shortcut.forward(x)?,
            None => x,
        };
        let y = self.relu.forward(self.add.join(y, x)?)?;
        y.observe(&self.name);
        Ok(y)
    }
}
// ANCHOR_END: block

/// The network: from images \[N, 3, H, W\] to logits \[N, classes\]. Each basic block's output can be observed.
#[derive(Debug)]
pub struct ResNet<B: Backend> {
    opening: ConvNorm<B>,
    relu: Layer<B>,
    max_pool: Layer<B>,
    blocks: Vec<BasicBlock<B>>,
    average_pool: Layer<B>,
    linear: Layer<B>,
}

impl<B: Backend> ResNet<B> {
    /// Loads the network.
    ///
    /// # Errors
    /// Same as [`Parameters::get`] and [`Backend::load`].
    pub fn load(backend: &B, config: Config, parameters: &Parameters) -> Result<Self> {
        ResNet::new(&Scope::new(backend, parameters), config)
    }

    /// The network of a scope.
    ///
    /// # Errors
    /// Same as [`Scope::weight`] and [`Backend::load`].
    pub fn new(scope: &Scope<'_, B>, Config { widths, blocks, classes }: Config) -> Result<Self> {
        let mut inputs = widths[0];
        let opening = ConvNorm::new(["conv1", "bn1"].map(|part| scope.sub(part)), [inputs, 3, 7, 7], 2)?;
        let mut all = Vec::new();
        for (layer, (outputs, count)) in (1..).zip(widths.into_iter().zip(blocks)) {
            for block in 0..count {
                let stride = if layer > 1 && block == 0 { 2 } else { 1 };
                let scope = scope.sub(format!("layer{layer}")).sub(block);
                all.push(BasicBlock::new(&scope, inputs, outputs, stride)?);
                inputs = outputs;
            }
        }
        Ok(ResNet {
            opening,
            relu: Layer::new(scope, Operation::Relu)?,
            max_pool: Layer::new(scope, Operation::MaxPool(POOL))?,
            blocks: all,
            average_pool: Layer::new(scope, Operation::AveragePool)?,
            linear: Layer::linear(&scope.sub("fc"), widths[3], classes)?,
        })
    }
}

impl<B: Backend> Module<B> for ResNet<B> {
    fn forward<'p>(&'p self, images: Value<'p, B>) -> Result<Value<'p, B>> {
        let x = self.relu.forward(self.opening.forward(images)?)?;
        let mut x = self.max_pool.forward(x)?;
        for block in &self.blocks {
            x = block.forward(x)?;
        }
        let means = self.average_pool.forward(x)?;
        let [count, channels, ..] = means.dims4()?;
        self.linear.forward(means.reshape(&[count, channels])?)
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
