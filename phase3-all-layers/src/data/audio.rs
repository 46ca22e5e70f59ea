//! Turns a WAV file into the autoencoder's input: frames of a log-mel spectrum.
//!
//! A frame is the spectrum around one moment. Moments lie [`HOP`] samples (32 ms) apart, the first at the beginning; around each,
//! [`WINDOW`] samples are weighted by a Hann window (beyond its ends the sound is mirrored), Fourier-transformed and squared.
//! M triangular filters that overlap by half, with corners at even distances on the mel scale, mel = 2595·log₁₀(1 + f / 700 Hz),
//! from 0 Hz to 8 kHz, each give one sum; its natural logarithm, with [`FLOOR`] added against silence, is the value. That is what
//! torchaudio's `MelSpectrogram(n_fft=1024, n_mels=M)` computes, and then `log(mel + 1e-6)`. In f64 until the last step, since a
//! quiet part of the spectrum is next to loud ones.
//!
//! Below 1 kHz the filters are narrow: with 512 of them, the 54 that fall between the transform's frequencies (15.6 Hz apart) are
//! always silent.

use std::io::Cursor;
use std::path::Path;

use common::files;
use common::prelude::*;
use hound::{SampleFormat, WavReader};
use realfft::RealFftPlanner;
use realfft::num_complex::Complex64;

use crate::Error;

/// Required samples per second of a sound.
pub const SAMPLE_RATE: u32 = 16_000;
/// Samples per spectrum.
pub const WINDOW: usize = 1024;
/// Samples from one spectrum to the next.
pub const HOP: usize = 512;
/// The largest file that is read: more than two hours of 16-bit sound.
const FILE_LIMIT: u64 = 256 << 20;
/// Added to a filter's sum before its logarithm is taken.
pub const FLOOR: f64 = 1e-6;

/// Shape of one input of the autoencoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Values of a frame, M.
    pub mels: usize,
    /// Frames of an input, F.
    pub frames: usize,
}

impl Config {
    /// Minimum number of samples for an input: F frames, and a beginning that can be mirrored.
    pub fn least_samples(&self) -> usize {
        (self.frames.saturating_sub(1) * HOP).max(WINDOW / 2 + 1)
    }

    /// Frames at the end that [`frames`] drops for lack of a full input, if the sound has `samples` samples.
    pub fn dropped(&self, samples: usize) -> usize {
        (1 + samples / HOP) % self.frames
    }
}

/// The moment of a frame, in seconds from the beginning.
pub fn second(frame: usize) -> f64 {
    (frame * HOP) as f64 / f64::from(SAMPLE_RATE)
}

/// The samples of a WAV file: integers of 8 to 32 bits scaled to [−1, 1), or f32 as they are; channels are averaged.
///
/// # Errors
/// [`Error::Sound`] if the file is not a regular one, has more than 256 MiB, cannot be read, is not a WAV file, is compressed,
/// empty or truncated, has another rate than [`SAMPLE_RATE`] (nothing is resampled: the program that made the sound can do so
/// better), or holds a value that is not finite.
pub fn open(path: &Path) -> crate::Result<Vec<f32>> {
    let fail = |reason| Error::Sound { path: path.to_owned(), reason };
    let bytes = files::read(path, FILE_LIMIT).map_err(|error| fail(error.to_string()))?;
    decode(&bytes).map_err(fail)
}

fn decode(bytes: &[u8]) -> Result<Vec<f32>, String> {
    if bytes.is_empty() {
        return Err("the file is empty".to_owned());
    }
    let mut wav = WavReader::new(Cursor::new(bytes)).map_err(|error| match error {
        hound::Error::IoError(_) => "it is truncated or no WAV file".to_owned(),
        hound::Error::Unsupported => "its samples are neither integers nor f32".to_owned(),
        other => format!("it is no WAV file that can be read: {other}"),
    })?;
    let spec = wav.spec();
    if spec.sample_rate != SAMPLE_RATE {
        return Err(format!(
            "it has {} samples per second, not {SAMPLE_RATE}; `ffmpeg -i IN.wav -ar {SAMPLE_RATE} OUT.wav` converts it",
            spec.sample_rate
        ));
    }
    let count = wav.len();
    if count == 0 {
        return Err("it holds no samples".to_owned());
    }
    let channels = usize::from(spec.channels);
    match spec.sample_format {
        SampleFormat::Float => averaged(wav.samples::<f32>().map(|sample| sample.map(f64::from)), channels, count),
        SampleFormat::Int => {
            let full_scale = f64::from(spec.bits_per_sample - 1).exp2();
            let scaled = wav.samples::<i32>().map(|sample| sample.map(|sample| f64::from(sample) / full_scale));
            averaged(scaled, channels, count)
        }
    }
}

