//! What both fuzzers do with a text: `fuzz/` guided by coverage, `tests/fuzz_smoke.rs` in every test run.

use ptx_sim::{Arg, Device, DeviceConfig, LaunchConfig, LaunchError, Module, Observe};

/// Reads the text, and if it is PTX runs every kernel for a moment, plain and with everything watched. Says whether it was
/// PTX. Must never panic, hang or take much memory.
pub fn exercise(source: &str) -> bool {
    let module = match Module::from_ptx(source, "fuzz.ptx") {
        Ok(module) => module,
        Err(error) => {
            let _ = (error.to_string(), error.render(false));
            return false;
        }
    };
    run(&module, false);
    run(&module, true);
    true
}

fn run(module: &Module, watched: bool) {
    let config = DeviceConfig { total_memory: 64 << 20, workers: 1, sanitize: watched };
    let device = Device::new(config);
    let Ok(loaded) = device.load(module) else { return };
    let Ok(buffer) = device.alloc(1 << 16, "buffer") else { return };
    for info in module.kernels() {
        let kernel = match loaded.kernel(&info.name) {
            Ok(kernel) => kernel,
            Err(error) => {
                let _ = (error.to_string(), error.render(false));
                continue;
            }
        };
        // Parameters of 8 bytes are most often pointers, the others small numbers.
        let args: Vec<Arg> = info
            .params
            .iter()
            .map(|param| match param.size {
                8 => buffer.into(),
                size => {
                    let mut bytes = vec![0; size as usize];
                    bytes.iter_mut().take(1).for_each(|byte| *byte = 3);
                    Arg::from_bytes(&bytes)
                }
            })
            .collect();
        let config = LaunchConfig { grid: [2, 1, 1], block: [40, 1, 1], shared_bytes: 256, budget: Some(20_000) };
        match kernel.observe(&config, &args, &Observe { profile: watched, ..Observe::default() }) {
            Ok(observation) => {
                observation.findings.iter().for_each(|finding| drop(finding.render(None, false)));
                observation.profile.iter().for_each(|profile| drop(profile.to_json()));
            }
            Err(LaunchError::Fault(fault)) => drop(fault.render(None, false)),
            Err(error) => drop(error.to_string()),
        }
        let _ = device.take_output();
    }
}
