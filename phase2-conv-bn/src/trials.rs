//! Checks the ladders at ragged, tiny and empty shapes against their references, for readers who have just changed a kernel. The
//! report's parts have one shape each, with counts.

use bench::ladder::{Outcome, StepResult};
use bench::timing::Bench;
use bench::trial::{Size, Trial, Verdicts, exactly};
use common::check::{Tolerance, compare};
use common::prelude::*;
use common::reference::{self, Conv2dParams};

use crate::conv::{self, step17_winograd, step19_winograd_4x4};
use crate::gemm::{self, Epilogue, Layout};
use crate::linear;
use crate::linear::backward::{Backward, Gradients, Pass};
use crate::linear::written::Written;
use crate::norm::ladders;
use crate::patterns::radix_sort::{self, Pairs};
use crate::patterns::sparse::{self, Csr};
use crate::patterns::{histogram, random_u32, reduction, scan, stencil, top_k, transpose};
use crate::report::gemm::GemmProblem;

const fn side(name: &'static str) -> Size {
    Size::new(name, [1, 128], 48)
}

const PRODUCT: &[Size] = &[side("M"), side("N"), side("K")];

/// Batch, inputs, outputs of a linear layer.
const LINEAR: &[Size] =
    &[Size::new("batch", [1, 128], 33), Size::new("inputs", [0, 128], 17), Size::new("outputs", [1, 128], 70)];

/// The length of a list.
const KEYS: &[Size] = &[Size::new("n", [0, 1 << 15], 1000)];

/// All trials.
pub static TRIALS: &[Trial] = &[
    Trial::new("gemm").ragged(products).sized(PRODUCT, |device, sizes| products_of(device, &[exactly(sizes)?])),
    Trial::new("conv").ragged(convolutions).sized(
        &[
            Size::new("in_channels", [1, 16], 3),
            Size::new("out_channels", [1, 16], 5),
            Size::new("height and width", [3, 32], 9),
        ],
        |device, sizes| {
            let [inputs, outputs, side] = exactly(sizes)?;
            convolutions_with(device, &[([1, inputs, side, side], [outputs, inputs, 3, 3], Conv2dParams::new(1, 1))])
        },
    ),
    Trial::new("linear").sized(LINEAR, |device, sizes| layers_of(device, exactly(sizes)?)),
    Trial::new("linear_backward").sized(LINEAR, |device, sizes| {
        let backward = Backward::load(device)?;
        gradients_of(device, &[exactly(sizes)?], |pass, gradients, _| backward.fused(&device.stream(), pass, gradients))
    }),
    Trial::new("linear_mask")
        .ragged(written_masks)
        .sized(LINEAR, |device, sizes| written_masks_of(device, &[exactly(sizes)?])),
    Trial::new("norm").sized(
        &[Size::new("images", [1, 8], 2), Size::new("channels", [1, 16], 3), Size::new("height and width", [1, 64], 9)],
        |device, sizes| norms_of(device, exactly(sizes)?),
    ),
    Trial::new("reduction").sized(KEYS, reductions_of),
    Trial::new("histogram").sized(KEYS, histograms_of),
    Trial::new("scan").ragged(scans).sized(KEYS, scans_of),
    Trial::new("radix-sort").sized(&[Size::new("n", [0, 1 << 13], 1000)], sorts_of),
    Trial::new("top-k").sized(&[Size::new("n", [64, 1 << 14], 1000), Size::new("k", [0, 64], 10)], |device, sizes| {
        selections_of(device, exactly(sizes)?)
    }),
    Trial::new("spmv")
        .sized(&[Size::new("rows", [0, 512], 100), Size::new("non-zeros per row", [0, 64], 9)], |device, sizes| {
            sparse_products_of(device, exactly(sizes)?)
        }),
    Trial::new("transpose")
        .ragged(transposes)
        .sized(&[Size::new("rows", [0, 256], 33), Size::new("columns", [0, 256], 65)], |device, sizes| {
            transposes_of(device, &[exactly(sizes)?])
        }),
    Trial::new("stencil").ragged(stencils).sized(
        &[Size::new("depth", [0, 48], 5), Size::new("height", [0, 48], 9), Size::new("width", [0, 96], 33)],
        |device, sizes| stencils_of(device, &[exactly(sizes)?]),
    ),
];

/// M, N, K: nothing to do; nothing to add up; a single element; ragged in each dimension, with and without 16-byte rows; whole tiles.
pub const SIZES: [[usize; 3]; 9] = [
    [0, 5, 3],
    [3, 5, 0],
    [1, 1, 1],
    [37, 1, 5],
    [31, 33, 35],
    [33, 36, 20],
    [129, 130, 17],
    [5, 260, 7],
    [128, 128, 48],
];

fn products(device: &Device) -> Result<Vec<String>> {
    products_of(device, &SIZES)
}

