//! The spectral shape autoencoder in as few launches as worthwhile: [`Fused`].
//!
//! Where all weights fit into a block's shared memory, that is one: [`OneKernel`], of `autoencoder_01_resident.cu`. What does not
//! depend on the input is done once, in [`OneKernel::load`]: the norms' scales and shifts move into the weights behind them, the
//! rows of the basis get their length of one, and everything is packed as shared memory will hold it.
//!
//! Where they do not, it is a [`plan`]: a launch for each product. A cluster's shared memory would hold the basis of `medium`, but not
//! that of the others, and each cluster would have to fetch it; tiles of a product that a large batch fills read it once for
//! 64 or more rows.

use std::sync::Arc;

use bench::table::{ColumnSpec, Table, TableBuilder};
use common::prelude::*;
use phase3_all_layers::models::autoencoder::{Autoencoder, Config, Stage};
use phase3_all_layers::nn::Parameters;
use phase3_all_layers::nn::graph::{Graph, Recorder};

use crate::models::Arithmetic;
use crate::models::int8::only_resnet18;
use crate::models::plan::Plan;
use crate::models::runner::Runner;
use crate::tile;

/// The configuration whose weights fit into the shared memory of one block.
const CONFIG: Config = Config::ORIGINAL;

/// Below this norm a row of the basis has no direction.
const SHORTEST: f64 = 1e-12;

const LAYERS: ColumnSpec = ColumnSpec::text("layers", "layers");
const KERNEL: ColumnSpec = ColumnSpec::text("kernel", "kernel");
const WHY: ColumnSpec = ColumnSpec::text("why", "why");

/// The plan of a model with these parameters, for a batch: a launch for each product, LayerNorms between them.
///
/// # Errors
/// Same as [`Autoencoder::load`], [`Graph::record`] and [`Plan::new`].
pub fn plan(
    device: &Device,
    config: &Config,
    parameters: &Parameters,
    arithmetic: Arithmetic,
    batch: usize,
) -> Result<Plan> {
    let shape = Stage::SliceEncoding.input_shape(config, batch);
    let graph = Graph::record(&Autoencoder::load(&Recorder, *config, parameters)?, &shape)?;
    Plan::new(device, arithmetic, graph, &[&shape])
}

/// The model for a batch of one size: one kernel where the device supports it for the configuration, else a plan.
#[derive(Debug)]
pub enum Fused {
    /// In f32, whatever was requested: it is the most exact, and would gain nothing from narrower weights.
    OneKernel {
        /// The model.
        model: OneKernel,
        /// The input and the output.
        slices: Box<[Tensor; 2]>,
    },
    /// A plan, with the reason why it is not one kernel.
    Planned(Box<Runner>, String),
}

impl Fused {
    /// Loads the model.
    ///
    /// # Errors
    /// Same as [`OneKernel::load`] and [`plan`], but for [`Error::Unsupported`] of the first.
    pub fn load(
        device: &Device,
        config: &Config,
        parameters: &Parameters,
        arithmetic: Arithmetic,
        batch: usize,
    ) -> Result<Fused> {
        if arithmetic == Arithmetic::Int8 {
            return Err(only_resnet18(device));
        }
        match OneKernel::load(device, config, parameters) {
            Ok(model) => {
                let shape = Stage::SliceEncoding.input_shape(config, batch);
                let slices = [Tensor::empty_on(device, &shape)?, Tensor::empty_on(device, &shape)?];
                Ok(Fused::OneKernel { model, slices: Box::new(slices) })
            }
            Err(error) if error.is_unsupported() => {
                let plan = plan(device, config, parameters, arithmetic, batch)?;
                Ok(Fused::Planned(Box::new(Runner::new(device, plan)?), error.to_string()))
            }
            Err(error) => Err(error),
        }
    }

    /// A pass with its two copies, from slices \[B·F, M\] on the host to their reconstruction of the same shape.
    ///
    /// # Errors
    /// [`Error::Shape`] if `x` is another batch; errors of the launches.
    pub fn infer(&mut self, stream: &Stream, x: &Tensor) -> Result<Tensor> {
        match self {
            Fused::OneKernel { model, slices } => {
                let [input, y] = &mut **slices;
                x.expect_shape("the autoencoder's x", input.shape())?;
                stream.memcpy_htod(x.as_slice()?, input.buffer_mut()?)?;
                model.launch(stream, input, y)?;
                Tensor::from_vec(y.shape(), stream.clone_dtoh(y.buffer()?)?)
            }
            Fused::Planned(runner, _) => runner.infer(stream, x),
        }
    }

    /// Queues a pass over the previous input, with no copy: for measurements.
    ///
    /// # Errors
    /// Errors of the launches.
    pub fn queue(&mut self, stream: &Stream) -> Result<()> {
        match self {
            Fused::OneKernel { model, slices } => {
                let [x, y] = &mut **slices;
                model.launch(stream, x, y)
            }
            Fused::Planned(runner, _) => runner.queue(stream),
        }
    }

