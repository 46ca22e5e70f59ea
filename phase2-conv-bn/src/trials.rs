//! The ladders at ragged, tiny and empty shapes against their references, for whoever has just changed a kernel. The report's parts have
//! one shape each, with counts.

use common::prelude::*;
use common::reference::{self, Conv2dParams};
use common::trial::{Trial, Verdicts};

use crate::conv::{self, step17_winograd, step19_winograd_4x4};
use crate::gemm::{self, Layout};
use crate::patterns::{random_u32, scan, stencil, transpose};
use crate::report::gemm::GemmProblem;

/// All trials, called like parts of the report.
pub static TRIALS: &[Trial] = &[
    Trial { name: "gemm", run: products },
    Trial { name: "conv", run: convolutions },
    Trial { name: "scan", run: scans },
    Trial { name: "transpose", run: transposes },
    Trial { name: "stencil", run: stencils },
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
    let mut all = Verdicts::default();
    for step in gemm::LADDER {
        all.part(|all| {
            let gemm = step.load(device)?;
            for (size, layout) in SIZES.into_iter().flat_map(|size| Layout::ALL.map(|layout| (size, layout))) {
                let problem = GemmProblem::seeded(device, size, layout)?;
                let mut c = problem.output(device)?;
                c.poison(&device.stream())?;
                problem.launch(&device.stream(), &gemm, &mut c)?;
                let what = format!("{}, {size:?}, {layout:?}", step.title());
                all.add(what, problem.expected.check(c.to_host()?.as_slice()?));
            }
            Ok(())
        })?;
    }
    Ok(all.into_wrong())
}

/// Input, weights, and how the window moves.
fn convolutions_of() -> [([usize; 4], [usize; 4], Conv2dParams); 9] {
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
    let (stream, mut all) = (device.stream(), Verdicts::default());
    for step in conv::LADDER {
        all.part(|all| {
            let conv = step.load(device)?;
            for (seed, (input, weight, params)) in (0..).step_by(3).zip(convolutions_of()) {
                let (x, w) = (Tensor::random(&input, seed), Tensor::random(&weight, seed + 1));
                let b = Tensor::random(&weight[..1], seed + 2);
                let expected = reference::conv2d(&x, &w, Some(&b), params)?;
                let tolerance = match step.name() {
                    "Winograd" => step17_winograd::tolerance(weight[1], 1.0, 1.0, 1.0),
                    "Winograd F4" => step19_winograd_4x4::tolerance(weight[1], 1.0, 1.0, 1.0),
                    _ => expected.tolerance(),
                };
                let (x, w, b) = (x.to_device(device)?, w.to_device(device)?, b.to_device(device)?);
                // A shape that it doesn't take is none of its faults.
                all.part(|all| {
                    let output = conv.forward(&stream, &x, &w, Some(&b), params)?.into_vec()?;
                    let what = format!("{}, {input:?} * {weight:?}, {params:?}", step.title());
                    all.add(what, common::check::compare(&output, &expected.values, tolerance));
                    Ok(())
                })?;
            }
            Ok(())
        })?;
    }
    Ok(all.into_wrong())
}

fn scans(device: &Device) -> Result<Vec<String>> {
    let (stream, mut all) = (device.stream(), Verdicts::default());
    for step in scan::LADDER {
        all.part(|all| {
            let mut scan = step.load(device)?;
            for n in [0, 1, 5, 256, 257, 4095, 4096, 8193, 1000] {
                let values = random_u32(n, n as u64 + 1);
                let mut sums = stream.alloc_poisoned(n)?;
                scan.launch(&stream, &stream.clone_htod(&values)?, &mut sums)?;
                let compared = scan::reference(&values).check(&stream.clone_dtoh(&sums)?);
                all.add(format!("{}, {n} values", step.title()), compared);
            }
            Ok(())
        })?;
    }
    Ok(all.into_wrong())
}

fn transposes(device: &Device) -> Result<Vec<String>> {
    let (stream, mut all) = (device.stream(), Verdicts::default());
    for step in transpose::LADDER {
        all.part(|all| {
            let transpose = step.load(device)?;
            for shape in [[0, 5], [1, 1], [1, 77], [77, 1], [31, 33], [64, 64], [100, 37], [33, 130]] {
                let x = Tensor::random(&shape, 3).into_vec()?;
                let mut y = stream.alloc_poisoned(x.len())?;
                transpose.launch(&stream, &stream.clone_htod(&x)?, &mut y, shape)?;
                let compared = transpose::reference(&x, shape).check(&stream.clone_dtoh(&y)?);
                all.add(format!("{}, {shape:?}", step.title()), compared);
            }
            Ok(())
        })?;
    }
    Ok(all.into_wrong())
}

fn stencils(device: &Device) -> Result<Vec<String>> {
    let (stream, mut all) = (device.stream(), Verdicts::default());
    for step in stencil::LADDER {
        all.part(|all| {
            let stencil = step.load(device)?;
            for shape in
                [[0, 3, 4], [1, 1, 1], [1, 1, 70], [1, 20, 1], [70, 1, 1], [2, 8, 32], [3, 9, 33], [37, 19, 45]]
            {
                let old = Tensor::random(&shape, 7).into_vec()?;
                let mut next = stream.alloc_poisoned(old.len())?;
                stencil.launch(&stream, &stream.clone_htod(&old)?, &mut next, shape)?;
                let compared = stencil::reference(&old, shape).check(&stream.clone_dtoh(&next)?);
                all.add(format!("{}, {shape:?}", step.title()), compared);
            }
            Ok(())
        })?;
    }
    Ok(all.into_wrong())
}