/// The linear layer with ReLU.
fn layers_of(device: &Device, [batch, inputs, outputs]: [usize; 3]) -> Result<Vec<String>> {
    let (x, weight) = (Tensor::random(&[batch, inputs], 1), Tensor::random(&[outputs, inputs], 2));
    let bias = Tensor::random(&[outputs], 3);
    let expected = reference::linear_relu(&x, &weight, &bias)?;
    let (x, weight, bias) = (x.to_device(device)?, weight.to_device(device)?, bias.to_device(device)?);
    let mut all = Verdicts::default();
    for step in linear::LADDER {
        all.part(|all| {
            let mut y = Tensor::empty_on(device, &[batch, outputs])?;
            step.load(device)?.launch(&device.stream(), &x, &weight, &bias, &mut y)?;
            let compared = compare(&y.into_vec()?, &expected.values, expected.tolerance());
            all.add(step.name(), compared);
            Ok(())
        })?;
    }
    Ok(all.into_wrong())
}

/// The gradients of that layer by `backward`, which gets the batch and the outputs too.
fn gradients_of(
    device: &Device,
    sizes: &[[usize; 3]],
    backward: impl Fn(Pass<'_>, Gradients<'_>, [usize; 2]) -> Result<()>,
) -> Result<Vec<String>> {
    let mut all = Verdicts::default();
    for &[batch, inputs, outputs] in sizes {
        let [x, dy] = [(inputs, 1), (outputs, 2)].map(|(columns, seed)| Tensor::random(&[batch, columns], seed));
        let (weight, bias) = (Tensor::random(&[outputs, inputs], 3), Tensor::random(&[outputs], 4));
        let values = reference::linear_relu(&x, &weight, &bias)?.values;
        let y = Tensor::from_vec(dy.shape(), values.iter().map(|&value| value as f32).collect())?;
        let expected = reference::linear_relu_backward(&x, &weight, &y, &dy)?;
        let empty = |like: &Tensor| Tensor::empty_on(device, like.shape());
        let (mut dx, mut dweight, mut dbias) = (empty(&x)?, empty(&weight)?, empty(&bias)?);
        let (x, weight) = (x.to_device(device)?, weight.to_device(device)?);
        let (y, dy) = (y.to_device(device)?, dy.to_device(device)?);
        let pass = Pass { dy: &dy, y: &y, x: &x, weight: &weight };
        let gradients = Gradients { dx: &mut dx, dweight: &mut dweight, dbias: &mut dbias };
        backward(pass, gradients, [batch, outputs])?;
        for (what, found, expected) in
            [("dx", dx, &expected.input), ("dW", dweight, &expected.weight), ("dbias", dbias, &expected.bias)]
        {
            let compared = compare(&found.into_vec()?, &expected.values, expected.tolerance());
            all.add(format!("{what} of {batch} × {inputs} → {outputs}"), compared);
        }
    }
    Ok(all.into_wrong())
}

/// The gradients by way of a mask in memory.
fn written_masks_of(device: &Device, sizes: &[[usize; 3]]) -> Result<Vec<String>> {
    let written = Written::load(device)?;
    gradients_of(device, sizes, |pass, gradients, shape| {
        let mut masked = written.mask().place(device, shape, false)?;
        written.launch(&device.stream(), pass, &mut masked, gradients)
    })
}

fn written_masks(device: &Device) -> Result<Vec<String>> {
    written_masks_of(device, &[[1, 1, 1], [3, 5, 7], [33, 17, 70], [70, 68, 132], [2, 0, 3], [5, 130, 2]])
}

fn products_of(device: &Device, sizes: &[[usize; 3]]) -> Result<Vec<String>> {
    Verdicts::of_steps(device, gemm::LADDER.iter().chain(gemm::OTHERS), |all, step, gemm| {
        let products = sizes.iter().flat_map(|&size| Layout::ALL.map(|layout| (size, layout)));
        for (size, layout) in
            products.filter(|&(size, layout)| gemm.refusal(size, layout, &Epilogue::default()).is_none())
        {
            let problem = GemmProblem::seeded(device, size, layout)?;
            let mut c = problem.output(device)?;
            c.poison(&device.stream())?;
            problem.launch(&device.stream(), &gemm, &mut c)?;
            let what = format!("{}, {size:?}, {layout:?}", step.title());
            all.add(what, problem.expected.check(c.to_host()?.as_slice()?));
        }
        Ok(())
    })
}

/// Input, weights, and how the window moves.
type Convolution = ([usize; 4], [usize; 4], Conv2dParams);

