//! Temporal caching: tiles that have not changed, deep layers that run every n-th step, and the clip that shows both.

use std::sync::Arc;

use common::check::{Tolerance, compare};
use common::device_test;
use common::prelude::*;
use common::reference::{self, Conv2dParams};
use phase3_all_layers::commands::video::{SCHEDULE, Sampler as Phase3};
use phase3_all_layers::models::unet::{Config, INPUTS, LATENTS};
use phase3_all_layers::nn::{EPS, Operation};
use phase4_fusion::commands::unet::plan;
use phase4_fusion::models::Arithmetic;
use phase4_fusion::temporal::quality::Quality;
use phase4_fusion::temporal::sampler::{Deep, Every, Made, Network, Options, Rule, Sampler};
use phase4_fusion::temporal::tiles::{Changed, ConvTiles, Kept, Then, TiledResidual, Weights};

const NARROW: Config = Config { channels: 8, heads: 2 };
/// Side of a tile, and its reach.
const TILE: usize = 8;
const HALO: usize = 3;
/// Ragged against tiles: 2 × 3 of them in each of two images.
const RAGGED: [usize; 2] = [13, 21];

/// No tile.
const NONE: [u32; 0] = [];
/// Image, row and column: in a corner, at an edge between tiles, in the ragged part.
const PLACES: [[usize; 3]; 4] = [[0, 0, 0], [0, 7, 8], [1, 4, 10], [1, 12, 20]];

/// The tiles of images of this size that see a pixel.
fn tiles_that_see([image, y, x]: [usize; 3], [height, width]: [usize; 2]) -> Vec<u32> {
    let (down, across) = (height.div_ceil(TILE), width.div_ceil(TILE));
    let near = |tile: usize, at: usize| (tile * TILE).saturating_sub(HALO) <= at && at < (tile + 1) * TILE + HALO;
    let all = (0..down).flat_map(|row| (0..across).map(move |column| (row, column)));
    let seeing = all.filter(|&(row, column)| near(row, y) && near(column, x));
    seeing.map(|(row, column)| ((image * down + row) * across + column) as u32).collect()
}

/// The same values with another at one index.
fn with_value(tensor: &Tensor, at: [usize; 4], value: f32) -> Tensor {
    let values = tensor.as_slice().unwrap();
    let mut flat = 0;
    Tensor::from_fn(tensor.shape(), |index| {
        flat += 1;
        if index == at { value } else { values[flat - 1] }
    })
}

/// A convolution of 3 × 3 and its BatchNorm, and its weights, scale and shift in f64.
struct Layer {
    conv: Operation,
    norm: Operation,
    weight: Tensor,
    scale: Vec<f64>,
    shift: Vec<f64>,
}

/// Rounds to f16.
fn as_f16(tensor: Tensor) -> Tensor {
    tensor.to_type(ElementType::F16).unwrap().to_type(ElementType::F32).unwrap()
}

/// An image with zeros up to this many channels.
fn filled(image: &Tensor, channels: usize) -> Tensor {
    let ([n, c, h, w], values) = (image.dims4().unwrap(), image.as_slice().unwrap());
    Tensor::from_fn(&[n, channels, h, w], |at| {
        if at[1] < c { values[((at[0] * c + at[1]) * h + at[2]) * w + at[3]] } else { 0.0 }
    })
}

fn layer(outputs: usize, inputs: usize, seed: u64) -> Layer {
    let weight = as_f16(Tensor::random(&[outputs, inputs, 3, 3], seed));
    let part = |more: u64, offset: f32| {
        let random = Tensor::random(&[outputs], seed + more);
        Tensor::from_fn(&[outputs], |at| offset + 0.5 * random.as_slice().unwrap()[at[0]])
    };
    let parts = [part(1, 0.2), part(2, 0.0), part(3, 0.1), part(4, 4.0)];
    let [gamma, beta, mean, variance] = parts.each_ref().map(|part| part.as_slice().unwrap());
    let wide = |at: usize, values: &[f32]| f64::from(values[at]);
    let scale: Vec<f64> =
        (0..outputs).map(|at| wide(at, gamma) / (wide(at, variance) + f64::from(EPS)).sqrt()).collect();
    let shift = (0..outputs).map(|at| wide(at, beta) - wide(at, mean) * scale[at]).collect();
    let [gamma, beta, mean, variance] = parts.map(Arc::new);
    let norm = Operation::BatchNorm { weight: gamma, bias: beta, mean, variance, eps: EPS };
    let shared = Arc::new(as_f16(weight.to_host().unwrap()));
    let conv = Operation::Conv2d { weight: shared, bias: None, params: Conv2dParams::new(1, 1) };
    Layer { conv, norm, weight, scale, shift }
}

