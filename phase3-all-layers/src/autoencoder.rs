//! The spectral shape autoencoder, for anomalies in sound: frames of a log-mel spectrogram in, their reconstruction out.
//!
//! ```text
//! (B, F·M), read as F slices of M      slice encoding    LayerNorm → Linear(M→S) → GELU, the same for every slice
//!   → (B, F·S) = (B, C)                projection        v·Gᵀ, the rows of G (L×C) of length one
//!   → (B, L)                           bottleneck        LayerNorm → Linear(L→L) → GELU
//!   → (B, L)                           reconstruction    z·G
//!   → (B, C), read as F slices of S    slice decoding    Linear(S→M)
//!   → (B, F·M)
//! ```
//!
//! Each [`Stage`] runs alone too, on the CPU ([`OnCpu::stage`]) and on a device ([`Autoencoder::only`]). A stage that fails on
//! the device runs on the CPU, with a warning.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use common::cpu;
use common::prelude::*;
use common::reference;
use phase2_conv_bn::gemm::{self, Epilogue, Layout};

use crate::layers::{Gelu, LayerNorm, LayerNormStep, Linear, RowNorm, kinds};
use crate::module::{Module, Planned};
use crate::parameters::Parameters;
use crate::workspace::{Activation, Pass};

/// Added to a LayerNorm's variance.
const EPS: f32 = 1e-5;

/// The sizes of a model, which decide everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// M, the mel bands of a frame.
    pub n_mels: usize,
    /// F, the frames that are looked at together.
    pub frames: usize,
    /// L, the values that a spectrogram is reduced to.
    pub latent: usize,
    /// S, the values that a frame is reduced to first.
    pub slice_latent: usize,
}

impl Config {
    /// 64 bands, 5 frames.
    pub const ORIGINAL: Config = Config { n_mels: 64, frames: 5, latent: 32, slice_latent: 64 };
    /// 128 bands, 10 frames.
    pub const MEDIUM: Config = Config { n_mels: 128, frames: 10, latent: 128, slice_latent: 256 };
    /// 256 bands, 10 frames.
    pub const LARGE: Config = Config { n_mels: 256, frames: 10, latent: 256, slice_latent: 512 };
    /// 512 bands, 10 frames.
    pub const XLARGE: Config = Config { n_mels: 512, frames: 10, latent: 512, slice_latent: 1024 };
    /// All four, by name.
    pub const ALL: [(&'static str, Config); 4] = [
        ("original", Config::ORIGINAL),
        ("medium", Config::MEDIUM),
        ("large", Config::LARGE),
        ("xlarge", Config::XLARGE),
    ];

    /// F·M, the values of an input and of its reconstruction.
    pub fn inputs(&self) -> usize {
        self.frames * self.n_mels
    }

    /// C = F·S, the values of all slices' latents.
    pub fn combined(&self) -> usize {
        self.frames * self.slice_latent
    }

    /// Name and shape of every tensor, in the order in which a pass meets them.
    pub fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        let Config { n_mels, latent, slice_latent, .. } = *self;
        [
            ("slice_norm.weight", vec![n_mels]),
            ("slice_norm.bias", vec![n_mels]),
            ("slice_encoder.weight", vec![slice_latent, n_mels]),
            ("slice_encoder.bias", vec![slice_latent]),
            ("basis", vec![latent, self.combined()]),
            ("bottleneck_norm.weight", vec![latent]),
            ("bottleneck_norm.bias", vec![latent]),
            ("bottleneck.weight", vec![latent, latent]),
            ("bottleneck.bias", vec![latent]),
            ("slice_decoder.weight", vec![n_mels, slice_latent]),
            ("slice_decoder.bias", vec![n_mels]),
        ]
        .map(|(name, shape)| (name.to_owned(), shape))
        .into()
    }

    /// Untrained parameters that a seed decides, as [`Parameters::seeded`] makes them: with a gain of 3 weights keep the variance of
    /// what they multiply.
    pub fn seeded(&self, seed: u64) -> Parameters {
        Parameters::seeded(self.shapes(), seed, 3.0)
    }
}

/// A part of the model. The first and the last work on slices, F rows a spectrogram; the others on one row each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// \[B·F, M\] → \[B·F, S\]: LayerNorm, Linear, GELU.
    SliceEncoding,
    /// \[B, C\] → \[B, L\]: the product with the basis, transposed.
    Projection,
    /// \[B, L\] → \[B, L\]: LayerNorm, Linear, GELU.
    Bottleneck,
    /// \[B, L\] → \[B, C\]: the product with the basis.
    Reconstruction,
    /// \[B·F, S\] → \[B·F, M\]: Linear.
    SliceDecoding,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::SliceEncoding => "slice encoding",
            Stage::Projection => "projection",
            Stage::Bottleneck => "bottleneck",
            Stage::Reconstruction => "reconstruction",
            Stage::SliceDecoding => "slice decoding",
        })
    }
}

