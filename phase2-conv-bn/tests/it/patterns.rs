//! Scan, transpose and stencil on both devices: every step, at sizes from none to several blocks, ragged ones among them.

use common::check::{Tolerance, compare};
use common::device_test;
use common::prelude::*;
use common::testing::planted::{must_be_rejected, planted};
use phase2_conv_bn::Step;
use phase2_conv_bn::patterns::{random_u32, scan, stencil, transpose};

/// Sums of a step, written over poison.
fn scanned(device: &Device, scan: &mut scan::Scan, values: &[u32]) -> Result<Vec<u32>> {
    let stream = device.stream();
    let mut sums = stream.alloc_poisoned(values.len())?;
    scan.launch(&stream, &stream.clone_htod(values)?, &mut sums)?;
    stream.clone_dtoh(&sums)
}

/// Transpose of a step, written over poison.
fn transposed(device: &Device, step: &Step<transpose::Method>, x: &[f32], shape: [usize; 2]) -> Result<Vec<f32>> {
    let stream = device.stream();
    let mut y = stream.alloc_poisoned(x.len())?;
    step.load(device)?.launch(&stream, &stream.clone_htod(x)?, &mut y, shape)?;
    stream.clone_dtoh(&y)
}

/// Cells of a step, written over poison.
fn stepped(device: &Device, step: &Step<stencil::Method>, old: &[f32], shape: [usize; 3]) -> Result<Vec<f32>> {
    let stream = device.stream();
    let mut next = stream.alloc_poisoned(old.len())?;
    step.load(device)?.launch(&stream, &stream.clone_htod(old)?, &mut next, shape)?;
    stream.clone_dtoh(&next)
}

fn random(shape: &[usize], seed: u64) -> Vec<f32> {
    Tensor::random(shape, seed).into_vec().unwrap()
}

device_test! {
    /// Tiles hold 256 or 4096 values. The workspace of one size is used for the next, and for the first again.
    fn scans_are_exact_at_every_size(device) {
        for step in scan::LADDER {
            let mut scan = step.load(&device)?;
            for n in [0, 1, 5, 256, 257, 4095, 4096, 8193, 66_000, 1000] {
                let values = random_u32(n, n as u64 + 1);
                let sums = scanned(&device, &mut scan, &values)?;
                let checked = scan::reference(&values).check(&sums);
                checked.unwrap_or_else(|mismatch| panic!("{}, {n}: {mismatch}", step.name));
            }
        }
        Ok(())
    }

    /// More tiles than a warp has lanes, all of them at once on several cores or SMs: where a sum is known from the
    /// beginning is a matter of chance, and the result is not.
    fn a_scan_that_looks_back_is_right_in_every_run(device) {
        let device = if device.is_sim() { Device::sim() } else { device.clone() };
        let values = random_u32(100 * 4096 + 17, 5);
        let expected = scan::reference(&values);
        let mut scan = scan::LOOK_BACK.load(&device)?;
        for _ in 0..4 {
            expected.check(&scanned(&device, &mut scan, &values)?).unwrap();
        }
        Ok(())
    }

    fn transposes_are_copies(device) {
        for step in transpose::LADDER {
            for shape @ [rows, columns] in [[0, 5], [1, 1], [1, 77], [77, 1], [31, 33], [64, 64], [100, 37], [33, 130]] {
                let x = random(&shape, 3);
                let y = transposed(&device, step, &x, shape)?;
                let checked = transpose::reference(&x, shape).check(&y);
                checked.unwrap_or_else(|mismatch| panic!("{}, {rows} × {columns}: {mismatch}", step.name));
            }
        }
        Ok(())
    }

    fn steps_of_heat_match_the_reference(device) {
        let boxes = [
            [0, 3, 4],
            [1, 1, 1],
            [1, 1, 70],
            [1, 20, 1],
            [70, 1, 1],
            [2, 8, 32],
            [3, 9, 33],
            // More than one block along each axis, for every step.
            [37, 19, 45],
        ];
        for step in stencil::LADDER {
            for shape in boxes {
                let old = random(&shape, 7);
                let next = stepped(&device, step, &old, shape)?;
                let checked = stencil::reference(&old, shape).check(&next);
                checked.unwrap_or_else(|mismatch| panic!("{}, {shape:?}: {mismatch}", step.name));
            }
        }
        Ok(())
    }

    /// An insulated box keeps its heat: whatever the shape, the sum stays.
    fn heat_is_kept(device) {
        let shape = [6, 11, 40];
        let old = random(&shape, 8);
        let sum = |cells: &[f32]| cells.iter().map(|&cell| f64::from(cell)).sum::<f64>();
        let tolerance = stencil::reference(&old, shape).tolerance.absolute * old.len() as f64;
        for step in stencil::LADDER {
            let next = stepped(&device, step, &old, shape)?;
            assert!((sum(&next) - sum(&old)).abs() <= tolerance, "{}", step.name);
        }
        Ok(())
    }

    fn lengths_that_do_not_fit_are_refused_with_both(device) {
        let stream = device.stream();
        let (three, mut four) = (stream.alloc_zeros::<u32>(3)?, stream.alloc_zeros::<u32>(4)?);
        for step in scan::LADDER {
            let error = step.load(&device)?.launch(&stream, &three, &mut four).unwrap_err();
            assert_eq!(error.to_string(), "scan: there are 3 values, and room for 4 sums");
        }
        let (six, mut five) = (stream.alloc_zeros::<f32>(6)?, stream.alloc_zeros::<f32>(5)?);
        for step in transpose::LADDER {
            let error = step.load(&device)?.launch(&stream, &six, &mut five, [2, 3]).unwrap_err();
            assert_eq!(error.to_string(), "transpose: a matrix [2, 3], but 6 values and room for 5");
        }
        for step in stencil::LADDER {
            let error = step.load(&device)?.launch(&stream, &six, &mut five, [1, 2, 3]).unwrap_err();
            assert_eq!(error.to_string(), "stencil: a box [1, 2, 3], but 6 cells and room for 5");
        }
        Ok(())
    }
}

