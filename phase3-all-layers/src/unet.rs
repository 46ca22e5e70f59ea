//! The U-Net of video diffusion: from noisy latents, the frame before and a timestep to the noise that is in the latents.
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

use std::collections::BTreeMap;
use std::rc::Rc;

use common::cpu;
use common::prelude::*;
use common::reference::{self, AttentionSize, BatchNorm, Conv2dParams};
use phase2_conv_bn::conv::{self, Prepared};
use phase2_conv_bn::gemm;
use phase2_conv_bn::norm::batch_norm::{self, Normaliser};

use crate::layers::{
    Add, AddChannel, Attention, Concatenate, Gelu, LayerNorm, Linear, Silu, TimestepEmbedding, Transpose, Upsample,
    kinds,
};
use crate::module::Module;
use crate::parameters::Parameters;
use crate::workspace::{Activation, Pass};

/// Added to the variances of BatchNorm and LayerNorm.
const EPS: f32 = 1e-5;
/// Channels of the input: latents and the frame before.
pub const INPUTS: usize = 2 * LATENTS;
/// Channels of a frame's latents, and of the noise in them.
pub const LATENTS: usize = 4;
/// The sides of latents are multiples of this: they are halved three times, and doubled as often.
pub const MULTIPLE: usize = 8;

/// What decides everything else.
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

    /// Values of the embedding of a timestep, as residual blocks take it.
    fn embedding(&self) -> usize {
        4 * self.channels
    }

    /// All blocks between the first convolution and the last BatchNorm, in order.
    fn blocks(&self) -> Vec<Block<Shape>> {
        let widths = [1, 2, 4, 4].map(|factor| factor * self.channels);
        let mut now = self.channels;
        let mut kept = vec![now];
        let mut blocks = Vec::new();
        for (i, &width) in widths.iter().enumerate() {
            for j in 0..2 {
                blocks.push(Block::new(format!("down.{i}.{j}.residual"), Kind::Residual, now, width));
                blocks.push(Block::new(format!("down.{i}.{j}.attention"), Kind::Attention, width, width).kept());
                now = width;
                kept.push(now);
            }
            if i + 1 < widths.len() {
                blocks.push(Block::new(format!("down.{i}.downsample"), Kind::Downsampling, now, now).kept());
                kept.push(now);
            }
        }
        for j in 0..5 {
            let kind = if (1..4).contains(&j) { Kind::Attention } else { Kind::Residual };
            blocks.push(Block::new(format!("middle.{j}"), kind, now, now));
        }
        let mut kept = kept.into_iter().rev();
        for (k, &width) in widths.iter().rev().enumerate() {
            for (j, skip) in (0..3).zip(&mut kept) {
                blocks.push(Block::new(format!("up.{k}.{j}.residual"), Kind::Residual, now + skip, width).joined());
                blocks.push(Block::new(format!("up.{k}.{j}.attention"), Kind::Attention, width, width));
                now = width;
            }
            if k + 1 < widths.len() {
                blocks.push(Block::new(format!("up.{k}.upsample"), Kind::Upsampling, now, now));
            }
        }
        blocks
    }

    /// Name and shape of every tensor, in the order in which a pass meets them.
    pub fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        let (c, embedding) = (self.channels, self.embedding());
        let mut shapes = Shapes(Vec::new());
        shapes.affine("time.0", &[embedding, c]);
        shapes.affine("time.2", &[embedding, embedding]);
        shapes.affine("input", &[c, INPUTS, 3, 3]);
        for Block { name, part: Shape { kind, inputs, outputs }, .. } in self.blocks() {
            let part = |part: &str| format!("{name}.{part}");
            match kind {
                Kind::Downsampling | Kind::Upsampling => shapes.affine(&name, &[outputs, inputs, 3, 3]),
                Kind::Residual => {
                    shapes.push(part("conv1.weight"), &[outputs, inputs, 3, 3]);
                    shapes.batch_norm(&part("norm1"), outputs);
                    shapes.affine(&part("time"), &[outputs, embedding]);
                    shapes.push(part("conv2.weight"), &[outputs, outputs, 3, 3]);
                    shapes.batch_norm(&part("norm2"), outputs);
                    if inputs != outputs {
                        shapes.affine(&part("shortcut"), &[outputs, inputs, 1, 1]);
                    }
                }
                Kind::Attention => {
                    shapes.layer_norm(&part("norm1"), outputs);
                    shapes.affine(&part("qkv"), &[3 * outputs, outputs]);
                    shapes.affine(&part("proj"), &[outputs, outputs]);
                    shapes.layer_norm(&part("norm2"), outputs);
                    shapes.affine(&part("fc1"), &[4 * outputs, outputs]);
                    shapes.affine(&part("fc2"), &[outputs, 4 * outputs]);
                }
            }
        }
        shapes.batch_norm("output_norm", c);
        shapes.affine("output", &[LATENTS, c, 3, 3]);
        shapes.0
    }

    /// Untrained parameters that a seed decides, as [`Parameters::seeded`] makes them: with a gain of 3 weights keep the
    /// variance of what they multiply.
    pub fn seeded(&self, seed: u64) -> Parameters {
        Parameters::seeded(self.shapes(), seed, 3.0)
    }

    /// Fails unless `x` is \[N, 8, H, W\] with sides that can be halved three times, and `steps` \[N\].
    fn expect_inputs(&self, x: &Tensor, steps: &Tensor) -> Result<()> {
        let [count, channels, height, width] = x.dims4()?;
        if channels != INPUTS || [height, width].iter().any(|side| *side == 0 || !side.is_multiple_of(MULTIPLE)) {
            let expected = format!("[N, {INPUTS}, H, W] with H and W multiples of {MULTIPLE}");
            let detail = ShapeError::mismatch(expected, x.shape());
            return Err(Error::shape("the U-Net's input", detail));
        }
        steps.expect_shape("the U-Net's steps", &[count])
    }
}