/// Rounded to f16, channels last, on a device.
fn last(device: &Device, image: &Tensor) -> Tensor {
    let half = image.to_type(ElementType::F16).unwrap();
    half.to_format(MemoryFormat::Nhwc).unwrap().to_device(device).unwrap()
}

fn planes(image: &Tensor) -> Vec<f32> {
    let there = image.to_host().unwrap().to_format(MemoryFormat::Nchw).unwrap();
    there.to_type(ElementType::F32).unwrap().into_vec().unwrap()
}

device_test! {
    fn tiles_are_listed_that_see_a_change(device) {
        let (stream, shape) = (device.stream(), [2, 3, RAGGED[0], RAGGED[1]]);
        let changed = Changed::load(&device)?;
        let mut tiles = changed.keep(&stream, shape)?;
        let image = Tensor::random(&shape, 1);
        let mut listed = |image: &Tensor, threshold| {
            changed.launch(&stream, &image.to_device(&device)?, threshold, &mut tiles)?;
            tiles.listed(&stream)
        };
        assert_eq!(listed(&image, 0.25)?, (0..12).collect::<Vec<_>>(), "nothing was kept");
        assert_eq!(listed(&image, 0.0)?, NONE, "nothing has changed");
        for place in PLACES {
            let at = [place[0], 2, place[1], place[2]];
            let before = image.as_slice()?[((at[0] * 3 + 2) * shape[2] + at[2]) * shape[3] + at[3]];
            assert_eq!(listed(&with_value(&image, at, before + 0.24), 0.25)?, NONE, "{at:?}");
            assert_eq!(listed(&with_value(&image, at, before - 0.26), 0.25)?, tiles_that_see(place, RAGGED), "{at:?}");
            // What changes back has changed; NaN always has.
            assert_eq!(listed(&image, 0.0)?, tiles_that_see(place, RAGGED), "{at:?}");
            assert_eq!(listed(&with_value(&image, at, f32::NAN), 9.0)?, tiles_that_see(place, RAGGED), "{at:?}");
            assert_eq!(listed(&image, 9.0)?, tiles_that_see(place, RAGGED), "{at:?}");
        }
        // Small changes add up: a tile is compared with what it was made of.
        let at = [0, 1, 5, 5];
        assert_eq!(listed(&with_value(&image, at, 5.0), 9.0)?, NONE);
        assert_eq!(listed(&with_value(&image, at, 8.0), 9.0)?, NONE);
        assert_eq!(listed(&with_value(&image, at, 11.0), 9.0)?, tiles_that_see([0, 5, 5], RAGGED));
        let seeing = |place| tiles_that_see(place, RAGGED).len();
        let of_places: usize = PLACES.into_iter().map(seeing).sum();
        assert_eq!(tiles.listed_so_far(&stream)?, (12 + 4 * of_places + seeing([0, 5, 5])) as u64);
        let mut other = changed.keep(&stream, [1, 3, 8, 8])?;
        assert!(changed.launch(&stream, &image.to_device(&device)?, 0.0, &mut other).is_err());
        Ok(())
    }

    fn listed_tiles_are_convolved_and_others_are_kept(device) {
        let (stream, [height, width]) = (device.stream(), RAGGED);
        let (changed, conv) = (Changed::load(&device)?, ConvTiles::load(&device)?);
        // Filled up to 64 and 32 channels.
        let (inputs, outputs) = (40, 27);
        let layer = layer(outputs, inputs, 7);
        let weights = Weights::of(&device, &layer.conv, &layer.norm, [32, 64])?;
        let image = |channels, seed| as_f16(Tensor::random(&[2, channels, height, width], seed));
        let (added, seen) = (image(outputs, 2), image(3, 4));
        let channels = Tensor::random(&[2, outputs], 3);
        let (added_there, channels_there) = (last(&device, &filled(&added, 32)), channels.to_device(&device)?);
        let mut tiles = changed.keep(&stream, [2, 3, height, width])?;
        let mut y = Tensor::empty_of(&device, &[2, 32, height, width], ElementType::F16, MemoryFormat::Nhwc)?;
        // All tiles, then those that see one pixel; with values of channels, then with an image.
        let changes = [None, Some([1, 2, 4, 10])];
        for (change, x) in changes.into_iter().zip([image(inputs, 1), image(inputs, 9)]) {
            let seen = change.map_or_else(|| seen.to_host(), |at| Ok(with_value(&seen, at, 3.0)))?;
            changed.launch(&stream, &seen.to_device(&device)?, 0.0, &mut tiles)?;
            let then = if change.is_none() { Then::Channels(&channels_there) } else { Then::Image(&added_there) };
            y = Tensor::empty_of(&device, y.shape(), ElementType::F16, MemoryFormat::Nhwc)?;
            conv.launch(&stream, &last(&device, &filled(&x, 64)), &weights, then, &tiles, &mut y)?;

            let listed = change.map_or_else(|| (0..12).collect(), |[image, _, y, x]| tiles_that_see([image, y, x], RAGGED));
            assert_eq!(tiles.listed(&stream)?, listed);
            let sums = reference::conv2d(&x, &layer.weight, None, Conv2dParams::new(1, 1))?;
            let plane = height * width;
            let expected = |at: usize| {
                let channel = at / plane % outputs;
                let value = layer.scale[channel] * sums.values[at] + layer.shift[channel];
                let after = if change.is_none() { channels.as_slice().unwrap()[at / plane] } else { added.as_slice().unwrap()[at] };
                value / (1.0 + (-value).exp()) + f64::from(after)
            };
            let found = planes(&y);
            let (mut right, mut wanted, mut kept) = (Vec::new(), Vec::new(), 0);
            for (at, found) in found.iter().enumerate() {
                let (image, channel, pixel) = (at / plane / 32, at / plane % 32, at % plane);
                let tile = (image * 2 + pixel / width / TILE) * 3 + pixel % width / TILE;
                match (listed.contains(&(tile as u32)), channel < outputs) {
                    (true, true) => {
                        right.push(*found);
                        wanted.push(expected((image * outputs + channel) * plane + pixel) as f32);
                    }
                    (true, false) => assert_eq!(*found, 0.0, "{at}"),
                    (false, _) => {
                        assert!(found.is_nan(), "{at}");
                        kept += 1;
                    }
                }
            }
            assert_eq!(kept > 0, change.is_some());
            // Sums as any f32 implementation has them, times a scale below 0.5 and SiLU's slope below 1.1; the error of its power and
            // quotient; the reference's own rounding; then the result is rounded to f16.
            let tolerance = Tolerance::new(sums.tolerance().absolute + 2f64.powi(-20) * 4.0, 2f64.powi(-11) + 2f64.powi(-23));
            println!("{}", compare(&right, &wanted, tolerance).unwrap_or_else(|wrong| panic!("{wrong}")));
        }
        let (three, there) = (Tensor::zeros(&[2, 3, height, width]), last(&device, &image(64, 1)));
        assert!(conv.launch(&stream, &last(&device, &three), &weights, Then::Image(&added_there), &tiles, &mut y).is_err());
        assert!(conv.launch(&stream, &there, &weights, Then::Image(&there), &tiles, &mut y).is_err());
        assert!(conv.launch(&stream, &there, &weights, Then::Channels(&three), &tiles, &mut y).is_err());
        Ok(())
    }

    /// The block's result after scattered changes is the same as if nothing were kept.
    fn with_threshold_0_kept_tiles_are_the_same_bits(device) {
        let (stream, side) = (device.stream(), 24);
        let (first, second) = (layer(32, 32, 1), layer(32, 32, 11));
        let other = Operation::Silu;
        let operations = [&first.conv, &first.norm, &other, &other, &other, &second.conv, &second.norm, &other, &other];
        let block = TiledResidual::new(&device, &operations, 32)?;
        let opening = as_f16(Tensor::random(&[32, 2, 3, 3], 3));
        let channels = Tensor::random(&[1, 32], 4).to_device(&device)?;
        let run = |seen: &Tensor, kept: &mut Kept| {
            let x = reference::conv2d_f32(seen, &opening, None, Conv2dParams::new(1, 1))?;
            block.launch(&stream, (&seen.to_device(&device)?, 0.0), &last(&device, &x), &channels, kept)?;
            Ok::<_, Error>(planes(kept.output()))
        };
        let like = Tensor::shape_only_of(&[1, 32, side, side], ElementType::F16, MemoryFormat::Nhwc)?;
        let keep = || block.keep(&stream, [1, 2, side, side], &like);
        let mut kept = keep()?;
        let mut seen = Tensor::random(&[1, 2, side, side], 5);
        let mut before = run(&seen, &mut kept)?;
        for at in [[0, 1, 0, 0], [0, 0, 9, 20]] {
            seen = with_value(&seen, at, 2.0);
            let made = run(&seen, &mut kept)?;
            assert_eq!(made, run(&seen, &mut keep()?)?, "{at:?}");
            assert_ne!(made, before);
            assert_eq!(kept.tiles().listed(&stream)?, tiles_that_see([0, at[2], at[3]], [side, side]));
            before = made;
        }
        Ok(())
    }
}

