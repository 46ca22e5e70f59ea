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
//! Each [`Stage`] is a module of its own too: [`StageLayers`].

use std::fmt;

use common::prelude::*;

use crate::nn::{Backend, Layer, Module, Operation, Parameters, Scope, Value, shapes};

/// Sizes of a model, which determine everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// M, the mel bands of a frame.
    pub n_mels: usize,
    /// F, the number of frames in one input.
    pub frames: usize,
    /// L, the number of values that a spectrogram is reduced to.
    pub latent: usize,
    /// S, the number of values that a frame is first reduced to.
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

    /// F·M, the number of values of an input and of its reconstruction.
    pub fn inputs(&self) -> usize {
        self.frames * self.n_mels
    }

    /// C = F·S, the number of values of all slices' latents.
    pub fn combined(&self) -> usize {
        self.frames * self.slice_latent
    }

    /// Name and shape of every tensor, in the order of a pass.
    pub fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        shapes(|scope| Autoencoder::new(scope, *self))
    }

    /// Untrained parameters determined by a seed, as from [`Parameters::seeded`]: with a gain of 3 weights keep the variance of
    /// their inputs.
    pub fn seeded(&self, seed: u64) -> Parameters {
        Parameters::seeded(self.shapes(), seed, 3.0)
    }

    /// Slices \[B·F, M\] for a pass, from an input \[B, F·M\] on the host.
    ///
    /// # Errors
    /// [`Error::Shape`] if `x` has another shape, [`Error::Invalid`] if it is on a device.
    pub fn slices(&self, x: &Tensor) -> Result<Tensor> {
        match *x.shape() {
            [batch, values] if values == self.inputs() => {
                let shape = Stage::SliceEncoding.input_shape(self, batch);
                Tensor::from_vec(&shape, x.as_slice()?.to_vec())
            }
            _ => {
                Err(Error::shape("the autoencoder", ShapeError::mismatch(format!("[B, {}]", self.inputs()), x.shape())))
            }
        }
    }
}

/// A part of the model. The first and the last work on slices, F rows per spectrogram; the others on one row each.
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
        f.write_str(self.name())
    }
}

impl Stage {
    /// In the order of a pass.
    pub const ALL: [Stage; 5] =
        [Stage::SliceEncoding, Stage::Projection, Stage::Bottleneck, Stage::Reconstruction, Stage::SliceDecoding];

    /// Name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Stage::SliceEncoding => "slice encoding",
            Stage::Projection => "projection",
            Stage::Bottleneck => "bottleneck",
            Stage::Reconstruction => "reconstruction",
            Stage::SliceDecoding => "slice decoding",
        }
    }

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

    /// The batch size for which `x` is an input.
    pub(crate) fn batch(self, config: &Config, x: &Tensor) -> Result<usize> {
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
}

/// Layers of one stage, from a tensor of [`Stage::input_shape`] to one of [`Stage::output_shape`].
#[derive(Debug)]
pub struct StageLayers<B: Backend> {
    config: Config,
    stage: Stage,
    layers: Vec<Layer<B>>,
}

impl<B: Backend> StageLayers<B> {
    /// The layers of `stage` in the scope of the model.
    ///
    /// # Errors
    /// Same as [`Scope::weight`] and [`Backend::load`].
    pub fn new(scope: &Scope<'_, B>, config: Config, stage: Stage) -> Result<Self> {
        let [_, inputs, outputs] = stage.size(&config);
        let linear = |name| Layer::linear(&scope.sub(name), inputs, outputs);
        let norm_linear_gelu = |norm, name| {
            let norm = Layer::layer_norm(&scope.sub(norm), inputs)?;
            Ok::<_, Error>(vec![norm, linear(name)?, Layer::new(&scope.sub(name), Operation::Gelu)?])
        };
        // G, which two stages share.
        let product = |transposed| {
            let rows = scope.weight("basis", &[config.latent, config.combined()])?;
            Layer::new(&scope.sub(stage.name()), Operation::Basis { rows, transposed })
        };
        let layers = match stage {
            Stage::SliceEncoding => norm_linear_gelu("slice_norm", "slice_encoder")?,
            Stage::Projection => vec![product(true)?],
            Stage::Bottleneck => norm_linear_gelu("bottleneck_norm", "bottleneck")?,
            Stage::Reconstruction => vec![product(false)?],
            Stage::SliceDecoding => vec![linear("slice_decoder")?],
        };
        Ok(StageLayers { config, stage, layers })
    }
}