impl Stage {
    /// In the order of a pass.
    pub const ALL: [Stage; 5] =
        [Stage::SliceEncoding, Stage::Projection, Stage::Bottleneck, Stage::Reconstruction, Stage::SliceDecoding];

    /// Rows and columns of the input for a batch of one, and columns of the output.
    fn size(self, config: &Config) -> [usize; 3] {
        let Config { n_mels, frames, latent, slice_latent } = *config;
        match self {
            Stage::SliceEncoding => [frames, n_mels, slice_latent],
            Stage::Projection => [1, config.combined(), latent],
            Stage::Bottleneck => [1, latent, latent],
            Stage::Reconstruction => [1, latent, config.combined()],
            Stage::SliceDecoding => [frames, slice_latent, n_mels],
        }
    }

    /// The shape of its input.
    pub fn input_shape(self, config: &Config, batch: usize) -> [usize; 2] {
        let [rows, columns, _] = self.size(config);
        [batch * rows, columns]
    }

    /// The shape of its output.
    pub fn output_shape(self, config: &Config, batch: usize) -> [usize; 2] {
        let [rows, _, columns] = self.size(config);
        [batch * rows, columns]
    }

    /// The batch that `x` is an input of.
    fn batch(self, config: &Config, x: &Tensor) -> Result<usize> {
        let [rows, columns, _] = self.size(config);
        match *x.shape() {
            [all, same] if same == columns && rows > 0 && all.is_multiple_of(rows) => Ok(all / rows),
            _ => {
                let rows = if rows == 1 { "B".to_owned() } else { format!("B·{rows}") };
                let detail = ShapeError::mismatch(format!("[{rows}, {columns}]"), x.shape());
                Err(Error::shape(format!("the autoencoder's {self}"), detail))
            }
        }
    }

    /// Names of LayerNorm and linear layer, for the stages that have both.
    fn norm_and_linear(self) -> Option<[&'static str; 2]> {
        match self {
            Stage::SliceEncoding => Some(["slice_norm", "slice_encoder"]),
            Stage::Bottleneck => Some(["bottleneck_norm", "bottleneck"]),
            _ => None,
        }
    }
}

/// The batch of an input \[B, F·M\].
fn batch_of(config: &Config, x: &Tensor) -> Result<usize> {
    match *x.shape() {
        [batch, values] if values == config.inputs() => Ok(batch),
        _ => {
            let detail = ShapeError::mismatch(format!("[B, {}]", config.inputs()), x.shape());
            Err(Error::shape("the autoencoder", detail))
        }
    }
}

/// Weight and bias of a layer of `inputs` and `outputs`.
fn linear<'a>(parameters: &'a Parameters, name: &str, [inputs, outputs]: [usize; 2]) -> Result<[&'a Tensor; 2]> {
    let weight = parameters.get(&format!("{name}.weight"), &[outputs, inputs])?;
    Ok([weight, parameters.get(&format!("{name}.bias"), &[outputs])?])
}

/// A LayerNorm over `columns`.
fn layer_norm<'a>(parameters: &'a Parameters, name: &str, columns: usize) -> Result<reference::LayerNorm<'a>> {
    let part = |part: &str| parameters.get(&format!("{name}.{part}"), &[columns]);
    Ok(reference::LayerNorm { weight: part("weight")?, bias: part("bias")?, eps: EPS })
}

/// The model on the CPU.
#[derive(Debug)]
pub struct OnCpu<'a> {
    config: Config,
    parameters: &'a Parameters,
    /// G, \[L, C\], its rows of length one: they do not change between passes.
    basis: Tensor,
}

