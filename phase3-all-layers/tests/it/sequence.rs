//! The layers of sequences on both devices, against the reference and PyTorch's results: odd shapes, poisoned outputs, planted
//! mistakes.

use crate::golden;
use common::check::{Mismatch, Report, Tolerance, assert_close};
use common::prelude::*;
use common::reference::{self, Bounded};
use common::testing::planted::{must_be_rejected, planted};
use common::{cpu, device_test};
use phase3_all_layers::layers::{Attention, LayerNorm, LayerNormStep, RowNorm, Softmax, SoftmaxStep, Transpose};
use phase3_all_layers::trials::{ATTENTIONS, ROWS, attention, layer_norm, row_norm, softmax, transpose};

const LONG: [[usize; 2]; 2] = [[2, 4100], [1, 4097]];

/// scale · random + shift.
fn random(shape: &[usize], seed: u64, [scale, shift]: [f32; 2]) -> Tensor {
    let values = Tensor::random(shape, seed).into_vec().unwrap();
    Tensor::from_vec(shape, values.into_iter().map(|x| scale * x + shift).collect()).unwrap()
}

/// A mean that is not near zero.
const SHIFTED: [f32; 2] = [3.0, 5.0];

/// Values of several sizes, so that scores are far apart: a head's q, k, v \[B, T, 3·heads·d\].
fn qkv(batch: usize, tokens: usize, heads: usize, d: usize) -> Tensor {
    random(&[batch, tokens, 3 * heads * d], 1, [2.0, 0.0])
}

/// Compares PyTorch's values of a case of `python/layers.py` with the f64 reference, and the CPU's and a device's with them.
#[track_caller]
fn agree(case: &str, expected: &Bounded, results: [Tensor; 2]) {
    println!("{case}");
    let (golden, Tolerance { absolute, relative }) = (golden::tensor("layers", case), expected.tolerance);
    assert_close(golden.as_slice().unwrap(), &expected.values, expected.tolerance);
    for result in results {
        assert_eq!(result.shape(), golden.shape(), "{case}");
        // Both are as far from the exact value as rounding may take them.
        let twice = Tolerance::new(2.0 * absolute, 2.0 * relative);
        assert_close(&result.into_vec().unwrap(), golden.as_slice().unwrap(), twice);
    }
}

