//! The plain product of the first page of phase 2, on both devices, against the f64 reference.

use common::check::assert_close;
use common::device_test;
use common::prelude::*;
use common::reference;
use phase2_conv_bn::gemm::plain::{SOURCE, gemm_plain};

/// M, N, K: nothing to do, nothing to add up, a single element, around a block's 16 × 16, ragged in each dimension.
const SIZES: [[usize; 3]; 10] = [
    [0, 5, 3],
    [5, 0, 3],
    [3, 5, 0],
    [1, 1, 1],
    [16, 16, 16],
    [15, 17, 16],
    [17, 15, 33],
    [1, 40, 4],
    [65, 2, 129],
    [130, 131, 7],
];

device_test! {
    fn the_plain_product_is_right_at_every_size(device) {
        let stream = device.stream();
        let kernel = device.kernel(&SOURCE, "gemm_plain")?;
        for [m, n, k] in SIZES {
            let (a, b) = (Tensor::random(&[m, k], 1), Tensor::random(&[k, n], 2));
            let expected = reference::Gemm::new(a.as_slice()?, b.as_slice()?, m, n, k).all()?;
            let (a, b) = (a.to_device(&device)?, b.to_device(&device)?);
            let mut c = Tensor::full(&[m, n], f32::NAN).to_device(&device)?;
            gemm_plain(&stream, &kernel, &a, &b, &mut c)?;
            assert_close(&c.into_vec()?, &expected.values, expected.tolerance());
        }
        Ok(())
    }

    fn shapes_that_do_not_fit_are_refused(device) {
        let kernel = device.kernel(&SOURCE, "gemm_plain")?;
        let (a, b) = (Tensor::full(&[2, 3], 1.0).to_device(&device)?, Tensor::full(&[4, 5], 1.0).to_device(&device)?);
        let mut c = Tensor::full(&[2, 5], f32::NAN).to_device(&device)?;
        let error = gemm_plain(&device.stream(), &kernel, &a, &b, &mut c).unwrap_err();
        assert!(matches!(error, Error::Shape { .. }), "{error}");
        Ok(())
    }
}
