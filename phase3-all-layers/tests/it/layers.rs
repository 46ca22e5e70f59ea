//! The layers of phase 3 on both devices, against the reference: odd shapes, poisoned outputs, planted mistakes.

use common::check::{assert_close, compare};
use common::compile::Origin;
use common::device_test;
use common::prelude::*;
use common::reference::{self, MaxPool2d};
use common::testing::{away_from_sources, planted};
use phase2_conv_bn::gemm::Tuned;
use phase3_all_layers::layers::{AdaptiveAvgPool, Add, Attention, Gelu, LayerNorm, Linear, MaxPool};
use phase3_all_layers::trials::{CELLS, POOLED, POOLS, add, average_pool, linear, max_pool, pool};

/// Runs a max pooling and returns whether every bit is right.
fn is_right(device: &Device, layer: &MaxPool, pool: MaxPool2d, x: &Tensor) -> Result<bool> {
    Ok(max_pool(device, layer, pool, x)?.is_ok())
}

device_test! {
    fn max_pooling_is_exact(device) {
        for pool in POOLS {
            let layer = MaxPool::load(&device, pool)?;
            for (seed, shape) in (1..).zip(POOLED) {
                assert!(is_right(&device, &layer, pool, &Tensor::random(&shape, seed))?, "{pool:?} of {shape:?}");
            }
        }
        let mut values = Tensor::random(&[1, 1, 6, 6], 9).into_vec()?;
        values[14] = f32::NAN;
        let x = Tensor::from_vec(&[1, 1, 6, 6], values)?.to_device(&device)?;
        let mut y = Tensor::empty_on(&device, &[1, 1, 3, 3])?;
        MaxPool::load(&device, pool(2, 2, 0))?.launch(&device.stream(), &x, &mut y)?;
        let y = y.into_vec()?;
        assert_eq!(y.iter().map(|value| value.is_nan()).collect::<Vec<_>>(), (0..9).map(|i| i == 4).collect::<Vec<_>>());
        Ok(())
    }

    fn means_of_cells_are_within_rounding(device) {
        let layer = AdaptiveAvgPool::load(&device)?;
        for (seed, shape) in (1..).zip(POOLED) {
            for out in CELLS {
                average_pool(&device, &layer, &Tensor::random(&shape, seed), out)?.unwrap();
            }
        }
        Ok(())
    }

    fn addition_and_linear_are_within_rounding(device) {
        for n in [0, 1, 255, 1000] {
            add(&device, &Add::load(&device)?, n)?.unwrap();
        }
        linear(&device, [5, 33, 10])?.unwrap();
        Ok(())
    }

    fn linear_by_cublas_is_within_rounding_where_there_is_one(device) {
        let stream = device.stream();
        let (x, weight, bias) = (Tensor::random(&[5, 33], 3), Tensor::random(&[10, 33], 4), Tensor::random(&[10], 5));
        let layer = match Linear::by_library(&stream, &weight, &bias) {
            Ok(layer) => layer,
            Err(error) => {
                assert!(error.is_unsupported(), "{error}");
                return Ok(());
            }
        };
        let product = reference::Gemm::new(x.as_slice()?, weight.as_slice()?, 5, 10, 33);
        let expected = reference::Gemm { transposed: true, bias: Some(bias.as_slice()?), ..product }.all()?;
        let mut y = Tensor::empty_on(&device, &[5, 10])?;
        layer.launch(&stream, &x.to_device(&device)?, &mut y)?;
        assert_close(&y.into_vec()?, &expected.values, expected.tolerance());
        Ok(())
    }

    fn shapes_that_do_not_fit_are_refused(device) {
        let stream = device.stream();
        let x = Tensor::random(&[1, 2, 6, 6], 1).to_device(&device)?;
        let mut wrong = Tensor::empty_on(&device, &[1, 2, 4, 4])?;
        let layer = MaxPool::load(&device, pool(3, 2, 1))?;
        let error = layer.launch(&stream, &x, &mut wrong).unwrap_err().to_string();
        assert_eq!(error, "max pooling's output: expected the shape [1, 2, 3, 3], got [1, 2, 4, 4]");
        let average = AdaptiveAvgPool::load(&device)?;
        assert!(average.launch(&stream, &x, &mut Tensor::empty_on(&device, &[1, 2, 0, 1])?).is_err());
        assert!(average.launch(&stream, &x, &mut Tensor::empty_on(&device, &[1, 3, 1, 1])?).is_err());
        let add = Add::load(&device)?;
        assert!(add.launch(&stream, &mut wrong, &x).is_err());
        assert!(Linear::load(&device, &Tuned::load(&device)?, &Tensor::zeros(&[3, 4]), &Tensor::zeros(&[4])).is_err());
        Ok(())
    }
}