/// Names and shapes that a model is described by.
struct Shapes(Vec<(String, Vec<usize>)>);

impl Shapes {
    fn push(&mut self, name: String, shape: &[usize]) {
        self.0.push((name, shape.to_vec()));
    }

    /// A weight, and a bias of its first dimension.
    fn affine(&mut self, name: &str, weight: &[usize]) {
        self.push(format!("{name}.weight"), weight);
        self.push(format!("{name}.bias"), &weight[..1]);
    }

    fn layer_norm(&mut self, name: &str, channels: usize) {
        self.affine(name, &[channels]);
    }

    fn batch_norm(&mut self, name: &str, channels: usize) {
        self.affine(name, &[channels]);
        self.push(format!("{name}.running_mean"), &[channels]);
        self.push(format!("{name}.running_var"), &[channels]);
    }
}

/// What a block does.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A convolution of stride 2.
    Downsampling,
    /// Nearest ×2 and a convolution.
    Upsampling,
    Residual,
    Attention,
}

/// A block before it has parameters; the channels are its input's and its output's.
#[derive(Clone, Copy, Debug)]
struct Shape {
    kind: Kind,
    inputs: usize,
    outputs: usize,
}

/// A block and its place in the network.
#[derive(Debug)]
struct Block<P> {
    name: String,
    part: P,
    /// Its input is joined with what was kept last and is still there.
    joins: bool,
    /// Its output is kept.
    keeps: bool,
}

impl Block<Shape> {
    fn new(name: String, kind: Kind, inputs: usize, outputs: usize) -> Block<Shape> {
        Block { name, part: Shape { kind, inputs, outputs }, joins: false, keeps: false }
    }

    fn kept(self) -> Block<Shape> {
        Block { keeps: true, ..self }
    }

    fn joined(self) -> Block<Shape> {
        Block { joins: true, ..self }
    }
}

/// The way through all blocks, for activations of any type. What is kept lives until it is joined, and everything else until
/// the block that takes it drops it.
fn walk<P, T>(
    blocks: &[Block<P>],
    opened: T,
    join: impl Fn(Rc<T>, Rc<T>) -> Result<T>,
    mut apply: impl FnMut(&Block<P>, Rc<T>) -> Result<T>,
) -> Result<Rc<T>> {
    let mut x = Rc::new(opened);
    let mut kept = vec![x.clone()];
    for block in blocks {
        if let Some(skip) = block.joins.then(|| kept.pop()).flatten() {
            x = Rc::new(join(x, skip)?);
        }
        x = Rc::new(apply(block, x)?);
        if block.keeps {
            kept.push(x.clone());
        }
    }
    Ok(x)
}