/// A short clip by a rule, and its cost.
fn made(device: &Device, arithmetic: Arithmetic, rule: Rule) -> Result<Made> {
    let starts: Vec<Tensor> = (0..2).map(|seed| Tensor::random(&[1, LATENTS, 8, 8], 5 + seed)).collect();
    let options = Options { side: 8, steps: 2, noisiest: SCHEDULE };
    let network = Network::new(device, NARROW, &NARROW.seeded(8), arithmetic, options.side, rule.cut())?;
    let mut sampler = Sampler::new(device, &network, &options, rule)?;
    sampler.frames(&device.stream(), &starts, || ())
}

fn deep(level: usize, every: Every) -> Rule {
    Rule { deep: Some(Deep { level, every }), threshold: None }
}

fn caching_takes_less_and_gives_nearly_the_same(device: &Device) -> Result<()> {
    let whole = made(device, Arithmetic::F32, Rule::default())?;
    // The whole is phase 3's video by the same plan.
    let network = plan(device, NARROW, &NARROW.seeded(8), Arithmetic::F32, &[1, INPUTS, 8, 8])?;
    let mut sampler = Phase3::new(device, &network, 8, 2)?;
    let expected = sampler.frame(&Tensor::random(&[1, LATENTS, 8, 8], 5), || ())?;
    assert_eq!(whole.frames[0].as_slice()?, expected.as_slice()?);
    // A deep part that always runs changes nothing beyond roundings.
    let cut = made(device, Arithmetic::F32, deep(1, Every::Frames(1)))?;
    assert!(Quality::of(&cut.frames, &whole.frames)?.psnr > 60.0);
    for rule in [deep(1, Every::Steps(2)), deep(2, Every::Frames(3))] {
        let taken = made(device, Arithmetic::F32, rule)?;
        let quality = Quality::of(&taken.frames, &whole.frames)?;
        println!("{rule}: {quality:?}");
        assert_eq!(rule.deep_share(2, 2), 0.5);
        assert!(quality.psnr.is_finite() && quality.psnr > 3.0 && quality.worst_psnr <= quality.psnr + 1e-9);
        if let (Some(taken), Some(whole)) = (taken.lane_instructions, whole.lane_instructions) {
            assert!(taken < 0.9 * whole, "{taken} {whole}");
        }
    }
    Ok(())
}

