//! The narrow ResNet over handwritten digits agrees with PyTorch, on the CPU and on both devices.

use common::check::{Tolerance, assert_close};
use common::device_test;
use phase3_all_layers::data::digits::{Digits, Outcome};
use phase3_all_layers::digits;

/// The same predictions one by one, the same accuracy, and logits within 1e-5 of the largest magnitude.
#[track_caller]
fn says_what_pytorch_says(outcome: &Outcome) {
    let digits = Digits::built_in().unwrap();
    let pytorch = Outcome::new(digits.pytorchs_logits().to_vec(), digits.labels());
    assert_eq!(digits.labels().len(), 360);
    assert!(pytorch.accuracy >= 0.98, "{}", pytorch.accuracy);
    assert_eq!(outcome.predictions, pytorch.predictions);
    assert_eq!(outcome.accuracy, pytorch.accuracy);
    assert_close(&outcome.logits, &pytorch.logits, Tolerance::of_scale(1e-5, &pytorch.logits));
}

#[test]
fn the_cpu_says_what_pytorch_says() {
    says_what_pytorch_says(&digits::evaluate_on_cpu().unwrap());
}

device_test! {
    fn the_device_says_what_pytorch_says(device) {
        says_what_pytorch_says(&digits::evaluate_on(&device)?);
        Ok(())
    }
}