/// The mean of each moment's samples, one per channel; `count` is the number of samples stated by the file.
fn averaged(
    samples: impl Iterator<Item = hound::Result<f64>>,
    channels: usize,
    count: u32,
) -> Result<Vec<f32>, String> {
    // Without room made ahead: the count is what a file claims.
    let mut moments = Vec::new();
    let mut sum = 0.0;
    for (at, sample) in samples.enumerate() {
        let sample = sample.map_err(|error| match error {
            hound::Error::IoError(_) => format!("it is truncated: it says that it holds {count} samples"),
            other => other.to_string(),
        })?;
        if !sample.is_finite() {
            return Err(format!("sample {at} is {sample}"));
        }
        sum += sample;
        if (at + 1) % channels == 0 {
            moments.push((sum / channels as f64) as f32);
            sum = 0.0;
        }
    }
    Ok(moments)
}

/// The inputs \[B, F·M\] that sound at [`SAMPLE_RATE`] makes. Each is F successive frames; the next begins where it ends,
/// so that no frame is in two. Frames that are left over are dropped: [`Config::dropped`] counts them.
///
/// # Errors
/// [`common::Error::Invalid`] if the sound is too short for one input, or M or F is 0.
pub fn frames(samples: &[f32], config: &Config) -> Result<Tensor> {
    let &Config { mels, frames } = config;
    let invalid = |what: String| Err(common::Error::Invalid(what));
    if mels == 0 || frames == 0 {
        return invalid(format!("an input of {frames} frames of {mels} values holds nothing"));
    }
    if samples.len() < config.least_samples() {
        let seconds = |samples: usize| samples as f64 / f64::from(SAMPLE_RATE);
        return invalid(format!(
            "the sound is {:.3} s long, and an input of {frames} frames needs {:.3} s",
            seconds(samples.len()),
            seconds(config.least_samples())
        ));
    }
    let mut spectrum = log_mel(samples, mels);
    let batch = spectrum.len() / (frames * mels);
    spectrum.truncate(batch * frames * mels);
    Tensor::from_vec(&[batch, frames * mels], spectrum)
}

/// All frames \[1 + samples / [`HOP`], mels\] of more than half a window.
fn log_mel(samples: &[f32], mels: usize) -> Vec<f32> {
    let window: Vec<f64> =
        (0..WINDOW).map(|n| 0.5 - 0.5 * (std::f64::consts::TAU * n as f64 / WINDOW as f64).cos()).collect();
    let filters = filters(mels);
    let transform = RealFftPlanner::<f64>::new().plan_fft_forward(WINDOW);
    let (mut bins, mut scratch) = (transform.make_output_vec(), transform.make_scratch_vec());
    let (mut weighted, mut powers) = (transform.make_input_vec(), vec![0.0; WINDOW / 2 + 1]);
    let mut values = Vec::with_capacity((1 + samples.len() / HOP) * mels);
    for middle in (0..=samples.len()).step_by(HOP) {
        for (n, (weighted, weight)) in weighted.iter_mut().zip(&window).enumerate() {
            *weighted = weight * f64::from(samples[mirrored(middle + n, samples.len())]);
        }
        transform
            .process_with_scratch(&mut weighted, &mut bins, &mut scratch)
            .expect("the buffers are the transform's own");
        powers.iter_mut().zip(&bins).for_each(|(power, bin)| *power = Complex64::norm_sqr(bin));
        values.extend(filters.iter().map(|filter| (filter.sum(&powers) + FLOOR).ln() as f32));
    }
    values
}

/// The sample at `at − WINDOW / 2`, where the sound is mirrored at its first and its last sample.
fn mirrored(at: usize, len: usize) -> usize {
    let before = WINDOW / 2;
    match at.checked_sub(before) {
        None => before - at,
        Some(at) if at < len => at,
        Some(at) => 2 * (len - 1) - at,
    }
}

/// A triangle over the transform's frequencies.
struct Filter {
    first: usize,
    weights: Vec<f64>,
}

impl Filter {
    fn sum(&self, powers: &[f64]) -> f64 {
        self.weights.iter().zip(&powers[self.first..]).map(|(weight, power)| weight * power).sum()
    }
}