    /// Number of launches of a pass.
    pub fn launches(&self) -> usize {
        match self {
            Fused::OneKernel { .. } => 1,
            Fused::Planned(runner, _) => runner.plan().launches().len(),
        }
    }

    /// Maximum error of an output, relative to the largest: see [`Plan::error_bound`].
    pub fn error_bound(&self) -> f64 {
        match self {
            Fused::OneKernel { .. } => 1e-5,
            Fused::Planned(runner, _) => runner.plan().error_bound(),
        }
    }

    /// Layers of each kernel, and the reasons; on a GPU with their times.
    ///
    /// # Errors
    /// Same as [`Runner::milliseconds`].
    pub fn explain(&mut self, stream: &Stream, title: String) -> Result<Table> {
        match self {
            Fused::OneKernel { .. } => {
                let mut table = TableBuilder::of(title, [LAYERS, KERNEL, WHY]);
                let row = table.row().set(LAYERS, "all").set(KERNEL, "autoencoder_01_resident, f32");
                row.set(WHY, "all weights fit into a block's shared memory").complete();
                Ok(table.finish())
            }
            Fused::Planned(runner, why) => {
                let took = runner.milliseconds(stream)?;
                let mut table = runner.plan().table(title, took.as_deref());
                table.note(format!("Not one launch: {why}."));
                Ok(table)
            }
        }
    }
}

/// The model in one launch, loaded on a device.
#[derive(Clone, Debug)]
pub struct OneKernel {
    /// By the number of spectrograms per block, ascending.
    kernels: Vec<Kernels>,
    weights: Arc<Buffer<f32>>,
    threads: u32,
    processors: usize,
}

/// A kernel of the file.
#[derive(Clone, Debug)]
struct Kernels {
    together: usize,
    shared: u32,
    kernel: Kernel,
}

impl OneKernel {
    /// The kernel file.
    pub const SOURCE: KernelSource = kernel_source!("autoencoder_01_resident");

    /// Loads the model. Its weights are on the device when this returns.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for another configuration than [`Config::ORIGINAL`] and before compute capability 9.0; same as
    /// [`Parameters::get`] and [`Device::load`].
    pub fn load(device: &Device, config: &Config, parameters: &Parameters) -> Result<OneKernel> {
        OneKernel::load_from(device, &OneKernel::SOURCE, config, parameters)
    }

    /// Loads it from another text, with a mistake that a check must find.
    ///
    /// # Errors
    /// Same as [`OneKernel::load`].
    pub fn load_from(
        device: &Device,
        source: &KernelSource,
        config: &Config,
        parameters: &Parameters,
    ) -> Result<OneKernel> {
        if *config != CONFIG {
            return Err(Error::Unsupported {
                what: "the autoencoder in one kernel".to_owned(),
                device: device.short_name(),
                reason: format!(
                    "its weights are {} KB, and a block has {} KB of shared memory; those of `original` fit",
                    weights(config) * size_of::<f32>() / 1024,
                    device.properties().shared_per_block_optin / 1024
                ),
            });
        }
        let module = device.load(source)?;
        let sizes = [("MELS", CONFIG.n_mels), ("FRAMES", CONFIG.frames), ("LATENT", CONFIG.latent)];
        for (name, size) in sizes.into_iter().chain([("SLICE", CONFIG.slice_latent)]) {
            module.expect_constant(name, size)?;
        }
        let kernels = [2, 4, 8, 16].map(|together| {
            let name = format!("autoencoder_{together}");
            let shared = module.constant(&format!("{name}_shared"))? as u32;
            Ok(Kernels { together, shared, kernel: module.kernel(&name)? })
        });
        let packed = pack(parameters, module.constant("BASIS_PITCH")?)?;
        module.expect_constant("WEIGHTS", packed.len())?;
        let stream = device.stream();
        let weights = stream.clone_htod(&packed)?;
        stream.synchronize()?;
        Ok(OneKernel {
            kernels: kernels.into_iter().collect::<Result<_>>()?,
            weights: Arc::new(weights),
            threads: module.constant("THREADS")? as u32,
            processors: tile::processors(device),
        })
    }

