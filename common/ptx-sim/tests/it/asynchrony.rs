//! Asynchronous copies and tensor cores: every kernel of `kernels/async.cu`, correct ones and ones with one mistake.
//!
//! A correct kernel computes the expected result and has no finding, whenever its copies are made. A wrong one has a finding of
//! the right kind, even if its result is right.

use ptx_sim::{
    Arg, Asynchrony, Device, DeviceConfig, Fault, FaultKind, LaunchConfig, LaunchError, MemoryError, Module,
};

const PTX: &str = include_str!("../kernels/async.ptx");
const CU: &str = include_str!("../kernels/async.cu");

const TILE: usize = 128;
/// Tiles of a pipeline.
const TILES: usize = 6;
/// Words of the output.
const WORDS: usize = 16 * TILE;

const LEGAL: [Asynchrony; 5] =
    [Asynchrony::Late, Asynchrony::Early, Asynchrony::Seeded(1), Asynchrony::Seeded(2), Asynchrony::Seeded(3)];

/// Computation of a kernel, and its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    /// Each of this many blocks doubles its tile.
    Doubles(usize),
    /// Half of each tile is doubled, and half is zero.
    DoublesHalf,
    /// The tiles of three blocks are added.
    Adds,
    /// One block doubles [`TILES`] tiles.
    Stream,
    /// Both blocks of a cluster double one tile.
    Both,
    /// Both blocks of a cluster double [`TILES`] tiles.
    BothStream,
    /// The product of two matrices that the kernel generates.
    Product,
    /// The product added to the number of each accumulator.
    ProductOn,
    /// The product of two input matrices.
    ProductOf,
}

use Job::*;

/// Correct kernels.
const RIGHT: [(&str, Job); 28] = [
    ("loads", Doubles(2)),
    ("one_waits_for_all", Doubles(2)),
    ("two_halves", Doubles(2)),
    ("initialises_again", Doubles(2)),
    ("clears_then_loads", DoublesHalf),
    ("stores", Doubles(2)),
    ("stores_fenced_late", Doubles(2)),
    ("reuses_the_source", Doubles(2)),
    ("reads_the_result", Doubles(2)),
    ("reduces", Adds),
    ("stores_in_turn", Stream),
    ("pipelined", Stream),
    ("pipelined_once", Stream),
    ("pipelined_in_one", Stream),
    ("multicasts", Both),
    ("multicast_pipeline", BothStream),
    ("passes_a_tile", Doubles(2)),
    ("sends_words", Doubles(2)),
    ("multiplies", Product),
    ("multiplies_on", Product),
    ("refills", Product),
    ("multiplies_registers", Product),
    ("multiplies_what_was_loaded", ProductOf),
    // In clusters of their own, and several of them.
    ("multicasts", Both),
    ("loads", Doubles(5)),
    ("stores", Doubles(5)),
    ("reads_the_result", Doubles(3)),
    ("sends_words", Doubles(4)),
];

