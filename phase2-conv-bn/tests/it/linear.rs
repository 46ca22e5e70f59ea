//! The linear layer with ReLU, forward and backward, on both devices, against the f64 reference.

use std::iter::repeat;

use common::check::{Mismatch, Report, assert_close, compare};
use common::device_test;
use common::prelude::*;
use common::reference::{self, LinearGradients};
use common::testing::planted::{must_be_rejected, planted};
use phase2_conv_bn::gemm::Tuned;
use phase2_conv_bn::linear::backward::{self, Backward};
use phase2_conv_bn::linear::traffic::Traffic;
use phase2_conv_bn::linear::written::{self, Mask, Written};
use phase2_conv_bn::linear::{self, LADDER, LIBRARY, NAIVE, TUNED};

/// Batch, inputs, outputs: one of everything; ragged; rows of 16 bytes; more than one small tile in each direction; nothing.
const SIZES: [[usize; 3]; 9] =
    [[1, 1, 1], [3, 5, 7], [33, 17, 70], [20, 36, 72], [70, 68, 132], [2, 3, 0], [2, 0, 3], [0, 3, 2], [5, 130, 2]];

/// Operands on the host.
struct Layer {
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    dy: Tensor,
}

impl Layer {
    fn new([batch, inputs, outputs]: [usize; 3], seed: u64) -> Layer {
        Layer {
            x: Tensor::random(&[batch, inputs], seed),
            weight: Tensor::random(&[outputs, inputs], seed + 1),
            bias: Tensor::random(&[outputs], seed + 2),
            dy: Tensor::random(&[batch, outputs], seed + 3),
        }
    }

    fn to_device(&self, device: &Device) -> Result<Layer> {
        let copy = |tensor: &Tensor| tensor.to_device(device);
        Ok(Layer { x: copy(&self.x)?, weight: copy(&self.weight)?, bias: copy(&self.bias)?, dy: copy(&self.dy)? })
    }

    fn pass<'a>(&'a self, y: &'a Tensor) -> backward::Pass<'a> {
        backward::Pass { dy: &self.dy, y, x: &self.x, weight: &self.weight }
    }

    /// The result of the forward pass in f32: about half of it clipped.
    fn y(&self) -> Result<Tensor> {
        let values = reference::linear_relu(&self.x, &self.weight, &self.bias)?.values;
        Tensor::from_vec(self.dy.shape(), values.iter().map(|&value| value as f32).collect())
    }
}

/// dx, dW, dbias on a device, poisoned.
struct Gradients([Tensor; 3]);

impl Gradients {
    fn empty_on(device: &Device, layer: &Layer) -> Result<Gradients> {
        let empty = |like: &Tensor| Tensor::empty_on(device, like.shape());
        Ok(Gradients([empty(&layer.x)?, empty(&layer.weight)?, empty(&layer.bias)?]))
    }

    fn parts(&mut self) -> backward::Gradients<'_> {
        let [dx, dweight, dbias] = &mut self.0;
        backward::Gradients { dx, dweight, dbias }
    }

    /// Returns the first mismatch, or the last report.
    fn check(self, expected: &LinearGradients) -> Result<Result<Report, Mismatch>> {
        let mut result = compare::<f32, f64>(&[], &[], expected.bias.tolerance());
        for (found, expected) in self.0.into_iter().zip([&expected.input, &expected.weight, &expected.bias]) {
            result = compare(&found.into_vec()?, &expected.values, expected.tolerance());
            if result.is_err() {
                break;
            }
        }
        Ok(result)
    }
}

/// Both launches of the backward pass.
fn run(backward: &Backward, stream: &Stream, layer: &Layer, y: &Tensor, gradients: &mut Gradients) -> Result<()> {
    backward.fused(stream, layer.pass(y), gradients.parts())
}

/// All launches of the backward pass with a written mask.
fn run_written(written: &Written, stream: &Stream, layer: &Layer, y: &Tensor, gradients: &mut Gradients) -> Result<()> {
    let [batch, outputs] = y.dims("y")?;
    let mut masked = written.mask().place(stream.device(), [batch, outputs], false)?;
    written.launch(stream, layer.pass(y), &mut masked, gradients.parts())
}