device_test! {
    fn pytorch_gives_the_same(device) {
        let stream = device.stream();
        let [x, weight, bias] = [Tensor::random(&[7, 33], 1), Tensor::random(&[33], 2), Tensor::random(&[33], 3)];
        let norm = reference::LayerNorm { weight: &weight, bias: &bias, eps: 1e-5 };
        let (on_weight, on_bias) = (weight.to_device(&device)?, bias.to_device(&device)?);
        let on_norm = reference::LayerNorm { weight: &on_weight, bias: &on_bias, ..norm };
        let mut y = Tensor::empty_on(&device, x.shape())?;
        LayerNorm::load(&device)?.launch(&stream, &x.to_device(&device)?, &on_norm, &mut y)?;
        agree("layer_norm", &reference::layer_norm(&x, &norm)?, [cpu::layer_norm(&x, &norm)?, y]);

        let mut x = random(&[5, 37], 1, [10.0, 0.0]);
        let (expected, mut y) = (reference::softmax(&x)?, x.to_device(&device)?);
        Softmax::load(&device)?.launch_in_place(&stream, &mut y)?;
        cpu::softmax_in_place(&mut x)?;
        agree("softmax", &expected, [x, y]);

        let mut x = Tensor::random(&[4, 29], 1);
        for (row, factor) in x.as_mut_slice()?.chunks_mut(29).zip([1.0, 0.0, 1e-14, 1.0]) {
            row.iter_mut().for_each(|value| *value *= factor);
        }
        let mut y = Tensor::empty_on(&device, x.shape())?;
        RowNorm::load(&device)?.launch(&stream, &x.to_device(&device)?, &mut y)?;
        agree("normalise_rows", &reference::row_norm(&x)?, [cpu::row_norm(&x)?, y]);

        let layer = Attention::load(&device)?;
        for (case, [batch, tokens, columns], heads) in
            [("attention.3x8", [2, 11, 72], 3), ("attention.2x5", [1, 33, 30], 2)]
        {
            let qkv = random(&[batch, tokens, columns], 1, [3.0, 0.0]);
            let mut scores = Tensor::empty_on(&device, &[batch * heads, tokens, tokens])?;
            let mut y = Tensor::empty_on(&device, &[batch, tokens, columns / 3])?;
            layer.launch(&stream, &qkv.to_device(&device)?, heads, &mut scores, &mut y)?;
            agree(case, &reference::attention(&qkv, heads)?, [cpu::attention(&qkv, heads)?, y]);
        }
        Ok(())
    }

    fn layer_norm_is_within_rounding(device) {
        for step in LayerNormStep::ALL {
            let layer = LayerNorm::load_from(&device, step, &step.source())?;
            for (seed, shape) in (1..).zip(ROWS.into_iter().chain(LONG)) {
                layer_norm(&device, &layer, &Tensor::random(&shape, seed))?.unwrap_or_else(|e| panic!("{step:?} of {shape:?}: {e}"));
            }
            // Any number of dimensions, and a mean that is large.
            for shape in [vec![24], vec![2, 3, 40], vec![2, 2, 2, 6]] {
                layer_norm(&device, &layer, &random(&shape, 1, SHIFTED))?.unwrap_or_else(|e| panic!("{step:?} of {shape:?}: {e}"));
            }
        }
        Ok(())
    }

    fn rows_of_length_one_are_within_rounding(device) {
        let layer = RowNorm::load(&device)?;
        for (seed, shape) in (1..).zip(ROWS) {
            row_norm(&device, &layer, &Tensor::random(&shape, seed))?.unwrap_or_else(|e| panic!("{shape:?}: {e}"));
        }
        // A row of zeros, one whose norm is below 1e-12, and a NaN, which takes its row with it.
        let x = Tensor::from_vec(&[3, 2], vec![0.0, 0.0, 3e-13, -4e-13, 1.0, f32::NAN])?.to_device(&device)?;
        let mut y = Tensor::empty_on(&device, &[3, 2])?;
        layer.launch(&device.stream(), &x, &mut y)?;
        let y = y.into_vec()?;
        assert_close(&y[..4], &[0.0, 0.0, 0.3, -0.4], Tolerance::relative(1e-6));
        assert!(y[4].is_nan() && y[5].is_nan(), "{y:?}");
        Ok(())
    }

    fn softmax_is_within_rounding(device) {
        for step in SoftmaxStep::ALL {
            let layer = Softmax::load_from(&device, step, &step.source())?;
            for (seed, shape) in (1..).zip(ROWS) {
                // Up to 60 apart: no power of the values themselves may be taken, and some results are tiny.
                for scale in [1.0, 30.0] {
                    let x = random(&shape, seed, [scale, 90.0]);
                    softmax(&device, &layer, &x)?.unwrap_or_else(|e| panic!("{step:?} of {shape:?}: {e}"));
                }
            }
        }
        Ok(())
    }

    fn softmax_of_infinities_and_nan_is_pytorchs(device) {
        let inf = f32::INFINITY;
        // Long enough that lanes meet −∞ alone, and short.
        for columns in [4, 5, 300, 600, 601] {
            let row = |fill: f32, at: usize, value: f32| (0..columns).map(move |i| if i == at { value } else { fill });
            let last = columns - 1;
            let rows = [
                row(-inf, 0, -inf).collect::<Vec<_>>(),
                row(0.5, last, f32::NAN).collect(),
                row(f32::NAN, 0, f32::NAN).collect(),
                row(0.5, 1, inf).collect(),
                row(-inf, last, f32::NAN).collect(),
                row(-inf, last, 3.0).collect(),
                row(1.0, 0, -inf).collect(),
            ];
            let mut expected = vec![f32::NAN; 5 * columns];
            expected.extend(row(0.0, last, 1.0));
            expected.extend(row(1.0 / (columns - 1) as f32, 0, 0.0));
            let x = Tensor::from_vec(&[rows.len(), columns], rows.concat())?.to_device(&device)?;
            for step in SoftmaxStep::ALL {
                let mut y = Tensor::empty_on(&device, x.shape())?;
                Softmax::load_from(&device, step, &step.source())?.launch(&device.stream(), &x, &mut y)?;
                for (i, (y, expected)) in y.into_vec()?.into_iter().zip(&expected).enumerate() {
                    let right = if expected.is_nan() { y.is_nan() } else { (y - expected).abs() <= 1e-5 * expected };
                    assert!(right, "{step:?}, row {} of {columns}, column {}: {y} for {expected}", i / columns, i % columns);
                }
            }
        }
        Ok(())
    }

    fn transposition_is_exact(device) {
        let layer = Transpose::load(&device)?;
        for (seed, shape) in (1..).zip([[1, 1, 1], [2, 3, 70], [3, 33, 32], [1, 64, 65], [2, 0, 3], [0, 4, 4], [5, 31, 1]]) {
            transpose(&device, &layer, &Tensor::random(&shape, seed))?.unwrap_or_else(|e| panic!("{shape:?}: {e}"));
        }
        // An image to tokens and back.
        let image = Tensor::random(&[2, 5, 6, 7], 1);
        let (stream, x) = (device.stream(), image.to_device(&device)?);
        let (mut tokens, mut back) = (Tensor::empty_on(&device, &[2, 42, 5])?, Tensor::empty_on(&device, &[2, 5, 6, 7])?);
        layer.launch(&stream, &x, &mut tokens)?;
        layer.launch(&stream, &tokens, &mut back)?;
        assert_eq!(back.into_vec()?, image.as_slice()?);
        assert_eq!(tokens.into_vec()?[5..10], [0, 1, 2, 3, 4].map(|channel| image.as_slice().unwrap()[channel * 42 + 1]));
        Ok(())
    }

    fn attention_is_within_rounding(device) {
        let layer = Attention::load(&device)?;
        for (batch, tokens, heads, d) in ATTENTIONS {
            // The larger tiles, the smaller ones.
            for processors in [1, usize::MAX] {
                let (layer, qkv) = (layer.clone().for_processors(processors), qkv(batch, tokens, heads, d));
                attention(&device, &layer, &qkv, heads)?
                    .unwrap_or_else(|e| panic!("B = {batch}, T = {tokens}, {heads} heads of {d}, {processors}: {e}"));
            }
        }
        Ok(())
    }

    /// A NaN in the k of one head's token reaches all of that head's outputs; one in q or v, only its row or column.
    fn attention_shows_a_nan_where_it_belongs(device) {
        let layer = Attention::load(&device)?;
        for tokens in [8, 9] {
            for (part, spoilt) in [(0, tokens), (1, tokens), (2, tokens)] {
                let (heads, d) = (2, 4);
                let mut values = qkv(1, tokens, heads, d).into_vec()?;
                // Token 1, head 1, channel 2.
                values[(3 + part) * heads * d + d + 2] = f32::NAN;
                let qkv = Tensor::from_vec(&[1, tokens, 3 * heads * d], values)?.to_device(&device)?;
                let mut scores = Tensor::empty_on(&device, &[heads, tokens, tokens])?;
                let mut out = Tensor::empty_on(&device, &[1, tokens, heads * d])?;
                layer.launch(&device.stream(), &qkv, heads, &mut scores, &mut out)?;
                for (i, y) in out.into_vec()?.into_iter().enumerate() {
                    let (token, channel) = (i / (heads * d), i % (heads * d));
                    let expected = match part {
                        0 => token == 1 && channel >= d,
                        1 => token < spoilt && channel >= d,
                        _ => channel == d + 2,
                    };
                    assert_eq!(y.is_nan(), expected, "part {part}, token {token} of {tokens}, channel {channel}");
                }
            }
        }
        Ok(())
    }

    fn shapes_that_do_not_fit_are_refused(device) {
        let stream = device.stream();
        let on = |shape: &[usize]| Tensor::random(shape, 1).to_device(&device);
        let (x, mut wrong) = (on(&[2, 6])?, on(&[2, 5])?);
        let (six, five) = (on(&[6])?, on(&[5])?);
        let norm = |weight, bias| reference::LayerNorm { weight, bias, eps: 1e-5 };
        let layer = LayerNorm::load(&device)?;
        let error = layer.launch(&stream, &x, &norm(&six, &six), &mut wrong).unwrap_err().to_string();
        assert_eq!(error, "LayerNorm's output: expected the shape [2, 6], got [2, 5]");
        let mut y = on(&[2, 6])?;
        let error = layer.launch(&stream, &x, &norm(&six, &five), &mut y).unwrap_err().to_string();
        assert_eq!(error, "layer_norm's bias: expected the shape [6], got [5]");
        let host = Tensor::zeros(&[2, 6]);
        assert!(matches!(layer.launch(&stream, &host, &norm(&six, &six), &mut y), Err(Error::Invalid(_))));
        assert!(RowNorm::load(&device)?.launch(&stream, &x, &mut wrong).is_err());
        assert!(Softmax::load(&device)?.launch(&stream, &x, &mut wrong).is_err());
        assert!(Softmax::load(&device)?.launch_in_place(&stream, &mut on(&[])?).is_err());

        let transpose = Transpose::load(&device)?;
        let x = on(&[2, 3, 4])?;
        let error = transpose.launch(&stream, &x, &mut on(&[2, 3, 4])?).unwrap_err().to_string();
        assert_eq!(error, "transposition: [2, 3, 4] is not the transpose of [2, 3, 4]: [B, R, C] becomes [B, C, R]");
        assert!(transpose.launch_add(&stream, &x, &mut on(&[2, 4, 2, 2])?).is_err());

        let attention = Attention::load(&device)?;
        let qkv = on(&[1, 4, 24])?;
        let (mut scores, mut out) = (on(&[2, 4, 4])?, on(&[1, 4, 8])?);
        attention.launch(&stream, &qkv, 2, &mut scores, &mut out)?;
        let error = attention.launch(&stream, &qkv, 3, &mut scores, &mut out).unwrap_err().to_string();
        assert_eq!(error, "attention: qkv [1, 4, 24] with 3 heads: the last dimension must be 3 · heads · d");
        assert!(attention.launch(&stream, &qkv, 0, &mut scores, &mut out).is_err());
        let error = attention.launch(&stream, &qkv, 4, &mut scores, &mut out).unwrap_err().to_string();
        assert_eq!(error, "attention's scores: expected the shape [4, 4, 4], got [2, 4, 4]");
        assert!(attention.launch(&stream, &qkv, 2, &mut scores, &mut on(&[1, 4, 24])?).is_err());
        assert!(attention.launch(&stream, &qkv, 2, &mut Tensor::zeros(&[2, 4, 4]), &mut out).is_err());
        Ok(())
    }
}

