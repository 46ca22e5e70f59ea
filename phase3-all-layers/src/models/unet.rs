//! The U-Net of video diffusion: from noisy latents, the previous frame and a timestep to the noise that is in the latents.
//!
//! ```text
//! steps [N]      → timestep embedding [N, c] → Linear → SiLU → Linear → [N, 4c], which every residual block adds
//! x [N, 8, H, W] → conv 3×3 → [N, c, H, W]
//!   down, widths c·(1, 2, 4, 4)    2 × (residual, attention); conv 3×3/2, but after the last ─┐ each output is kept
//!   middle                         residual, 3 × attention, residual                          │
//!   up, widths c·(4, 4, 2, 1)      3 × (residual of [x, kept], attention);   ←────────────────┘ the last first
//!                                  nearest ×2 and conv 3×3, but after the last
//!   → BatchNorm → SiLU → conv 3×3 → [N, 4, H, W]
//! ```
//!
//! Every convolution and linear layer has a bias, but the two convolutions of a residual block that a BatchNorm follows: the
//! one reading of the architecture that gives all three numbers of parameters.

use std::ops::Range;

use common::prelude::*;
use common::reference::Conv2dParams;

use crate::nn::graph::{Graph, Node, Recorder, Recording};
use crate::nn::{Backend, Layer, Module, Operation, Parameters, Scope, Value, second, shapes};

/// Channels of the input: latents and the previous frame.
pub const INPUTS: usize = 2 * LATENTS;
/// Channels of a frame's latents, and of the noise in them.
pub const LATENTS: usize = 4;
/// The sides of latents are multiples of this: they are halved three times, then doubled three times.
pub const MULTIPLE: usize = 8;

/// Sizes of the network, which determine everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// c, the channels at full resolution; even, and a multiple of the heads.
    pub channels: usize,
    /// Heads of each attention.
    pub heads: usize,
}

