//! Rules side by side: the time of a frame by each, and the effect on the frames.

use bench::ladder::NO_COUNTS;
use bench::table::{Cell, ColumnSpec, TableBuilder};
use bench::timing::NO_CLOCK;
use common::prelude::*;
use phase3_all_layers::commands::video::{alpha_bar, gaussian};
use phase3_all_layers::models::unet::{Config, LATENTS};
use phase3_all_layers::nn::Parameters;

use super::clip;
use super::quality::Quality;
use super::sampler::{Made, Network, Options, Rule, Sampler};
use crate::models::Arithmetic;

/// Arithmetic of the network.
pub const PRECISION: ColumnSpec = ColumnSpec::text("precision", "type");
/// As displayed by [`Rule`].
pub const RULE: ColumnSpec = ColumnSpec::text("rule", "rule");
/// Share of all steps in which the deep part runs.
pub const DEEP: ColumnSpec = ColumnSpec::number("deep_percent", "deep", 0);
/// Share of the first residual block's tiles that are computed.
pub const TILES: ColumnSpec = ColumnSpec::number("tiles_percent", "tiles", 0);
/// Milliseconds of a frame.
pub const MS: ColumnSpec = ColumnSpec::number("ms", "ms", 2).on_gpu();
/// Frames per second.
pub const FPS: ColumnSpec = ColumnSpec::number("frames_per_second", "fps", 1).on_gpu();
/// Millions of instructions of a frame, by lane.
pub const LANES: ColumnSpec = ColumnSpec::number("lane_millions", "lane M", 1).on_simulator();
/// Peak signal-to-noise ratio of the clip, and of its worst frame.
pub const PSNR: ColumnSpec = ColumnSpec::number("psnr", "PSNR", 1);
/// The same of the worst frame.
pub const WORST_PSNR: ColumnSpec = ColumnSpec::number("worst_psnr", "worst", 1);
/// Structural similarity, the mean of all frames.
pub const SSIM: ColumnSpec = ColumnSpec::number("ssim", "SSIM", 3);
/// The same of the worst frame.
pub const WORST_SSIM: ColumnSpec = ColumnSpec::number("worst_ssim", "least", 3);

/// All columns.
pub const COLUMNS: [ColumnSpec; 11] =
    [PRECISION, RULE, DEEP, TILES, MS, FPS, LANES, PSNR, WORST_PSNR, SSIM, WORST_SSIM];

/// A clip, and the network that makes it.
#[derive(Debug)]
pub struct Case<'a> {
    /// Size of the U-Net.
    pub config: Config,
    /// Its parameters.
    pub parameters: &'a Parameters,
    /// Number of steps and side of a frame.
    pub options: Options,
    /// Frames of the clip.
    pub frames: usize,
    /// Seed of the clip and of the noise.
    pub seed: u64,
}

impl Case<'_> {
    /// Initial values of the frames: the clip's latents, with noise up to the first step. The noise is the same in each.
    ///
    /// # Errors
    /// Same as [`clip::latents`]; [`Error::Invalid`] if a frame has no step.
    pub fn starts(&self) -> Result<Vec<Tensor>> {
        let Options { side, .. } = self.options;
        let first = self.options.timesteps().first().copied();
        let first = first.ok_or_else(|| Error::Invalid("a frame takes one step or more".to_owned()))?;
        let noise = gaussian(&[1, LATENTS, side, side], self.seed.wrapping_add(1));
        let (signal, of_noise) = (alpha_bar(first).sqrt(), (1.0 - alpha_bar(first)).sqrt());
        let noisy = |frame: &Tensor| {
            let values = frame.as_slice()?.iter().zip(noise.as_slice()?);
            Tensor::from_vec(frame.shape(), values.map(|(x, e)| signal * x + of_noise * e).collect())
        };
        clip::latents(self.frames, side, self.seed)?.iter().map(noisy).collect()
    }

    /// Makes the frames in this arithmetic by each of the rules, and calls `each` one after the other. Rules that cut the network
    /// in the same way should follow each other: they share it.
    ///
    /// # Errors
    /// Same as [`Network::new`], [`Sampler::new`] and [`Sampler::frames`]; errors of `each`.
    pub fn make(
        &self,
        device: &Device,
        arithmetic: Arithmetic,
        rules: &[Rule],
        mut each: impl FnMut(Rule, Made) -> Result<()>,
    ) -> Result<()> {
        let (starts, stream) = (self.starts()?, device.stream());
        for alike in rules.chunk_by(|a, b| a.cut() == b.cut()) {
            let cut = alike.first().map(Rule::cut).unwrap_or_default();
            let network = Network::new(device, self.config, self.parameters, arithmetic, self.options.side, cut)?;
            for &rule in alike {
                let mut sampler = Sampler::new(device, &network, &self.options, rule)?;
                each(rule, sampler.frames(&stream, &starts, || ())?)?;
            }
        }
        Ok(())
    }

    /// Adds the row of a rule's frames, compared with those of the whole computation in f32. Returns their errors.
    ///
    /// # Errors
    /// Same as [`Quality::of`].
    pub fn row(
        &self,
        table: &mut TableBuilder,
        arithmetic: Arithmetic,
        rule: Rule,
        made: &Made,
        whole: &[Tensor],
    ) -> Result<Option<String>> {
        let quality = Quality::of(&made.frames, whole)?;
        let percent = |share: Option<f64>, reason: &str| Cell::or_absent(share.map(|share| 100.0 * share), reason);
        let deep = rule.deep.map(|_| rule.deep_share(self.frames, self.options.steps));
        let ratio = |value: f64| Cell::or_absent(Some(value).filter(|value| value.is_finite()), "the same values");
        table
            .row()
            .set(PRECISION, arithmetic.to_string())
            .set(RULE, rule.to_string())
            .set(DEEP, percent(deep, "it is not apart"))
            .set(TILES, percent(made.tiles_made, "no tiles"))
            .set(MS, Cell::or_absent(made.ms, NO_CLOCK))
            .set(FPS, Cell::or_absent(made.ms.map(|ms| 1e3 / ms), NO_CLOCK))
            .set(LANES, Cell::or_absent(made.lane_instructions.map(|lanes| lanes / 1e6), NO_COUNTS))
            .set(PSNR, ratio(quality.psnr))
            .set(WORST_PSNR, ratio(quality.worst_psnr))
            .set(SSIM, quality.ssim)
            .set(WORST_SSIM, quality.worst_ssim)
            .complete();
        let is_nan = quality.psnr.is_nan() || quality.worst_ssim.is_nan();
        Ok(is_nan.then(|| format!("{arithmetic}, {rule}: a frame has values that are no numbers")))
    }

    /// Adds the meaning of the columns.
    pub fn notes(&self, table: &mut TableBuilder) {
        let Options { side, steps, noisiest } = self.options;
        table.note(format!("{} frames of {side} × {side}, {steps} steps each from timestep {noisiest}.", self.frames));
        table.note_on(MS, "ms, fps: without the first frame.");
        table.note_on(LANES, "lane M: millions of instructions, each counted once per lane, without the first frame.");
        table.note(
            "L1 1/3 steps: the deep part, from level 1 down and back, runs in every 3rd step; 1/3 frames: in all steps of every 3rd \
             frame. Δ ≤ t: of the first residual block only the tiles are made whose input changed by more than t. deep, tiles: what \
             was made, in %. PSNR in dB and SSIM, each with that of the worst frame, to the whole in f32. Weights: seeded.",
        );
    }
}