#[test]
fn mistakes_in_scans_are_found() {
    let mistakes = [
        (
            "written before all have read",
            &scan::LEVELS,
            "- distance] : 0;\n        __syncthreads();\n",
            "- distance] : 0;\n",
        ),
        ("a block's own total added", &scan::LEVELS, "totals[blockIdx.x - 1]", "totals[blockIdx.x]"),
        ("rows of a warp apart", &scan::REDUCE_FIRST, "unsigned before = before_row + sum", "unsigned before = sum"),
        (
            "a warp's own sum added",
            &scan::REDUCE_FIRST,
            "before += w < threadIdx.x / 32",
            "before += w <= threadIdx.x / 32",
        ),
        ("the last total not in the sum", &scan::LOOK_BACK, "lane <= last ?", "lane < last ?"),
        ("no state from the beginning", &scan::LOOK_BACK, "OF_ALL, of_tiles + total", "OF_ALL, total"),
        ("read before it is known", &scan::LOOK_BACK, "    }\n    __syncthreads();\n    store(y", "    }\n    store(y"),
        ("a state of the tile itself", &scan::LOOK_BACK, "states + (end - 1 - lane)", "states + (end - lane)"),
    ];
    for (mistake, step, right, wrong) in mistakes {
        let step = step.with_source(planted(&step.source, right, wrong));
        must_be_rejected(mistake, |device| {
            let values = random_u32(3 * 4096 + 77, 1);
            let sums = scanned(device, &mut step.load(device)?, &values)?;
            Ok(scan::reference(&values).check(&sums))
        });
    }
}

#[test]
fn mistakes_in_transposes_and_stencils_are_found() {
    let mistakes = [
        (
            "rows for columns",
            &transpose::NAIVE,
            "static_cast<size_t>(column) * rows",
            "static_cast<size_t>(column) * columns",
        ),
        ("no barrier", &transpose::SHARED, "    __syncthreads();\n", ""),
        (
            "the load's guard for the store",
            &transpose::SHARED,
            "row = first_row + threadIdx.x, column = first_column + j",
            "row = first_row + j, column = first_column + threadIdx.x",
        ),
        ("a pitch that is too short", &transpose::PADDED, "PITCH = TILE + 1", "PITCH = TILE - 1"),
    ];
    for (mistake, step, right, wrong) in mistakes {
        let step = step.with_source(planted(&step.source, right, wrong));
        must_be_rejected(mistake, |device| {
            let x = random(&[45, 70], 2);
            let y = transposed(device, &step, &x, [45, 70])?;
            Ok(compare(&y, &transpose::reference(&x, [45, 70]).values, Tolerance::exact()))
        });
    }
    let mistakes = [
        (
            "zeros outside the box",
            &stencil::NAIVE,
            "float left = old[box.at(before(i), j, k)]",
            "float left = i == 0 ? 0.0f : old[box.at(i - 1, j, k)]",
        ),
        ("no halo where the box ends in a tile", &stencil::TILE, " || i == box.x - 1", ""),
        ("no barrier before the update", &stencil::TILE, "    __syncthreads();\n", ""),
        (
            "no barrier after the update",
            &stencil::COLUMNS,
            "        __syncthreads();  // all have read the plane before the next is written\n",
            "",
        ),
        (
            "the first plane of a block alone",
            &stencil::COLUMNS,
            "below = old[box.at(i, j, before(first))]",
            "below = old[box.at(i, j, first)]",
        ),
    ];
    for (mistake, step, right, wrong) in mistakes {
        let step = step.with_source(planted(&step.source, right, wrong));
        must_be_rejected(mistake, |device| {
            let shape = [34, 10, 35];
            let old = random(&shape, 2);
            Ok(stencil::reference(&old, shape).check(&stepped(device, &step, &old, shape)?))
        });
    }
}
