//! `reconstruct`: how well a model that was trained on ordinary sound reconstructs a sound, frame by frame. It cannot reconstruct
//! what it has never heard, so the error is an anomaly score.

use std::path::Path;

use bench::table::{ColumnSpec, Table, TableBuilder};
use common::prelude::*;
use media::plot::{Drawing, LinePlot};

use crate::backends::{Cpu, OnHost, Reliable, Unfused};
use crate::commands::finite::require_finite;
use crate::data::audio::{self, Config};
use crate::models::autoencoder::{self, Autoencoder};
use crate::nn::Parameters;

/// The mean squared error of each frame: B·F scores, in the order of time, of `input` and `output` \[B, F·M\] on the host.
///
/// # Errors
/// [`common::Error::Shape`] if the two differ in shape or are no inputs of this configuration, [`common::Error::Invalid`] if they are
/// on a device.
pub fn anomaly_scores(input: &Tensor, output: &Tensor, config: &Config) -> Result<Vec<f64>> {
    let operation = "the reconstruction error";
    let batch = input.shape().first().copied().unwrap_or_default();
    for tensor in [input, output] {
        tensor.expect_shape(operation, &[batch, config.frames * config.mels])?;
    }
    // With no values there are no frames either.
    let mels = config.mels.max(1);
    let frames = input.as_slice()?.chunks(mels).zip(output.as_slice()?.chunks(mels));
    let error = |(frame, reconstructed): (&[f32], &[f32])| {
        let squares = frame.iter().zip(reconstructed).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2));
        squares.sum::<f64>() / mels as f64
    };
    Ok(frames.map(error).collect())
}

/// Seed of the untrained parameters.
pub const SEED: u64 = 5;

/// The weights of a `.safetensors` file or, without one, untrained ones.
///
/// # Errors
/// Same as [`Parameters::open`].
pub fn parameters(config: &autoencoder::Config, weights: Option<&Path>) -> crate::Result<Parameters> {
    match weights {
        Some(path) => Ok(Parameters::open(path, &config.shapes())?),
        None => Ok(config.seeded(SEED)),
    }
}

/// The scores of a WAV file under an autoencoder with the weights of a `.safetensors` file or, without one, untrained ones.
///
/// # Errors
/// Same as [`parameters`], [`Reliable::load`] and [`scores_of`].
pub fn reconstruct(
    device: &Device,
    config: autoencoder::Config,
    weights: Option<&Path>,
    sound: &Path,
    plots: &Path,
) -> crate::Result<Table> {
    let parameters = parameters(&config, weights)?;
    let model = Reliable::load(&Unfused::new(device), config, &parameters)?;
    let spectrogram = Config { mels: config.n_mels, frames: config.frames };
    let mut table = scores_of(sound, &spectrogram, plots, |x| {
        let y = model.reconstruct(&device.stream(), x)?;
        require_finite("the autoencoder", y.as_slice()?, |first| {
            let cpu = Cpu::new();
            let model = Autoencoder::load(&cpu, config, &parameters)?;
            cpu.observe_layers(&model, &config.slices(x)?, |layer, output| first.see(layer, output))
        })?;
        Ok(y)
    })?;
    for warning in model.warnings() {
        table.note(warning);
    }
    if weights.is_none() {
        table.note("The weights are untrained, so the scores mean nothing. `--weights FILE` takes trained ones.");
    }
    Ok(table)
}