/// The gradients that `run` queues for this layer and its y, compared with the reference's.
fn compared(
    device: &Device,
    layer: &Layer,
    run: impl FnOnce(&Layer, &Tensor, &mut Gradients) -> Result<()>,
) -> Result<Result<Report, Mismatch>> {
    let y = layer.y()?;
    let expected = reference::linear_relu_backward(&layer.x, &layer.weight, &y, &layer.dy)?;
    let (layer, y) = (layer.to_device(device)?, y.to_device(device)?);
    let mut gradients = Gradients::empty_on(device, &layer)?;
    run(&layer, &y, &mut gradients)?;
    gradients.check(&expected)
}

device_test! {
    fn every_version_matches_the_reference(device) {
        let stream = device.stream();
        for step in LADDER {
            let loaded = match step.load(&device) {
                Err(error) if step.number() == LIBRARY.number() && error.is_unsupported() => {
                    println!("{}: {error}", step.name());
                    continue;
                }
                loaded => loaded?,
            };
            for (seed, size) in (0..).step_by(10).zip(SIZES) {
                println!("{}, {size:?}", step.name());
                let layer = Layer::new(size, seed);
                let expected = reference::linear_relu(&layer.x, &layer.weight, &layer.bias)?;
                let Layer { x, weight, bias, dy } = layer.to_device(&device)?;
                let mut y = Tensor::empty_on(&device, dy.shape())?;
                loaded.launch(&stream, &x, &weight, &bias, &mut y)?;
                assert_close(&y.into_vec()?, &expected.values, expected.tolerance());
            }
        }
        Ok(())
    }

    /// Bias and ReLU after a library's product, here after a product that every device has.
    fn bias_and_relu_in_place_complete_a_product(device) {
        use phase2_conv_bn::gemm::{Epilogue, Layout};
        let stream = device.stream();
        let gemm = Tuned::load(&device)?;
        let kernel = linear::load_bias_and_clip(&device, LIBRARY.source().unwrap())?;
        for (seed, size) in (0..).step_by(10).zip(SIZES.into_iter().chain([[40, 3, 130], [4, 3, 5000]])) {
            let layer = Layer::new(size, seed);
            let expected = reference::linear_relu(&layer.x, &layer.weight, &layer.bias)?;
            let Layer { x, weight, bias, dy } = layer.to_device(&device)?;
            let mut y = Tensor::empty_on(&device, dy.shape())?;
            gemm.launch(&stream, &x, &weight, Layout::Transposed, &Epilogue::default(), &mut y)?;
            linear::add_bias_and_clip(&stream, &kernel, &bias, &mut y)?;
            assert_close(&y.into_vec()?, &expected.values, expected.tolerance());
        }
        Ok(())
    }

    fn gradients_match_the_reference(device) {
        let stream = device.stream();
        let loaded = Backward::load(&device)?;
        // Small tiles, then large ones.
        let tiles = [loaded.clone(), loaded.with_enough(0)];
        for (backward, (seed, size)) in tiles.iter().flat_map(|tiles| repeat(tiles).zip((0..).step_by(10).zip(SIZES))) {
            println!("{size:?}");
            let layer = Layer::new(size, seed);
            let fused = compared(&device, &layer, |layer, y, gradients| {
                device.reset_peak_memory();
                let before = device.memory().in_use;
                run(backward, &stream, layer, y, gradients)?;
                assert_eq!(device.memory().peak, before, "something was allocated");
                Ok(())
            });
            fused?.unwrap();
            let separate = compared(&device, &layer, |layer, y, gradients| {
                backward.separate(&stream, layer.pass(y), gradients.parts())
            });
            separate?.unwrap();
        }
        Ok(())
    }

    fn gradients_of_a_written_mask_match_the_reference(device) {
        let stream = device.stream();
        let loaded = Written::load(&device)?;
        // As chosen for each size; then a whole tile of each shape, and parts of those that take parts.
        let chosen = SIZES.map(|size| (loaded.clone(), size)).into_iter();
        let whole = [[128, 256], [128, 128], [64, 128], [32, 32]].map(|tile| (loaded.with_tile(tile).unwrap(), [64, 256, 128]));
        let parts = [[64, 128], [32, 32]].map(|tile| (loaded.with_tile(tile).unwrap(), [300, 70, 131]));
        for (seed, (written, size)) in (0..).step_by(10).zip(chosen.chain(whole).chain(parts)) {
            println!("{size:?}");
            let run = |layer: &Layer, y: &Tensor, gradients: &mut Gradients| run_written(&written, &stream, layer, y, gradients);
            compared(&device, &Layer::new(size, seed), run)?.unwrap();
        }
        Ok(())
    }

    fn a_mask_is_written_in_both_layouts(device) {
        let stream = device.stream();
        let mask = Mask::load(&device)?;
        for (seed, [batch, outputs]) in (0..).step_by(10).zip([[1, 1], [70, 33], [257, 64]]) {
            let layer = Layer::new([batch, 2, outputs], seed);
            let y = layer.y()?;
            let exact: Vec<f32> =
                y.as_slice()?.iter().zip(layer.dy.as_slice()?).map(|(&y, &dy)| if y > 0.0 { dy } else { 0.0 }).collect();
            let (dy, y) = (layer.dy.to_device(&device)?, y.to_device(&device)?);
            let mut masked = mask.place(&device, [batch, outputs], true)?;
            let mut dbias = Tensor::empty_on(&device, &[outputs])?;
            mask.launch(&stream, &dy, &y, &mut masked, &mut dbias)?;
            assert_eq!(masked.g.to_host()?.as_slice()?, exact);
            let turned = masked.transposed.as_ref().unwrap().to_host()?;
            let same = (0..batch * outputs).all(|at| turned.as_slice().unwrap()[at % outputs * batch + at / outputs] == exact[at]);
            assert!(same, "{batch} × {outputs}");
            let mut back = Tensor::empty_on(&device, &[batch, outputs])?;
            mask.transpose(&stream, masked.transposed.as_ref().unwrap(), &mut back)?;
            assert_eq!(back.to_host()?.as_slice()?, exact);
        }
        Ok(())
    }

    fn shapes_that_do_not_fit_are_refused_with_both(device) {
        let stream = device.stream();
        let tensor = |shape: &[usize]| Tensor::zeros(shape).to_device(&device);
        let (x, weight, bias, mut y) = (tensor(&[2, 3])?, tensor(&[4, 3])?, tensor(&[4])?, tensor(&[2, 4])?);
        for step in [NAIVE, TUNED] {
            let loaded = step.load(&device)?;
            let mut message = |x: &Tensor, weight: &Tensor, bias: &Tensor| {
                loaded.launch(&stream, x, weight, bias, &mut y).unwrap_err().to_string()
            };
            assert_eq!(
                message(&x, &tensor(&[4, 2])?, &bias),
                "linear's weight: expected the shape [4, 3], got [4, 2]"
            );
            assert_eq!(message(&tensor(&[3, 3])?, &weight, &bias), "linear's y: expected the shape [3, 4], got [2, 4]");
            assert_eq!(message(&x, &weight, &tensor(&[3])?), "linear's bias: expected the shape [4], got [3]");
        }
        let backward = Backward::load(&device)?;
        let mut dx = tensor(&[2, 3])?;
        let error = backward.input(&stream, &y, &tensor(&[2, 5])?, &weight, &mut dx).unwrap_err();
        assert_eq!(error.to_string(), "linear's y: expected the shape [2, 4], got [2, 5]");
        let error = backward.input(&stream, &y, &y, &tensor(&[4, 2])?, &mut dx).unwrap_err();
        assert_eq!(error.to_string(), "linear's weight: expected the shape [4, 3], got [4, 2]");
        Ok(())
    }
}