/// Mistakes in the kernels' text that the checks must find; they need the compiler.
#[test]
fn planted_mistakes_in_rows_are_found() {
    let all = |results: Vec<Result<Result<Report, Mismatch>>>| -> Result<Result<Report, Mismatch>> {
        results.into_iter().reduce(|all, next| if matches!(all, Ok(Ok(_))) { next } else { all }).unwrap()
    };
    for (step, right, wrong) in [
        (LayerNormStep::TwoPass, "float distance = from[i] - mean;", "float distance = from[i];"),
        (LayerNormStep::TwoPass, "squares / columns + eps", "squares / columns"),
        (LayerNormStep::TwoPass, "squares / columns", "squares / (columns - 1)"),
        (LayerNormStep::Shuffle, "float distance = held[i] - mean;", "float distance = held[i];"),
        (LayerNormStep::Shuffle, "(squares) / columns + eps", "(squares) / columns"),
        (
            LayerNormStep::Shuffle,
            "if (begin + j * GROUP < columns) {\n                use",
            "if (true) {\n                use",
        ),
        (LayerNormStep::Shuffle, "bool again = columns > GROUP * HELD;", "bool again = false;"),
        (LayerNormStep::Shuffle, "int other = 16", "int other = 8"),
        (LayerNormStep::Shuffle, "__syncthreads();  // every warp's result is stored", ""),
    ] {
        let source = planted(&step.source(), right, wrong);
        must_be_rejected(&format!("`{wrong}` in place of `{right}`"), |device| {
            let layer = LayerNorm::load_from(device, step, &source)?;
            // A row whose values are alike too: eps is then all that there is.
            let alike = Tensor::full(&[2, 40], 0.5);
            let more =
                [Tensor::random(&[5, 70], 1), random(&[3, 600], 2, SHIFTED), Tensor::random(&[1, 4100], 3), alike];
            all(more.iter().map(|x| layer_norm(device, &layer, x)).collect())
        });
    }
    for (step, right, wrong) in [
        (SoftmaxStep::Naive, "sum += expf(from[i] - most)", "sum += expf(from[i])"),
        (SoftmaxStep::Naive, "/ sum;", ";"),
        (SoftmaxStep::Naive, "fmaxf(most, from[i])", "from[i]"),
        (SoftmaxStep::Online, "sum *= expf(most - larger);", ""),
        (SoftmaxStep::Online, "sum * expf(most - most_of_row)", "sum"),
        (SoftmaxStep::Online, "most = larger;", "most = v[0];"),
        (SoftmaxStep::Online, "blockIdx.x * (THREADS / GROUP)", "blockIdx.x * THREADS"),
    ] {
        let source = planted(&step.source(), right, wrong);
        must_be_rejected(&format!("`{wrong}` in place of `{right}`"), |device| {
            let layer = Softmax::load_from(device, step, &source)?;
            let far_apart = [100.0, 0.0];
            let values =
                [random(&[17, 70], 1, SHIFTED), random(&[9, 72], 1, far_apart), random(&[1, 1030], 2, far_apart)];
            all(values.iter().map(|x| softmax(device, &layer, x)).collect())
        });
    }
    for (right, wrong) in [
        ("squares += from[i] * from[i]", "squares += from[i]"),
        (
            "i = threadIdx.x; i < columns; i += THREADS) {\n        squares",
            "i = threadIdx.x; i < THREADS; i += THREADS) {\n        squares",
        ),
        ("norm < 1e-12f ? 1e-12f : norm", "norm"),
    ] {
        let source = planted(&RowNorm::SOURCE, right, wrong);
        must_be_rejected(&format!("`{wrong}` in place of `{right}`"), |device| {
            let layer = RowNorm::load_from(device, &source)?;
            all(vec![
                row_norm(device, &layer, &Tensor::random(&[3, 600], 1)),
                row_norm(device, &layer, &Tensor::zeros(&[2, 3])),
            ])
        });
    }
}