/// A model's parameters by name, each of the shape that the model needs.
struct Known<'a> {
    parameters: &'a Parameters,
    shapes: BTreeMap<String, Vec<usize>>,
}

impl<'a> Known<'a> {
    /// # Errors
    /// As [`Parameters::get`], for any of them.
    fn new(config: &Config, parameters: &'a Parameters) -> Result<Known<'a>> {
        let shapes = config.shapes();
        for (name, shape) in &shapes {
            parameters.get(name, shape)?;
        }
        Ok(Known { parameters, shapes: shapes.into_iter().collect() })
    }

    /// `None` if the model has no tensor of this name.
    fn find(&self, name: &str) -> Result<Option<&'a Tensor>> {
        self.shapes.get(name).map(|shape| self.parameters.get(name, shape)).transpose()
    }

    fn get(&self, name: &str) -> Result<&'a Tensor> {
        self.find(name)?.ok_or_else(|| Error::Invalid(format!("the U-Net has no `{name}`")))
    }

    /// Weight and bias.
    fn affine(&self, name: &str) -> Result<[&'a Tensor; 2]> {
        Ok([self.get(&format!("{name}.weight"))?, self.get(&format!("{name}.bias"))?])
    }

    /// Weight, and bias where there is one.
    fn convolution(&self, name: &str) -> Result<(&'a Tensor, Option<&'a Tensor>)> {
        Ok((self.get(&format!("{name}.weight"))?, self.find(&format!("{name}.bias"))?))
    }

    fn batch_norm(&self, name: &str) -> Result<BatchNorm<'a>> {
        let [weight, bias] = self.affine(name)?;
        let part = |part: &str| self.get(&format!("{name}.{part}"));
        Ok(BatchNorm { weight, bias, mean: part("running_mean")?, variance: part("running_var")?, eps: EPS })
    }

    fn layer_norm(&self, name: &str) -> Result<reference::LayerNorm<'a>> {
        let [weight, bias] = self.affine(name)?;
        Ok(reference::LayerNorm { weight, bias, eps: EPS })
    }
}

/// The predicted noise \[N, 4, H, W\] of latents and the frame before `x` \[N, 8, H, W\] at `steps` \[N\], on the CPU.
/// `observe` sees the output of the first convolution and of each block, and its name.
///
/// # Errors
/// As [`Parameters::get`]; [`Error::Shape`] if a shape does not fit; [`Error::Invalid`] if a tensor is on a device.
pub fn forward_on_cpu(
    config: &Config,
    parameters: &Parameters,
    x: &Tensor,
    steps: &Tensor,
    mut observe: impl FnMut(&str, &Tensor),
) -> Result<Tensor> {
    config.expect_inputs(x, steps)?;
    let model = OnCpu { known: Known::new(config, parameters)?, heads: config.heads };
    let mut embedding = model.linear("time.0", &cpu::timestep_embedding(steps, config.channels)?)?;
    cpu::silu_in_place(&mut embedding)?;
    let embedding = model.linear("time.2", &embedding)?;
    let opened = model.convolve("input", x, 1)?;
    observe("input", &opened);
    let join = |x: Rc<Tensor>, skip: Rc<Tensor>| cpu::concatenate(&x, &skip);
    let y = walk(&config.blocks(), opened, join, |Block { name, part, .. }, x| {
        let y = match part.kind {
            Kind::Downsampling => model.convolve(name, &x, 2),
            Kind::Upsampling => model.convolve(name, &cpu::upsample_nearest(&x, 2)?, 1),
            Kind::Residual => model.residual(name, &x, &embedding),
            Kind::Attention => model.attention(name, &x),
        }?;
        observe(name, &y);
        Ok(y)
    })?;
    let y = model.norm_silu("output_norm", y.to_host()?)?;
    model.convolve("output", &y, 1)
}