impl<B: Backend> Module<B> for StageLayers<B> {
    fn forward<'p>(&'p self, mut x: Value<'p, B>) -> Result<Value<'p, B>> {
        self.stage.batch(&self.config, &x)?;
        for layer in &self.layers {
            x = layer.forward(x)?;
        }
        Ok(x)
    }
}

/// Passes slices \[B·F, M\] through all stages, each of which `run` runs; its output can be observed by the stage's name.
pub(crate) fn through_stages<'p, B: Backend>(
    config: &Config,
    mut x: Value<'p, B>,
    run: impl Fn(Stage, Value<'p, B>) -> Result<Value<'p, B>>,
) -> Result<Value<'p, B>> {
    let batch = Stage::SliceEncoding.batch(config, &x)?;
    for stage in Stage::ALL {
        x = run(stage, x.reshape(&stage.input_shape(config, batch))?)?;
        x.observe(stage.name());
    }
    Ok(x)
}

/// The model: from slices \[B·F, M\] (see [`Config::slices`]) to their reconstruction \[B·F, M\].
#[derive(Debug)]
pub struct Autoencoder<B: Backend> {
    config: Config,
    /// In the order of [`Stage::ALL`].
    stages: Vec<StageLayers<B>>,
}

impl<B: Backend> Autoencoder<B> {
    /// Loads the model.
    ///
    /// # Errors
    /// Same as [`Parameters::get`] and [`Backend::load`].
    pub fn load(backend: &B, config: Config, parameters: &Parameters) -> Result<Self> {
        Autoencoder::new(&Scope::new(backend, parameters), config)
    }

    /// The model of a scope.
    ///
    /// # Errors
    /// Same as [`Scope::weight`] and [`Backend::load`].
    pub fn new(scope: &Scope<'_, B>, config: Config) -> Result<Self> {
        let stages = Stage::ALL.into_iter().map(|stage| StageLayers::new(scope, config, stage));
        Ok(Autoencoder { config, stages: stages.collect::<Result<_>>()? })
    }

    /// The sizes.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// One stage, as a module.
    pub fn only(&self, stage: Stage) -> &StageLayers<B> {
        &self.stages[stage as usize]
    }
}

impl<B: Backend> Module<B> for Autoencoder<B> {
    fn forward<'p>(&'p self, x: Value<'p, B>) -> Result<Value<'p, B>> {
        through_stages(&self.config, x, |stage, x| self.only(stage).forward(x))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backends::{Cpu, OnHost};

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
        let cpu = Cpu::new();
        let model = Autoencoder::load(&cpu, config, &parameters).unwrap();
        assert_eq!(
            cpu.infer(model.only(Stage::SliceDecoding), &Tensor::zeros(&[7, 64])).unwrap_err().to_string(),
            "the autoencoder's slice decoding: expected the shape [B·5, 64], got [7, 64]"
        );
        assert_eq!(
            config.slices(&Tensor::zeros(&[5, 64])).unwrap_err().to_string(),
            "the autoencoder: expected the shape [B, 320], got [5, 64]"
        );
        let fewer = Parameters::seeded(config.shapes().split_off(1), 5, 3.0);
        let error = Autoencoder::load(&cpu, config, &fewer).unwrap_err().to_string();
        assert_eq!(error, "the parameters have no `slice_norm.weight`");
    }
}