fn filters(mels: usize) -> Vec<Filter> {
    let nyquist = f64::from(SAMPLE_RATE) / 2.0;
    let top = 2595.0 * (1.0 + nyquist / 700.0).log10();
    let corner = |at: usize| 700.0 * (10f64.powf(top * at as f64 / (mels + 1) as f64 / 2595.0) - 1.0);
    let bins = WINDOW / 2;
    let frequency = |bin: usize| nyquist * bin as f64 / bins as f64;
    let filter = |mel| {
        let [left, middle, right] = [mel, mel + 1, mel + 2].map(corner);
        let weight = |bin| {
            let frequency = frequency(bin);
            ((frequency - left) / (middle - left)).min((right - frequency) / (right - middle))
        };
        let first = (0..=bins).find(|&bin| frequency(bin) > left).unwrap_or(bins);
        Filter { first, weights: (first..=bins).map(weight).take_while(|&weight| weight > 0.0).collect() }
    };
    (0..mels).map(filter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hound::{WavSpec, WavWriter};

    const fn spec(channels: u16, bits_per_sample: u16, sample_format: SampleFormat) -> WavSpec {
        WavSpec { channels, sample_rate: SAMPLE_RATE, bits_per_sample, sample_format }
    }

    fn wav<S: hound::Sample + Copy>(spec: WavSpec, samples: &[S]) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        let mut writer = WavWriter::new(&mut bytes, spec).unwrap();
        samples.iter().for_each(|&sample| writer.write_sample(sample).unwrap());
        writer.finalize().unwrap();
        bytes.into_inner()
    }

    /// The same sound as in `python/log_mel.py`.
    fn sound(count: usize) -> Vec<f32> {
        (0..count).map(|n| ((n * n % 1009) as f32 - 504.0) / 1024.0 * ((n % 4000) as f32 / 4096.0)).collect()
    }

    #[test]
    fn integers_of_each_width_and_floats_are_scaled_and_channels_averaged() {
        for bits in [8, 16, 24, 32] {
            let full = 1i64 << (bits - 1);
            let samples = [-full, -full / 2, 0, full / 4, full - 1].map(|sample| sample as i32);
            let read = decode(&wav(spec(1, bits, SampleFormat::Int), &samples)).unwrap();
            assert_eq!(read, [-1.0, -0.5, 0.0, 0.25, ((full - 1) as f64 / full as f64) as f32], "{bits} bits");
        }
        let read = decode(&wav(spec(1, 32, SampleFormat::Float), &[0.1f32, -1.5, 1e-30])).unwrap();
        assert_eq!(read, [0.1, -1.5, 1e-30]);
        let read = decode(&wav(spec(2, 16, SampleFormat::Int), &[16384i16, 0, -16384, -8192])).unwrap();
        assert_eq!(read, [0.25, -0.375]);
        let read = decode(&wav(spec(5, 32, SampleFormat::Float), &[1.0f32, 2.0, 3.0, 4.0, -5.0])).unwrap();
        assert_eq!(read, [1.0]);
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_the_reason() {
        let good = wav(spec(1, 16, SampleFormat::Int), &[1i16, 2, 3, 4]);
        let at_rate = |sample_rate| wav(WavSpec { sample_rate, ..spec(1, 16, SampleFormat::Int) }, &[1i16]);
        // The format's tag follows RIFF's head (12 bytes) and the chunk's (8); 2 is ADPCM.
        let mut compressed = good.clone();
        compressed[20] = 2;
        for (bytes, says) in [
            (Vec::new(), "the file is empty"),
            (
                b"Dear reader, this is text and long enough to hold a header.".to_vec(),
                "it is no WAV file that can be read: ",
            ),
            (b"RIFF".to_vec(), "it is truncated or no WAV file"),
            (good[..30].to_vec(), "it is truncated or no WAV file"),
            (good[..good.len() - 1].to_vec(), "it is truncated: it says that it holds 4 samples"),
            (at_rate(44_100), "it has 44100 samples per second, not 16000; `ffmpeg "),
            (at_rate(8_000), "it has 8000 samples per second"),
            (wav::<i16>(spec(1, 16, SampleFormat::Int), &[]), "it holds no samples"),
            (wav(spec(1, 32, SampleFormat::Float), &[0.0f32, f32::NAN]), "sample 1 is NaN"),
            (wav(spec(1, 32, SampleFormat::Float), &[f32::NEG_INFINITY]), "sample 0 is -inf"),
            (compressed, "its samples are neither integers nor f32"),
        ] {
            let error = decode(&bytes).unwrap_err();
            assert!(error.starts_with(says), "{error}, not {says}");
        }
        assert!(decode(&good).is_ok());
    }

    #[test]
    fn no_damage_to_a_header_is_more_than_an_error() {
        for good in [
            wav(spec(2, 16, SampleFormat::Int), &[1i16, 2, 3, 4]),
            wav(spec(1, 24, SampleFormat::Int), &[1i32, 2]),
            wav(spec(1, 32, SampleFormat::Float), &[1f32, 2.0]),
        ] {
            for at in 0..good.len() {
                for byte in 0..=u8::MAX {
                    let mut bytes = good.clone();
                    bytes[at] = byte;
                    // Whether it can still be read is for the byte to say.
                    if let Ok(samples) = decode(&bytes) {
                        assert!(samples.len() <= 8 && samples.iter().all(|sample| sample.is_finite()));
                    }
                }
            }
        }
    }

    /// `python/log_mel.py` made the file, and compares itself with torchaudio.
    #[test]
    fn frames_are_those_of_the_definition() {
        #[derive(serde::Deserialize)]
        struct Golden {
            samples: usize,
            mels: usize,
            columns: usize,
            mean: f64,
            values: Vec<f64>,
        }
        let goldens: Vec<Golden> = serde_json::from_str(include_str!("../../tests/goldens/log_mel.json")).unwrap();
        assert_eq!(goldens.len(), 4);
        for Golden { samples, mels, columns, mean, values } in goldens {
            let input = frames(&sound(samples), &Config { mels, frames: 1 }).unwrap();
            assert_eq!(input.shape(), [columns, mels]);
            let ours = input.as_slice().unwrap();
            // f32 keeps values below 16 to 5e-7, and seven digits are in the file.
            let picked = ours.chunks(mels).step_by(2).flat_map(|frame| frame.iter().step_by(7));
            assert_eq!(picked.clone().count(), values.len());
            for (&ours, &golden) in picked.zip(&values) {
                assert!((f64::from(ours) - golden).abs() < 6e-7, "{mels} mels: {ours} and {golden}");
            }
            let of_ours = ours.iter().copied().map(f64::from).sum::<f64>() / ours.len() as f64;
            assert!((of_ours - mean).abs() < 1e-7, "{mels} mels: {of_ours} and {mean}");
        }
    }

    #[test]
    fn a_tone_is_loudest_in_the_filter_around_it_and_silence_is_the_floor() {
        let tone = |hertz: f64| -> Vec<f32> {
            let phase = |n: u32| std::f64::consts::TAU * hertz * f64::from(n) / f64::from(SAMPLE_RATE);
            (0..4096).map(|n| phase(n).sin() as f32).collect()
        };
        // On a scale of 65 equal steps up to 2840.02 mel, 1 kHz (999.99 mel) is at step 22.887, 4 kHz (2146.07) at 49.117.
        for (hertz, loudest) in [(1000.0, 22), (4000.0, 48)] {
            let input = frames(&tone(hertz), &Config { mels: 64, frames: 8 }).unwrap();
            assert_eq!(input.shape(), [1, 512]);
            let frame = &input.as_slice().unwrap()[3 * 64..4 * 64];
            let most = (0..64).max_by(|&a, &b| frame[a].total_cmp(&frame[b])).unwrap();
            assert_eq!(most, loudest, "{hertz} Hz");
        }
        let silence = frames(&[0.0; 2048], &Config { mels: 64, frames: 5 }).unwrap();
        assert!(silence.as_slice().unwrap().iter().all(|&value| value == FLOOR.ln() as f32));
    }

    #[test]
    fn inputs_follow_each_other_and_what_is_left_is_dropped() {
        let (samples, config) = (sound(6 * HOP + 100), Config { mels: 8, frames: 3 });
        // 7 frames: two inputs of 3, and one left.
        let all = frames(&samples, &Config { frames: 1, ..config }).unwrap();
        assert_eq!(all.shape(), [7, 8]);
        let inputs = frames(&samples, &config).unwrap();
        assert_eq!((inputs.shape(), config.dropped(samples.len())), ([2, 24].as_slice(), 1));
        assert_eq!(inputs.as_slice().unwrap(), &all.as_slice().unwrap()[..48]);
        assert_eq!(second(5), 0.16);
        // The fewest samples are enough, and one less is not.
        for frames_of in [1, 2, 3, 10] {
            let config = Config { mels: 4, frames: frames_of };
            let least = config.least_samples();
            assert_eq!(
                frames(&sound(least), &config).unwrap().shape(),
                [if frames_of == 1 { 2 } else { 1 }, 4 * frames_of]
            );
            let error = frames(&sound(least - 1), &config).unwrap_err().to_string();
            assert!(error.starts_with("the sound is 0.") && error.contains("needs 0."), "{error}");
        }
        assert!(frames(&[], &config).is_err() && frames(&samples, &Config { mels: 0, ..config }).is_err());
        assert!(frames(&samples, &Config { frames: 0, ..config }).is_err());
    }

    #[test]
    fn filters_between_the_transforms_frequencies_are_silent() {
        let silent = |mels| filters(mels).iter().filter(|filter| filter.weights.is_empty()).count();
        assert_eq!([64, 128, 512].map(silent), [0, 0, 54]);
    }
}
