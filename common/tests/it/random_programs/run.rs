//! Launches on either device, the record of a GPU's outputs, and files of failed programs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use common::device::{Module, SimOptions};
use common::prelude::*;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::launch_case::{Outputs, Shape, launch};
use crate::random_programs::emit::module;
use crate::random_programs::generate;
use crate::random_programs::random::Hash;
use crate::random_programs::tree::Program;
use instruction_cases::{ArgSpec, Case};

/// Programs that are compiled together: a driver takes longer for many modules than for few.
pub(super) const BATCH: usize = 50;

/// A simulator for one program at a time: many of them run side by side.
pub(super) fn simulator() -> Device {
    Device::sim_with(SimOptions {
        memory: 1 << 28,
        workers: 1,
        budget: Some(1 << 22),
        sanitize: true,
        ..SimOptions::default()
    })
}

/// Runs `program` from a module that contains its kernel.
pub(super) fn run_in(device: &Device, module: &Module, program: &Program) -> Result<Outputs> {
    let ([gx, gy], [bx, by]) = (program.grid, program.block);
    let shape = Shape { grid: [gx, gy, 1], block: [bx, by, 1], shared: 0 };
    launch(device, module, &program.kernel_name(), shape, &program.args())
}

/// Runs `program` as a module of its own, whose text may have been changed.
pub(super) fn run_text(device: &Device, text: &str, program: &Program) -> Result<Outputs> {
    run_in(device, &device.load_ptx(text, &format!("{}.ptx", program.kernel_name()))?, program)
}

/// Runs `program` as a module of its own that the driver compiled without optimisations.
pub(super) fn run_unoptimised(device: &Device, program: &Program) -> Result<Outputs> {
    let module = device.load_ptx_unoptimised(&program.ptx(), &format!("{}.ptx", program.kernel_name()))?;
    run_in(device, &module, program)
}

/// Runs `program` on a simulator.
pub(super) fn simulate(program: &Program) -> Result<Outputs> {
    run_text(&simulator(), &program.ptx(), program)
}

pub(super) fn hash(outputs: &Outputs) -> String {
    let mut hash = Hash::new();
    outputs.iter().for_each(|bytes| hash.add(bytes));
    hash.hex()
}

/// The first difference between two runs.
pub(super) fn difference(ours: &Outputs, theirs: &Outputs) -> String {
    for (buffer, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        let differing: Vec<usize> = (0..ours.len()).filter(|at| ours[*at] != theirs[*at]).collect();
        if let Some(at) = differing.first().map(|at| at & !3) {
            let word =
                |bytes: &[u8]| bytes[at..at + 4].iter().rev().map(|byte| format!("{byte:02x}")).collect::<String>();
            let (ours, theirs, count) = (word(ours), word(theirs), differing.len());
            return format!(
                "buffer {buffer}: {count} bytes differ; at {at} the simulator has {ours}, the GPU {theirs}"
            );
        }
    }
    "no difference".to_owned()
}

/// A GPU's output for each seed.
#[derive(Serialize, Deserialize)]
pub(super) struct Record {
    pub device: String,
    pub driver: String,
    pub date: String,
    pub commit: String,
    pub generator: u32,
    /// Hash of all program texts and inputs: if it differs, the generator has changed.
    pub programs: String,
    /// Seed and hash of the output.
    pub results: Vec<(u64, String)>,
    /// The seeds whose output is from the kernel compiled without optimisations, since the optimised one gives a different
    /// result.
    pub unoptimised: Vec<u64>,
}

impl Record {
    pub(super) fn path() -> PathBuf {
        folder().join("nvidia-h200.json")
    }

    /// # Errors
    /// If there is no record; the message says how to make one.
    pub(super) fn open() -> std::result::Result<Record, String> {
        let path = Record::path();
        let again = "make one on a GPU: see the head of tests/it/random_programs.rs";
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}; {again}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}; {again}", path.display()))
    }

    /// Writes one line for each seed, so that a later record's difference can be read.
    pub(super) fn save(&self, path: &Path) -> std::io::Result<()> {
        let quoted = |text: &str| serde_json::to_string(text).expect("a string is valid JSON");
        let mut text = String::from("{\n");
        let fields =
            [("device", &self.device), ("driver", &self.driver), ("date", &self.date), ("commit", &self.commit)];
        for (name, value) in fields {
            let _ = writeln!(text, "  \"{name}\": {},", quoted(value));
        }
        let _ = writeln!(text, "  \"generator\": {},\n  \"programs\": {},", self.generator, quoted(&self.programs));
        let lines: Vec<String> =
            self.results.iter().map(|(seed, hash)| format!("    [{seed}, {}]", quoted(hash))).collect();
        let _ = writeln!(text, "  \"unoptimised\": {:?},", self.unoptimised);
        let _ = writeln!(text, "  \"results\": [\n{}\n  ]\n}}", lines.join(",\n"));
        std::fs::write(path, text)
    }

    pub(super) fn seeds(&self) -> Vec<u64> {
        self.results.iter().map(|(seed, _)| *seed).collect()
    }
}