impl Config {
    /// 2,217,748 parameters.
    pub const TINY: Config = Config { channels: 16, heads: 8 };
    /// 55,008,084 parameters.
    pub const SMALL: Config = Config { channels: 80, heads: 8 };
    /// 878,822,724 parameters.
    pub const PRODUCTION: Config = Config { channels: 320, heads: 8 };
    /// All three, by name.
    pub const ALL: [(&'static str, Config); 3] =
        [("tiny", Config::TINY), ("small", Config::SMALL), ("production", Config::PRODUCTION)];

    /// Number of values of a timestep's embedding for residual blocks.
    fn embedding(&self) -> usize {
        4 * self.channels
    }

    /// Name and shape of every tensor, in the order of a pass.
    pub fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        shapes(|scope| UNet::new(scope, *self))
    }

    /// Untrained parameters determined by a seed, as from [`Parameters::seeded`]: with a gain of 3 weights keep the variance of
    /// their inputs.
    pub fn seeded(&self, seed: u64) -> Parameters {
        Parameters::seeded(self.shapes(), seed, 3.0)
    }

    /// The network with these parameters as a graph of two inputs: latents and the previous frame \[N, 8, H, W\], and their timesteps
    /// \[N\].
    ///
    /// # Errors
    /// Same as [`UNet::load`] and [`UNet::forward`].
    pub fn graph(&self, parameters: &Parameters, latents: &[usize]) -> Result<Graph> {
        let network = UNet::load(&Recorder, *self, parameters)?;
        let recording = Recording::new(&[latents, &latents[..latents.len().min(1)]]);
        let mut inputs = recording.inputs();
        let (x, steps) = (second(inputs.next())?, second(inputs.next())?);
        recording.graph(&network.forward(x, steps)?)
    }
}

/// The nodes of a recorded network from `level` down to the middle and back up again: from the convolution of stride 2 that leads
/// to the level (1 to 3; 0 is full resolution) to the convolution that follows the way back's enlargement. Later nodes use only
/// the result of the last one.
///
/// # Errors
/// [`Error::Invalid`] if the graph has no such level.
pub fn deep_nodes(graph: &Graph, level: usize) -> Result<Range<usize>> {
    let is = |kind: fn(&Operation) -> bool| {
        (0..graph.nodes.len()).filter(move |&node| matches!(&graph.nodes[node].operations[..], [one] if kind(one)))
    };
    let mut down = is(|one| matches!(one, Operation::Conv2d { params, .. } if params.stride == [2, 2]));
    let mut up = is(|one| matches!(one, Operation::Upsample { .. }));
    let ends = level.checked_sub(1).and_then(|above| down.nth(above).zip(up.nth_back(above)));
    let missing = || Error::Invalid(format!("a U-Net has no level {level} below full resolution"));
    ends.map(|(start, enlarged)| start..enlarged + 2).ok_or_else(missing)
}

/// The nodes of a recorded network's first residual block: a convolution, its BatchNorm and SiLU; the linear layer of the
/// embedding and its sum; the second convolution, BatchNorm and SiLU; the sum with the block's input.
///
/// # Errors
/// [`Error::Invalid`] if the graph has none.
pub fn first_residual(graph: &Graph) -> Result<Range<usize>> {
    const KINDS: [&str; 9] = ["Conv2D", "BatchNorm", "SiLU", "Linear", "Add", "Conv2D", "BatchNorm", "SiLU", "Add"];
    let is_it = |nodes: &[Node]| nodes.iter().map(|node| node.operations[0].kind()).eq(KINDS);
    let start = graph.nodes.windows(KINDS.len()).position(is_it);
    let missing = || Error::Invalid("a graph has no residual block".to_owned());
    start.map(|start| start..start + KINDS.len()).ok_or_else(missing)
}

/// Fails unless `x` is \[N, 8, H, W\] with sides that can be halved three times, and `steps` \[N\].
fn expect_inputs(x: &Tensor, steps: &Tensor) -> Result<()> {
    let [count, channels, height, width] = x.dims4()?;
    if channels != INPUTS || [height, width].iter().any(|side| *side == 0 || !side.is_multiple_of(MULTIPLE)) {
        let expected = format!("[N, {INPUTS}, H, W] with H and W multiples of {MULTIPLE}");
        return Err(Error::shape("the U-Net's input", ShapeError::mismatch(expected, x.shape())));
    }
    steps.expect_shape("the U-Net's steps", &[count])
}

/// Geometry whose output has the input's size, or a `stride`-th of it, for a window of this side.
fn same_size(window: usize, stride: usize) -> Conv2dParams {
    Conv2dParams::new(stride, window / 2)
}

/// One layer after the other.
fn in_turn<'p, B: Backend>(layers: &'p [Layer<B>], x: Value<'p, B>) -> Result<Value<'p, B>> {
    layers.iter().try_fold(x, |x, layer| layer.forward(x))
}

/// conv 3×3 → BatchNorm → SiLU.
#[derive(Debug)]
struct ConvNormSilu<B: Backend> {
    conv: Layer<B>,
    norm: Layer<B>,
    silu: Layer<B>,
}

impl<B: Backend> Module<B> for ConvNormSilu<B> {
    fn forward<'p>(&'p self, x: Value<'p, B>) -> Result<Value<'p, B>> {
        self.silu.forward(self.norm.forward(self.conv.forward(x)?)?)
    }
}

/// conv → BatchNorm → SiLU, + the embedding in each channel, conv → BatchNorm → SiLU, + x, through a shortcut where the sum needs other
/// channels.
#[derive(Debug)]
struct Residual<B: Backend> {
    name: String,
    first: ConvNormSilu<B>,
    time: Layer<B>,
    add_channel: Layer<B>,
    second: ConvNormSilu<B>,
    shortcut: Option<Layer<B>>,
    add: Layer<B>,
}

impl<B: Backend> Residual<B> {
    fn new(scope: &Scope<'_, B>, inputs: usize, outputs: usize, embedding: usize) -> Result<Self> {
        let conv_norm_silu = |conv, norm, inputs| {
            Ok::<_, Error>(ConvNormSilu {
                conv: Layer::conv2d(&scope.sub(conv), [outputs, inputs, 3, 3], same_size(3, 1))?,
                norm: Layer::batch_norm(&scope.sub(norm), outputs)?,
                silu: Layer::new(scope, Operation::Silu)?,
            })
        };
        let first = conv_norm_silu("conv1", "norm1", inputs)?;
        let time = Layer::linear(&scope.sub("time"), embedding, outputs)?;
        let second = conv_norm_silu("conv2", "norm2", outputs)?;
        let shortcut = if inputs == outputs {
            None
        } else {
            Some(Layer::conv2d_with_bias(&scope.sub("shortcut"), [outputs, inputs, 1, 1], same_size(1, 1))?)
        };
        let (add_channel, add) = (Layer::new(scope, Operation::AddChannel)?, Layer::new(scope, Operation::Add)?);
        Ok(Residual { name: scope.name().to_owned(), first, time, add_channel, second, shortcut, add })
    }