fn convolutions_of() -> [Convolution; 9] {
    let new = Conv2dParams::new;
    [
        ([1, 1, 1, 1], [1, 1, 1, 1], new(1, 0)),
        ([2, 5, 7, 6], [3, 5, 1, 1], new(2, 0)),
        ([1, 3, 31, 29], [5, 3, 7, 7], new(2, 3)),
        ([2, 4, 13, 17], [6, 4, 3, 3], new(1, 1)),
        ([1, 2, 2, 3], [2, 2, 5, 5], new(1, 2)),
        ([1, 3, 15, 14], [4, 3, 3, 3], Conv2dParams { dilation: [2, 3], ..new(1, 2) }),
        ([2, 7, 8, 9], [7, 1, 3, 3], Conv2dParams { groups: 7, ..new(1, 1) }),
        ([0, 3, 8, 8], [4, 3, 3, 3], new(1, 1)),
        ([2, 16, 9, 7], [40, 16, 1, 1], new(1, 0)),
    ]
}

fn convolutions(device: &Device) -> Result<Vec<String>> {
    convolutions_with(device, &convolutions_of())
}

fn convolutions_with(device: &Device, convolutions: &[Convolution]) -> Result<Vec<String>> {
    let stream = device.stream();
    Verdicts::of_steps(device, conv::LADDER, |all, step, conv| {
        for (seed, &(input, weight, params)) in (0..).step_by(3).zip(convolutions) {
            let (x, w) = (Tensor::random(&input, seed), Tensor::random(&weight, seed + 1));
            let b = Tensor::random(&weight[..1], seed + 2);
            let expected = reference::conv2d(&x, &w, Some(&b), params)?;
            let tolerance = match step.name {
                "Winograd" => step17_winograd::tolerance(weight[1], 1.0, 1.0, 1.0),
                "Winograd F4" => step19_winograd_4x4::tolerance(weight[1], 1.0, 1.0, 1.0),
                _ => expected.tolerance(),
            };
            let (x, w, b) = (x.to_device(device)?, w.to_device(device)?, b.to_device(device)?);
            // A shape that it doesn't take is none of its faults.
            all.part(|all| {
                let output = conv.forward(&stream, &x, &w, Some(&b), params)?.into_vec()?;
                let what = format!("{}, {input:?} * {weight:?}, {params:?}", step.title());
                all.add(what, compare(&output, &expected.values, tolerance));
                Ok(())
            })?;
        }
        Ok(())
    })
}

fn scans(device: &Device) -> Result<Vec<String>> {
    scans_of(device, &[0, 1, 5, 256, 257, 4095, 4096, 8193, 1000])
}

fn scans_of(device: &Device, lengths: &[usize]) -> Result<Vec<String>> {
    let stream = device.stream();
    Verdicts::of_steps(device, scan::LADDER, |all, step, mut scan| {
        for &n in lengths {
            let values = random_u32(n, n as u64 + 1);
            let mut sums = stream.alloc_poisoned(n)?;
            scan.launch(&stream, &stream.clone_htod(&values)?, &mut sums)?;
            let compared = scan::reference(&values).check(&stream.clone_dtoh(&sums)?);
            all.add(format!("{}, {n} values", step.title()), compared);
        }
        Ok(())
    })
}

fn transposes(device: &Device) -> Result<Vec<String>> {
    transposes_of(device, &[[0, 5], [1, 1], [1, 77], [77, 1], [31, 33], [64, 64], [100, 37], [33, 130]])
}

fn transposes_of(device: &Device, shapes: &[[usize; 2]]) -> Result<Vec<String>> {
    let stream = device.stream();
    Verdicts::of_steps(device, transpose::LADDER, |all, step, transpose| {
        for &shape in shapes {
            let x = Tensor::random(&shape, 3).into_vec()?;
            let mut y = stream.alloc_poisoned(x.len())?;
            transpose.launch(&stream, &stream.clone_htod(&x)?, &mut y, shape)?;
            let compared = transpose::reference(&x, shape).check(&stream.clone_dtoh(&y)?);
            all.add(format!("{}, {shape:?}", step.title()), compared);
        }
        Ok(())
    })
}

fn stencils(device: &Device) -> Result<Vec<String>> {
    let ragged = [[70, 1, 1], [2, 8, 32], [3, 9, 33], [37, 19, 45]];
    stencils_of(device, &[&[[0, 3, 4], [1, 1, 1], [1, 1, 70], [1, 20, 1]][..], &ragged].concat())
}

fn stencils_of(device: &Device, shapes: &[[usize; 3]]) -> Result<Vec<String>> {
    let stream = device.stream();
    Verdicts::of_steps(device, stencil::LADDER, |all, step, stencil| {
        for &shape in shapes {
            let old = Tensor::random(&shape, 7).into_vec()?;
            let mut next = stream.alloc_poisoned(old.len())?;
            stencil.launch(&stream, &stream.clone_htod(&old)?, &mut next, shape)?;
            let compared = stencil::reference(&old, shape).check(&stream.clone_dtoh(&next)?);
            all.add(format!("{}, {shape:?}", step.title()), compared);
        }
        Ok(())
    })
}

