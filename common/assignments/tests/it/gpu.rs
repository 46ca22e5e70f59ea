//! Every solution on a GPU: right there too, and no slower than itself.

use std::path::Path;

use assignments::exercise::{self, Exercise};
use assignments::grade::Grader;
use assignments::job::Outcome;
use common::Device;
use common::device::DeviceChoice;
use common::private::cuda_for_test;
use common::testing::planted::compiler;

/// Checks that need no clock.
#[test]
fn the_way_to_a_gpu_works_on_the_simulator() {
    if !compiler(&Device::sim(), "the_way_to_a_gpu_works_on_the_simulator") {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let guard = exercise::all(root).unwrap().into_iter().find(|exercise| exercise.id == "guard").unwrap();
    let mut grader = Grader::new(env!("CARGO_BIN_EXE_assignments").into(), Some(1));
    grader.gpu = Some(DeviceChoice::Sim);
    let verdict = grader.grade(&guard, &guard.file("solution.cu")).unwrap();
    assert!(verdict.passed() && verdict.parts[0].detail.contains("on sim too"), "{verdict}");
    // A kernel that is right at the sizes of the cases, and wrong at the larger one.
    let solution = std::fs::read_to_string(guard.file("solution.cu")).unwrap();
    let Outcome { cases, times, .. } = {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("guard.cu");
        std::fs::write(&file, solution.replace("i < n", "i < n && i < 5000")).unwrap();
        let small = Exercise { bench: Some([("n".to_owned(), 6000)].into()), ..guard.clone() };
        grader.bench(&small, &file, DeviceChoice::Sim).unwrap()
    };
    assert!(times.is_none());
    let wrong = cases.last().unwrap().wrong.as_deref().unwrap();
    assert!(wrong.contains("1000 of 6000 values of c are wrong, the first at element 5000"), "{wrong}");
}

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