    fn forward<'p>(&'p self, x: Value<'p, B>, embedding: Value<'p, B>) -> Result<Value<'p, B>> {
        let y = self.first.forward(x.clone())?;
        let y = self.add_channel.join(y, self.time.forward(embedding)?)?;
        let y = self.second.forward(y)?;
        let x = match &self.shortcut {
            Some(shortcut) => shortcut.forward(x)?,
            None => x,
        };
        let y = self.add.join(y, x)?;
        y.observe(&self.name);
        Ok(y)
    }
}

/// y + proj(attention(qkv(LayerNorm(y)))), then y + fc2(GELU(fc1(LayerNorm(y)))), with the pixels of the image as tokens.
#[derive(Debug)]
struct AttentionBlock<B: Backend> {
    name: String,
    transpose: Layer<B>,
    norm1: Layer<B>,
    qkv: Layer<B>,
    attention: Layer<B>,
    proj: Layer<B>,
    norm2: Layer<B>,
    fc1: Layer<B>,
    gelu: Layer<B>,
    fc2: Layer<B>,
    add: Layer<B>,
}

impl<B: Backend> AttentionBlock<B> {
    fn new(scope: &Scope<'_, B>, channels: usize, heads: usize) -> Result<Self> {
        let linear = |name, inputs, outputs| Layer::linear(&scope.sub(name), inputs, outputs);
        Ok(AttentionBlock {
            name: scope.name().to_owned(),
            transpose: Layer::new(scope, Operation::Transpose)?,
            norm1: Layer::layer_norm(&scope.sub("norm1"), channels)?,
            qkv: linear("qkv", channels, 3 * channels)?,
            attention: Layer::new(scope, Operation::Attention { heads })?,
            proj: linear("proj", channels, channels)?,
            norm2: Layer::layer_norm(&scope.sub("norm2"), channels)?,
            fc1: linear("fc1", channels, 4 * channels)?,
            gelu: Layer::new(scope, Operation::Gelu)?,
            fc2: linear("fc2", 4 * channels, channels)?,
            add: Layer::new(scope, Operation::Add)?,
        })
    }
}

impl<B: Backend> Module<B> for AttentionBlock<B> {
    fn forward<'p>(&'p self, x: Value<'p, B>) -> Result<Value<'p, B>> {
        let image @ [count, channels, height, width] = x.dims4()?;
        let (tokens, rows) = (height * width, [count * height * width, channels]);
        let y = self.transpose.forward(x)?.reshape(&rows)?;

        let qkv = self.qkv.forward(self.norm1.forward(y.clone())?)?;
        let attended = self.attention.forward(qkv.reshape(&[count, tokens, 3 * channels])?)?.reshape(&rows)?;
        let y = self.add.join(y, self.proj.forward(attended)?)?;

        let wide = self.gelu.forward(self.fc1.forward(self.norm2.forward(y.clone())?)?)?;
        let y = self.add.join(y, self.fc2.forward(wide)?)?;

        let y = self.transpose.forward(y.reshape(&[count, tokens, channels])?)?.reshape(&image)?;
        y.observe(&self.name);
        Ok(y)
    }
}