/// The programs of these seeds, and the hash of their texts and inputs.
pub(super) fn programs(seeds: &[u64]) -> (Vec<Program>, String) {
    let made: Vec<(Program, String)> = seeds
        .par_iter()
        .map(|seed| {
            let program = generate::program(*seed);
            let mut hash = Hash::new();
            hash.add(program.ptx().as_bytes());
            hash.add(format!("{:?} {:?}", program.grid, program.block).as_bytes());
            hash.add(&program.input);
            program.values.iter().for_each(|value| hash.add(value));
            (program, hash.hex())
        })
        .collect();
    let mut hash = Hash::new();
    made.iter().for_each(|(_, each)| hash.add(each.as_bytes()));
    (made.into_iter().map(|(program, _)| program).collect(), hash.hex())
}

/// The files of a batch's kernels, compiled.
pub(super) fn load(device: &Device, programs: &[Program]) -> Result<Module> {
    let (first, last) = (&programs[0], &programs[programs.len() - 1]);
    device.load_ptx(&module(programs), &format!("random-{}-{}.ptx", first.seed, last.seed))
}

pub(super) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/random_programs")
}

/// A program as a file of the instruction tests' form: its PTX, its launch and its expected output.
pub(super) fn as_case(program: &Program, outputs: &Outputs, about: &str) -> String {
    let mut text: String = about.lines().map(|line| format!("// {line}\n")).collect();
    let ([gx, gy], [bx, by]) = (program.grid, program.block);
    let _ = writeln!(text, "//! kernel: {}\n//! grid: {gx},{gy}\n//! block: {bx},{by}", program.kernel_name());
    let expected = outputs.iter().map(|bytes| format!("//! expect: {}\n", list(bytes)));
    for arg in program.args() {
        let line = match &arg {
            ArgSpec::Value(bytes) => format!("value:{}", list(bytes)),
            ArgSpec::In(bytes) => format!("in:{}", list(bytes)),
            ArgSpec::InOut(bytes) => format!("inout:{}", list(bytes)),
            ArgSpec::Out(length) => format!("out:b8:{length}"),
        };
        let _ = writeln!(text, "//! arg: {line}");
    }
    text.extend(expected);
    text + &program.ptx()
}

/// `b32:0x1,0x0*7`
fn list(bytes: &[u8]) -> String {
    let size = if bytes.len().is_multiple_of(4) { 4 } else { 1 };
    let mut items: Vec<(String, usize)> = Vec::new();
    for chunk in bytes.chunks_exact(size) {
        let item = format!("0x{}", chunk.iter().rev().map(|byte| format!("{byte:02x}")).collect::<String>());
        match items.last_mut() {
            Some((last, count)) if *last == item => *count += 1,
            _ => items.push((item, 1)),
        }
    }
    let items = items.into_iter().map(|(item, count)| if count > 1 { format!("{item}*{count}") } else { item });
    format!("b{}:{}", 8 * size, items.collect::<Vec<_>>().join(","))
}

/// Loads PTX text under a name: [`Device::load_ptx`] or [`Device::load_ptx_unoptimised`].
pub(super) type Load = fn(&Device, &str, &str) -> Result<Module>;

/// Runs a case of a file and compares.
pub(super) fn check_case(device: &Device, case: &Case, load: Load) -> std::result::Result<(), String> {
    let said = |error: common::Error| format!("{}: {error}", case.name);
    let module = load(device, &case.ptx, &format!("{}.ptx", case.file)).map_err(said)?;
    let outputs = launch(device, &module, &case.kernel, Shape::of(case), &case.args).map_err(said)?;
    case.check(&outputs)
}