    /// Queues a pass from the slices `x` \[B·F, M\] to their reconstruction `y` of the same shape, in f32 on the stream's device.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::ElementType`], [`Error::WrongDevice`]; [`Error::Invalid`] if a tensor is on the host.
    pub fn launch(&self, stream: &Stream, x: &Tensor, y: &mut Tensor) -> Result<()> {
        let rows = x.shape().first().copied().unwrap_or_default();
        let batch = rows / CONFIG.frames;
        let shape = Stage::SliceEncoding.input_shape(&CONFIG, batch);
        x.expect_shape("the autoencoder's x", &shape)?;
        y.expect_shape("the autoencoder's y", &shape)?;
        if batch == 0 {
            return Ok(());
        }
        let count =
            i32::try_from(rows).map_err(|_| Error::Invalid(format!("{batch} spectrograms are too many to count")))?;
        let batch_of_kernel = count / CONFIG.frames as i32;
        let one_each = |kernel: &&Kernels| batch.div_ceil(kernel.together) <= self.processors;
        let chosen = self.kernels.iter().find(one_each).or(self.kernels.last());
        let Kernels { together, shared, kernel } =
            chosen.ok_or_else(|| Error::Invalid("the autoencoder has no kernel".to_owned()))?;
        let config = LaunchConfig {
            grid_dim: (batch.div_ceil(*together).min(self.processors) as u32, 1, 1),
            block_dim: (self.threads, 1, 1),
            shared_mem_bytes: *shared,
        };
        let mut launch = stream.launch_builder(kernel);
        launch.arg(x.buffer()?).arg(&*self.weights).arg(y.buffer_mut()?).arg(&batch_of_kernel).dependent();
        // SAFETY: before it has waited for earlier launches the kernel reads the weights alone, which were complete when they were
        // loaded and do not change; then it reads x and writes y, both [batch · F, M] as was checked; blocks share out any batch.
        unsafe { launch.launch(config) }
    }
}

/// Number of weights, without biases.
fn weights(config: &Config) -> usize {
    let Config { n_mels, latent, slice_latent, .. } = *config;
    2 * n_mels * slice_latent + config.combined() * latent + latent * latent
}

/// The weights in the order of the kernel file.
fn pack(parameters: &Parameters, pitch: usize) -> Result<Vec<f32>> {
    let Config { n_mels, latent, slice_latent, .. } = CONFIG;
    let combined = CONFIG.combined();
    let encoder = behind_norm(parameters, "slice_norm", "slice_encoder", n_mels, slice_latent)?;
    let middle = behind_norm(parameters, "bottleneck_norm", "bottleneck", latent, latent)?;
    let decoder = parameters.get("slice_decoder.weight", &[n_mels, slice_latent])?.as_slice()?;
    let decoder_bias = parameters.get("slice_decoder.bias", &[n_mels])?.as_slice()?;
    let basis = parameters.get("basis", &[latent, combined])?.as_slice()?;
    let lengths: Vec<f64> = basis.chunks(combined).map(|row| norm(row).max(SHORTEST)).collect();
    let mut packed = fours(&encoder.weight, n_mels);
    packed.extend(encoder.bias);
    for column in 0..combined {
        let of_column = (0..latent).map(|row| (f64::from(basis[row * combined + column]) / lengths[row]) as f32);
        packed.extend(of_column.chain(std::iter::repeat(0.0)).take(pitch));
    }
    packed.extend(fours(&middle.weight, latent));
    packed.extend(middle.bias);
    packed.extend(fours(decoder, slice_latent));
    packed.extend(decoder_bias);
    Ok(packed)
}

/// A row's Euclidean length.
fn norm(row: &[f32]) -> f64 {
    row.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>().sqrt()
}

/// A linear layer.
struct Linear {
    /// \[outputs, inputs\].
    weight: Vec<f32>,
    /// \[outputs\].
    bias: Vec<f32>,
}

/// The linear layer equivalent to the norm's scale and shift and the layer after it, for a row with mean 0 and variance 1.
fn behind_norm(parameters: &Parameters, norm: &str, linear: &str, inputs: usize, outputs: usize) -> Result<Linear> {
    let get = |name: String, shape: &[usize]| -> Result<&[f32]> { parameters.get(&name, shape)?.as_slice() };
    let scale = get(format!("{norm}.weight"), &[inputs])?;
    let shift = get(format!("{norm}.bias"), &[inputs])?;
    let weight = get(format!("{linear}.weight"), &[outputs, inputs])?;
    let bias = get(format!("{linear}.bias"), &[outputs])?;
    let scaled = weight.iter().zip(scale.iter().cycle()).map(|(weight, scale)| weight * scale).collect();
    let shifted = |(row, &bias): (&[f32], &f32)| {
        let of_shift = row.iter().zip(shift).map(|(&weight, &shift)| f64::from(weight) * f64::from(shift));
        (f64::from(bias) + of_shift.sum::<f64>()) as f32
    };
    Ok(Linear { weight: scaled, bias: weight.chunks(inputs).zip(bias).map(shifted).collect() })
}

/// A matrix \[outputs, inputs\] as \[inputs / 4\]\[outputs\]\[4\].
fn fours(weight: &[f32], inputs: usize) -> Vec<f32> {
    let of_inputs = |first: usize| weight.chunks(inputs).flat_map(move |row| row[first..first + 4].iter().copied());
    (0..inputs).step_by(4).flat_map(of_inputs).collect()
}