/// A residual block and the attention that follows it.
#[derive(Debug)]
struct Pair<B: Backend> {
    residual: Residual<B>,
    attention: AttentionBlock<B>,
}

impl<B: Backend> Pair<B> {
    fn new(scope: &Scope<'_, B>, config: &Config, inputs: usize, outputs: usize) -> Result<Self> {
        let residual = Residual::new(&scope.sub("residual"), inputs, outputs, config.embedding())?;
        Ok(Pair { residual, attention: AttentionBlock::new(&scope.sub("attention"), outputs, config.heads)? })
    }

    fn forward<'p>(&'p self, x: Value<'p, B>, embedding: Value<'p, B>) -> Result<Value<'p, B>> {
        self.attention.forward(self.residual.forward(x, embedding)?)
    }
}

/// The layers of one resolution, and the way to the next: a convolution of stride 2 on the way down, nearest ×2 and a convolution on the
/// way up.
#[derive(Debug)]
struct Level<B: Backend> {
    pairs: Vec<Pair<B>>,
    /// Name and layers of the resampling.
    resample: Option<(String, Vec<Layer<B>>)>,
}

impl<B: Backend> Level<B> {
    fn resample<'p>(&'p self, x: Value<'p, B>) -> Result<Value<'p, B>> {
        let Some((name, layers)) = &self.resample else { return Ok(x) };
        let x = in_turn(layers, x)?;
        x.observe(name);
        Ok(x)
    }
}

/// The network: from latents and the previous frame \[N, 8, H, W\] and their timesteps \[N\] to the predicted noise \[N, 4, H,
/// W\]. The output of the first convolution and of each block can be observed.
#[derive(Debug)]
pub struct UNet<B: Backend> {
    /// Timestep embedding, Linear, SiLU, Linear.
    time: [Layer<B>; 4],
    input: Layer<B>,
    down: Vec<Level<B>>,
    middle: (Residual<B>, [AttentionBlock<B>; 3], Residual<B>),
    concatenate: Layer<B>,
    up: Vec<Level<B>>,
    /// BatchNorm, SiLU, conv 3×3.
    output: [Layer<B>; 3],
}

impl<B: Backend> UNet<B> {
    /// Loads the network.
    ///
    /// # Errors
    /// Same as [`Parameters::get`] and [`Backend::load`]; [`Error::Shape`] if the channels are odd.
    pub fn load(backend: &B, config: Config, parameters: &Parameters) -> Result<Self> {
        UNet::new(&Scope::new(backend, parameters), config)
    }

    /// The network of a scope.
    ///
    /// # Errors
    /// Same as [`Scope::weight`] and [`Backend::load`].
    pub fn new(scope: &Scope<'_, B>, config: Config) -> Result<Self> {
        let (channels, embedding) = (config.channels, config.embedding());
        let conv = |scope: &Scope<'_, B>, inputs, outputs, stride| {
            Layer::conv2d_with_bias(scope, [outputs, inputs, 3, 3], same_size(3, stride))
        };
        let time = [
            Layer::new(&scope.sub("time"), Operation::TimestepEmbedding { channels })?,
            Layer::linear(&scope.sub("time").sub(0), channels, embedding)?,
            Layer::new(&scope.sub("time"), Operation::Silu)?,
            Layer::linear(&scope.sub("time").sub(2), embedding, embedding)?,
        ];
        let input = conv(&scope.sub("input"), INPUTS, channels, 1)?;

        let widths = [1, 2, 4, 4].map(|factor| factor * channels);
        let mut now = channels;
        // Channels of the outputs that are kept.
        let mut kept = vec![now];
        let mut down = Vec::new();
        for (i, width) in widths.into_iter().enumerate() {
            let scope = scope.sub("down").sub(i);
            let mut pairs = Vec::new();
            for j in 0..2 {
                pairs.push(Pair::new(&scope.sub(j), &config, now, width)?);
                now = width;
                kept.push(now);
            }
            let resample = if i + 1 < widths.len() {
                let scope = scope.sub("downsample");
                kept.push(now);
                Some((scope.name().to_owned(), vec![conv(&scope, now, now, 2)?]))
            } else {
                None
            };
            down.push(Level { pairs, resample });
        }

