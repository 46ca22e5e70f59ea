//! What the sanitiser finds, and what it must not: every kernel of `kernels/sanitise.cu`.

use ptx_sim::{Arg, Device, DeviceConfig, Fault, FaultKind, LaunchConfig, LaunchError, Module};

const PTX: &str = include_str!("kernels/sanitise.ptx");
const CU: &str = include_str!("kernels/sanitise.cu");

/// A kernel's arguments.
enum Input {
    /// That many 4-byte words, distinct small floats.
    Words(u64),
    /// That many words of zeros, written.
    Zeros(u64),
    /// That many words that nobody wrote.
    Unwritten(u64),
    Value(i32),
}

use Input::{Unwritten, Value, Words, Zeros};

fn device() -> Device {
    Device::new(DeviceConfig { sanitize: true, ..Default::default() })
}

fn findings(kernel: &str, grid: u32, block: u32, inputs: &[Input]) -> Vec<Fault> {
    let device = device();
    let module = device.load(&Module::from_ptx(PTX, "sanitise.ptx").unwrap()).unwrap();
    let args: Vec<Arg> = inputs
        .iter()
        .zip(["first", "second", "third"])
        .map(|(input, label)| {
            let (words, value): (u64, Option<fn(u64) -> f32>) = match input {
                Words(words) => (*words, Some(|at| (at % 251) as f32 + 0.5)),
                Zeros(words) => (*words, Some(|_| 0.0)),
                Unwritten(words) => (*words, None),
                Value(value) => return Arg::from(*value),
            };
            let pointer = device.alloc(words * 4, label).unwrap();
            if let Some(value) = value {
                let bytes: Vec<u8> = (0..words).flat_map(|at| value(at).to_le_bytes()).collect();
                device.write(pointer, &bytes).unwrap();
            }
            Arg::from(pointer)
        })
        .collect();
    let config =
        LaunchConfig { grid: [grid, 1, 1], block: [block, 1, 1], budget: Some(1_000_000), ..Default::default() };
    match module.kernel(kernel).unwrap().launch(&config, &args) {
        Ok(_) => Vec::new(),
        Err(LaunchError::Findings(findings)) => findings,
        Err(other) => panic!("{kernel}: {other}"),
    }
}

/// The text of the line that a finding names.
fn line(finding: &Fault) -> &'static str {
    CU.lines()
        .nth(finding.line.expect("the PTX has line information") as usize - 1)
        .expect("it is a line of the file")
        .trim()
}

#[track_caller]
fn finds(kernel: &str, grid: u32, block: u32, inputs: &[Input], expected: &[(FaultKind, &str, u64)]) {
    let findings = findings(kernel, grid, block, inputs);
    let text: String = findings.iter().map(|finding| finding.render(Some(CU), false)).collect();
    let found: Vec<(FaultKind, &str, u64)> =
        findings.iter().map(|finding| (finding.kind, line(finding), finding.count)).collect();
    assert_eq!(found, expected, "{kernel}:\n{text}");
}

#[track_caller]
fn passes(kernel: &str, grid: u32, block: u32, inputs: &[Input]) {
    finds(kernel, grid, block, inputs, &[]);
}

#[test]
fn a_missing_barrier_is_a_race() {
    let at = "out[threadIdx.x] = tile[63 - threadIdx.x];";
    // Warp 0 reads what warp 1 has not written yet: that is an uninitialised read; warp 1's read is the race.
    finds(
        "missing_barrier",
        1,
        64,
        &[Unwritten(64)],
        &[
            (FaultKind::UninitialisedRead, at, 32),
            (FaultKind::SharedRace, "tile[threadIdx.x] = threadIdx.x;", 32),
            (FaultKind::SharedRace, at, 32),
        ],
    );
}
