//! Every exercise of the course: its solution passes, its skeleton does not, each wrong submission fails for its reason, and no small
//! change of the solution gets full points. A run takes a sample of the last two, another one each time; with `ALL_FILES=1` all.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use assignments::exercise::Exercise;
use assignments::grade::{Grader, author, judge_mutant};
use assignments::{exercise, mutants, store};
use common::Device;
use common::compile::CompilerName;
use common::testing::planted::{clang, compiler};
use rayon::prelude::*;

/// Number of runs that together take each wrong file once: each takes one of this many.
const SAMPLE: u64 = 3;

fn takes_all() -> bool {
    std::env::var_os("ALL_FILES").is_some()
}

#[test]
fn every_file_of_every_exercise_gives_what_it_should() {
    if !compiler(&Device::sim(), "every_file_of_every_exercise_gives_what_it_should") {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let exercises = exercise::all(root).unwrap();
    assert!(exercises.len() >= 3);
    // What is said of wrong values depends on them: reasons and questions were tried with these seeds.
    let random = RandomState::new().hash_one(0);
    let grader = Grader::new(env!("CARGO_BIN_EXE_assignments").into(), Some(1 + random % 4));
    let is_chosen = |number: usize| takes_all() || (number as u64 + random / 4).is_multiple_of(SAMPLE);
    let bad: Vec<String> = exercises
        .par_iter()
        .flat_map_iter(|exercise| {
            let page = root.join("book/pages").join(&exercise.page);
            let page = (!page.is_file()).then(|| format!("{}: no page {}", exercise.id, page.display()));
            // A reader may have solved some.
            let skeleton = store::skeleton(exercise).unwrap();
            let lines = author(&grader, exercise, &skeleton, is_chosen).unwrap().into_iter();
            let bad = lines.filter_map(|(file, judged)| Some(format!("{}/{file} {}", exercise.id, judged.err()?)));
            bad.chain(page).collect::<Vec<_>>()
        })
        .collect();
    assert!(bad.is_empty(), "seed {}\n{}", grader.seed, bad.join("\n"));
}

#[test]
fn no_mutant_of_a_solution_gets_full_points_without_a_reason() {
    if !compiler(&Device::sim(), "no_mutant_of_a_solution_gets_full_points_without_a_reason") {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let exercises = exercise::all(root).unwrap();
    let grader = Grader::new(env!("CARGO_BIN_EXE_assignments").into(), None);
    let chosen: Vec<_> = exercises
        .iter()
        .flat_map(|exercise| {
            let mutants = mutants::all(&std::fs::read_to_string(exercise.file("solution.cu")).unwrap());
            let known = |name: &&String| !mutants.iter().any(|mutant| mutant.name == **name);
            assert_eq!(exercise.survivors.keys().find(known), None, "{}: `survivors` lists no mutant", exercise.id);
            let at = grader.seed as usize % mutants.len();
            let sample = if takes_all() { 0..mutants.len() } else { at..at + 1 };
            mutants[sample].iter().cloned().map(move |mutant| (exercise, mutant)).collect::<Vec<_>>()
        })
        .collect();
    let bad: Vec<String> = chosen
        .par_iter()
        .filter_map(|(exercise, mutant)| {
            let why = judge_mutant(&grader, exercise, mutant).unwrap().err()?;
            Some(format!("{}, {}: {why}", exercise.id, mutant.name))
        })
        .collect();
    println!("{} mutants", chosen.len());
    assert!(bad.is_empty(), "seed {}\n{}", grader.seed, bad.join("\n"));
}

#[test]
fn exercises_need_the_compiler_and_no_header() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    for exercise in exercise::all(root).unwrap() {
        let mut texts = vec![store::skeleton(&exercise).unwrap()];
        for file in exercise.wrong_files().unwrap().into_iter().chain([exercise.file("solution.cu")]) {
            texts.push(std::fs::read_to_string(file).unwrap());
        }
        let includes = texts.iter().any(|text| text.contains("#include"));
        assert!(!includes, "{}: CUDA's headers are not installed with NVRTC", exercise.id);
    }
}

/// A class's budgets are multiples of costs by NVRTC; its members may have clang, which takes other instructions for the same text.
#[test]
fn solutions_by_clang_are_within_the_budgets_of_a_class() {
    let test = "solutions_by_clang_are_within_the_budgets_of_a_class";
    if !clang(test) || !compiler(&Device::sim(), test) {
        return;
    }
    let nowhere = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let mut exercises = exercise::all(root).unwrap();
    // Clang 19 knows no Blackwell, and no clusters.
    exercises
        .retain(|exercise| exercise.architecture.as_deref() != Some("compute_100a") && exercise.id != "cluster-slices");
    let nvrtc = Grader::new(env!("CARGO_BIN_EXE_assignments").into(), None);
    let mut clang = Grader::new(nvrtc.program.clone(), Some(nvrtc.seed));
    clang.compiler = Some(CompilerName::Clang);
    let bad: Vec<String> = exercises
        .par_iter()
        .filter_map(|exercise| {
            let costs = nvrtc.solution(exercise).unwrap();
            let solution = std::fs::read_to_string(exercise.file("solution.cu")).unwrap();
            let class = Exercise { costs, dir: nowhere.path().to_owned(), ..exercise.clone() };
            let verdict = clang.judge(&class, &solution).unwrap();
            (!verdict.passed()).then(|| verdict.to_string())
        })
        .collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
