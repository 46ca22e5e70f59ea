//! Random programs give the same bits on the simulator and on a GPU.
//!
//! The instruction tests cover the cases we thought of; these cover the others. A generator makes typed PTX from a seed: more
//! than 2,500 instruction forms in straight lines, branches, loops, switches and calls, with all memory spaces, atomics,
//! barriers and cross-lane instructions. Every program ends, stays inside its buffers and gives the same result for any order
//! of its threads: the simulator's sanitiser runs them all without findings. At the end a program writes all its registers, and
//! a checksum of all their earlier values, so any wrong bit shows.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `random_programs/forms.rs` | the instructions on registers, as a table |
//! | `random_programs/tree.rs` | the form of a program: a tree from which any part can be removed |
//! | `random_programs/generate.rs` | from a seed to a tree, without anything that PTX leaves undefined |
//! | `random_programs/emit.rs` | from a tree to PTX |
//! | `random_programs/shrink.rs` | from a failing program to a small one |
//! | `random_programs/run.rs` | launches, the record, files of failures |
//! | `random_programs/nvidia-h200.json` | the record: for each seed, the hash of an H200's output |
//! | `random_programs/found/*.ptx` | programs that once failed, shrunk, with the GPU's output; a file put there is a test |
//! | `random_programs/optimised/*.ptx` | programs that a GPU runs differently once the driver has optimised them, shrunk |
//!
//! Without a GPU the simulator is compared with the record. With one, both run and every byte is compared:
//!
//! ```text
//! REQUIRE_CUDA=1 cargo test -p common --test it random_programs:: -- --nocapture
//! WARP_RANDOM_SEED=1000000 WARP_RANDOM_PROGRAMS=20000 cargo test -p common --test it agree_cuda -- --nocapture
//! ```
//!
//! The driver compiles PTX, and its optimiser is not always right: fourteen of the 2,050 recorded programs give the right
//! result on the H200 if they are compiled without optimisations, and a wrong one (in one case an illegal instruction) if they
//! are optimised: a comparison in a branch loses its predicate, a carry chain its flag. So a program that differs runs again
//! without optimisations; if that agrees, the record holds its output and lists the seed.
//!
//! A program that differs both ways is shrunk, printed, and written to `target/random-programs` (or `WARP_RANDOM_FAILURES`),
//! ready for `found/`. After a change to the generator, record again, on a GPU of compute capability 9.0:
//!
//! ```text
//! REQUIRE_CUDA=1 WARP_RANDOM_RECORD=tests/random_programs/nvidia-h200.json \
//!     cargo test -p common --test it agree_cuda -- --nocapture
//! ```
//!
//! (`cargo test` runs in the package's folder.) `WARP_RANDOM_DUMP=FOLDER` writes the programs as files for `ptxas`.

#[path = "random_programs/emit.rs"]
mod emit;
#[path = "random_programs/forms.rs"]
mod forms;
#[path = "random_programs/generate.rs"]
mod generate;
use crate::launch_case;
#[path = "random_programs/random.rs"]
mod random;
#[path = "random_programs/run.rs"]
mod run;
#[path = "random_programs/shrink.rs"]
mod shrink;
#[path = "random_programs/tree.rs"]
mod tree;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use common::prelude::*;
use common::provenance;
use launch_case::Outputs;
use rayon::prelude::*;
use run::Record;
use tree::Program;

/// Minimum number of instruction forms in the recorded programs; an opcode with all its modifiers is one form.
const FORMS_AT_LEAST: usize = 2500;

/// Programs that are not run optimised: seed 1579 then has an instruction that the H200 rejects as illegal, the others of
/// 10,000 from 1,000,000 on an access that it rejects, and the process loses the GPU.
const ONLY_UNOPTIMISED: &[u64] = &[1579, 1_005_505, 1_006_165, 1_006_762];

/// Maximum number of failures that are shrunk and written; of the others only the seeds are listed.
const SHRUNK: usize = 5;

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")),
        Err(_) => default,
    }
}

/// `WARP_RANDOM_PROGRAMS` seeds from `WARP_RANDOM_SEED`, without those in `WARP_RANDOM_SKIP`.
fn chosen_seeds() -> Vec<u64> {
    let skipped = std::env::var("WARP_RANDOM_SKIP").unwrap_or_default();
    let skipped: Vec<u64> = skipped.split(',').filter_map(|seed| seed.parse().ok()).collect();
    let first = number("WARP_RANDOM_SEED", 1);
    (first..first + number("WARP_RANDOM_PROGRAMS", 2000)).filter(|seed| !skipped.contains(seed)).collect()
}