impl<'a> OnCpu<'a> {
    /// With these parameters.
    ///
    /// # Errors
    /// As [`Parameters::get`].
    pub fn new(config: Config, parameters: &'a Parameters) -> Result<OnCpu<'a>> {
        for (name, shape) in config.shapes() {
            parameters.get(&name, &shape)?;
        }
        let basis = cpu::row_norm(parameters.get("basis", &[config.latent, config.combined()])?)?;
        Ok(OnCpu { config, parameters, basis })
    }

    /// One stage of `x`, of [`Stage::input_shape`].
    ///
    /// # Errors
    /// [`Error::Shape`] if the shape is another, [`Error::Invalid`] if `x` is on a device.
    pub fn stage(&self, stage: Stage, x: &Tensor) -> Result<Tensor> {
        let batch = stage.batch(&self.config, x)?;
        let [_, inputs, outputs] = stage.size(&self.config);
        if let Some([norm, name]) = stage.norm_and_linear() {
            let x = cpu::layer_norm(x, &layer_norm(self.parameters, norm, inputs)?)?;
            let [weight, bias] = linear(self.parameters, name, [inputs, outputs])?;
            let mut y = cpu::linear(&x, weight, bias)?;
            cpu::gelu_in_place(&mut y)?;
            return Ok(y);
        }
        if stage == Stage::SliceDecoding {
            let [weight, bias] = linear(self.parameters, "slice_decoder", [inputs, outputs])?;
            return cpu::linear(x, weight, bias);
        }
        let transposed = stage == Stage::Projection;
        let y = cpu::gemm(x.as_slice()?, self.basis.as_slice()?, batch, outputs, inputs, transposed)?;
        Tensor::from_vec(&[batch, outputs], y)
    }

    /// The reconstruction \[B, F·M\] of `x` \[B, F·M\]. `observe` sees what each stage makes.
    ///
    /// # Errors
    /// As [`OnCpu::stage`].
    pub fn reconstruct(&self, x: &Tensor, mut observe: impl FnMut(Stage, &Tensor)) -> Result<Tensor> {
        let batch = batch_of(&self.config, x)?;
        let mut y = x.to_host()?;
        for stage in Stage::ALL {
            y = self.stage(stage, &y.reshape(&stage.input_shape(&self.config, batch))?)?;
            observe(stage, &y);
        }
        y.reshape(&[batch, self.config.inputs()])
    }
}

/// What a stage needs on a device.
#[derive(Debug)]
enum Loaded {
    NormLinearGelu(Box<NormLinearGelu>),
    Basis { gemm: gemm::Tuned, basis: Arc<Tensor>, layout: Layout },
    Linear(Box<Linear>),
}

#[derive(Debug)]
struct NormLinearGelu {
    layer_norm: LayerNorm,
    /// Of the LayerNorm.
    weight: Tensor,
    bias: Tensor,
    linear: Linear,
    gelu: Gelu,
}

impl Loaded {
    /// Queues the stage; `between` is of the shape of `x`, where a LayerNorm writes.
    fn queue(&self, pass: &Pass<'_>, x: &Tensor, between: Option<&mut Tensor>, y: &mut Tensor) -> Result<()> {
        match self {
            Loaded::NormLinearGelu(parts) => {
                let NormLinearGelu { layer_norm, weight, bias, linear, gelu } = &**parts;
                let Some(between) = between else {
                    return Err(Error::Invalid("a stage with a LayerNorm has no room for its result".to_owned()));
                };
                let norm = reference::LayerNorm { weight, bias, eps: EPS };
                pass.queue(kinds::LAYER_NORM, |stream| layer_norm.launch(stream, x, &norm, between))?;
                pass.queue(kinds::LINEAR, |stream| linear.launch(stream, between, y))?;
                pass.queue(kinds::GELU, |stream| gelu.launch_in_place(stream, y))
            }
            Loaded::Basis { gemm, basis, layout } => {
                pass.queue(kinds::LINEAR, |stream| gemm.launch(stream, x, basis, *layout, &Epilogue::default(), y))
            }
            Loaded::Linear(linear) => pass.queue(kinds::LINEAR, |stream| linear.launch(stream, x, y)),
        }
    }
}

/// The kernels that a model is loaded with, besides the matrix product's: their own files, or texts with a mistake that a check
/// must find.
#[derive(Clone, Debug)]
pub struct Sources {
    /// Of [`LayerNorm`]'s last step.
    pub layer_norm: KernelSource,
    /// Of [`Gelu`].
    pub gelu: KernelSource,
    /// Of [`RowNorm`].
    pub row_norm: KernelSource,
}

impl Default for Sources {
    fn default() -> Sources {
        Sources { layer_norm: LayerNorm::SOURCE, gelu: Gelu::SOURCE, row_norm: RowNorm::SOURCE }
    }
}

/// The model on a device, each layer a kernel of its own: nothing is fused yet.
///
/// A stage that cannot be loaded or queued there runs on the CPU, and its first time says so on standard error and in
/// [`Autoencoder::warnings`].
#[derive(Debug)]
pub struct Autoencoder<'a> {
    on_cpu: OnCpu<'a>,
    /// In the order of [`Stage::ALL`].
    stages: [Result<Loaded>; 5],
    /// By the stage; `None` stands for a whole pass.
    warnings: Mutex<BTreeMap<Option<Stage>, String>>,
}

