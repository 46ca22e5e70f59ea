//! Goldens from PyTorch, `goldens/*.safetensors`; `python/goldens.py` makes them and documents their contents. Phase 4's tests
//! use them too.

#![allow(dead_code)] // each test file uses some of it

use std::path::Path;

use common::check::{Tolerance, assert_close};
use common::prelude::*;
use phase3_all_layers::nn::Parameters;
use safetensors::{Dtype, SafeTensors};

fn read(file: &str) -> Vec<u8> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    std::fs::read(workspace.join("phase3-all-layers/tests/goldens").join(file)).unwrap()
}

/// The f32 values of a name in a file, and their shape.
pub(super) fn tensor(file: &str, name: &str) -> Tensor {
    let bytes = read(&format!("{file}.safetensors"));
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let view = file.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(view.dtype(), Dtype::F32, "{name}");
    let values = view.data().as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    Tensor::from_vec(view.shape(), values).unwrap()
}

/// Mean and L2 norm of a block's output.
pub(super) fn summary(file: &str, name: &str) -> [f64; 2] {
    let bytes = read(&format!("{file}.safetensors"));
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let view = file.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!((view.dtype(), view.shape()), (Dtype::F64, [2].as_slice()), "{name}");
    let (values, _) = view.data().as_chunks();
    [f64::from_le_bytes(values[0]), f64::from_le_bytes(values[1])]
}

/// Fails unless `values` have the golden's shape and lie within 1e-5 of its largest magnitude (of 1 below that).
#[track_caller]
pub(super) fn assert_output(file: &str, name: &str, values: &Tensor) {
    assert_output_within(1e-5, file, name, values);
}

/// The same with this in place of 1e-5.
#[track_caller]
pub(super) fn assert_output_within(part: f64, file: &str, name: &str, values: &Tensor) {
    let golden = tensor(file, name);
    assert_eq!(values.shape(), golden.shape(), "{name}");
    let golden = golden.as_slice().unwrap();
    println!("{name}");
    assert_close(values.as_slice().unwrap(), golden, Tolerance::of_scale(part, golden));
}

/// Fails unless mean and norm of `values` are a block's: each to 1e-5 of a value's root mean square by the norm (of 1 below
/// that), and of the norm.
#[track_caller]
pub(super) fn assert_summary(file: &str, name: &str, values: &[f32]) {
    let [mean, norm] = summary(file, name);
    let square: f64 = values.iter().map(|&value| f64::from(value).powi(2)).sum();
    let count = values.len() as f64;
    let size = (norm / count.sqrt()).max(1.0);
    println!("{name}");
    let actual_mean = values.iter().map(|&value| f64::from(value)).sum::<f64>() / count;
    assert_close(&[actual_mean], &[mean], Tolerance::absolute(1e-5 * size));
    assert_close(&[square.sqrt()], &[norm], Tolerance::absolute(1e-5 * size * count.sqrt()));
}

/// Fails unless the bits of all tensors equal the Python side's under this name.
#[track_caller]
pub(super) fn assert_digest(name: &str, parameters: &Parameters) {
    let about: serde_json::Value = serde_json::from_slice(&read("goldens.json")).unwrap();
    let values = parameters.iter().flat_map(|(_, tensor)| tensor.as_slice().unwrap());
    // Σ bits[i] · (2i + 1), as `python/seeded.py` has it.
    let terms = values.zip((1u64..).step_by(2)).map(|(value, odd)| u64::from(value.to_bits()).wrapping_mul(odd));
    let digest = terms.fold(0u64, u64::wrapping_add);
    assert_eq!(about["digests"][name], format!("{digest:016x}"), "{name}");
}
