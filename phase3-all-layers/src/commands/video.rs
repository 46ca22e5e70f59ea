//! Video from noise: frames one after the other, each by a few forward passes of the U-Net over noise, the previous frame and a
//! step of a schedule; and pictures of them.
//!
//! ```text
//! x = noise
//! for t in the schedule, the noisiest step first
//!     ε = U-Net([x, frame before], t)
//!     x̂ = diffusion step(x, ε, frame before)      blended with the frame before where the two agree, clamped
//!     x = √ᾱ·x̂ + √(1−ᾱ)·ε                         ᾱ of the next step; 1 after the last, so x is the frame
//! ```
//!
//! That is the sampler without fresh noise of Song et al., "Denoising Diffusion Implicit Models", 2020. The schedule is the
//! cosine of Nichol and Dhariwal, "Improved Denoising Diffusion Probabilistic Models", 2021.
//!
//! A real decoder would turn latents into a picture; here the first three channels are shown as red, green and blue.

use std::path::{Path, PathBuf};

use bench::table::{ColumnSpec, Table, TableBuilder};
use clap::builder::{PossibleValuesParser, RangedU64ValueParser};
use common::prelude::*;
use common::progress::Progress;
use common::reference::DiffusionParams;
use image::{Rgb, RgbImage};

use crate::backends::workspace::{Pass, Workspace};
use crate::backends::{Cpu, OnHost, Unfused};
use crate::commands::finite::require_finite;
use crate::layers::{AddNoise, Concatenate, DiffusionStep, kinds};
use crate::models::unet::{Config, INPUTS, LATENTS, UNet};
use crate::nn::{Parameters, Value};

/// Steps of the schedule that the U-Net's timesteps count.
pub const SCHEDULE: f64 = 1000.0;
/// Weight of the new frame in the blend with the previous frame.
pub const WEIGHT: f32 = 0.7;
/// Maximum difference of two frames' values that are blended.
const THRESHOLD: f32 = 0.5;
/// Seed of the untrained parameters.
const SEED: u64 = 8;

/// ᾱ of the cosine schedule at timestep `t`, from 1 at 0 to 0 at 1000: cos² of (t/1000 + s)/(1 + s)·π/2 relative to that at 0.
/// The offset s avoids first steps with almost no noise.
pub fn alpha_bar(t: f64) -> f32 {
    const OFFSET: f64 = 0.008;
    let power = |t: f64| ((t / SCHEDULE + OFFSET) / (1.0 + OFFSET) * std::f64::consts::FRAC_PI_2).cos().powi(2);
    (power(t) / power(0.0)) as f32
}

/// The middles of `steps` equal parts of the schedule up to the timestep `noisiest`, the noisiest first.
pub fn timesteps(noisiest: f64, steps: usize) -> impl Iterator<Item = f64> {
    (0..steps).rev().map(move |step| noisiest * (step as f64 + 0.5) / steps as f64)
}

/// Values of the normal distribution, by Box and Muller's transform of uniform ones.
pub fn gaussian(shape: &[usize], seed: u64) -> Tensor {
    let count: usize = shape.iter().product();
    let uniform = Tensor::random(&[2 * count], seed);
    let values = uniform.as_slice().unwrap_or_default().as_chunks::<2>().0.iter().map(|&[radius, angle]| {
        // From (−1, 1) to (0, 1), whose lower end has no logarithm.
        let radius = (f64::from(radius) / 2.0 + 0.5).max(1e-9);
        ((-2.0 * radius.ln()).sqrt() * (f64::from(angle) * std::f64::consts::PI).cos()) as f32
    });
    let values = values.collect();
    Tensor::from_vec(shape, values).unwrap_or(uniform)
}

/// One step of a frame.
#[derive(Debug)]
pub struct Step {
    /// The timestep, \[1\], on the device.
    time: Tensor,
    alpha_bar: f32,
    /// ᾱ of the next step.
    next: f32,
}

impl Step {
    /// The steps of a frame at these timesteps, the noisiest first.
    ///
    /// # Errors
    /// Errors of copies to the device.
    pub fn all(device: &Device, timesteps: &[f64]) -> Result<Vec<Step>> {
        let nexts = timesteps.iter().skip(1).copied().map(alpha_bar).chain([1.0]);
        let step = |(&t, next): (&f64, f32)| {
            let time = Tensor::full(&[1], t as f32).to_device(device)?;
            Ok(Step { time, alpha_bar: alpha_bar(t), next })
        };
        timesteps.iter().zip(nexts).map(step).collect()
    }
}