impl<'a> Autoencoder<'a> {
    /// Loads the kernels and copies the parameters to the device; the basis is normalised there.
    ///
    /// # Errors
    /// As [`Parameters::get`].
    pub fn load(device: &Device, config: Config, parameters: &'a Parameters) -> Result<Autoencoder<'a>> {
        Autoencoder::load_from(device, &Sources::default(), config, parameters)
    }

    /// [`Autoencoder::load`] with other kernels.
    ///
    /// # Errors
    /// As there.
    pub fn load_from(
        device: &Device,
        sources: &Sources,
        config: Config,
        parameters: &'a Parameters,
    ) -> Result<Autoencoder<'a>> {
        let on_cpu = OnCpu::new(config, parameters)?;
        let gemm = gemm::Tuned::load(device);
        // Both stages that need it say what is wrong with what they share.
        let shared = || match &gemm {
            Ok(gemm) => Ok(gemm.clone()),
            Err(error) => Err(Error::Invalid(error.to_string())),
        };
        let basis = normalised_basis(device, sources, config, parameters).map(Arc::new);
        let load = |stage: Stage| -> Result<Loaded> {
            let gemm = shared()?;
            let [_, inputs, outputs] = stage.size(&config);
            let dense = |name| {
                let [weight, bias] = linear(parameters, name, [inputs, outputs])?;
                Linear::load(device, &gemm, weight, bias)
            };
            if let Some([norm, name]) = stage.norm_and_linear() {
                let norm = layer_norm(parameters, norm, inputs)?;
                return Ok(Loaded::NormLinearGelu(Box::new(NormLinearGelu {
                    layer_norm: LayerNorm::load_from(device, LayerNormStep::Shuffle, &sources.layer_norm)?,
                    weight: norm.weight.to_device(device)?,
                    bias: norm.bias.to_device(device)?,
                    linear: dense(name)?,
                    gelu: Gelu::load_from(device, &sources.gelu)?,
                })));
            }
            if stage == Stage::SliceDecoding {
                return Ok(Loaded::Linear(Box::new(dense("slice_decoder")?)));
            }
            let basis = basis.as_ref().map_err(|error| Error::Invalid(error.to_string()))?.clone();
            let layout = if stage == Stage::Projection { Layout::Transposed } else { Layout::RowMajor };
            Ok(Loaded::Basis { gemm, basis, layout })
        };
        let stages = Stage::ALL.map(load);
        Ok(Autoencoder { on_cpu, stages, warnings: Mutex::default() })
    }

    /// One stage as a module, from a tensor of [`Stage::input_shape`] to one of [`Stage::output_shape`].
    pub fn only(&self, stage: Stage) -> OneStage<'_> {
        OneStage { model: self, stage }
    }

    /// What runs on the CPU against the caller's will, and why.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Passes over batches of this size, with memory that is planned once. Their input is \[B·F, M\], and their output too.
    ///
    /// # Errors
    /// As [`Planned::new`].
    pub fn plan(&self, device: &Device, batch: usize) -> Result<Planned<'_, Autoencoder<'a>>> {
        Planned::new(device, self, &Stage::SliceEncoding.input_shape(&self.on_cpu.config, batch))
    }

    /// The reconstruction \[B, F·M\] of `x` \[B, F·M\], both on the host. A pass that the device gives up altogether, such as one in
    /// which a kernel faults after it was queued, is repeated on the CPU, with a warning.
    ///
    /// # Errors
    /// [`Error::Shape`] if `x` has another shape, [`Error::OutOfMemory`] if the device has not enough for the batch.
    pub fn reconstruct(&self, stream: &Stream, x: &Tensor) -> Result<Tensor> {
        let batch = batch_of(&self.on_cpu.config, x)?;
        let mut planned = self.plan(stream.device(), batch)?;
        let slices = x.to_host()?.reshape(&Stage::SliceEncoding.input_shape(&self.on_cpu.config, batch))?;
        match planned.infer(stream, &slices) {
            Ok(y) => y.reshape(x.shape()),
            Err(error) => {
                self.warn(None, &error);
                self.on_cpu.reconstruct(x, |_, _| ())
            }
        }
    }

    fn warn(&self, stage: Option<Stage>, error: &Error) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.entry(stage).or_insert_with(|| {
            let what = stage.map_or("pass".to_owned(), |stage| stage.to_string());
            let warning = format!("the autoencoder's {what} runs on the CPU, since the device failed: {error}");
            common::command::warn(&warning);
            warning
        });
    }

    fn stage(&self, pass: &Pass<'_>, stage: Stage, x: &Tensor) -> Result<Activation> {
        let batch = stage.batch(&self.on_cpu.config, x)?;
        // All memory before the first launch: a pass must ask for the same whether a launch fails or not.
        let mut y = pass.activation(&stage.output_shape(&self.on_cpu.config, batch))?;
        let loaded = &self.stages[stage as usize];
        let mut between = match loaded {
            Ok(Loaded::NormLinearGelu(_)) => Some(pass.activation(x.shape())?),
            _ => None,
        };
        let queued = match loaded {
            Ok(loaded) => loaded.queue(pass, x, between.as_deref_mut(), &mut y),
            Err(error) => Err(Error::Invalid(error.to_string())),
        };
        if let Err(error) = queued {
            pass.queue(kinds::ON_CPU, |stream| {
                self.warn(Some(stage), &error);
                let x = Tensor::from_vec(x.shape(), stream.clone_dtoh(x.buffer()?)?)?;
                stream.memcpy_htod(self.on_cpu.stage(stage, &x)?.as_slice()?, y.buffer_mut()?)
            })?;
        }
        Ok(y)
    }
}