        let block = |j: usize| scope.sub("middle").sub(j);
        let residual = |j| Residual::new(&block(j), now, now, embedding);
        let attention = |j| AttentionBlock::new(&block(j), now, config.heads);
        let middle = (residual(0)?, [attention(1)?, attention(2)?, attention(3)?], residual(4)?);

        let concatenate = Layer::new(&scope.sub("up"), Operation::Concatenate)?;
        let mut kept = kept.into_iter().rev();
        let mut up = Vec::new();
        for (k, width) in widths.into_iter().rev().enumerate() {
            let scope = scope.sub("up").sub(k);
            let mut pairs = Vec::new();
            for (j, skip) in (0..3).zip(&mut kept) {
                pairs.push(Pair::new(&scope.sub(j), &config, now + skip, width)?);
                now = width;
            }
            let resample = if k + 1 < widths.len() {
                let scope = scope.sub("upsample");
                let larger = Layer::new(&scope, Operation::Upsample { factor: 2 })?;
                Some((scope.name().to_owned(), vec![larger, conv(&scope, now, now, 1)?]))
            } else {
                None
            };
            up.push(Level { pairs, resample });
        }

        let output = [
            Layer::batch_norm(&scope.sub("output_norm"), channels)?,
            Layer::new(&scope.sub("output"), Operation::Silu)?,
            conv(&scope.sub("output"), channels, LATENTS, 1)?,
        ];
        Ok(UNet { time, input, down, middle, concatenate, up, output })
    }

    /// The network at these steps \[N\], one for each image, as a module. They are where the backend's inputs are.
    pub fn at(&self, steps: Tensor) -> AtSteps<'_, B> {
        AtSteps { network: self, steps }
    }

    /// Runs the network on `x` \[N, 8, H, W\] at `steps` \[N\].
    ///
    /// # Errors
    /// [`Error::Shape`] if a shape does not fit; errors of the backend.
    pub fn forward<'p>(&'p self, x: Value<'p, B>, steps: Value<'p, B>) -> Result<Value<'p, B>> {
        expect_inputs(&x, &steps)?;
        let embedding = in_turn(&self.time, steps)?;
        let mut x = self.input.forward(x)?;
        x.observe("input");

        let mut kept = vec![x.clone()];
        for level in &self.down {
            for pair in &level.pairs {
                x = pair.forward(x, embedding.clone())?;
                kept.push(x.clone());
            }
            if level.resample.is_some() {
                x = level.resample(x)?;
                kept.push(x.clone());
            }
        }

        let (first, attentions, last) = &self.middle;
        x = first.forward(x, embedding.clone())?;
        for attention in attentions {
            x = attention.forward(x)?;
        }
        x = last.forward(x, embedding.clone())?;

        for level in &self.up {
            for pair in &level.pairs {
                x = self.concatenate.join(x, second(kept.pop())?)?;
                x = pair.forward(x, embedding.clone())?;
            }
            x = level.resample(x)?;
        }
        in_turn(&self.output, x)
    }
}

/// A [`UNet`] with the steps of its images.
#[derive(Debug)]
pub struct AtSteps<'a, B: Backend> {
    network: &'a UNet<B>,
    steps: Tensor,
}

