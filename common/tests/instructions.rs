//! The simulator's instruction tests on a GPU: the same `.ptx`, the same inputs, the same expected bits, so that what the
//! simulator is held to is what the hardware does. The driver compiles each file for its GPU.
#![cfg(feature = "cuda")]

#[path = "../ptx-sim/tests/instruction_cases/mod.rs"]
mod instruction_cases;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use common::device::Module;
use common::prelude::*;
use instruction_cases::{ArgSpec, Case, POISON};

/// What a parameter of a case is on the device.
enum Argument {
    Value(Vec<u8>),
    Buffer { buffer: Buffer<u8>, read_back: bool },
}

fn run(device: &Device, module: &Module, case: &Case) -> Result<(), String> {
    let outputs = launch(device, module, case).map_err(|error| format!("{}: {error}", case.name))?;
    case.check(&outputs)
}

/// The `inout` and `out` buffers after the launch, in order.
fn launch(device: &Device, module: &Module, case: &Case) -> Result<Vec<Vec<u8>>> {
    let stream = device.stream();
    let kernel = module.kernel(&case.kernel)?;
    let mut arguments = Vec::new();
    for spec in &case.args {
        let (contents, read_back) = match spec {
            ArgSpec::Value(bytes) => {
                arguments.push(Argument::Value(bytes.clone()));
                continue;
            }
            ArgSpec::In(bytes) => (bytes.clone(), false),
            ArgSpec::InOut(bytes) => (bytes.clone(), true),
            ArgSpec::Out(length) => (vec![POISON; *length], true),
        };
        let buffer = stream.clone_htod(&contents)?;
        arguments.push(Argument::Buffer { buffer, read_back });
    }
    let mut launch = stream.launch_builder(&kernel);
    for argument in &mut arguments {
        match argument {
            Argument::Value(bytes) => launch.arg_bytes(bytes),
            Argument::Buffer { buffer, .. } => launch.arg(buffer),
        };
    }
    let ([gx, gy, gz], [bx, by, bz]) = (case.grid, case.block);
    let config = LaunchConfig { grid_dim: (gx, gy, gz), block_dim: (bx, by, bz), shared_mem_bytes: case.shared };
    // SAFETY: each case is written for the buffers in its head, and the simulator, which watches every access, runs it clean.
    unsafe { launch.launch(config)? };
    stream.synchronize()?;
    arguments
        .iter()
        .filter_map(|argument| match argument {
            Argument::Buffer { buffer, read_back: true } => Some(stream.clone_dtoh(buffer)),
            _ => None,
        })
        .collect()
}

#[test]
fn every_case_gives_the_expected_bits_cuda() {
    let Some(device) = common::private::cuda_for_test("instructions") else {
        return;
    };
    let (major, minor) = device.properties().compute_capability.unwrap_or_default();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("ptx-sim/tests/instructions");
    let cases = instruction_cases::load(&folder).expect("the heads are well formed");
    assert!(!cases.is_empty());

    let mut modules: BTreeMap<String, Option<Module>> = BTreeMap::new();
    let (mut failures, mut ran, mut skipped) = (Vec::new(), 0, BTreeSet::new());
    for case in &cases {
        let file = case.name.split("::").next().unwrap_or_default().to_owned();
        if case.min_sm > major * 10 + minor {
            skipped.insert(format!("{file} needs sm_{}", case.min_sm));
            continue;
        }
        let module = modules.entry(file.clone()).or_insert_with(|| {
            let ptx: &Arc<str> = &case.ptx;
            let loaded = device.load_ptx(ptx, &format!("{file}.ptx"));
            loaded.map_err(|error| failures.push(error.to_string())).ok()
        });
        let Some(module) = module else { continue };
        ran += 1;
        if let Err(error) = run(&device, module, case) {
            failures.push(error);
            // After a fault the context answers nothing else, and every later case would seem to fail.
            if device.synchronize().is_err() {
                failures.push(format!("stopped after {}, since the GPU's context is lost", case.name));
                break;
            }
        }
    }
    println!("{ran} of {} cases in {} files on {}", cases.len(), modules.len(), device.describe());
    for skip in &skipped {
        println!("skipped: {skip}");
    }
    assert!(failures.is_empty(), "{}\n{} failures in {ran} cases", failures.join("\n"), failures.len());
}