#[test]
fn every_recorded_program_gives_the_bits_of_the_gpu_sim() {
    let record = Record::open().unwrap_or_else(|error| panic!("{error}"));
    let (programs, hash) = run::programs(&record.seeds());
    assert!(
        record.generator == generate::VERSION && record.programs == hash,
        "the generator makes other programs than those recorded (version {}, now {}; programs {}, now {hash}): record again, as \
         the head of tests/it/random_programs.rs says",
        record.generator,
        generate::VERSION,
        record.programs
    );
    let failures: Vec<String> = programs
        .par_iter()
        .zip(&record.results)
        .filter_map(|(program, (seed, expected))| match run::simulate(program) {
            Ok(outputs) if run::hash(&outputs) == *expected => None,
            Ok(_) => Some(format!("seed {seed}: the output is not what {} gave", record.device)),
            Err(error) => Some(format!("seed {seed}: {error}")),
        })
        .collect();
    failures.iter().for_each(|failure| println!("{failure}"));
    let shown = failures.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(failures.is_empty(), "{shown}\n{} of {} programs fail", failures.len(), programs.len());
}

#[test]
fn random_programs_agree_cuda() {
    let Some(device) = common::private::cuda_for_test("random_programs") else { return };
    let capability = device.properties().compute_capability.unwrap_or_default();
    if capability < (9, 0) {
        println!(
            "random_programs: skipped, since the programs are for compute capability 9.0, and this GPU has {capability:?}"
        );
        assert_ne!(std::env::var("REQUIRE_CUDA").as_deref(), Ok("1"), "REQUIRE_CUDA=1");
        return;
    }
    let (programs, hash) = run::programs(&chosen_seeds());
    let (mut results, mut unoptimised, mut failing) = (Vec::new(), Vec::new(), Vec::new());
    for batch in programs.chunks(run::BATCH) {
        let module = run::load(&device, batch).unwrap_or_else(|error| panic!("{error}"));
        let simulated: Vec<Result<Outputs>> = batch.par_iter().map(run::simulate).collect();
        for (program, ours) in batch.iter().zip(simulated) {
            // A program that faults on the simulator would be undefined on the GPU, so it does not run there.
            let outcome = ours.and_then(|ours| {
                if !ONLY_UNOPTIMISED.contains(&program.seed) {
                    let theirs = run::run_in(&device, &module, program)?;
                    if ours == theirs {
                        return Ok((ours, theirs));
                    }
                }
                unoptimised.push(program.seed);
                Ok((ours, run::run_unoptimised(&device, program)?))
            });
            match outcome {
                Ok((ours, theirs)) => {
                    results.push((program.seed, run::hash(&theirs)));
                    if ours != theirs {
                        failing.push((program, run::difference(&ours, &theirs)));
                    }
                }
                Err(error) => failing.push((program, error.to_string())),
            }
        }
    }
    println!("{} programs on {}, {} fail", programs.len(), device.describe(), failing.len());
    println!("the optimiser changes {unoptimised:?}");
    if let Ok(path) = std::env::var("WARP_RANDOM_RECORD") {
        assert_eq!(results.len(), programs.len(), "not every program ran: {failing:?}");
        let (device, date, commit) = (device.describe(), provenance::date(), provenance::commit());
        let (driver, generator) = (driver(), generate::VERSION);
        let record = Record { device, driver, date, commit, generator, programs: hash, results, unoptimised };
        record.save(Path::new(&path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        println!("recorded in {path}");
    }
    for (program, what) in failing.iter().take(SHRUNK) {
        report(&device, program, what);
    }
    let seeds: Vec<String> = failing.iter().map(|(program, what)| format!("seed {}: {what}", program.seed)).collect();
    assert!(failing.is_empty(), "{}\n{} of {} programs differ", seeds.join("\n"), failing.len(), programs.len());
}

/// Shrinks a program on which the two devices differ, prints it, and writes it as a file for `found/`.
fn report(device: &Device, program: &Program, what: &str) {
    let on_gpu = |program: &Program| run::run_unoptimised(device, program).unwrap();
    let small = shrink::shrink(program.clone(), &mut |program| match run::simulate(program) {
        Ok(ours) => ours != on_gpu(program),
        Err(_) => true,
    });
    println!("seed {}: {what}\nshrunk to {} statements:\n{}", program.seed, small.size(), small.ptx());
    let text = match run::simulate(&small) {
        Ok(ours) => {
            let theirs = on_gpu(&small);
            let about = format!("Seed {}, shrunk: {}", program.seed, run::difference(&ours, &theirs));
            run::as_case(&small, &theirs, &about)
        }
        Err(error) => format!("/* The simulator says: {error} */\n{}", small.ptx()),
    };
    let default = || Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("random-programs");
    let folder = std::env::var_os("WARP_RANDOM_FAILURES").map_or_else(default, PathBuf::from);
    let path = folder.join(format!("seed_{}.ptx", program.seed));
    std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, text)).unwrap();
    println!("written to {}", path.display());
}