impl<B: Backend> Module<B> for AtSteps<'_, B> {
    fn forward<'p>(&'p self, x: Value<'p, B>) -> Result<Value<'p, B>> {
        let steps = x.beside(&self.steps);
        self.network.forward(x, steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::graph::Source;

    #[test]
    fn each_configuration_has_its_number_of_parameters() {
        let numbers = [2_217_748, 55_008_084, 878_822_724];
        for ((name, config), number) in Config::ALL.into_iter().zip(numbers) {
            let shapes = config.shapes();
            let trained = shapes.iter().filter(|(name, _)| !name.contains("running"));
            assert_eq!(trained.map(|(_, shape)| shape.iter().product::<usize>()).sum::<usize>(), number, "{name}");
        }
        let shapes = Config::TINY.shapes();
        for (name, shape) in [
            ("time.0.weight", vec![64, 16]),
            ("down.1.0.residual.shortcut.weight", vec![32, 16, 1, 1]),
            ("middle.4.norm2.running_var", vec![64]),
            ("up.0.0.residual.conv1.weight", vec![64, 128, 3, 3]),
            ("up.3.2.residual.shortcut.weight", vec![16, 32, 1, 1]),
            ("output.bias", vec![4]),
        ] {
            assert!(shapes.contains(&(name.to_owned(), shape)), "{name}");
        }
        assert!(!shapes.iter().any(|(name, _)| name.starts_with("up.3.upsample") || name.starts_with("down.3.down")));
    }

    #[test]
    fn everything_that_is_kept_is_joined_the_last_first() {
        let graph = Config::TINY.graph(&Config::TINY.seeded(1), &[1, INPUTS, 8, 8]).unwrap();
        let nodes = &graph.nodes;
        let kind = |kind: &'static str| (0..nodes.len()).filter(move |&i| nodes[i].operations[0].kind() == kind);
        let is_stride_2 = |i: &usize| match &nodes[*i].operations[0] {
            Operation::Conv2d { params, .. } => params.stride == [2, 2],
            _ => false,
        };
        // The first convolution, then each attention's way back to an image and each convolution of stride 2, on the way down.
        let images = kind("Transpose").skip(1).step_by(2).take(2 * 4);
        let mut kept: Vec<usize> =
            kind("Conv2D").take(1).chain(images).chain(kind("Conv2D").filter(is_stride_2)).collect();
        kept.sort_unstable();
        assert_eq!(kept.len(), 12);
        let joined: Vec<&Node> = kind("Concat").map(|i| &nodes[i]).collect();
        let skips: Vec<Source> = joined.iter().map(|node| node.with.as_ref().unwrap().source).collect();
        assert_eq!(skips, kept.iter().rev().map(|&node| Source::Node(node)).collect::<Vec<_>>());
        // Each is joined to what was made just before.
        for (i, node) in kind("Concat").zip(joined) {
            assert_eq!(node.x.source, Source::Node(i - 1));
        }
    }

    #[test]
    fn deep_parts_leave_one_value_at_the_size_of_the_level_above() {
        let graph = Config::TINY.graph(&Config::TINY.seeded(1), &[1, INPUTS, 16, 16]).unwrap();
        let mut inner = 0..graph.nodes.len();
        for (level, channels, side) in [(1, 32, 16), (2, 64, 8), (3, 64, 4)] {
            let deep = deep_nodes(&graph, level).unwrap();
            assert!(inner.start < deep.start && deep.end < inner.end, "{level}");
            let part = graph.part(deep.clone()).unwrap();
            let shapes: Vec<&[usize]> = part.outputs.iter().map(|output| &output.shape[..]).collect();
            assert_eq!(shapes, [&[1, channels, side, side]]);
            // What comes in: the image, and the embedding for each block's linear layer.
            assert_eq!(part.inputs.len(), 2);
            inner = deep;
        }
        assert!(deep_nodes(&graph, 0).is_err() && deep_nodes(&graph, 4).is_err());
    }

    #[test]
    fn the_first_residual_block_takes_an_image_and_the_embedding() {
        let graph = Config::TINY.graph(&Config::TINY.seeded(1), &[1, INPUTS, 8, 8]).unwrap();
        let nodes = first_residual(&graph).unwrap();
        let part = graph.part(nodes.clone()).unwrap();
        let shapes: Vec<&[usize]> = part.inputs.iter().map(|input| &input.shape[..]).collect();
        assert_eq!(shapes, [&[1, 16, 8, 8][..], &[1, 64]]);
        assert_eq!(part.outputs.len(), 1);
        let input = graph.nodes[nodes.start].x.source;
        assert!(matches!(input, Source::Node(node) if graph.nodes[node].operations[0].kind() == "Conv2D"));
    }
}