/// The blocks on the CPU, by their names among the parameters.
struct OnCpu<'a> {
    known: Known<'a>,
    heads: usize,
}

impl OnCpu<'_> {
    fn linear(&self, name: &str, x: &Tensor) -> Result<Tensor> {
        let [weight, bias] = self.known.affine(name)?;
        cpu::linear(x, weight, bias)
    }

    fn convolve(&self, name: &str, x: &Tensor, stride: usize) -> Result<Tensor> {
        let (weight, bias) = self.known.convolution(name)?;
        cpu::conv2d(x, weight, bias, same_size(weight, stride)?)
    }

    fn norm_silu(&self, name: &str, mut x: Tensor) -> Result<Tensor> {
        cpu::batch_norm_in_place(&mut x, &self.known.batch_norm(name)?)?;
        cpu::silu_in_place(&mut x)?;
        Ok(x)
    }

    fn residual(&self, name: &str, x: &Tensor, embedding: &Tensor) -> Result<Tensor> {
        let part = |part: &str| format!("{name}.{part}");
        let mut y = self.norm_silu(&part("norm1"), self.convolve(&part("conv1"), x, 1)?)?;
        cpu::add_channel_in_place(&mut y, &self.linear(&part("time"), embedding)?)?;
        let mut y = self.norm_silu(&part("norm2"), self.convolve(&part("conv2"), &y, 1)?)?;
        match self.known.find(&part("shortcut.weight"))? {
            Some(_) => cpu::add_in_place(&mut y, &self.convolve(&part("shortcut"), x, 1)?)?,
            None => cpu::add_in_place(&mut y, x)?,
        }
        Ok(y)
    }

    fn attention(&self, name: &str, x: &Tensor) -> Result<Tensor> {
        let part = |part: &str| format!("{name}.{part}");
        let [count, channels, height, width] = x.dims4()?;
        let (tokens, rows) = (height * width, [count * height * width, channels]);
        let mut y = cpu::transpose(&x.to_host()?.reshape(&[count, channels, tokens])?)?.reshape(&rows)?;
        let normed = cpu::layer_norm(&y, &self.known.layer_norm(&part("norm1"))?)?;
        let qkv = self.linear(&part("qkv"), &normed)?.reshape(&[count, tokens, 3 * channels])?;
        let attended = cpu::attention(&qkv, self.heads)?.reshape(&rows)?;
        cpu::add_in_place(&mut y, &self.linear(&part("proj"), &attended)?)?;
        let normed = cpu::layer_norm(&y, &self.known.layer_norm(&part("norm2"))?)?;
        let mut wide = self.linear(&part("fc1"), &normed)?;
        cpu::gelu_in_place(&mut wide)?;
        cpu::add_in_place(&mut y, &self.linear(&part("fc2"), &wide)?)?;
        cpu::transpose(&y.reshape(&[count, tokens, channels])?)?.reshape(x.shape())
    }
}

/// The geometry that gives an image of the input's size, or a `stride`-th of it, for the window of `weight`.
fn same_size(weight: &Tensor, stride: usize) -> Result<Conv2dParams> {
    let [.., window, _] = weight.dims4()?;
    Ok(Conv2dParams::new(stride, window / 2))
}

/// A convolution on a device.
#[derive(Debug)]
struct Convolution {
    weight: Tensor,
    bias: Option<Tensor>,
    /// Winograd's transform of the weight, where the chooser has a use for it.
    prepared: Option<Prepared>,
    params: Conv2dParams,
}

#[derive(Debug)]
struct ResidualBlock {
    conv1: Convolution,
    norm1: batch_norm::Layer,
    time: Linear,
    conv2: Convolution,
    norm2: batch_norm::Layer,
    shortcut: Option<Convolution>,
}

impl ResidualBlock {
    fn convolutions(&self) -> impl Iterator<Item = &Convolution> {
        [Some(&self.conv1), Some(&self.conv2), self.shortcut.as_ref()].into_iter().flatten()
    }
}

/// Weight and bias of a LayerNorm.
type Affine = [Tensor; 2];