/// Every step of BatchNorm, ReLU and statistics.
fn norms_of(device: &Device, [images, channels, side]: [usize; 3]) -> Result<Vec<String>> {
    let problem = ladders::Problem::seeded([images, channels, side, side])?;
    let mut all = Verdicts::default();
    for rung in problem.run(device, &Bench::default(), |_, _| ())? {
        if let StepResult::Checked(Outcome::Wrong(mismatch)) = rung.run.result {
            all.add(format!("{}, {}", rung.operation.name(), rung.step), Err(mismatch));
        }
    }
    Ok(all.into_wrong())
}

fn reductions_of(device: &Device, lengths: &[usize]) -> Result<Vec<String>> {
    let stream = device.stream();
    Verdicts::of_steps(device, reduction::LADDER, |all, step, reduction| {
        for &n in lengths {
            let values = random_u32(n, n as u64 + 1);
            let mut sum = stream.alloc_poisoned(1)?;
            reduction.launch(&stream, &stream.clone_htod(&values)?, &mut sum)?;
            let compared = reduction::reference(&values).check(&stream.clone_dtoh(&sum)?);
            all.add(format!("{}, {n} values", step.title()), compared);
        }
        Ok(())
    })
}

fn histograms_of(device: &Device, lengths: &[usize]) -> Result<Vec<String>> {
    let stream = device.stream();
    Verdicts::of_steps(device, histogram::LADDER, |all, step, histogram| {
        for &n in lengths {
            for (kind, keys) in [("random", random_u32(n, 1)), ("skewed", histogram::skewed_keys(n, 1))] {
                let mut counts = stream.alloc_poisoned(histogram::BINS)?;
                histogram.launch(&stream, &stream.clone_htod(&keys)?, &mut counts)?;
                let compared = histogram::reference(&keys).check(&stream.clone_dtoh(&counts)?);
                all.add(format!("{}, {n} {kind} keys", step.title()), compared);
            }
        }
        Ok(())
    })
}

fn sorts_of(device: &Device, lengths: &[usize]) -> Result<Vec<String>> {
    let stream = device.stream();
    Verdicts::of_steps(device, radix_sort::LADDER, |all, step, mut sort| {
        for &n in lengths {
            // Many keys are equal: the sort must be stable.
            let keys: Vec<u32> = random_u32(n, n as u64 + 1).into_iter().map(|key| key & 0xff00_00ff).collect();
            let indices: Vec<u32> = (0..).take(n).collect();
            let mut output = Pairs::poisoned(&stream, n)?;
            sort.launch(&stream, &Pairs::to_device(&stream, &keys, &indices)?, &mut output)?;
            add_pairs(all, step.title(), output.to_host(&stream)?, radix_sort::reference(&keys, &indices));
        }
        Ok(())
    })
}

fn selections_of(device: &Device, [n, k]: [usize; 2]) -> Result<Vec<String>> {
    let stream = device.stream();
    // Of a few values each, so that the smallest one taken is there more often than it is taken.
    let keys: Vec<u32> = random_u32(n, 2).into_iter().map(|key| key & 0xf000_0003).collect();
    Verdicts::of_steps(device, top_k::LADDER, |all, step, mut top_k| {
        let mut largest = Pairs::poisoned(&stream, k)?;
        top_k.launch(&stream, &stream.clone_htod(&keys)?, &mut largest)?;
        add_pairs(all, step.title(), largest.to_host(&stream)?, top_k::reference(&keys, k));
        Ok(())
    })
}

/// Compares keys and values exactly.
fn add_pairs(all: &mut Verdicts, step: String, found: [Vec<u32>; 2], expected: [Vec<u32>; 2]) {
    for (what, (found, expected)) in ["keys", "indices"].into_iter().zip(found.iter().zip(&expected)) {
        all.add(format!("{step}, {what}"), compare(found, expected, Tolerance::exact()));
    }
}

fn sparse_products_of(device: &Device, [rows, mean]: [usize; 2]) -> Result<Vec<String>> {
    let stream = device.stream();
    let matrices = [("regular", Csr::regular(rows, mean, 5)), ("power law", Csr::power_law(rows, mean, 6))];
    Verdicts::of_steps(device, sparse::LADDER, |all, step, mut product| {
        for (kind, matrix) in &matrices {
            let x = sparse::random_vector(rows, 7);
            let mut y = stream.alloc_poisoned(rows)?;
            product.launch(&stream, &matrix.to_device(&stream)?, &stream.clone_htod(&x)?, &mut y)?;
            let compared = matrix.reference(&x).check(&stream.clone_dtoh(&y)?);
            all.add(format!("{}, {rows} rows, {kind}", step.title()), compared);
        }
        Ok(())
    })
}
