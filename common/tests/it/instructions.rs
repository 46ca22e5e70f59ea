//! The simulator's instruction tests on a GPU: the same `.ptx`, the same inputs, the same expected bits, so that the simulator
//! is tested against the hardware. The driver compiles each file for its GPU.
#![cfg(feature = "cuda")]

use crate::launch_case;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use common::device::Module;
use common::prelude::*;
use instruction_cases::Case;
use launch_case::{Shape, launch};

fn run(device: &Device, module: &Module, case: &Case) -> Result<(), String> {
    let outputs = launch(device, module, &case.kernel, Shape::of(case), &case.args)
        .map_err(|error| format!("{}: {error}", case.name))?;
    case.check(&outputs)
}

#[test]
fn every_case_gives_the_expected_bits_cuda() {
    let Some(device) = common::private::cuda_for_test("instructions") else {
        return;
    };
    let (major, minor) = device.properties().compute_capability.unwrap_or_default();
    let cases = instruction_cases::load(&instruction_cases::folder()).expect("the heads are well formed");
    assert!(!cases.is_empty());

    let mut modules: BTreeMap<String, Option<Module>> = BTreeMap::new();
    let (mut failures, mut ran, mut skipped) = (Vec::new(), 0, BTreeSet::new());
    for case in &cases {
        let file = case.name.split("::").next().unwrap_or_default().to_owned();
        if case.simulator_only {
            skipped.insert(format!("{} is for the simulator", case.name));
            continue;
        }
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
            // After a fault the context is lost, and every later case would seem to fail.
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
