//! Difference of frames from those of the whole computation.

use common::prelude::*;
use common::reference::structural_similarity;
use phase3_all_layers::commands::video::peak_signal_to_noise;

/// Range of the values of frames, from −1 to 1.
const RANGE: f64 = 2.0;

/// Quality of a clip's frames: the mean and the worst of each measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    /// Peak signal-to-noise ratio in decibels of the whole clip, by its mean square error; infinite for equal values.
    pub psnr: f64,
    /// Peak signal-to-noise ratio of the worst frame.
    pub worst_psnr: f64,
    /// Mean structural similarity.
    pub ssim: f64,
    /// Structural similarity of the worst frame.
    pub worst_ssim: f64,
}

impl Quality {
    /// Compares `frames` with those of the whole computation, on the host.
    ///
    /// # Errors
    /// [`Error::Invalid`] if their numbers differ, there is none or one is on a device; [`Error::Shape`] if shapes differ.
    pub fn of(frames: &[Tensor], whole: &[Tensor]) -> Result<Quality> {
        if frames.is_empty() || frames.len() != whole.len() {
            return Err(Error::Invalid(format!("{} frames beside {}", frames.len(), whole.len())));
        }
        let of_frames = |of: &dyn Fn(usize) -> Result<f64>| (0..frames.len()).map(of).collect::<Result<Vec<f64>>>();
        // NaN is the worst.
        let worst =
            |values: &[f64]| values.iter().copied().min_by(|a, b| b.is_nan().cmp(&a.is_nan()).then(a.total_cmp(b)));
        let ratios = of_frames(&|at| peak_signal_to_noise(&frames[at..=at], &whole[at..=at]))?;
        let likeness = of_frames(&|at| structural_similarity(&frames[at], &whole[at], RANGE))?;
        Ok(Quality {
            psnr: peak_signal_to_noise(frames, whole)?,
            worst_psnr: worst(&ratios).unwrap_or(f64::NAN),
            ssim: likeness.iter().sum::<f64>() / likeness.len() as f64,
            worst_ssim: worst(&likeness).unwrap_or(f64::NAN),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_frame_counts_by_itself() {
        let clip = |offset: f32| {
            let frame = Tensor::random(&[1, 4, 12, 12], 3);
            let moved = Tensor::from_fn(&[1, 4, 12, 12], |at| {
                frame.as_slice().unwrap()[(at[1] * 12 + at[2]) * 12 + at[3]] + offset
            });
            vec![frame, moved]
        };
        let quality = Quality::of(&clip(0.02), &clip(0.0)).unwrap();
        // A difference of 0.02 in one of two frames.
        assert!((quality.worst_psnr - 40.0).abs() < 1e-2, "{quality:?}");
        assert!((quality.psnr - 40.0 - 10.0 * 2f64.log10()).abs() < 1e-2, "{quality:?}");
        // The first frame's SSIM is 1, so the mean lies half-way between it and the worst.
        assert!((quality.ssim - (1.0 + quality.worst_ssim) / 2.0).abs() < 1e-6, "{quality:?}");
        assert!(quality.worst_ssim > 0.8 && quality.worst_ssim < 0.99, "{quality:?}");
        let same = Quality::of(&clip(0.0), &clip(0.0)).unwrap();
        assert_eq!((same.psnr, same.worst_psnr), (f64::INFINITY, f64::INFINITY));
        assert!(Quality::of(&clip(f32::NAN), &clip(0.0)).unwrap().worst_psnr.is_nan());
        assert!(Quality::of(&[], &[]).is_err() && Quality::of(&clip(0.0)[..1], &clip(0.0)).is_err());
    }
}
