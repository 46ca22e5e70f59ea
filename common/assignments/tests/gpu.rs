//! Every solution on a GPU: right there too, and no slower than itself.

use std::path::Path;

use assignments::exercise;
use assignments::grade::Grader;
use common::device::DeviceChoice;
use common::private::cuda_for_test;

#[test]
fn every_solution_is_right_on_a_gpu_cuda() {
    if cuda_for_test("every_solution_is_right_on_a_gpu").is_none() {
        return;
    }
    let gpu = DeviceChoice::Cuda(0);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let mut grader = Grader::new(env!("CARGO_BIN_EXE_assignments").into(), None);
    grader.gpu = Some(gpu);
    let mut bad = Vec::new();
    for exercise in exercise::all(root).unwrap() {
        let file = exercise.file("solution.cu");
        match grader.grade(&exercise, &file) {
            Ok(verdict) if verdict.passed() => print!("{verdict}"),
            Ok(verdict) => bad.push(verdict.to_string()),
            Err(error) => bad.push(format!("{}: {error:#}", exercise.id)),
        }
        match grader.bench(&exercise, &file, gpu) {
            Ok(outcome) => println!("  {:?} {:?}", outcome.times, outcome.skipped),
            Err(error) => bad.push(format!("{}: {error:#}", exercise.id)),
        }
    }
    assert!(bad.is_empty(), "seed {}\n{}", grader.seed, bad.join("\n"));
}