#[derive(Debug)]
struct AttentionBlock {
    norm1: Affine,
    qkv: Linear,
    proj: Linear,
    norm2: Affine,
    fc1: Linear,
    fc2: Linear,
}

/// A block on a device.
#[derive(Debug)]
enum Part {
    Downsampling(Convolution),
    Upsampling(Convolution),
    Residual(Box<ResidualBlock>),
    Attention(Box<AttentionBlock>),
}

/// Copies blocks to a device.
struct Loader<'a> {
    known: Known<'a>,
    stream: Stream,
    conv: &'a conv::Tuned,
    gemm: &'a gemm::Tuned,
    normaliser: Normaliser,
}

impl Loader<'_> {
    fn convolution(&self, name: &str, stride: usize) -> Result<Convolution> {
        let (weight, bias) = self.known.convolution(name)?;
        let (device, params) = (self.stream.device(), same_size(weight, stride)?);
        let (weight, bias) = (weight.to_device(device)?, bias.map(|bias| bias.to_device(device)).transpose()?);
        let prepared = self.conv.prepare(&self.stream, &weight, params)?;
        Ok(Convolution { weight, bias, prepared, params })
    }

    fn linear(&self, name: &str) -> Result<Linear> {
        let [weight, bias] = self.known.affine(name)?;
        Linear::load(self.stream.device(), self.gemm, weight, bias)
    }

    fn batch_norm(&self, name: &str) -> Result<batch_norm::Layer> {
        let BatchNorm { weight, bias, mean, variance, eps } = self.known.batch_norm(name)?;
        let [weight, bias, mean, variance] = [weight, bias, mean, variance].map(|x| x.to_device(self.stream.device()));
        let (weight, bias, mean, variance) = (weight?, bias?, mean?, variance?);
        let norm = BatchNorm { weight: &weight, bias: &bias, mean: &mean, variance: &variance, eps };
        self.normaliser.layer(&self.stream, &norm)
    }

    fn layer_norm(&self, name: &str) -> Result<Affine> {
        let [weight, bias] = self.known.affine(name)?.map(|part| part.to_device(self.stream.device()));
        Ok([weight?, bias?])
    }

    fn part(&self, name: &str, kind: Kind) -> Result<Part> {
        let part = |part: &str| format!("{name}.{part}");
        Ok(match kind {
            Kind::Downsampling => Part::Downsampling(self.convolution(name, 2)?),
            Kind::Upsampling => Part::Upsampling(self.convolution(name, 1)?),
            Kind::Residual => {
                let shortcut = self.known.find(&part("shortcut.weight"))?;
                Part::Residual(Box::new(ResidualBlock {
                    conv1: self.convolution(&part("conv1"), 1)?,
                    norm1: self.batch_norm(&part("norm1"))?,
                    time: self.linear(&part("time"))?,
                    conv2: self.convolution(&part("conv2"), 1)?,
                    norm2: self.batch_norm(&part("norm2"))?,
                    shortcut: shortcut.map(|_| self.convolution(&part("shortcut"), 1)).transpose()?,
                }))
            }
            Kind::Attention => Part::Attention(Box::new(AttentionBlock {
                norm1: self.layer_norm(&part("norm1"))?,
                qkv: self.linear(&part("qkv"))?,
                proj: self.linear(&part("proj"))?,
                norm2: self.layer_norm(&part("norm2"))?,
                fc1: self.linear(&part("fc1"))?,
                fc2: self.linear(&part("fc2"))?,
            })),
        })
    }
}

/// The network on a device, each layer a kernel of its own: nothing is fused yet. All layers share the kernels and their
/// workspaces.
#[derive(Debug)]
pub struct UNet {
    config: Config,
    conv: conv::Tuned,
    gemm: gemm::Tuned,
    silu: Silu,
    gelu: Gelu,
    add: Add,
    add_channel: AddChannel,
    layer_norm: LayerNorm,
    attention: Attention,
    transpose: Transpose,
    upsample: Upsample,
    concatenate: Concatenate,
    embedding: TimestepEmbedding,
    time: [Linear; 2],
    input: Convolution,
    blocks: Vec<Block<Part>>,
    output_norm: batch_norm::Layer,
    output: Convolution,
}

