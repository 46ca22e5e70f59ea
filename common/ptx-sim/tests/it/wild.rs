//! Mistakes that were reported in public, and right kernels that look like them: every kernel of `kernels/wild.cu`.

use ptx_sim::{Arg, Device, DeviceConfig, Fault, FaultKind, LaunchConfig, LaunchError, Module};

use Expected::{Allowed, Clean, Wrong};

const PTX: &str = include_str!("../kernels/wild.ptx");
const CU: &str = include_str!("../kernels/wild.cu");

const WORDS: u64 = 256;

/// Outcome of a sanitised launch.
enum Expected {
    /// Nothing is found, and this is how the output begins.
    Clean(&'static [i32]),
    /// The same, but a strict sanitiser has a finding of this kind, at a line with this text.
    Allowed(&'static [i32], FaultKind, &'static str),
    /// There is a finding of this kind, at a line with this text.
    Wrong(FaultKind, &'static str),
}

/// Kernel, blocks, threads of each, and what is expected of it. Its report stands above it.
type Case = (&'static str, u32, u32, Expected);

#[rustfmt::skip]
const CASES: [Case; 22] = [
    // github.com/JuliaGPU/AcceleratedKernels.jl/pull/98, github.com/NVIDIA/cub/issues/591
    ("look_back_unfenced", 4, 32, Wrong(FaultKind::GlobalRace, "// seen")),
    ("look_back_fenced", 4, 32, Clean(&[1, 3, 6, 10])),
    // github.com/NVIDIA/cutlass/issues/3117
    ("polls_relaxed", 2, 32, Allowed(&[1, 2, 3], FaultKind::GlobalRace, "out[t] = data[t];")),
    ("polls_fenced", 2, 32, Clean(&[1, 2, 3])),
    ("polls_acquire", 2, 32, Clean(&[1, 2, 3])),
    // github.com/ROCm/aiter/pull/4007
    ("histogram_unfenced", 2, 64, Wrong(FaultKind::GlobalRace, "= bins[t]")),
    // github.com/NVIDIA/cuml/issues/4157: one thread's fences are enough, between barriers of its block
    ("histogram_fenced", 2, 64, Clean(&[16, 16])),
    // forums.developer.nvidia.com/t/possible-bug-in-reduction-routine-from-the-cuda-7-sdk/53338
    ("last_adds", 4, 32, Allowed(&[10], FaultKind::GlobalRace, "(volatile int *)parts")),
    // PTX ISA, "ld.global.nc"
    ("reads_through_nc", 1, 64, Wrong(FaultKind::GlobalRace, "__ldg(&data[blockDim.x - 1 - t])")),
    ("in_place_through_nc", 2, 64, Clean(&[1, 2, 3])),
    // PTX ISA, "Morally strong operations"
    ("counts_within_blocks", 2, 64, Wrong(FaultKind::GlobalRace, "atomicAdd_block(count, 1)")),
    ("counts_of_each_block", 2, 64, Clean(&[2080, 2080, 0])),
    ("fences_within_blocks", 2, 1, Wrong(FaultKind::GlobalRace, "*out = *data")),
    ("acquires_within_blocks", 2, 1, Wrong(FaultKind::GlobalRace, "ld.acquire.cta")),
    // CUDA C++ Programming Guide, "Independent Thread Scheduling"
    ("warp_sum_volatile", 1, 32, Allowed(&[528], FaultKind::SharedRace, "all[t + step]")),
    ("warp_sum_met", 1, 32, Clean(&[528])),
    // One of the values remains, whichever it is. By the letter of the model it is a race.
    ("stores_one_flag", 2, 64, Allowed(&[1, 0], FaultKind::GlobalRace, "*out = 1")),
    // github.com/inclusionAI/humming/pull/53
    ("arrives_unfenced", 2, 32, Wrong(FaultKind::SharedRace, "// seen")),
    ("arrives_fenced", 2, 32, Clean(&[1, 1])),
    ("waits_untold", 1, 64, Wrong(FaultKind::SharedRace, "again; }")),
    // PTX ISA, "wgmma.wait_group": it is the executing threads that wait
    ("overwrites_after_another_wait", 1, 128, Wrong(FaultKind::SharedRace, "// seen")),
    ("overwrites_after_its_wait", 1, 128, Clean(&[])),
];

/// The beginning of the output, and findings.
fn run(kernel: &str, blocks: u32, threads: u32, strict: bool, words: usize) -> (Vec<i32>, Vec<Fault>) {
    let device = Device::new(DeviceConfig { sanitize: true, strict, ..Default::default() });
    let kernel = device.load(&Module::from_ptx(PTX, "wild.ptx").unwrap()).unwrap().kernel(kernel).unwrap();
    let buffers = ["in", "data", "shared", "out"].map(|label| {
        let buffer = device.alloc(4 * WORDS, label).unwrap();
        let values = (1..=WORDS as i32).map(|value| if label == "in" { value } else { 0 });
        device.write(buffer, &values.flat_map(i32::to_le_bytes).collect::<Vec<u8>>()).unwrap();
        buffer
    });
    let config = LaunchConfig {
        grid: [blocks, 1, 1],
        block: [threads, 1, 1],
        cooperative: true,
        budget: Some(10_000_000),
        ..Default::default()
    };
    let findings = match kernel.launch(&config, &buffers.map(Arg::from)) {
        Ok(_) => Vec::new(),
        Err(LaunchError::Findings(findings)) => findings,
        Err(other) => panic!("{other}"),
    };
    let mut out = vec![0; 4 * words];
    device.read(buffers[3], &mut out).unwrap();
    (out.chunks_exact(4).map(|word| i32::from_le_bytes(word.try_into().unwrap())).collect(), findings)
}

/// The text of the lines that a finding names.
fn lines(finding: &Fault) -> String {
    let numbers = finding.inlined.iter().map(|(_, line)| *line).chain(finding.line);
    numbers.map(|line| CU.lines().nth(line as usize - 1).unwrap_or_default().to_owned() + "\n").collect()
}

#[test]
fn reports_are_found_and_right_kernels_stay_clean() {
    let mut wrong = String::new();
    for (kernel, blocks, threads, expected) in &CASES {
        for strict in [false, true] {
            let (result, finding) = match expected {
                Clean(result) => (*result, None),
                Allowed(result, kind, line) => (*result, strict.then_some((kind, line))),
                Wrong(kind, line) => (&[][..], Some((kind, line))),
            };
            let (out, findings) = run(kernel, *blocks, *threads, strict, result.len());
            let is_right = match finding {
                None => findings.is_empty() && out == result,
                Some((kind, line)) => findings.iter().any(|found| found.kind == *kind && lines(found).contains(line)),
            };
            if !is_right {
                let found: String = findings.iter().map(|finding| finding.render(Some(CU), false)).collect();
                wrong += &format!("{kernel}, strict: {strict}: {out:?}\n{found}");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_kernel_of_the_file_is_tested() {
    for kernel in Module::from_ptx(PTX, "wild.ptx").unwrap().kernels() {
        assert!(CASES.iter().any(|(name, ..)| *name == kernel.name), "{}", kernel.name);
    }
}

#[test]
fn a_finding_says_what_the_model_asks_for() {
    let note = |kernel, blocks, threads| {
        let (_, findings) = run(kernel, blocks, threads, true, 0);
        findings.iter().flat_map(|finding| finding.notes.clone()).collect::<Vec<_>>().join("\n")
    };
    assert!(note("polls_relaxed", 2, 32).contains("not `.acquire`"));
    assert!(note("warp_sum_volatile", 1, 32).contains("__syncwarp()"));
    assert!(note("counts_within_blocks", 2, 64).contains("Morally strong operations"));
    assert!(note("waits_untold", 1, 64).contains("initialises an mbarrier"));
}