/// Same as above.
#[test]
fn planted_mistakes_in_transposition_and_attention_are_found() {
    for (right, wrong) in [
        ("__syncthreads();  // the tile is complete", ""),
        ("row < rows && column < columns) {\n            float", "column < columns) {\n            float"),
        ("*to + tile[lane][i] : tile[lane][i]", "tile[lane][i] : tile[lane][i]"),
        ("blockIdx.x / tiles * rows * columns", "blockIdx.x / tiles * rows"),
    ] {
        let source = planted(&Transpose::SOURCE, right, wrong);
        must_be_rejected(&format!("`{wrong}` in place of `{right}`"), |device| {
            transpose(device, &Transpose::load_from(device, &source)?, &Tensor::random(&[2, 40, 33], 1))
        });
    }
    for (right, wrong) in [
        ("matrix % heads * head", "matrix % heads"),
        ("__syncthreads();  // the next step's values are complete", "// the next step's values are complete"),
        ("unsigned inside = left_from(first + span, k);", "unsigned inside = 4;"),
        ("first + b_down + j * B_APART < k ? b_inside : 0", "b_inside"),
        ("min(first_row + down + j * APART, m - 1)", "(first_row + down + j * APART)"),
        ("first_column + x + s / 4 * 32", "first_column + x + s"),
        ("half ^= 1;", ""),
        ("to[i] = alpha * sums[r][s + i]", "to[i] = sums[r][s + i]"),
    ] {
        let source = planted(&Attention::SOURCE, right, wrong);
        must_be_rejected(&format!("`{wrong}` in place of `{right}`"), |device| {
            let layer = Attention::load_from(device, &source)?.for_processors(1);
            let first = attention(device, &layer, &qkv(1, 68, 2, 12), 2)?;
            if first.is_err() { Ok(first) } else { attention(device, &layer, &qkv(1, 11, 2, 5), 2) }
        });
    }
}