/// Without the sanitiser, which sees each of these kernels in other tests.
#[test]
fn caching_takes_less_and_gives_nearly_the_same_sim() {
    caching_takes_less_and_gives_nearly_the_same(&Device::sim()).unwrap();
}

#[test]
fn caching_takes_less_and_gives_nearly_the_same_cuda() {
    if let Some(device) = common::private::cuda_for_test("caching") {
        caching_takes_less_and_gives_nearly_the_same(&device).unwrap();
    }
}

fn tiles_in_a_network(device: &Device) -> Result<()> {
    let rule = |threshold| Rule { deep: None, threshold: Some(threshold) };
    let whole = made(device, Arithmetic::F16, Rule::default())?;
    // No difference is within a threshold below 0: all tiles are made.
    let all = made(device, Arithmetic::F16, rule(-1.0))?;
    let exact = made(device, Arithmetic::F16, rule(0.0))?;
    assert_eq!(all.tiles_made, Some(1.0));
    for (frame, other) in exact.frames.iter().zip(&all.frames) {
        assert_eq!(frame.as_slice()?, other.as_slice()?);
    }
    // Another kernel for two convolutions: f16's roundings, and no more.
    let quality = Quality::of(&all.frames, &whole.frames)?;
    assert!(quality.psnr > 30.0, "{quality:?}");
    // All is within a large one: of two frames, the first is made.
    assert!((made(device, Arithmetic::F16, rule(1e9))?.tiles_made.unwrap() - 0.5).abs() < 1e-9);
    let refused = made(device, Arithmetic::F32, rule(0.0)).unwrap_err();
    assert!(refused.is_unsupported(), "{refused}");
    Ok(())
}

#[test]
fn tiles_in_a_network_sim() {
    tiles_in_a_network(&Device::sim()).unwrap();
}

#[test]
fn tiles_in_a_network_cuda() {
    if let Some(device) = common::private::cuda_for_test("tiles in a network") {
        tiles_in_a_network(&device).unwrap();
    }
}

#[test]
fn rules_that_make_no_sense_are_refused() {
    let device = Device::sim();
    for (rule, word) in [
        (deep(1, Every::Steps(0)), "every 0th"),
        (deep(1, Every::Frames(0)), "every 0th"),
        (deep(0, Every::Steps(2)), "no level 0"),
        (deep(4, Every::Steps(2)), "no level 4"),
    ] {
        let error = made(&device, Arithmetic::F32, rule).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}