#[test]
fn mistakes_in_the_layer_are_found() {
    let mistakes = [
        ("the last output", "if (i >= outputs) {", "if (i + 1 >= outputs) {"),
        ("one step too far", "k < in; k++", "k <= in; k++"),
        ("rows and columns swapped", "weight + (size_t)(i % out) * in", "weight + (size_t)(i / out) * in"),
        ("ReLU forgotten", "sum < 0.0f ? 0.0f : sum", "sum"),
    ];
    let source = NAIVE.source().cloned().unwrap();
    for (mistake, right, wrong) in mistakes {
        let step = NAIVE.with_source(planted(&source, right, wrong));
        must_be_rejected(mistake, |device| {
            let layer = Layer::new([5, 7, 9], 1);
            let expected = reference::linear_relu(&layer.x, &layer.weight, &layer.bias)?;
            let Layer { x, weight, bias, dy } = layer.to_device(device)?;
            let mut y = Tensor::empty_on(device, dy.shape())?;
            step.load(device)?.launch(&device.stream(), &x, &weight, &bias, &mut y)?;
            Ok(compare(&y.into_vec()?, &expected.values, expected.tolerance()))
        });
    }
}

#[test]
fn mistakes_in_the_gradients_are_found() {
    let mistakes = [
        ("the mask forgotten", "y.x > 0.0f ? dy.x : 0.0f", "dy.x"),
        ("the first barrier missing", "__syncthreads();  // the first tiles are complete", ""),
        (
            "the barrier of the loop missing",
            "__syncthreads();  // the next tiles are complete, and all threads are done with these",
            "",
        ),
        ("the wrong tile multiplied", "a_tiles[which][i][row_of_thread", "a_tiles[which ^ 1][i][row_of_thread"),
        ("the edge of a row", "row < m ? k : 0);\n            } else", "row <= m ? k : 0);\n            } else"),
        ("a tile stored untransposed", "corner[2 * (BM + PAD)]", "corner[2]"),
        ("rows of the thread swapped", "r / 4 * 16 + r % 4", "r % 4 * 16 + r / 4"),
        ("a part of dbias forgotten", "part < PARTS", "part < PARTS - 1"),
    ];
    for (mistake, right, wrong) in mistakes {
        let source = planted(&backward::SOURCE, right, wrong);
        must_be_rejected(mistake, |device| {
            compared(device, &Layer::new([37, 21, 35], 1), |layer, y, gradients| {
                run(&Backward::load_from(device, &source)?, &device.stream(), layer, y, gradients)
            })
        });
    }
}