/// Wrong kernels: the kind of a finding, and a part of the line that it names.
const WRONG: [(&str, Job, FaultKind, &str); 34] = [
    ("reads_too_soon", Doubles(2), FaultKind::CopyInFlight, "out[t] = 2 * tile[t]; // WRONG"),
    ("writes_too_soon", Doubles(2), FaultKind::CopyInFlight, "tile[t] = 0; // WRONG"),
    ("one_waits_for_itself", Doubles(2), FaultKind::SharedRace, "// WRONG"),
    ("expects_half", Doubles(2), FaultKind::Deadlock, ""),
    ("expects_twice", Doubles(2), FaultKind::Deadlock, ""),
    ("never_arrives", Doubles(2), FaultKind::Deadlock, ""),
    ("all_arrive", Doubles(2), FaultKind::InvalidMbarrier, "// WRONG"),
    ("waits_for_the_past", Doubles(2), FaultKind::CopyInFlight, "out[t] = 2 * tile[t];"),
    ("waits_before_init", Doubles(1), FaultKind::InvalidMbarrier, "// WRONG"),
    ("initialises_twice", Doubles(2), FaultKind::InvalidMbarrier, "// WRONG"),
    ("clears_then_loads_unfenced", DoublesHalf, FaultKind::MissingProxyFence, "// WRONG"),
    ("misaligned", Doubles(2), FaultKind::Misaligned, "// WRONG"),
    ("past_the_end", Doubles(2), FaultKind::OutOfBounds, "// WRONG"),
    ("stores_unfenced", Doubles(2), FaultKind::MissingProxyFence, "// WRONG"),
    ("stores_before_the_barrier", Doubles(2), FaultKind::SharedRace, ""),
    ("overwrites_the_source", Doubles(2), FaultKind::CopyInFlight, "// WRONG"),
    ("reads_the_result_too_soon", Doubles(2), FaultKind::CopyInFlight, "// WRONG"),
    ("never_commits", Doubles(2), FaultKind::UnawaitedCopy, "// WRONG"),
    ("leaves_a_copy_behind", Doubles(2), FaultKind::UnawaitedCopy, "// WRONG"),
    ("stores_in_turn_one_late", Stream, FaultKind::CopyInFlight, ""),
    ("pipeline_never_empty", Stream, FaultKind::InvalidMbarrier, ""),
    ("pipeline_stuck", Stream, FaultKind::Deadlock, ""),
    ("pipeline_without_phases", Stream, FaultKind::Deadlock, ""),
    ("multicasts_too_soon", Both, FaultKind::SharedRace, ""),
    ("multicast_pipeline_half_empty", BothStream, FaultKind::SharedRace, ""),
    ("sends_words_too_soon", Doubles(2), FaultKind::CopyInFlight, "// WRONG"),
    ("multiplies_unfenced_memory", Product, FaultKind::MissingProxyFence, "// WRONG"),
    ("multiplies_unfenced_registers", ProductOn, FaultKind::MissingWgmmaFence, "// WRONG"),
    ("reads_accumulators", Product, FaultKind::RegisterInFlight, ""),
    ("waits_for_all_but_one", Product, FaultKind::RegisterInFlight, ""),
    ("forgets_to_commit", Product, FaultKind::RegisterInFlight, ""),
    ("refills_too_soon", Product, FaultKind::TileInFlight, "// WRONG"),
    ("changes_registers", Product, FaultKind::RegisterInFlight, ""),
    ("loads_over_a_product", ProductOf, FaultKind::TileInFlight, "// WRONG"),
];

/// Number `at` of the small whole numbers in the matrices.
fn number(at: usize) -> f32 {
    (at % 7) as f32 - 3.0
}

/// Bits as bf16.
fn bits(value: f32) -> u32 {
    value.to_bits() >> 16
}

fn product() -> Vec<f32> {
    let core =
        |row: usize, column: usize, across: usize| ((row / 8 * across + column / 8) * 8 + row % 8) * 8 + column % 8;
    let a = |row: usize, k: usize| number(core(row, k, 2));
    // A word of B has two numbers.
    let b = |k: usize, column: usize| {
        let at = core(column, k, 2);
        number(2 * (5 * (at / 2) + 1) + at % 2)
    };
    let place = |thread: usize, register: usize| {
        [thread / 32 * 16 + thread % 32 / 4 + 8 * (register / 2), thread % 4 * 2 + register % 2]
    };
    let element = |at: usize| {
        let [row, column] = place(at / 4, at % 4);
        (0..16).map(|k| a(row, k) * b(k, column)).sum()
    };
    (0..4 * TILE).map(element).collect()
}

impl Job {
    fn grid(self) -> u32 {
        match self {
            Doubles(blocks) => blocks as u32,
            DoublesHalf | Both | BothStream => 2,
            Adds => 3,
            Stream | Product | ProductOn | ProductOf => 1,
        }
    }