/// The scores of a WAV file under `model`, which turns inputs \[B, F·M\] into their reconstruction (both on the host); a plot of
/// them is written into `plots`, named after the sound.
///
/// # Errors
/// Same as [`audio::open`], [`audio::frames`] (with the file's name), `model`, [`anomaly_scores`] and [`LinePlot::save`].
pub fn scores_of(
    sound: &Path,
    config: &Config,
    plots: &Path,
    model: impl FnOnce(&Tensor) -> crate::Result<Tensor>,
) -> crate::Result<Table> {
    let samples = audio::open(sound)?;
    let unusable = |error: common::Error| crate::Error::Sound { path: sound.to_owned(), reason: error.to_string() };
    let input = audio::frames(&samples, config).map_err(unusable)?;
    let scores = anomaly_scores(&input, &model(&input)?, config)?;

    let name = sound.file_name().unwrap_or_default().to_string_lossy();
    let title = format!("Reconstruction error of {name}");
    const FRAME: ColumnSpec = ColumnSpec::identity("frame", "frame");
    const SECOND: ColumnSpec = ColumnSpec { decimals: Some(3), ..ColumnSpec::identity("s", "s") };
    const SCORE: ColumnSpec = ColumnSpec::number("score", "score", 6);
    let mut table = TableBuilder::of(&title, [FRAME, SECOND, SCORE]);
    for (frame, &score) in scores.iter().enumerate() {
        table.row().set(FRAME, frame).set(SECOND, audio::second(frame)).set(SCORE, score).complete();
    }
    let mean = scores.iter().sum::<f64>() / scores.len() as f64;
    table.note(format!("score: the mean squared error of a frame's {} values; {mean:.6} on average.", config.mels));
    if let Some((frame, score)) = scores.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b)) {
        table.note(format!("The largest is {score:.6}, at {:.3} s.", audio::second(frame)));
    }
    if let dropped @ 1.. = config.dropped(samples.len()) {
        let frames = config.frames;
        table.note(format!("Dropped at the end: {dropped} of its frames, since an input needs {frames}."));
    }
    let points = scores.iter().enumerate().map(|(frame, &score)| (audio::second(frame), score)).collect();
    let plot = LinePlot { title, x: "seconds".to_owned(), y: "mean squared error".to_owned(), points };
    let stem = sound.file_stem().unwrap_or_default().to_string_lossy();
    for path in plot.save(plots, &stem)? {
        table.note(format!("Plot: {}", path.display()));
    }
    Ok(table.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench::table::Cell;

    #[test]
    fn a_score_is_the_mean_of_a_frames_squares() {
        let config = Config { mels: 2, frames: 3 };
        let tensor = |values: [f32; 12]| Tensor::from_vec(&[2, 6], values.to_vec()).unwrap();
        let input = tensor([0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]);
        let output = tensor([0.0, 0.0, 1.5, 2.0, 0.0, 0.0, 5.0, 6.0, 7.0, f32::NAN, 9.0, 12.0]);
        let scores = anomaly_scores(&input, &output, &config).unwrap();
        assert_eq!(scores[..4], [0.0, 0.125, 12.5, 0.0]);
        assert!(scores[4].is_nan());
        assert_eq!(scores[5..], [2.0]);
        let empty = Tensor::zeros(&[0, 6]);
        assert!(anomaly_scores(&empty, &empty, &config).unwrap().is_empty());
        for (input, output) in [(&input, &empty), (&input, &Tensor::zeros(&[2, 7])), (&Tensor::zeros(&[6]), &output)] {
            let error = anomaly_scores(input, output, &config).unwrap_err().to_string();
            assert!(error.starts_with("the reconstruction error: expected the shape "), "{error}");
        }
    }

    /// Half a second with a click at 0.3 s, under a model that gives back the sound without it.
    #[test]
    fn what_the_model_does_not_give_back_stands_out() {
        let dir = tempfile::tempdir().unwrap();
        let [quiet, click] = ["quiet.wav", "click.wav"].map(|name| dir.path().join(name));
        let spec = hound::WavSpec {
            channels: 1,
            sample_rate: audio::SAMPLE_RATE,
            bits_per_sample: 16,
            sample_format: hound::SampleFormat::Int,
        };
        for path in [&quiet, &click] {
            let mut writer = hound::WavWriter::create(path, spec).unwrap();
            for n in 0..8000i32 {
                let loud = path == &click && n == 4800;
                writer.write_sample(if loud { 30_000 } else { (n * n % 1009 - 504) as i16 }).unwrap();
            }
            writer.finalize().unwrap();
        }
        let config = Config { mels: 16, frames: 5 };
        let plots = dir.path().join("plots");
        let model = |_: &Tensor| Ok(audio::frames(&audio::open(&quiet).unwrap(), &config)?);
        let table = scores_of(&click, &config, &plots, model).unwrap();
        // 16 frames, of which one is left over.
        let scores: Vec<(f64, f64)> =
            table
                .rows()
                .iter()
                .map(|row| {
                    if let [_, Cell::Number(s), Cell::Number(score)] = row[..] { (s, score) } else { panic!("{row:?}") }
                })
                .collect();
        assert_eq!(scores.len(), 15);
        // 512 samples on each side hear the click: the frames at 0.288 s and 0.32 s, and no other.
        for (second, score) in scores {
            assert_eq!(score > 0.1, (second - 0.3).abs() < 0.032, "{score} at {second} s");
            assert!(!(1e-9..=0.1).contains(&score), "{score}");
        }
        assert!(
            table.notes.iter().any(|note| note.contains("Dropped at the end: 1 of its frames")),
            "{:?}",
            table.notes
        );
        assert!(table.notes.iter().any(|note| note.starts_with("The largest is ")));
        assert!(plots.join("click.svg").is_file() && plots.join("click.png").is_file());

        let too_long = Config { mels: 16, frames: 50 };
        let error = scores_of(&click, &too_long, &plots, model).unwrap_err().to_string();
        assert!(
            error.contains("click.wav as sound: the sound is 0.500 s long, and an input of 50 frames needs"),
            "{error}"
        );
        let broken = |input: &Tensor| Ok(Tensor::full(input.shape(), f32::NAN));
        let error = scores_of(&click, &config, &plots, broken).unwrap_err().to_string();
        assert!(error.contains("point 0 is (0.0, NaN)"), "{error}");
    }
}