#[test]
fn mistakes_in_a_written_mask_are_found() {
    let mistakes = [
        ("the mask forgotten", "of_y[i] > 0.0f ? of_dy[i] : 0.0f", "of_dy[i]"),
        ("a part of dbias forgotten", "for (int i = 1; i < LANES_DOWN; i++)", "for (int i = 2; i < LANES_DOWN; i++)"),
        ("parts of one block alone", "i < count; i++", "i < 1; i++"),
        ("the barrier before the sums missing", "__syncthreads();  // all sums are there", ""),
        ("the edge of a row", "bool inside = row < rows &&", "bool inside = row <= rows &&"),
        ("A's rows apart as its columns", "(A_IN_COLUMNS ? m : k)", "k"),
        ("the edge along K", "a_i + c * A_APART < k", "a_i < k"),
        ("a transposed place in shared memory", "a_down * A_ROW + a_along", "a_along * A_ROW + a_down"),
    ];
    for (mistake, right, wrong) in mistakes {
        let in_mask = written::MASK.text().unwrap().contains(right);
        let mask = if in_mask { planted(&written::MASK, right, wrong) } else { written::MASK };
        let product = if in_mask { written::PRODUCT } else { planted(&written::PRODUCT, right, wrong) };
        must_be_rejected(mistake, |device| {
            compared(device, &Layer::new([261, 21, 39], 1), |layer, y, gradients| {
                run_written(&Written::load_from(device, &mask, &product)?, &device.stream(), layer, y, gradients)
            })
        });
    }
}

/// The analysis of the chapter: what the naive kernel requests, against what the problem needs, by hand.
#[test]
fn traffic_of_the_naive_kernel_is_as_computed_by_hand() {
    let [batch, inputs, outputs] = [16, 64, 32];
    let naive = Traffic::measure(&NAIVE, batch, inputs, outputs).unwrap();
    let results = (batch * outputs) as u64;
    let steps = results * inputs as u64;
    // Two loads a step and a bias for each result, which is stored.
    assert_eq!(naive.requested, 8 * steps + 8 * results);
    // A warp has one row of x and 32 rows of W: 1 + 32 sectors a step; 4 of biases; 4 stored.
    assert_eq!(naive.sectors, 32 * (33 * steps / 32 + 8 * results / 32));
    assert_eq!(naive.flops, 2 * steps);
    assert_eq!(naive.unique, Traffic::ideal(batch, inputs, outputs));
    let tuned = Traffic::measure(&TUNED, batch, inputs, outputs).unwrap();
    assert!(tuned.sectors < naive.sectors / 10, "{tuned:?}");
}