    /// Words of the input; empty if the kernel has none.
    fn input(self) -> Vec<u32> {
        let floats = |tiles: usize| (0..tiles * TILE).map(|at| (at as f32 + 0.5).to_bits()).collect();
        match self {
            Product | ProductOn => Vec::new(),
            ProductOf => {
                let pair = |at: usize| bits(number(2 * at)) | bits(number(2 * at + 1)) << 16;
                let mut words: Vec<u32> = (0..512).map(pair).chain((0..64).map(|at| pair(5 * at + 1))).collect();
                words.resize(WORDS, 0x4000_3f80);
                words
            }
            Doubles(tiles) => floats(tiles),
            DoublesHalf => floats(2),
            Adds => floats(3),
            Both => floats(1),
            Stream | BothStream => floats(TILES),
        }
    }

    fn expected(self) -> Vec<f32> {
        let input = |at: usize| at as f32 + 0.5;
        let doubled =
            |from: &dyn Fn(usize) -> usize, count: usize| (0..count).map(|at| 2.0 * input(from(at))).collect();
        match self {
            Doubles(blocks) => doubled(&|at| at, blocks * TILE),
            DoublesHalf => (0..2 * TILE).map(|at| if at % TILE < TILE / 2 { 2.0 * input(at) } else { 0.0 }).collect(),
            Adds => (0..TILE).map(|at| (0..3).map(|block| input(block * TILE + at)).sum()).collect(),
            Stream => doubled(&|at| at, TILES * TILE),
            Both => doubled(&|at| at % TILE, 2 * TILE),
            BothStream => doubled(&|at| at % (TILES * TILE), 2 * TILES * TILE),
            Product | ProductOf => product(),
            ProductOn => (0..).zip(product()).map(|(at, sum): (usize, f32)| sum + (at / 4 + at % 4) as f32).collect(),
        }
    }
}

/// Returns the kernel's output, and the sanitiser's findings.
fn run(kernel: &str, job: Job, asynchrony: Asynchrony, sanitize: bool) -> (Option<Vec<f32>>, Vec<Fault>) {
    let device = Device::new(DeviceConfig { sanitize, ..Default::default() });
    let module = device.load(&Module::from_ptx(PTX, "async.ptx").unwrap()).unwrap();
    let mut args = Vec::new();
    let bytes = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let input = job.input();
    if !input.is_empty() {
        let pointer = device.alloc(input.len() as u64 * 4, "in").unwrap();
        device.write(pointer, &bytes(&input)).unwrap();
        args.push(Arg::from(pointer));
    }
    let out = device.alloc(WORDS as u64 * 4, "out").unwrap();
    // Copies that add begin with zeros; all others have NaN to overwrite.
    let before = if job == Adds { 0f32 } else { f32::NAN };
    device.write(out, &bytes(&[before.to_bits(); WORDS])).unwrap();
    args.push(Arg::from(out));
    let config = LaunchConfig {
        grid: [job.grid(), 1, 1],
        block: [TILE as u32, 1, 1],
        budget: Some(5_000_000),
        asynchrony,
        ..Default::default()
    };
    let mut findings = match module.kernel(kernel).unwrap().launch(&config, &args) {
        Ok(_) => Vec::new(),
        Err(LaunchError::Findings(findings)) => findings,
        Err(LaunchError::Fault(fault)) => return (None, vec![*fault]),
        Err(other) => panic!("{kernel}: {other}"),
    };
    let mut left = vec![0; job.expected().len() * 4];
    match device.read(out, &mut left) {
        Err(MemoryError::Undefined(read)) => findings.extend(read),
        read => read.unwrap(),
    }
    (Some(left.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap())).collect()), findings)
}

fn rendered(findings: &[Fault]) -> String {
    findings.iter().map(|finding| finding.render(Some(CU), false) + "\n").collect()
}