/// The CUDA version that the driver supports: `CUDA 13.0`.
fn driver() -> String {
    #[cfg(feature = "cuda")]
    {
        let mut version = 0;
        // SAFETY: a device is open, so the driver's library is loaded; the call writes one integer.
        let status = unsafe { cudarc::driver::sys::cuDriverGetVersion(&raw mut version) };
        assert_eq!(status, cudarc::driver::sys::CUresult::CUDA_SUCCESS);
        format!("CUDA {}.{}", version / 1000, version % 1000 / 10)
    }
    #[cfg(not(feature = "cuda"))]
    unreachable!("there is no GPU without the feature `cuda`")
}

/// Runs the cases in a folder next to the record.
fn check(folder: &str, device: &Device, load: run::Load) {
    let cases = instruction_cases::load(&run::folder().join(folder)).unwrap();
    assert!(!cases.is_empty(), "{folder} has no cases");
    let failures: Vec<String> = cases.iter().filter_map(|case| run::check_case(device, case, load).err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn programs_once_found_give_the_bits_of_the_gpu_sim() {
    check("found", &run::simulator(), Device::load_ptx);
    check("optimised", &run::simulator(), Device::load_ptx);
}

#[test]
fn programs_once_found_give_the_bits_of_the_gpu_cuda() {
    if let Some(device) = common::private::cuda_for_test("programs_once_found") {
        check("found", &device, Device::load_ptx);
        check("optimised", &device, Device::load_ptx_unoptimised);
    }
}

/// The output of a machine that mistakes `brev` for `not`.
fn with_a_bug(program: &Program) -> Outputs {
    run::run_text(&run::simulator(), &program.ptx().replace("brev.b32", "not.b32"), program).unwrap()
}

#[test]
fn a_planted_bug_is_found_and_shrunk_to_its_instruction() {
    let differs = |program: &Program| run::simulate(program).unwrap() != with_a_bug(program);
    let failing = (1..).map(generate::program).find(differs).unwrap();
    assert!(failing.size() > 20, "the first is no small one: {} statements", failing.size());

    let small = shrink::shrink(failing, &mut |program| differs(program));
    let text = small.ptx();
    assert_eq!((small.size(), small.outputs.len(), small.threads()), (1, 1, 1), "{text}");
    assert_eq!(text.matches("brev.b32").count(), 1, "{text}");

    // As a file it passes with the right output, and fails with the other.
    let check = |outputs: &Outputs| {
        let cases = instruction_cases::parse("planted", &run::as_case(&small, outputs, "A planted bug.")).unwrap();
        run::check_case(&run::simulator(), &cases[0], Device::load_ptx)
    };
    check(&run::simulate(&small).unwrap()).unwrap();
    check(&with_a_bug(&small)).unwrap_err();
}

/// The opcodes of a text, without operands and guards.
fn opcodes(ptx: &str) -> BTreeSet<&str> {
    let instructions = ptx.lines().filter(|line| line.starts_with("    ")).flat_map(|line| line.split_inclusive(';'));
    instructions
        .filter(|instruction| instruction.ends_with(';'))
        .filter_map(|instruction| instruction.split_whitespace().find(|word| !word.starts_with('@')))
        .map(|word| word.trim_end_matches(';'))
        .filter(|word| word.starts_with(|first: char| first.is_ascii_lowercase()))
        .collect()
}

#[test]
fn the_programs_hold_every_form_and_the_simulator_knows_them() {
    let seeds = Record::open().map_or_else(|_| chosen_seeds(), |record| record.seeds());
    let (programs, _) = run::programs(&seeds);
    if let Some(folder) = std::env::var_os("WARP_RANDOM_DUMP").map(PathBuf::from) {
        for (number, batch) in programs.chunks(run::BATCH).enumerate() {
            std::fs::write(folder.join(format!("batch{number:03}.ptx")), emit::module(batch)).unwrap();
        }
    }
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for program in &programs {
        let text = program.ptx();
        let new: Vec<&str> = opcodes(&text).into_iter().filter(|opcode| !seen.contains(*opcode)).collect();
        if new.is_empty() {
            continue;
        }
        let known =
            run::load(&run::simulator(), std::slice::from_ref(program)).and_then(|m| m.kernel(&program.kernel_name()));
        assert!(known.is_ok(), "seed {}: {}", program.seed, known.unwrap_err());
        seen.extend(new.into_iter().map(str::to_owned));
    }
    println!("{} forms in {} programs", seen.len(), programs.len());
    let table = [&forms::FORMS, &forms::BARE_SUMS, &forms::BARE_PRODUCTS];
    let missing: Vec<&str> = table
        .iter()
        .flat_map(|table| table.iter().flatten())
        .map(|form| form.opcode.as_str())
        .filter(|opcode| !seen.contains(*opcode))
        .collect();
    assert!(missing.is_empty(), "no program holds {}", missing.join(", "));
    assert!(seen.len() >= FORMS_AT_LEAST, "{} forms", seen.len());
}
