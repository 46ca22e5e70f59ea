//! The first residual block of the U-Net over changed tiles, and the same block over the whole image.

use std::sync::Arc;

use bench::ladder::{NO_COUNTS, columns};
use bench::parts::{Part, Report};
use bench::table::{Cell, ColumnSpec, TableBuilder};
use bench::timing::{Bench, NO_CLOCK, Timing};
use common::check::{Tolerance, compare};
use common::prelude::*;
use common::reference::Conv2dParams;
use phase3_all_layers::nn::{EPS, Operation};

use crate::conv;
use crate::gemm::{Activation, Columns, Epilogue, Later};
use crate::temporal::tiles::{TiledResidual, Weights};

/// `cargo run -p phase4-fusion -- tiles`.
pub const PART: Part = Part {
    name: "tiles",
    about: "a residual block over tiles that changed since the frame before, and over the whole image",
    tables: &["changed-tiles"],
    by_default: true,
    run,
};

const BY: ColumnSpec = ColumnSpec::text("by", "by");
const CHANGED: ColumnSpec = ColumnSpec::text("changed", "changed tiles");
const MICROSECONDS: ColumnSpec = ColumnSpec::number("us", "µs", 2).on_gpu();
const OF_WHOLE: ColumnSpec = ColumnSpec::number("of_whole", "% of whole", 0);

/// Side of a tile.
const TILE: usize = 8;
/// Channels of the image that determines which tiles have changed: those of the U-Net's input.
const SEEN: usize = 8;

fn run(device: &Device) -> Result<Report> {
    let (side, channels, shares): (_, _, &[usize]) =
        if device.is_sim() { (32, 64, &[0, 1, 4, 16]) } else { (64, 320, &[0, 1, 4, 8, 16, 32, 64]) };
    let title = format!("a residual block of {channels} channels, {side} × {side} pixels, f16");
    let all = [BY, CHANGED, columns::LANE_MILLIONS, MICROSECONDS, OF_WHOLE, columns::CHECK];
    let mut table = TableBuilder::on(device, &title, &all);
    let mut wrong = Vec::new();
    let block = Block::new(device, side, channels)?;
    let (timing, whole) = match block.whole(device) {
        Err(error) if error.is_unsupported() => {
            table.row().set(BY, "whole image").finish(&error.to_string());
            table.note("The convolutions on whole images are missing here, so there is nothing to compare with.");
            return Ok(Report { tables: vec![table.finish()], ..Report::default() });
        }
        whole => whole?,
    };
    let cost = |timing: &Timing| timing.median_ms().or(timing.counts().map(|counts| counts.lane_instructions as f64));
    let of_whole = cost(&timing);
    let tiles = block.tiles();
    let mut add = |by: &str, changed: usize, timing: &Timing, check: &str| {
        let counts = timing.counts().map(|counts| counts.lane_instructions as f64 / 1e6);
        let part = cost(timing).zip(of_whole).map(|(part, whole)| 100.0 * part / whole);
        table
            .row()
            .set(BY, by)
            .set(CHANGED, format!("{changed} of {tiles}"))
            .set(columns::LANE_MILLIONS, Cell::or_absent(counts, NO_COUNTS))
            .set(MICROSECONDS, Cell::or_absent(timing.median_ms().map(|ms| 1e3 * ms), NO_CLOCK))
            .set(OF_WHOLE, Cell::or_absent(part, "nothing to compare with"))
            .set(columns::CHECK, check)
            .complete();
    };
    add("whole image", tiles, &timing, "reference");
    for &changed in shares {
        let (timing, found) = block.over_tiles(device, changed)?;
        // Two products with other orders of summation: each result was rounded to f16, and the first's rounding goes through the second.
        let largest = whole.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        let tolerance = Tolerance::new(4.0 * 2f64.powi(-11) * f64::from(largest), 0.0);
        let check = match compare(&found, &whole, tolerance) {
            Ok(_) => "ok",
            Err(mismatch) => {
                wrong.push(format!("{changed} of {tiles} tiles: {mismatch}"));
                "WRONG"
            }
        };
        add("changed tiles", changed, &timing, check);
    }
    table.note("whole image: the two convolutions of the plan. changed tiles: the comparison, and two convolutions over a list.");
    Ok(Report { tables: vec![table.finish()], wrong })
}

/// A residual block with its input.
struct Block {
    operations: Vec<Operation>,
    weights: [Weights; 2],
    x: Tensor,
    channels: Tensor,
    side: usize,
}