fn normalised_basis(device: &Device, sources: &Sources, config: Config, parameters: &Parameters) -> Result<Tensor> {
    let shape = [config.latent, config.combined()];
    let basis = parameters.get("basis", &shape)?.to_device(device)?;
    let mut normalised = Tensor::empty_on(device, &shape)?;
    RowNorm::load_from(device, &sources.row_norm)?.launch(&device.stream(), &basis, &mut normalised)?;
    Ok(normalised)
}

impl Module for Autoencoder<'_> {
    /// The reconstruction \[B·F, M\] of slices \[B·F, M\].
    fn forward(&self, pass: &Pass<'_>, x: &Tensor) -> Result<Activation> {
        let config = &self.on_cpu.config;
        let batch = Stage::SliceEncoding.batch(config, x)?;
        let [first, others @ ..] = Stage::ALL;
        let mut y = self.stage(pass, first, x)?;
        for stage in others {
            let x = y.reshape(&stage.input_shape(config, batch))?;
            y = self.stage(pass, stage, &x)?;
        }
        Ok(y)
    }
}

/// A stage of a model on a device, alone.
#[derive(Clone, Copy, Debug)]
pub struct OneStage<'a> {
    model: &'a Autoencoder<'a>,
    stage: Stage,
}

impl Module for OneStage<'_> {
    fn forward(&self, pass: &Pass<'_>, x: &Tensor) -> Result<Activation> {
        self.model.stage(pass, self.stage, x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_fit_one_another() {
        for (name, config) in Config::ALL {
            for pair in Stage::ALL.windows(2) {
                let (from, to) = (pair[0].output_shape(&config, 3), pair[1].input_shape(&config, 3));
                assert_eq!(
                    from.iter().product::<usize>(),
                    to.iter().product::<usize>(),
                    "{name}, {} to {}",
                    pair[0],
                    pair[1]
                );
            }
            let ends = [Stage::SliceEncoding.input_shape(&config, 2), Stage::SliceDecoding.output_shape(&config, 2)];
            assert_eq!(ends, [[2 * config.frames, config.n_mels]; 2]);
        }
        assert!(Stage::ALL.iter().enumerate().all(|(i, &stage)| stage as usize == i));
    }

    #[test]
    fn wrong_shapes_and_missing_tensors_are_named() {
        let config = Config::ORIGINAL;
        let parameters = config.seeded(5);
        let on_cpu = OnCpu::new(config, &parameters).unwrap();
        assert_eq!(
            on_cpu.stage(Stage::SliceDecoding, &Tensor::zeros(&[7, 64])).unwrap_err().to_string(),
            "the autoencoder's slice decoding: expected the shape [B·5, 64], got [7, 64]"
        );
        assert_eq!(
            on_cpu.reconstruct(&Tensor::zeros(&[5, 64]), |_, _| ()).unwrap_err().to_string(),
            "the autoencoder: expected the shape [B, 320], got [5, 64]"
        );
        let fewer = Parameters::seeded(config.shapes().split_off(1), 5, 3.0);
        let error = OnCpu::new(config, &fewer).unwrap_err().to_string();
        assert_eq!(error, "the parameters have no `slice_norm.weight`");
    }
}
