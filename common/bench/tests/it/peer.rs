//! NVIDIA's libraries on a GPU, and the errors without one.

use bench::peer::{Cublas, Cudnn};
use common::check::assert_close;
use common::prelude::*;
use common::probe::Library;
use common::reference::{self, BatchNorm, Conv2dParams, Gemm};

/// The first GPU, if the library is installed too; otherwise prints why not.
fn gpu_with(library: Library, test: &str) -> Option<Device> {
    let device = common::private::cuda_for_test(test)?;
    match library.open() {
        Ok(_) => Some(device),
        Err(error) => {
            println!("{test}: skipped, since {error}");
            None
        }
    }
}

#[test]
fn the_simulator_has_neither_and_says_so() {
    let stream = Device::sim().stream();
    for error in [Cublas::open(&stream).err().unwrap(), Cudnn::open(&stream).err().unwrap()] {
        assert!(error.is_unsupported(), "{error}");
        let text = error.to_string();
        let reason = ["it runs on NVIDIA GPUs only", "built without the `cuda` feature"];
        assert!(text.starts_with("cu") && reason.iter().any(|reason| text.contains(reason)), "{text}");
    }
}

#[test]
fn what_is_not_installed_is_named_with_the_command_that_installs_it_cuda() {
    let Some(device) = common::private::cuda_for_test("what_is_not_installed") else { return };
    let stream = device.stream();
    for (library, error) in
        [(Library::Cublas, Cublas::open(&stream).err()), (Library::Cudnn, Cudnn::open(&stream).err())]
    {
        assert_eq!(error.is_none(), library.is_present(), "{error:?}");
        if let Some(error) = error {
            assert!(error.is_unsupported() && error.to_string().contains(library.remedy()), "{error}");
        }
    }
}

#[test]
fn gemm_by_cublas_matches_the_reference_cuda() {
    let Some(device) = gpu_with(Library::Cublas, "gemm_by_cublas") else { return };
    let cublas = Cublas::open(&device.stream()).unwrap();
    for (seed, [m, n, k]) in (0..).step_by(3).zip([
        [1, 1, 1],
        [7, 5, 3],
        [1, 300, 17],
        [129, 1, 65],
        [130, 67, 259],
        [0, 4, 4],
        [4, 0, 4],
        [3, 4, 0],
    ]) {
        for transposed in [false, true] {
            for (alpha, beta) in [(1.0, 0.0), (0.5, -2.0)] {
                let (a, c) = (Tensor::random(&[m, k], seed), Tensor::random(&[m, n], seed + 2));
                let b = Tensor::random(&if transposed { [n, k] } else { [k, n] }, seed + 1);
                let mut on_device = c.to_device(&device).unwrap();
                if beta == 0.0 {
                    device.stream().poison(on_device.buffer_mut().unwrap()).unwrap();
                }
                let (a_dev, b_dev) = (a.to_device(&device).unwrap(), b.to_device(&device).unwrap());
                cublas.gemm(&a_dev, &b_dev, transposed, alpha, beta, &mut on_device).unwrap();
                let (a, b, c) = (a.as_slice().unwrap(), b.as_slice().unwrap(), c.as_slice().unwrap());
                let gemm = Gemm { transposed, alpha, beta, c: Some(c), ..Gemm::new(a, b, m, n, k) };
                let expected = gemm.all().unwrap();
                println!("{m} × {n} × {k}, {transposed}, {alpha}, {beta}");
                assert_close(&on_device.into_vec().unwrap(), &expected.values, expected.tolerance());
            }
        }
    }
    let mut c = Tensor::empty_on(&device, &[2, 3]).unwrap();
    let (a, b) = (Tensor::random(&[2, 4], 1), Tensor::random(&[4, 3], 2).to_device(&device).unwrap());
    assert!(cublas.gemm(&a, &b, false, 1.0, 0.0, &mut c).is_err(), "A is on the host");
    let a = a.to_device(&device).unwrap();
    let error = cublas.gemm(&a, &b, true, 1.0, 0.0, &mut c).unwrap_err().to_string();
    assert_eq!(error, "cuBLAS's B: expected the shape [3, 4], got [4, 3]");
}