/// Network that predicts the noise that a step removes.
pub trait Denoiser {
    /// The noise \[N, 4, H, W\] in latents, joined with the previous frame as `x` \[N, 8, H, W\], at `steps` \[N\].
    ///
    /// # Errors
    /// Errors of the pass.
    fn noise<'p>(&'p self, x: Value<'p, Unfused>, steps: Value<'p, Unfused>) -> Result<Value<'p, Unfused>>;
}

impl Denoiser for UNet<Unfused> {
    fn noise<'p>(&'p self, x: Value<'p, Unfused>, steps: Value<'p, Unfused>) -> Result<Value<'p, Unfused>> {
        self.forward(x, steps)
    }
}

/// Layers of a step besides the network.
#[derive(Debug)]
pub struct StepLayers {
    concatenate: Concatenate,
    diffusion: DiffusionStep,
    add_noise: AddNoise,
}

impl StepLayers {
    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`].
    pub fn load(device: &Device) -> Result<StepLayers> {
        Ok(StepLayers {
            concatenate: Concatenate::load(device)?,
            diffusion: DiffusionStep::load(device)?,
            add_noise: AddNoise::load(device)?,
        })
    }

    /// Queues a step from `x` to the next x; `network` takes x with the previous frame, and the timestep, and predicts the noise
    /// in x. `weight` is the new frame's weight where it agrees with the previous frame.
    ///
    /// # Errors
    /// Errors of `network` and of the launches.
    pub fn step<'p>(
        &self,
        pass: &'p Pass,
        step: &'p Step,
        weight: f32,
        x: &mut Tensor,
        previous: &Tensor,
        network: impl FnOnce(Value<'p, Unfused>, Value<'p, Unfused>) -> Result<Value<'p, Unfused>>,
    ) -> Result<()> {
        let [count, _, height, width] = x.dims4()?;
        let mut joined = pass.intermediate(&[count, INPUTS, height, width])?;
        pass.queue(kinds::CONCATENATE, |stream| self.concatenate.launch(stream, x, previous, &mut joined))?;
        let noise = network(Value::result(pass, joined), Value::given(pass, &step.time))?;
        let mut clean = pass.intermediate(x.shape())?;
        let params = DiffusionParams { alpha_bar: step.alpha_bar, weight, threshold: THRESHOLD };
        pass.queue(kinds::DIFFUSION, |stream| {
            self.diffusion.launch(stream, [x, &noise, previous], params, &mut clean)?;
            self.add_noise.launch(stream, &clean, &noise, step.next, x)
        })
    }
}

/// Makes frames; from a frame's noise to the frame, everything stays on the device.
#[derive(Debug)]
pub struct Sampler<'a, N> {
    network: &'a N,
    layers: StepLayers,
    stream: Stream,
    workspace: Workspace,
    steps: Vec<Step>,
    /// \[1, 4, side, side\].
    x: Tensor,
    /// The previous frame.
    previous: Tensor,
    /// Weight of the new frame in the blend: 1 for the first frame.
    weight: f32,
}

impl<'a, N: Denoiser> Sampler<'a, N> {
    /// A sampler of frames \[1, 4, side, side\] with `steps` steps each, with `network` on `device`.
    ///
    /// # Errors
    /// [`common::Error::Invalid`] if there are no steps; same as [`Denoiser::noise`], [`Workspace::plan`] and
    /// [`Device::kernel`].
    pub fn new(device: &Device, network: &'a N, side: usize, steps: usize) -> Result<Sampler<'a, N>> {
        let steps = Step::all(device, &timesteps(SCHEDULE, steps).collect::<Vec<_>>())?;
        let Some(first) = steps.first() else {
            return Err(common::Error::Invalid("a frame takes one step or more".to_owned()));
        };
        let layers = StepLayers::load(device)?;
        let shape = [1, LATENTS, side, side];
        let mut planned = Tensor::shape_only(&shape);
        let shape_only = Tensor::shape_only(&shape);
        let workspace = Workspace::plan(device, |pass| {
            layers.step(pass, first, 1.0, &mut planned, &shape_only, |x, time| network.noise(x, time))
        })?;
        let (x, previous) = (Tensor::empty_on(device, &shape)?, Tensor::zeros(&shape).to_device(device)?);
        Ok(Sampler { network, layers, stream: device.stream(), workspace, steps, x, previous, weight: 1.0 })
    }

    /// The next frame, from `noise` of its shape, both on the host. `after_step` is called with the number of steps queued so
    /// far.
    ///
    /// # Errors
    /// [`common::Error::Shape`] if `noise` has another shape; errors of launches.
    pub fn frame(&mut self, noise: &Tensor, mut after_step: impl FnMut()) -> Result<Tensor> {
        let Sampler { network, layers, stream, workspace, steps, x, previous, weight } = self;
        noise.expect_shape("a frame's noise", x.shape())?;
        stream.memcpy_htod(noise.as_slice()?, x.buffer_mut()?)?;
        for step in steps.iter() {
            workspace
                .run(stream, |pass| layers.step(pass, step, *weight, x, previous, |x, time| network.noise(x, time)))?;
            after_step();
        }
        stream.memcpy_dtod(x.buffer()?, previous.buffer_mut()?)?;
        *weight = WEIGHT;
        Tensor::from_vec(x.shape(), stream.clone_dtoh(x.buffer()?)?)
    }
}

/// A number from 1 to `most`.
fn up_to(most: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=most)
}

/// Frames, network and sizes of a video.
#[derive(Clone, Debug, clap::Args)]
pub struct VideoArgs {
    /// Size of the U-Net
    #[arg(long, default_value = "tiny", value_parser = PossibleValuesParser::new(Config::ALL.map(|(name, _)| name)))]
    config: String,
    /// Number of frames, up to 10000
    #[arg(long, default_value = "4", value_parser = up_to(10_000))]
    frames: usize,
    /// Diffusion steps per frame, each one forward pass, up to the schedule's 1000
    #[arg(long, default_value = "4", value_parser = up_to(1000))]
    steps: usize,
    /// Width and height of a frame's latents, a multiple of 8 up to 1024 [default: 64, or 16 on the simulator]
    #[arg(long, value_parser = up_to(1024))]
    size: Option<usize>,
    /// Seed of the initial noise
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The U-Net's parameters as .safetensors, in f32, f16 or bf16 [default: untrained]
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// Directory for the frames
    #[arg(long, value_name = "DIR", default_value = "frames")]
    pub out: PathBuf,
}

impl VideoArgs {
    /// Name of the configuration, and the configuration.
    pub fn named(&self) -> (&'static str, Config) {
        Config::ALL.into_iter().find(|(name, _)| *name == self.config).unwrap_or(Config::ALL[0])
    }

    /// The other options, on this device.
    pub fn options(&self, device: &Device) -> Options {
        let side = self.size.unwrap_or(if device.is_sim() { 16 } else { 64 });
        Options { frames: self.frames, steps: self.steps, side, seed: self.seed }
    }
}

/// Settings of a video.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Number of frames.
    pub frames: usize,
    /// Steps of a frame.
    pub steps: usize,
    /// Height and width of a frame's latents, a multiple of [`crate::models::unet::MULTIPLE`].
    pub side: usize,
    /// Seed of the noise.
    pub seed: u64,
}

/// The frames \[1, 4, side, side\] of a video. `after_step` is called with the number of steps queued so far.
///
/// # Errors
/// Same as [`UNet::load`], [`Sampler::new`] and [`Sampler::frame`]; [`crate::Error::NonFinite`] if a frame has values that are
/// not finite.
pub fn generate(
    device: &Device,
    config: Config,
    parameters: &Parameters,
    options: &Options,
    after_step: impl FnMut(),
) -> crate::Result<Vec<Tensor>> {
    let network = UNet::load(&Unfused::new(device), config, parameters)?;
    generate_by(&network, device, config, parameters, options, after_step)
}

/// [`generate`], with another implementation of the network with these parameters.
///
/// # Errors
/// Same as there.
pub fn generate_by(
    network: &impl Denoiser,
    device: &Device,
    config: Config,
    parameters: &Parameters,
    options: &Options,
    mut after_step: impl FnMut(),
) -> crate::Result<Vec<Tensor>> {
    let Options { frames, steps, side, seed } = *options;
    let mut sampler = Sampler::new(device, network, side, steps)?;
    let noise = |frame: u64| gaussian(&[1, LATENTS, side, side], seed.wrapping_add(frame));
    let mut made: Vec<Tensor> = Vec::new();
    for frame in 0..frames as u64 {
        let noise = noise(frame);
        let latent = sampler.frame(&noise, &mut after_step)?;
        require_finite("the U-Net", latent.as_slice()?, |first| {
            // The frame's first step: its noise, and the frame before.
            let zeros = Tensor::zeros(noise.shape());
            let previous = made.last().unwrap_or(&zeros);
            let joined =
                Tensor::from_vec(&[1, INPUTS, side, side], [noise.as_slice()?, previous.as_slice()?].concat())?;
            let time = Tensor::full(&[1], timesteps(SCHEDULE, steps).next().unwrap_or_default() as f32);
            let cpu = Cpu::new();
            let network = UNet::load(&cpu, config, parameters)?;
            cpu.observe_layers(&network.at(time), &joined, |layer, output| first.see(layer, output))
        })?;
        made.push(latent);
    }
    Ok(made)
}

/// Makes a video by a U-Net with the weights of a `.safetensors` file or, without one, untrained ones, and writes its frames into
/// `dir`.
///
/// # Errors
/// Same as [`Parameters::open`], [`generate`] and [`write_frames`].
pub fn video(device: &Device, args: &VideoArgs) -> crate::Result<Table> {
    let ((name, config), weights) = (args.named(), args.weights.as_deref());
    let parameters = parameters(config, weights)?;
    let network = UNet::load(&Unfused::new(device), config, &parameters)?;
    let mut table =
        video_by(&network, device, (name, config), &parameters, &args.options(device), &args.out, device.short_name())?;
    note_of_weights(&mut table, weights);
    Ok(table)
}

/// Adds a note if no weights were given.
pub fn note_of_weights(table: &mut Table, weights: Option<&Path>) {
    if weights.is_none() {
        table.note("The weights are untrained, so the frames are noise that was filtered. `--weights FILE` takes trained ones.");
    }
}

/// The weights of a `.safetensors` file or, without one, untrained ones.
///
/// # Errors
/// Same as [`Parameters::open`].
pub fn parameters(config: Config, weights: Option<&Path>) -> crate::Result<Parameters> {
    match weights {
        Some(path) => Ok(Parameters::open(path, &config.shapes())?),
        None => Ok(config.seeded(SEED)),
    }
}

/// [`video`], with another implementation of the network with these parameters.
///
/// # Errors
/// Same as there.
pub fn video_by(
    network: &impl Denoiser,
    device: &Device,
    (name, config): (&str, Config),
    parameters: &Parameters,
    options: &Options,
    dir: &Path,
    on: impl std::fmt::Display,
) -> crate::Result<Table> {
    // A folder that cannot be written is found before the work is done.
    write_frames(dir, [])?;
    let Options { frames, steps, side, .. } = *options;
    let message = format!("{frames} frames of {side} × {side}, {steps} steps each");
    let progress = Progress::new(frames.saturating_mul(steps) as u64, message);
    let latents = generate_by(network, device, config, parameters, options, || progress.inc(1))?;
    progress.finish();
    const FILE: ColumnSpec = ColumnSpec::text("file", "file");
    const STEPS: ColumnSpec = ColumnSpec::number("steps", "steps", 0);
    const MEAN: ColumnSpec = ColumnSpec::number("mean", "mean", 4);
    const DEVIATION: ColumnSpec = ColumnSpec::number("std", "std", 4);
    let title = format!("Frames by the {name} U-Net on {on}, {side} × {side} latents");
    let mut table = TableBuilder::of(title, [FILE, STEPS, MEAN, DEVIATION]);
    for (path, latent) in write_frames(dir, &latents)?.iter().zip(&latents) {
        let [mean, deviation] = mean_and_deviation(latent.as_slice()?);
        let row = table.row().set(FILE, path.display().to_string()).set(STEPS, steps);
        row.set(MEAN, mean).set(DEVIATION, deviation).complete();
    }
    table.note("mean, std: of a frame's latents, all four channels.");
    Ok(table.finish())
}

fn mean_and_deviation(values: &[f32]) -> [f64; 2] {
    let count = values.len() as f64;
    let mean = values.iter().map(|&value| f64::from(value)).sum::<f64>() / count;
    let square = values.iter().map(|&value| (f64::from(value) - mean).powi(2)).sum::<f64>() / count;
    [mean, square.sqrt()]
}

/// Peak signal-to-noise ratio of two clips in decibels: 10·log₁₀(2² / mean square difference), since values range from −1 to 1;
/// infinite for equal values, NaN if one is NaN.
///
/// # Errors
/// [`common::Error::Invalid`] if frames are not on the host; [`common::Error::Shape`] if two corresponding frames differ in
/// shape.
pub fn peak_signal_to_noise(clip: &[Tensor], reference: &[Tensor]) -> Result<f64> {
    let (mut sum, mut count) = (0.0, 0);
    for (frame, twin) in clip.iter().zip(reference) {
        frame.expect_shape("a frame", twin.shape())?;
        let pairs = frame.as_slice()?.iter().zip(twin.as_slice()?);
        sum += pairs.map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum::<f64>();
        count += frame.len();
    }
    Ok(10.0 * (4.0 * count as f64 / sum).log10())
}

/// Pixels of a picture per value of a latent, in each direction.
const SCALE: u32 = 4;

/// The picture of a latent \[C, H, W\] or \[1, C, H, W\] of three channels or more, on the host: −1 is 0 and 1 is 255, and
/// each value is a square of 4 × 4 pixels.
///
/// # Errors
/// [`common::Error::Shape`] if it has another shape, [`common::Error::Invalid`] if it is on a device or one of the values
/// shown is NaN.
pub fn picture(latent: &Tensor) -> Result<RgbImage> {
    let (&[channels, height, width] | &[1, channels, height, width]) = latent.shape() else {
        return Err(no_picture(latent));
    };
    let sides = [width, height].map(|side| u32::try_from(side).ok().and_then(|side| side.checked_mul(SCALE)));
    let (3.., [Some(across), Some(down)]) = (channels, sides) else {
        return Err(no_picture(latent));
    };
    let values = &latent.as_slice()?[..3 * height * width];
    if let Some(at) = values.iter().position(|value| value.is_nan()) {
        return Err(common::Error::Invalid(format!("the latent holds NaN at place {at}")));
    }
    // In range after the clamp; infinities are the darkest and the brightest.
    let level = |value: f32| ((value.clamp(-1.0, 1.0) + 1.0) * 127.5).round() as u8;
    Ok(RgbImage::from_fn(across, down, |x, y| {
        let pixel = (y / SCALE) as usize * width + (x / SCALE) as usize;
        Rgb([0, 1, 2].map(|channel| level(values[channel * height * width + pixel])))
    }))
}

fn no_picture(latent: &Tensor) -> common::Error {
    let detail = ShapeError::mismatch("[3 or more, height, width]", latent.shape());
    common::Error::shape("a picture of a latent", detail)
}

/// Writes the pictures of latents as `frame-0000.png`, `frame-0001.png` … into `dir`, which is created if necessary, and returns
/// their paths.
///
/// # Errors
/// Same as [`picture`]; [`media::Error::Write`] if a file cannot be written.
pub fn write_frames<'a>(dir: &Path, latents: impl IntoIterator<Item = &'a Tensor>) -> crate::Result<Vec<PathBuf>> {
    let fail = |path: &Path, reason: String| media::Error::Write { path: path.to_owned(), reason };
    std::fs::create_dir_all(dir).map_err(|error| fail(dir, error.to_string()))?;
    let write = |(number, latent)| {
        let path = dir.join(format!("frame-{number:04}.png"));
        picture(latent)?.save(&path).map_err(|error| fail(&path, error.to_string()))?;
        Ok(path)
    };
    latents.into_iter().enumerate().map(write).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedule_is_nichol_and_dhariwals() {
        // cos²((0.5 + 0.008)/1.008·π/2) / cos²(0.008/1.008·π/2).
        assert!((alpha_bar(500.0) - 0.493_844).abs() < 1e-5, "{}", alpha_bar(500.0));
        assert_eq!(alpha_bar(0.0), 1.0);
        assert!(alpha_bar(1000.0) < 1e-9);
        assert_eq!(timesteps(SCHEDULE, 4).collect::<Vec<_>>(), [875.0, 625.0, 375.0, 125.0]);
        assert_eq!(timesteps(400.0, 2).collect::<Vec<_>>(), [300.0, 100.0]);
        assert!(timesteps(SCHEDULE, 50).map(alpha_bar).is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn clips_are_as_far_apart_as_their_values() {
        let clip = |value: f32| vec![Tensor::full(&[1, 4, 2, 2], value), Tensor::zeros(&[1, 4, 2, 2])];
        // A difference of 0.02 in half of the values.
        let decibels = peak_signal_to_noise(&clip(0.52), &clip(0.5)).unwrap();
        assert!((decibels - (40.0 + 10.0 * 2f64.log10())).abs() < 1e-3, "{decibels}");
        assert_eq!(peak_signal_to_noise(&clip(0.5), &clip(0.5)).unwrap(), f64::INFINITY);
        assert!(peak_signal_to_noise(&clip(f32::NAN), &clip(0.5)).unwrap().is_nan());
        assert!(peak_signal_to_noise(&clip(0.5), &[Tensor::zeros(&[1])]).is_err());
    }

    #[test]
    fn noise_is_normal() {
        let noise = gaussian(&[4, 128, 128], 1);
        let values = noise.as_slice().unwrap();
        let [mean, deviation] = mean_and_deviation(values);
        assert!(mean.abs() < 0.02 && (deviation - 1.0).abs() < 0.02, "{mean} {deviation}");
        // 4.55 % of a normal distribution is beyond two standard deviations.
        let far = values.iter().filter(|value| value.abs() > 2.0).count() as f64 / values.len() as f64;
        assert!((far - 0.0455).abs() < 0.004, "{far}");
        assert!(values.iter().all(|value| value.is_finite()));
    }

    #[test]
    fn channels_are_colours_and_values_are_squares() {
        // Red runs with x, green with y, blue is beyond both ends, the fourth channel is NaN and not looked at.
        let latent = Tensor::from_fn(&[4, 3, 5], |index| match *index {
            [0, _, x] => x as f32 / 2.0 - 1.0,
            [1, y, _] => y as f32 - 1.0,
            [2, _, x] => {
                if x < 2 {
                    -1.5
                } else {
                    f32::INFINITY
                }
            }
            _ => f32::NAN,
        });
        let image = picture(&latent).unwrap();
        assert_eq!(image.dimensions(), (20, 12));
        for (x, y, pixel) in image.enumerate_pixels() {
            let red = [0, 64, 128, 191, 255][x as usize / 4];
            let green = [0, 128, 255][y as usize / 4];
            assert_eq!(pixel.0, [red, green, if x < 8 { 0 } else { 255 }], "{x}, {y}");
        }
        let one = latent.reshape(&[1, 4, 3, 5]).unwrap();
        assert_eq!(picture(&one).unwrap(), image);
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        for shape in [&[2, 8, 8][..], &[8, 8], &[2, 4, 8, 8], &[]] {
            let error = picture(&Tensor::zeros(shape)).unwrap_err().to_string();
            assert!(
                error.starts_with("a picture of a latent: expected the shape [3 or more, height, width], got "),
                "{error}"
            );
        }
        let nan = Tensor::from_fn(&[3, 2, 2], |index| if index == [1, 0, 1] { f32::NAN } else { 0.0 });
        assert!(picture(&nan).unwrap_err().to_string().contains("NaN at place 5"));
    }

    #[test]
    fn frames_are_files_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let latents: Vec<Tensor> = (1..=3).map(|seed| Tensor::random(&[4, 64, 64], seed)).collect();
        let paths = write_frames(&dir.path().join("video"), &latents).unwrap();
        let names: Vec<_> = paths.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["frame-0000.png", "frame-0001.png", "frame-0002.png"]);
        for (path, latent) in paths.iter().zip(&latents) {
            let read = image::open(path).unwrap().into_rgb8();
            assert_eq!((read.dimensions(), &read), ((256, 256), &picture(latent).unwrap()));
        }
        std::fs::write(dir.path().join("file"), "").unwrap();
        let error = write_frames(&dir.path().join("file"), &latents).unwrap_err().to_string();
        assert!(error.starts_with("cannot write "), "{error}");
    }
}