impl UNet {
    /// Loads the kernels and copies the parameters to the device.
    ///
    /// # Errors
    /// As [`Parameters::get`], [`Device::kernel`] and [`Tensor::to_device`]; [`Error::Shape`] if the channels are odd.
    pub fn load(device: &Device, config: Config, parameters: &Parameters) -> Result<UNet> {
        let (conv, gemm) = (conv::Tuned::load(device)?, gemm::Tuned::load(device)?);
        let loader = Loader {
            known: Known::new(&config, parameters)?,
            stream: device.stream(),
            conv: &conv,
            gemm: &gemm,
            normaliser: batch_norm::VECTORISED.load(device)?,
        };
        let load = |Block { name, part, joins, keeps }: Block<Shape>| {
            Ok::<_, Error>(Block { part: loader.part(&name, part.kind)?, name, joins, keeps })
        };
        Ok(UNet {
            config,
            silu: Silu::load(device)?,
            gelu: Gelu::load(device)?,
            add: Add::load(device)?,
            add_channel: AddChannel::load(device)?,
            layer_norm: LayerNorm::load(device)?,
            attention: Attention::load(device)?,
            transpose: Transpose::load(device)?,
            upsample: Upsample::load(device, 2)?,
            concatenate: Concatenate::load(device)?,
            embedding: TimestepEmbedding::load(device, config.channels)?,
            time: [loader.linear("time.0")?, loader.linear("time.2")?],
            input: loader.convolution("input", 1)?,
            blocks: config.blocks().into_iter().map(load).collect::<Result<_>>()?,
            output_norm: loader.batch_norm("output_norm")?,
            output: loader.convolution("output", 1)?,
            conv,
            gemm,
        })
    }