/// Mistakes in the kernels' text that the checks must find; they need the compiler.
#[test]
fn planted_mistakes_are_found() {
    let device = common::private::sim_for_test();
    if !planted::compiler(&device, "planted_mistakes_are_found") {
        return;
    }
    let x = Tensor::random(&[2, 3, 7, 9], 1);
    for (right, wrong) in [
        ("min(top + pool.window, pool.height)", "min(top + pool.window, pool.height - 1)"),
        ("row * pool.stride - pool.padding", "row * pool.stride"),
        ("y * pool.width + x", "x * pool.width + y"),
    ] {
        let source = planted::planted(&MaxPool::SOURCE, right, wrong);
        let found = MaxPool::load_from(&device, &source, POOLS[0])
            .and_then(|layer| is_right(&device, &layer, POOLS[0], &x))
            .is_ok_and(|right| right);
        assert!(!found, "`{wrong}` in place of `{right}` passes");
    }
    for (right, wrong) in [
        ("((row + 1) * height + out_height - 1) / out_height", "(row + 1) * height / out_height"),
        ("int other = 16", "int other = 8"),
        ("at / across * width", "at / across * across"),
    ] {
        let source = planted::planted(&AdaptiveAvgPool::SOURCE, right, wrong);
        // Cells of a few values, and one that all lanes share.
        let passes = [[2, 3], [1, 1]].into_iter().all(|out| {
            let expected = reference::adaptive_avg_pool2d(&x, out).unwrap();
            let mut y = Tensor::empty_on(&device, &[2, 3, out[0], out[1]]).unwrap();
            AdaptiveAvgPool::load_from(&device, &source)
                .and_then(|layer| layer.launch(&device.stream(), &x.to_device(&device)?, &mut y))
                .and_then(|()| y.into_vec())
                .is_ok_and(|y| compare(&y, &expected.values, expected.tolerance()).is_ok())
        });
        assert!(!passes, "`{wrong}` in place of `{right}` passes");
    }
}

#[test]
fn away_from_their_sources_kernels_have_the_headers_of_this_phase_and_of_phase_2() {
    let device = Device::sim();
    for (source, header) in [
        (LayerNorm::SOURCE, "rows.cuh"),
        (Gelu::SOURCE, "../../phase2-conv-bn/kernels/in_flight.cuh"),
        (Attention::SOURCE, "../../phase2-conv-bn/kernels/fetch.cuh"),
    ] {
        assert!(source.headers.iter().any(|&(name, _)| name == header), "{}", source.name);
        let away = away_from_sources(&source);
        // The simulator takes the shipped PTX only if its hash is that of the text and the headers.
        assert_eq!(device.load(&away).unwrap().origin(), &Origin::Shipped, "{}", source.name);
        if !planted::compiler(&device, "away_from_their_sources_kernels_have_the_headers_of_this_phase_and_of_phase_2")
        {
            continue;
        }
        // Another device, since one knows a module by its source.
        let compiled = Device::sim().load(&KernelSource { ptx: None, ..away }).unwrap();
        assert!(matches!(compiled.origin(), Origin::Compiled { .. } | Origin::Cache { .. }), "{:?}", compiled.origin());
    }
}
