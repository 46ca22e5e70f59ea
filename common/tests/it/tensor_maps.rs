//! Tensor maps: made by the host, used by bulk copies of a kernel, and the rules broken by wrong ones, on both devices.

use common::device::{Swizzle, TensorElement, TensorMapConfig, TensorWindow};
use common::device_test;
use common::prelude::*;

const TENSOR_MAP: KernelSource = kernel_source!("tests/kernels", "tensor_map");

/// [rows, columns] row-major, ragged against boxes of 16 × 32; rows are padded to a multiple of 16 bytes.
fn config(rows: u64, columns: u64) -> TensorMapConfig {
    let strides = vec![(columns * 4).next_multiple_of(16)];
    TensorMapConfig { strides, ..TensorMapConfig::tiled(TensorElement::F32, &[columns, rows], &[32, 16]) }
}

/// False, with the reason printed, on a GPU that has no bulk copies.
fn has_tensor_maps(device: &Device) -> bool {
    let capability = device.properties().compute_capability;
    let has = device.is_sim() || capability.is_some_and(|(major, _)| major >= 9);
    if !has {
        println!("skipped: tensor maps need compute capability 9.0");
    }
    has
}

device_test! {
    fn boxes_come_and_go_and_nothing_else_is_written(device) {
        if !has_tensor_maps(&device) {
            return Ok(());
        }
        let stream = device.stream();
        let kernel = device.kernel(&TENSOR_MAP, "add_one")?;
        for (rows, columns) in [(16u64, 32u64), (1, 1), (17, 33), (50, 70), (16, 100)] {
            let config = config(rows, columns);
            let pitch = config.strides[0] as usize / 4;
            let x: Vec<f32> = (0..rows as usize * pitch).map(|at| at as f32 * 0.5 - 7.0).collect();
            for swizzle in [Swizzle::None, Swizzle::Bytes128] {
                let config = TensorMapConfig { swizzle, ..config.clone() };
                let x_dev = stream.clone_htod(&x)?;
                let mut y_dev = stream.alloc_poisoned::<f32>(x.len())?;
                let from = stream.tensor_map(&x_dev, &config)?;
                let mut to = stream.tensor_map_mut(&mut y_dev, &config)?;
                let grid_dim = (columns.div_ceil(32) as u32, rows.div_ceil(16) as u32, 1);
                let launch = LaunchConfig { grid_dim, block_dim: (64, 1, 1), shared_mem_bytes: 0 };
                // SAFETY: copies outside the tensors are cut off; no other memory is touched.
                unsafe { stream.launch_builder(&kernel).arg(&from).arg(&mut to).launch(launch)? };
                let y = stream.clone_dtoh(&y_dev)?;
                for (at, (x, y)) in x.iter().zip(&y).enumerate() {
                    if at % pitch < columns as usize {
                        assert_eq!(*y, x + 1.0, "element {at} of {rows} × {columns}");
                    } else if at % pitch >= (columns as usize).next_multiple_of(4) {
                        // (The last 16 bytes of a row are written whole.)
                        assert!(y.is_nan(), "padding {at} of {rows} × {columns} was written");
                    }
                }
            }
        }
        Ok(())
    }

    fn a_broken_rule_is_named(device) {
        if !has_tensor_maps(&device) {
            return Ok(());
        }
        let stream = device.stream();
        let buffer = stream.alloc_zeros::<f32>(64 * 64)?;
        let right = || TensorMapConfig::tiled(TensorElement::F32, &[64, 64], &[32, 16]);
        stream.tensor_map(&buffer, &right())?;
        let wrong = |change: &dyn Fn(&mut TensorMapConfig), rule: &str| {
            let mut config = right();
            change(&mut config);
            let message = match stream.tensor_map(&buffer, &config) {
                Ok(_) => panic!("{config:?} breaks a rule: {rule}"),
                Err(error) => error.to_string(),
            };
            assert!(message.contains(rule), "{message}");
        };
        wrong(&|map| map.strides[0] = 260, "the stride of dimension 1 is 260 bytes, not a multiple of 16");
        wrong(&|map| map.strides[0] = 1 << 40, "less than 2^40");
        wrong(&|map| map.window = TensorWindow::Tiled(vec![32, 257]), "size 1 of the box is 257, where 1 to 256");
        wrong(&|map| map.window = TensorWindow::Tiled(vec![3, 16]), "12 bytes, not a multiple of 16");
        wrong(&|map| map.window = TensorWindow::Tiled(vec![32]), "1 sizes of the box, where a tensor of 2 dimensions has 2");
        wrong(&|map| map.element_strides[1] = 9, "element stride 1 is 9, where 1 to 8");
        wrong(&|map| map.swizzle = Swizzle::Bytes64, "128 bytes, more than the 64 of the swizzle");
        wrong(&|map| map.extents[1] = 65, "the tensor reaches to byte 16640 of a buffer of 16384");
        wrong(&|map| map.extents[0] = 0, "extent 0 is 0");
        let view = buffer.slice(1..);
        let small = TensorMapConfig::tiled(TensorElement::F32, &[32], &[32]);
        let error = stream.tensor_map(&view, &small).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("is not a multiple of 16"), "{error}");
        Ok(())
    }
}