/// The text of the lines that a finding names, down to the inlined one.
fn lines(finding: &Fault) -> String {
    let numbers = finding.inlined.iter().map(|(_, line)| *line).chain(finding.line);
    numbers.map(|line| CU.lines().nth(line as usize - 1).unwrap_or_default().trim().to_owned() + "\n").collect()
}

#[test]
fn right_kernels_are_right_whenever_copies_are_made() {
    let mut wrong = String::new();
    for (kernel, job) in RIGHT {
        for sanitize in [false, true] {
            for asynchrony in LEGAL {
                let (left, findings) = run(kernel, job, asynchrony, sanitize);
                if !findings.is_empty() || left.is_none_or(|left| left != job.expected()) {
                    wrong +=
                        &format!("{kernel}, {job:?}, {asynchrony:?}, sanitised: {sanitize}\n{}", rendered(&findings));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn each_mistake_is_found_by_its_kind() {
    let mut wrong = String::new();
    for (kernel, job, kind, text) in WRONG {
        let (_, findings) = run(kernel, job, Asynchrony::Late, true);
        if !findings.iter().any(|finding| finding.kind == kind && lines(finding).contains(text)) {
            wrong += &format!("{kernel}: no {} at `{text}`\n{}", kind.name(), rendered(&findings));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// A missing wait shows without a sanitiser too, if copies are as late as possible.
#[test]
fn late_copies_show_in_results() {
    for (kernel, job) in [
        ("reads_too_soon", Doubles(2)),
        ("waits_for_the_past", Doubles(2)),
        ("overwrites_the_source", Doubles(2)),
        ("reads_the_result_too_soon", Doubles(2)),
        ("stores_in_turn_one_late", Stream),
        ("sends_words_too_soon", Doubles(2)),
        ("reads_accumulators", Product),
        ("waits_for_all_but_one", Product),
        ("forgets_to_commit", Product),
        ("refills_too_soon", Product),
    ] {
        let (left, findings) = run(kernel, job, Asynchrony::Late, false);
        assert!(findings.is_empty(), "{kernel}: {}", rendered(&findings));
        assert_ne!(left.unwrap(), job.expected(), "{kernel}");
    }
}

#[test]
fn every_kernel_of_the_file_is_tested() {
    for kernel in Module::from_ptx(PTX, "async.ptx").unwrap().kernels() {
        let name = kernel.name.as_str();
        assert!(
            RIGHT.iter().any(|(right, _)| *right == name) || WRONG.iter().any(|(wrong, ..)| *wrong == name),
            "{name}"
        );
    }
}

/// Compares with the same kernels on an H200 and the findings of compute-sanitizer's tools there:
/// `kernels/async-h200.json`.
#[test]
fn an_h200_agrees_about_the_right_kernels() {
    let record: serde_json::Value = serde_json::from_str(include_str!("../kernels/async-h200.json")).unwrap();
    let result = |kernel: &str| record["kernels"][kernel]["result"].as_str().unwrap_or("not recorded").to_owned();
    for (kernel, _) in RIGHT {
        assert_eq!(result(kernel), "right", "{kernel}");
    }
    let hidden = WRONG.iter().filter(|(kernel, ..)| result(kernel) == "right").count();
    let found = |kernel: &str| {
        let tools = ["memcheck", "racecheck", "initcheck", "synccheck"];
        tools.iter().any(|tool| record["kernels"][kernel][tool] == "finds")
    };
    let by_tools = WRONG.iter().filter(|(kernel, ..)| found(kernel)).count();
    // The README says so.
    let said = format!(
        "Of {} kernels with one asynchronous mistake each, {hidden} give the right result on an H200, and compute-sanitizer's four \
         tools together find {by_tools}",
        WRONG.len()
    );
    let readme = crate::unbroken(include_str!("../../README.md"));
    assert!(readme.contains(&said), "{said}");
}