#[test]
fn convolution_by_cudnn_matches_the_reference_and_is_no_tf32_cuda() {
    let Some(device) = gpu_with(Library::Cudnn, "convolution_by_cudnn") else { return };
    let cudnn = Cudnn::open(&device.stream()).unwrap();
    let new = Conv2dParams::new;
    for (seed, (x, w, params)) in (0..).step_by(3).zip([
        ([1, 3, 31, 29], [5, 3, 7, 7], new(2, 3)),
        ([2, 16, 14, 14], [32, 16, 3, 3], new(1, 1)),
        ([2, 64, 7, 7], [64, 64, 3, 3], new(2, 1)),
        ([2, 32, 8, 9], [16, 32, 1, 1], new(2, 0)),
        ([1, 4, 15, 14], [6, 2, 3, 3], Conv2dParams { dilation: [2, 1], groups: 2, ..new(1, 2) }),
    ]) {
        let (x, w, b) = (Tensor::random(&x, seed), Tensor::random(&w, seed + 1), Tensor::random(&w[..1], seed + 2));
        let [x_dev, w_dev, b_dev] = [&x, &w, &b].map(|tensor| tensor.to_device(&device).unwrap());
        let shape = params.output_shape(&x, &w).unwrap();
        let mut y = Tensor::empty_on(&device, &shape).unwrap();
        let mut plan = cudnn.conv2d(&x_dev, &w_dev, params, &mut y).unwrap();
        println!("{params:?}: {}, {} bytes", plan.implementation(), plan.workspace_bytes());
        for bias in [None, Some((&b, &b_dev))] {
            device.stream().poison(y.buffer_mut().unwrap()).unwrap();
            plan.launch(&x_dev, &w_dev, bias.map(|(_, device)| device), &mut y).unwrap();
            let expected = reference::conv2d(&x, &w, bias.map(|(host, _)| host), params).unwrap();
            let report = common::check::compare(
                y.to_host().unwrap().as_slice().unwrap(),
                &expected.values,
                expected.tolerance(),
            );
            let report = report.unwrap();
            // TF32 keeps 10 bits of each factor: relative errors of about 2⁻¹¹, where f32 has 2⁻²⁴.
            assert!(report.max_abs < 2e-5 * expected.magnitude, "{report}");
        }
        assert!(plan.launch(&w_dev, &w_dev, None, &mut y).is_err(), "another shape than that tuned for");
    }
    let host = Tensor::random(&[1, 3, 8, 8], 1);
    let weight = Tensor::random(&[4, 3, 3, 3], 2).to_device(&device).unwrap();
    let mut y = Tensor::empty_on(&device, &[1, 4, 8, 8]).unwrap();
    let error = cudnn.conv2d(&host, &weight, new(1, 1), &mut y).err().unwrap();
    assert!(matches!(error, Error::Invalid(_)), "a tensor on the host: {error}");
    let empty = Tensor::zeros(&[0, 3, 8, 8]).to_device(&device).unwrap();
    let w = Tensor::random(&[4, 3, 3, 3], 1).to_device(&device).unwrap();
    let mut y = Tensor::empty_on(&device, &[0, 4, 8, 8]).unwrap();
    assert!(cudnn.conv2d(&empty, &w, new(1, 1), &mut y).err().unwrap().is_unsupported());
}

#[test]
fn batch_norm_by_cudnn_matches_the_reference_cuda() {
    let Some(device) = gpu_with(Library::Cudnn, "batch_norm_by_cudnn") else { return };
    let cudnn = Cudnn::open(&device.stream()).unwrap();
    for shape in [[1, 1, 1, 1], [2, 3, 5, 7], [4, 64, 14, 14]] {
        let x = Tensor::random(&shape, 1);
        let [weight, bias, mean] = [2, 3, 4].map(|seed| Tensor::random(&shape[1..2], seed));
        let variance = Tensor::from_fn(&shape[1..2], |i| 0.5 + i[0] as f32);
        let norm = BatchNorm { weight: &weight, bias: &bias, mean: &mean, variance: &variance, eps: 1e-5 };
        let expected = reference::batch_norm(&x, &norm).unwrap();
        let [weight, bias, mean, variance] =
            [&weight, &bias, &mean, &variance].map(|part| part.to_device(&device).unwrap());
        let norm = BatchNorm { weight: &weight, bias: &bias, mean: &mean, variance: &variance, eps: 1e-5 };
        let mut y = Tensor::empty_on(&device, &shape).unwrap();
        cudnn.batch_norm(&x.to_device(&device).unwrap(), &norm, &mut y).unwrap();
        assert_close(&y.into_vec().unwrap(), &expected.values, expected.tolerance());
    }
}