    /// The network at these steps, one for each image, as a module.
    ///
    /// # Errors
    /// As [`Tensor::to_device`].
    pub fn at(&self, device: &Device, steps: &[f32]) -> Result<AtSteps<'_>> {
        Ok(AtSteps { network: self, steps: Tensor::from_vec(&[steps.len()], steps.to_vec())?.to_device(device)? })
    }

    /// Bytes of device memory beside parameters and activations: Winograd's transforms of the weights; and what kernels have
    /// asked for so far, for tables and for the parts of results that several blocks share.
    pub fn scratch_bytes(&self) -> [u64; 2] {
        let of_blocks = self.blocks.iter().flat_map(|block| match &block.part {
            Part::Downsampling(convolution) | Part::Upsampling(convolution) => vec![convolution],
            Part::Residual(block) => block.convolutions().collect(),
            Part::Attention(_) => Vec::new(),
        });
        let prepared = [&self.input, &self.output].into_iter().chain(of_blocks).filter_map(|c| c.prepared.as_ref());
        let prepared: usize = prepared.map(Prepared::num_bytes).sum();
        [prepared as u64, (self.conv.workspace_bytes() + self.gemm.workspace_bytes()) as u64]
    }

    /// Queues the network on `pass`: the predicted noise \[N, 4, H, W\] of latents and the frame before `x` \[N, 8, H, W\] at
    /// `steps` \[N\], both on its device.
    ///
    /// # Errors
    /// [`Error::Shape`] if a shape does not fit; what launches report.
    pub fn forward(&self, pass: &Pass<'_>, x: &Tensor, steps: &Tensor) -> Result<Activation> {
        self.config.expect_inputs(x, steps)?;
        let embedding = self.embed(pass, steps)?;
        let opened = self.convolve(pass, &self.input, x)?;
        let join = |x: Rc<Activation>, skip: Rc<Activation>| self.join(pass, &x, &skip);
        let x = walk(&self.blocks, opened, join, |block, x| match &block.part {
            Part::Downsampling(convolution) => self.convolve(pass, convolution, &x),
            Part::Upsampling(convolution) => self.upsample(pass, convolution, x),
            Part::Residual(block) => self.residual(pass, block, &x, &embedding),
            Part::Attention(block) => self.attend(pass, block, x),
        })?;
        let mut y = pass.activation(x.shape())?;
        pass.queue(kinds::NORM, |stream| self.output_norm.launch(stream, &x, &mut y))?;
        drop(x);
        pass.queue(kinds::SILU, |stream| self.silu.launch_in_place(stream, &mut y))?;
        self.convolve(pass, &self.output, &y)
    }

    fn embed(&self, pass: &Pass<'_>, steps: &Tensor) -> Result<Activation> {
        let mut x = pass.activation(&[steps.len(), self.config.channels])?;
        pass.queue(kinds::EMBEDDING, |stream| self.embedding.launch(stream, steps, &mut x))?;
        let [first, second] = &self.time;
        let mut between = self.linear(pass, first, &x)?;
        drop(x);
        pass.queue(kinds::SILU, |stream| self.silu.launch_in_place(stream, &mut between))?;
        self.linear(pass, second, &between)
    }

    /// `x` \[rows, in\] → \[rows, out\].
    fn linear(&self, pass: &Pass<'_>, layer: &Linear, x: &Tensor) -> Result<Activation> {
        let [rows, _] = x.dims("linear")?;
        let mut y = pass.activation(&[rows, layer.outputs()])?;
        pass.queue(kinds::LINEAR, |stream| layer.launch(stream, x, &mut y))?;
        Ok(y)
    }

    fn convolve(&self, pass: &Pass<'_>, layer: &Convolution, x: &Tensor) -> Result<Activation> {
        let Convolution { weight, bias, prepared, params } = layer;
        let mut y = pass.activation(&params.output_shape(x, weight)?)?;
        pass.queue(kinds::CONV, |stream| {
            self.conv.launch_prepared(stream, x, weight, prepared.as_ref(), bias.as_ref(), *params, &mut y)
        })?;
        Ok(y)
    }

    fn convolve_norm_silu(
        &self,
        pass: &Pass<'_>,
        convolution: &Convolution,
        norm: &batch_norm::Layer,
        x: &Tensor,
    ) -> Result<Activation> {
        let mut y = self.convolve(pass, convolution, x)?;
        pass.queue(kinds::NORM, |stream| norm.launch_in_place(stream, &mut y))?;
        pass.queue(kinds::SILU, |stream| self.silu.launch_in_place(stream, &mut y))?;
        Ok(y)
    }

    fn join(&self, pass: &Pass<'_>, a: &Tensor, b: &Tensor) -> Result<Activation> {
        let ([count, first, height, width], [_, second, ..]) = (a.dims4()?, b.dims4()?);
        let mut y = pass.activation(&[count, first + second, height, width])?;
        pass.queue(kinds::CONCATENATE, |stream| self.concatenate.launch(stream, a, b, &mut y))?;
        Ok(y)
    }

    fn upsample(&self, pass: &Pass<'_>, convolution: &Convolution, x: Rc<Activation>) -> Result<Activation> {
        let mut larger = pass.activation(&self.upsample.output_shape(&x)?)?;
        pass.queue(kinds::UPSAMPLE, |stream| self.upsample.launch(stream, &x, &mut larger))?;
        drop(x);
        self.convolve(pass, convolution, &larger)
    }

    fn add(&self, pass: &Pass<'_>, y: &mut Tensor, x: &Tensor) -> Result<()> {
        pass.queue(kinds::ADD, |stream| self.add.launch(stream, y, x))
    }

    fn residual(&self, pass: &Pass<'_>, block: &ResidualBlock, x: &Tensor, embedding: &Tensor) -> Result<Activation> {
        let mut between = self.convolve_norm_silu(pass, &block.conv1, &block.norm1, x)?;
        let time = self.linear(pass, &block.time, embedding)?;
        pass.queue(kinds::ADD, |stream| self.add_channel.launch(stream, &mut between, &time))?;
        drop(time);
        let mut y = self.convolve_norm_silu(pass, &block.conv2, &block.norm2, &between)?;
        drop(between);
        match &block.shortcut {
            Some(shortcut) => self.add(pass, &mut y, &*self.convolve(pass, shortcut, x)?)?,
            None => self.add(pass, &mut y, x)?,
        }
        Ok(y)
    }

    /// LayerNorm over rows \[rows, C\].
    fn normalise(&self, pass: &Pass<'_>, [weight, bias]: &Affine, x: &Tensor) -> Result<Activation> {
        let mut y = pass.activation(x.shape())?;
        let norm = reference::LayerNorm { weight, bias, eps: EPS };
        pass.queue(kinds::LAYER_NORM, |stream| self.layer_norm.launch(stream, x, &norm, &mut y))?;
        Ok(y)
    }

    fn attend(&self, pass: &Pass<'_>, block: &AttentionBlock, x: Rc<Activation>) -> Result<Activation> {
        let image @ [count, channels, height, width] = x.dims4()?;
        let tokens = [count, height * width, channels];
        let rows = [count * height * width, channels];
        let mut y = pass.activation(&tokens)?;
        pass.queue(kinds::TRANSPOSE, |stream| self.transpose.launch(stream, &x, &mut y))?;
        drop(x);
        let mut y = y.reshape(&rows)?;

        let qkv = self.linear(pass, &block.qkv, &*self.normalise(pass, &block.norm1, &y)?)?;
        let attended = self.attention(pass, qkv.reshape(&[count, height * width, 3 * channels])?)?.reshape(&rows)?;
        let projected = self.linear(pass, &block.proj, &attended)?;
        drop(attended);
        self.add(pass, &mut y, &projected)?;
        drop(projected);

        let mut wide = self.linear(pass, &block.fc1, &*self.normalise(pass, &block.norm2, &y)?)?;
        pass.queue(kinds::GELU, |stream| self.gelu.launch_in_place(stream, &mut wide))?;
        let narrow = self.linear(pass, &block.fc2, &wide)?;
        drop(wide);
        self.add(pass, &mut y, &narrow)?;
        drop(narrow);

        let y = y.reshape(&tokens)?;
        let mut back = pass.activation(&image)?;
        pass.queue(kinds::TRANSPOSE, |stream| self.transpose.launch(stream, &y, &mut back))?;
        Ok(back)
    }

    /// `qkv` \[N, T, 3·C\] → \[N, T, C\].
    fn attention(&self, pass: &Pass<'_>, qkv: Activation) -> Result<Activation> {
        let heads = self.config.heads;
        let size = AttentionSize::of(&qkv, heads)?;
        let mut scores = pass.activation(&size.scores_shape())?;
        let mut y = pass.activation(&[size.batch, size.tokens, size.channels])?;
        pass.queue(kinds::ATTENTION, |stream| self.attention.launch(stream, &qkv, heads, &mut scores, &mut y))?;
        Ok(y)
    }
}