impl Block {
    fn new(device: &Device, side: usize, channels: usize) -> Result<Block> {
        // Weights keep the variance of what they multiply.
        let gain = (3.0 / (9 * channels) as f32).sqrt();
        let scaled = |shape: &[usize], seed, factor: f32, offset: f32| {
            let random = Tensor::random(shape, seed).into_vec()?;
            Tensor::from_vec(shape, random.iter().map(|value| factor * value + offset).collect()).map(Arc::new)
        };
        let layer = |seed: u64| {
            let part = |more, factor, offset| scaled(&[channels], seed + more, factor, offset);
            let weight = scaled(&[channels, channels, 3, 3], seed, gain, 0.0)?;
            let conv = Operation::Conv2d { weight, bias: None, params: Conv2dParams::new(1, 1) };
            let (weight, bias) = (part(1, 0.5, 1.0)?, part(2, 0.5, 0.0)?);
            let (mean, variance) = (part(3, 0.1, 0.0)?, part(4, 0.1, 0.3)?);
            Ok::<_, Error>([conv, Operation::BatchNorm { weight, bias, mean, variance, eps: EPS }])
        };
        let ([conv1, norm1], [conv2, norm2]) = (layer(10)?, layer(20)?);
        let weights = |conv, norm| Weights::of(device, conv, norm, [channels; 2]);
        let weights = [weights(&conv1, &norm1)?, weights(&conv2, &norm2)?];
        let other = || Operation::Silu;
        let x = Tensor::random(&[1, channels, side, side], 1).to_type(ElementType::F16)?;
        Ok(Block {
            operations: vec![conv1, norm1, other(), other(), other(), conv2, norm2, other(), other()],
            weights,
            x: x.to_format(MemoryFormat::Nhwc)?.to_device(device)?,
            channels: Tensor::random(&[1, channels], 2).to_device(device)?,
            side,
        })
    }

    fn tiles(&self) -> usize {
        (self.side / TILE).pow(2)
    }

    fn empty(&self, device: &Device) -> Result<Tensor> {
        Tensor::empty_of(device, self.x.shape(), ElementType::F16, MemoryFormat::Nhwc)
    }

    /// Runs it with the kernels of a plan, and returns the result.
    fn whole(&self, device: &Device) -> Result<(Timing, Vec<f32>)> {
        let (stream, conv) = (device.stream(), conv::Tuned::load(device)?);
        let (mut middle, mut y) = (self.empty(device)?, self.empty(device)?);
        let channels = Columns::all(&self.channels)?;
        let timing = Bench::default().measure(&stream, || {
            let launch = |x: &Tensor, weights: &Weights, later, y: &mut Tensor| {
                let epilogue = Epilogue {
                    scale: Some(&weights.scale),
                    shift: Some(&weights.shift),
                    activation: Activation::Silu,
                    later,
                    ..Epilogue::default()
                };
                conv.launch(&stream, x, &weights.weight, Conv2dParams::new(1, 1), &epilogue, y)
            };
            launch(&self.x, &self.weights[0], Later { image: None, channels: Some(channels) }, &mut middle)?;
            launch(&middle, &self.weights[1], Later { image: Some(&self.x), channels: None }, &mut y)
        })?;
        Ok((timing, values(&y)?))
    }

    /// Runs it over a list, with this number of tiles that change from pass to pass, and returns the result.
    fn over_tiles(&self, device: &Device, changed: usize) -> Result<(Timing, Vec<f32>)> {
        let stream = device.stream();
        let operations: Vec<&Operation> = self.operations.iter().collect();
        let block = TiledResidual::new(device, &operations, self.x.shape()[1])?;
        let shape = [1, SEEN, self.side, self.side];
        let mut kept = block.keep(&stream, shape, &self.x)?;
        // A pixel in the middle of a tile, which no other tile sees; every so many tiles.
        let (tiles, across) = (self.tiles(), self.side / TILE);
        let is_changed = |tile: usize| (tile + 1) * changed / tiles > tile * changed / tiles;
        let seen = [0.0, 1.0].map(|value| {
            Tensor::from_fn(&shape, |at| {
                let is_middle = at[2] % TILE == TILE / 2 && at[3] % TILE == TILE / 2;
                if is_middle && is_changed(at[2] / TILE * across + at[3] / TILE) { value } else { 0.5 }
            })
            .to_device(device)
        });
        let [first, second] = seen;
        let seen = [first?, second?];
        let mut pass = 0;
        let mut queue = || {
            pass += 1;
            block.launch(&stream, (&seen[pass % 2], 0.0), &self.x, &self.channels, &mut kept)
        };
        queue()?;
        let timing = Bench::default().measure(&stream, queue)?;
        let listed = kept.tiles().listed(&stream)?.len();
        if listed != changed {
            return Err(Error::Invalid(format!("{listed} tiles were listed, {changed} changed")));
        }
        Ok((timing, values(kept.output())?))
    }
}

fn values(y: &Tensor) -> Result<Vec<f32>> {
    y.to_host()?.to_format(MemoryFormat::Nchw)?.to_type(ElementType::F32)?.into_vec()
}
