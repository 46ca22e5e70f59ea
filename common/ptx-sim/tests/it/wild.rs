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
const CASES: [Case; 24] = [
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
    // github.com/deepseek-ai/DeepEP/pull/642: wrong sums on GB200s until the fence was there
    ("refills_unfenced", 1, 64, Allowed(&[66, 68, 70], FaultKind::MissingProxyFence, "// seen")),
    ("refills_fenced", 1, 64, Clean(&[66, 68, 70])),
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

/// Runs the cases of the folder that `PTX_SIM_WILD` names, and compares each with what is expected of it: kernels from public
/// reports that are not this project's to keep. Each has a folder:
///
/// - `run.sh`, a script for bash that calls `ptx-sim`, and tells of a plain run after the line `== plain`, of a sanitised one
///   after `== sanitize`. `nvptx`, with which it compiles `kernel.cu`, does nothing here: `kernel.ptx` is there.
/// - `expect.txt`: `sanitize:`, `clean` or kinds of findings, one of which is expected; `line:`, texts with ` || ` between them, of
///   which a line that a finding shows has one; `plain:`, what is printed (`^` and `$` are the ends of a line), or
///   `fault:` and kinds with `|` between them.
#[cfg(feature = "cli")]
mod found {
    use std::fmt::Write as _;
    use std::path::Path;
    use std::process::Command;

    /// A value of `expect.txt`, which may have several lines.
    fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
        const KEYS: [&str; 4] = ["kind: ", "sanitize: ", "line: ", "plain: "];
        let begins = |line: &str| KEYS.iter().any(|key| line.starts_with(key));
        let starts = || {
            text.split_inclusive('\n').scan(0, |at, line| {
                *at += line.len();
                Some((*at - line.len(), line))
            })
        };
        let (start, _) = starts().find(|(_, line)| line.starts_with(key))?;
        let end = starts().find(|(at, line)| *at > start && begins(line)).map_or(text.len(), |(at, _)| at);
        Some(text[start + key.len()..end].trim_end_matches('\n'))
    }

    /// Output of a script for one run.
    fn section<'o>(output: &'o str, name: &str) -> Option<&'o str> {
        let (_, after) = output.split_once(&format!("== {name}\n"))?;
        Some(after.split("\n== ").next().unwrap_or(after))
    }

    /// The kind of each finding, and the lines of source that it shows.
    fn findings(section: &str) -> Vec<(&str, Vec<&str>)> {
        let mut all = Vec::new();
        for line in section.lines() {
            if let Some((kind, _)) = line.strip_prefix("error[").and_then(|rest| rest.split_once("]: ")) {
                all.push((kind, Vec::new()));
            } else if let (Some((_, lines)), Some((number, text))) = (all.last_mut(), line.split_once(" | "))
                && number.trim().parse::<u32>().is_ok()
            {
                lines.push(text);
            }
        }
        all
    }

    fn prints(section: &str, pattern: &str) -> bool {
        let (begins, pattern) = pattern.strip_prefix(['^', '\n']).map_or((false, pattern), |rest| (true, rest));
        let (ends, pattern) = pattern.strip_suffix('$').map_or((false, pattern), |rest| (true, rest));
        section.match_indices(pattern).any(|(at, _)| {
            let (before, after) = (&section[..at], &section[at + pattern.len()..]);
            (!begins || before.is_empty() || before.ends_with('\n'))
                && (!ends || after.is_empty() || after.starts_with('\n'))
        })
    }

    /// Reasons why a case is not as expected; `None` if it is as expected, `Some(Err(…))` if that is not in a form that can be compared.
    fn wrong(output: &str, expected: &str) -> Option<Result<String, &'static str>> {
        let Some(sanitised) = section(output, "sanitize") else { return Some(Err("it has no line `== sanitize`")) };
        let Some(kinds) = value(expected, "sanitize: ") else { return Some(Err("it expects nothing of a sanitiser")) };
        let found = findings(sanitised);
        let mut reasons = String::new();
        if kinds == "clean" {
            if !found.is_empty() || !prints(sanitised, "^exit 0$") {
                reasons += "sanitised, it is not clean; ";
            }
        } else {
            let known: Vec<_> = found.iter().filter(|(kind, _)| kinds.split(' ').any(|other| other == *kind)).collect();
            let texts: Vec<&str> =
                value(expected, "line: ").into_iter().flat_map(|texts| texts.split(" || ")).collect();
            let shows = |(_, lines): &&&(&str, Vec<&str>)| {
                lines.iter().any(|line| texts.iter().any(|text| line.contains(text)))
            };
            if known.is_empty() {
                let _ = write!(reasons, "no finding is {kinds}; ");
            } else if !texts.is_empty() && known.iter().find(shows).is_none() {
                let _ = write!(reasons, "no finding shows a line with {texts:?}; ");
            }
        }
        if let Some(pattern) = value(expected, "plain: ") {
            let plain = section(output, "plain").unwrap_or_default();
            let is_right = match pattern.strip_prefix("fault:") {
                Some(kinds) => findings(plain).iter().any(|(kind, _)| kinds.split('|').any(|other| other == *kind)),
                None => prints(plain, pattern),
            };
            if !is_right {
                let _ = write!(reasons, "plain, it does not give {pattern:?}; ");
            }
        }
        (!reasons.is_empty()).then_some(Ok(reasons))
    }

    #[test]
    fn cases_of_a_folder_are_as_expected() {
        let Some(folder) = std::env::var_os("PTX_SIM_WILD") else { return };
        let command = Path::new(env!("CARGO_BIN_EXE_ptx-sim"));
        let path = std::env::var("PATH").unwrap_or_default();
        let mut names: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.retain(|path| path.join("expect.txt").is_file());
        names.sort();
        let (mut failed, mut unjudged) = (String::new(), Vec::new());
        for case in &names {
            // Scripts write beside themselves.
            let copy = tempfile::tempdir().unwrap();
            for entry in
                std::fs::read_dir(case).unwrap().map(|entry| entry.unwrap()).filter(|entry| entry.path().is_file())
            {
                std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
            }
            let name = case.file_name().unwrap().to_string_lossy();
            let output = Command::new("bash")
                .args(["-c", "exec bash run.sh 2>&1"])
                .current_dir(copy.path())
                .env("PATH", format!("{}:{path}", command.parent().unwrap().display()))
                .env("BASH_FUNC_nvptx%%", "() { :; }")
                .output()
                .unwrap();
            let output = String::from_utf8_lossy(&output.stdout);
            match wrong(&output, &std::fs::read_to_string(case.join("expect.txt")).unwrap()) {
                None => {}
                Some(Ok(reasons)) => failed += &format!("{name}: {reasons}\n{output}\n"),
                Some(Err(reason)) => unjudged.push(format!("{name}: {reason}")),
            }
        }
        println!("{} cases; not compared: {unjudged:#?}", names.len());
        assert!(!names.is_empty() && failed.is_empty(), "{failed}");
    }

    #[test]
    fn expectations_are_told_from_others() {
        let output = "== plain\n1,2\n3\nexit 0\n== sanitize\nerror[shared-race]: kernel `k`: race\n  --> kernel.cu:5:1\n   |\n 5 | s[t] = x;\n   = note: it\nexit 1\n";
        for (expected, fits) in [
            ("sanitize: shared-race\nline: s[t] =", true),
            ("sanitize: global-race shared-race\nline: nothing || = x;\nplain: ^1,2\n3$\n", true),
            ("sanitize: global-race\nline: s[t]", false),
            ("sanitize: shared-race\nline: note: it", false),
            ("sanitize: clean\n", false),
            ("sanitize: shared-race\nplain: ^2\n", false),
            ("sanitize: shared-race\nplain: 1$\n", false),
            ("sanitize: shared-race\nplain: \n3$\n", true),
            ("sanitize: shared-race\nplain: fault:out-of-bounds\n", false),
        ] {
            assert_eq!(wrong(output, expected).is_none(), fits, "{expected}");
        }
        assert!(wrong("== sanitize\n1\nexit 0\n", "sanitize: clean").is_none());
        assert!(matches!(wrong(output, "collatz 8,16"), Some(Err(_))));
    }
}