/// A [`UNet`] with the steps of its images, which are on its device.
#[derive(Debug)]
pub struct AtSteps<'a> {
    network: &'a UNet,
    steps: Tensor,
}

impl Module for AtSteps<'_> {
    /// The predicted noise \[N, 4, H, W\] of latents and the frame before \[N, 8, H, W\].
    fn forward(&self, pass: &Pass<'_>, x: &Tensor) -> Result<Activation> {
        self.network.forward(pass, x, &self.steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn everything_that_is_kept_is_joined() {
        let blocks = Config::TINY.blocks();
        // The first convolution's output is kept as well.
        assert_eq!(blocks.iter().filter(|block| block.keeps).count() + 1, 12);
        assert_eq!(blocks.iter().filter(|block| block.joins).count(), 12);
        let mut seen = Vec::new();
        let join = |x: Rc<String>, skip: Rc<String>| Ok(format!("{x} + {skip}"));
        let last = walk(&blocks, "input".to_owned(), join, |block, x| {
            seen.push((*x).clone());
            Ok(block.name.clone())
        });
        assert_eq!(*last.unwrap(), "up.3.2.attention");
        assert_eq!(seen[0], "input");
        assert!(seen.contains(&"middle.4 + down.3.1.attention".to_owned()), "{seen:?}");
        assert!(seen.contains(&"up.3.1.attention + input".to_owned()), "{seen:?}");
    }
}
