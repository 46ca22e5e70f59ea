//! Diagnostics of wrong kernels: whole texts, kept as snapshots.
//!
//! `cargo insta review` (or `INSTA_UPDATE=always cargo test -p ptx-sim --test it diagnostics::`) accepts changed texts.

use ptx_sim::{Arg, Device, DeviceConfig, Fault, FaultKind, LaunchConfig, LaunchError, LoadError, Module};

const FAULTS: &str = include_str!("../kernels/faults.ptx");
const FAULTS_CU: &str = include_str!("../kernels/faults.cu");

/// Device addresses depend on the other allocations of a module: only their offset in their allocation matters here.
fn without_addresses(text: &str) -> String {
    let mut parts = text.split("0x7f");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("0x7f…");
        out.push_str(part.trim_start_matches(|digit: char| digit.is_ascii_hexdigit()));
    }
    out
}

enum Input {
    /// A buffer of this many 4-byte zeros.
    Buffer(u64),
    /// A buffer that is freed before the launch.
    Freed(u64),
    Value(Arg),
}

use Input::{Buffer, Freed, Value};

fn launch(
    device: &Device,
    ptx: &str,
    name: &str,
    kernel: &str,
    config: LaunchConfig,
    inputs: Vec<Input>,
) -> Box<Fault> {
    let module = Module::from_ptx(ptx, name).expect("it is valid PTX");
    let kernel = device.load(&module).expect("it fits").kernel(kernel).expect("the simulator knows its instructions");
    let labels = ["first", "second", "third"];
    let args: Vec<Arg> = inputs
        .into_iter()
        .zip(labels)
        .map(|(input, label)| match input {
            Buffer(words) => device.alloc(words * 4, label).expect("it fits").into(),
            Freed(words) => {
                let pointer = device.alloc(words * 4, label).expect("it fits");
                device.free(pointer).expect("it was just allocated");
                pointer.into()
            }
            Value(arg) => arg,
        })
        .collect();
    match kernel.launch(&config, &args) {
        Err(LaunchError::Fault(fault)) => fault,
        other => panic!("a fault is expected, not {other:?}"),
    }
}

fn block(threads: u32) -> LaunchConfig {
    LaunchConfig { block: [threads, 1, 1], ..Default::default() }
}

/// One worker, so that nothing depends on the machine.
fn device() -> Device {
    Device::new(DeviceConfig { workers: 1, ..Default::default() })
}

fn fault(kernel: &str, config: LaunchConfig, inputs: Vec<Input>) -> Box<Fault> {
    launch(&device(), FAULTS, "faults.ptx", kernel, config, inputs)
}

fn rendered(fault: &Fault) -> String {
    without_addresses(&fault.render(Some(FAULTS_CU), false))
}

#[test]
fn out_of_bounds_read_of_global_memory() {
    let config = LaunchConfig { grid: [2, 1, 1], ..block(32) };
    let fault = fault("read_past_the_end", config, vec![Buffer(40), Buffer(40), Value(40u32.into())]);
    assert_eq!(
        (fault.kind, fault.line, fault.block, fault.thread),
        (FaultKind::OutOfBounds, Some(5), [1, 0, 0], [8, 0, 0])
    );
    insta::assert_snapshot!(rendered(&fault));
    insta::assert_snapshot!("one_line", without_addresses(&fault.to_string()));
}

#[test]
fn out_of_bounds_write_of_global_memory() {
    insta::assert_snapshot!(rendered(&fault("write_past_the_end", block(64), vec![Buffer(40)])));
}

#[test]
fn write_through_null() {
    insta::assert_snapshot!(rendered(&fault("write_through_null", block(4), vec![Value(0u64.into())])));
}

#[test]
fn out_of_bounds_write_of_shared_memory() {
    insta::assert_snapshot!(rendered(&fault("shared_past_the_end", block(32), vec![Buffer(32)])));
}

#[test]
fn out_of_bounds_read_of_dynamic_shared_memory() {
    let config = LaunchConfig { shared_bytes: 64, ..block(32) };
    insta::assert_snapshot!(rendered(&fault("shared_read_past_the_end", config, vec![Buffer(32)])));
}

#[test]
fn out_of_bounds_write_of_local_memory() {
    insta::assert_snapshot!(rendered(&fault("local_past_the_end", block(2), vec![Buffer(2), Value(9u32.into())])));
}

#[test]
fn misaligned_vector_read() {
    insta::assert_snapshot!(rendered(&fault("misaligned_vector", block(2), vec![Buffer(8), Buffer(8)])));
}

#[test]
fn use_after_free() {
    insta::assert_snapshot!(rendered(&fault("reads_freed", block(2), vec![Freed(8), Buffer(8)])));
}

#[test]
fn write_to_constant_memory() {
    insta::assert_snapshot!(rendered(&fault("write_to_constant", block(1), vec![Value(1u32.into())])));
}

#[test]
fn barrier_that_some_threads_do_not_reach() {
    insta::assert_snapshot!(rendered(&fault("divergent_barrier", block(64), vec![Buffer(64)])));
}

#[test]
fn two_barriers_that_wait_for_each_other() {
    insta::assert_snapshot!(rendered(&fault("half_warp_barrier", block(32), vec![Buffer(32)])));
}

#[test]
fn shuffle_by_a_lane_outside_the_mask() {
    insta::assert_snapshot!(rendered(&fault("shuffle_outside_its_mask", block(32), vec![Buffer(32)])));
}

#[test]
fn shuffle_that_some_lanes_never_reach() {
    insta::assert_snapshot!(rendered(&fault("shuffle_that_some_never_reach", block(32), vec![Buffer(32)])));
}

#[test]
fn a_wait_that_never_ends() {
    insta::assert_snapshot!(rendered(&fault("endless", block(1), vec![Buffer(1)])));
}

#[test]
fn budget() {
    let config = LaunchConfig { budget: Some(1_000), ..block(1) };
    insta::assert_snapshot!(rendered(&fault("endless", config, vec![Buffer(1)])));
}

#[test]
fn trap() {
    let device = device();
    let sizes = device.alloc(8, "sizes").unwrap();
    device.write(sizes, &[1, 0, 0, 0, 255, 255, 255, 255]).unwrap();
    for (kernel, kind) in [("traps", FaultKind::Trap), ("asserts", FaultKind::Assertion)] {
        let fault = launch(&device, FAULTS, "faults.ptx", kernel, block(2), vec![Value(sizes.into())]);
        assert_eq!((fault.kind, fault.thread), (kind, [1, 0, 0]));
        insta::assert_snapshot!(kernel, rendered(&fault));
    }
}

#[test]
fn fault_in_an_inlined_function_names_the_call() {
    let fault = fault("inlined", block(32), vec![Buffer(4), Buffer(32)]);
    assert_eq!(fault.line, Some(FAULTS_CU.lines().position(|line| line.contains("= at(in")).unwrap() as u32 + 1));
    insta::assert_snapshot!(rendered(&fault));
}

#[test]
fn recursion_without_end() {
    let fault = fault("endless_recursion", block(1), vec![Buffer(1)]);
    assert_eq!(fault.kind, FaultKind::StackOverflow);
    // The depth reached is the simulator's choice.
    let text: String = rendered(&fault).split_inclusive('\n').filter(|line| !line.contains("instruction is")).collect();
    let depth = |line: &str| line.split_whitespace().find(|word| word.parse::<u32>().is_ok()).map(str::to_owned);
    let number = text.lines().next().and_then(depth).expect("the title has the depth");
    insta::assert_snapshot!(text.replace(&number, "N"));
}

#[test]
fn call_through_a_null_pointer() {
    insta::assert_snapshot!(rendered(&fault("calls_nothing", block(1), vec![Value(0u64.into()), Buffer(1)])));
}

/// Blocks that kernels allocate.
#[test]
fn misuse_of_the_heap() {
    let cu = include_str!("../kernels/heap.cu");
    for (name, kernel, args) in [
        ("heap_past_the_end", "past_the_end", vec![Buffer(16), Value(4.into())]),
        ("heap_double_free", "twice", vec![Buffer(16)]),
        ("heap_use_after_free", "too_late", vec![Buffer(16)]),
        ("heap_free_of_an_address_inside", "inside", vec![Buffer(16), Value(4.into())]),
        ("heap_free_of_a_buffer", "frees_a_buffer", vec![Buffer(16)]),
    ] {
        let fault = launch(&device(), include_str!("../kernels/heap.ptx"), "heap.ptx", kernel, block(3), args);
        insta::assert_snapshot!(name, without_addresses(&fault.render(Some(cu), false)));
    }
}

#[test]
fn without_the_source_the_instruction_is_shown() {
    let fault = fault("write_past_the_end", block(64), vec![Buffer(40)]);
    insta::assert_snapshot!(without_addresses(&fault.render(None, false)));
    assert!(fault.render(None, true).contains("\u{1b}["), "colour where it is asked for");
}

/// A `.file` path is not the PTX author's key to other files: only source is shown, from the PTX's own folder or from one that
/// the caller names, and no link leads out of them.
#[test]
fn only_files_of_allowed_folders_are_read_for_a_diagnostic() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["own", "own/inner", "own/ptx", "elsewhere"] {
        std::fs::create_dir(at(name)).unwrap();
    }
    for name in ["own/kernel.py", "own/kernel.cu", "own/inner/header.cuh", "elsewhere/other.cu", "elsewhere/hidden.txt"]
    {
        std::fs::write(at(name), "first line\na line of the file\n").unwrap();
    }
    #[cfg(unix)]
    for (to, link) in [("elsewhere/other.cu", "own/link.cu"), ("own/kernel.py", "own/text.cu")] {
        std::os::unix::fs::symlink(at(to), at(link)).unwrap();
    }
    let shown_by = |ptx_file: &str, name: &str, roots: &[std::path::PathBuf]| {
        let ptx = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.file 1 \"{}\"\n.visible .entry k() {{\n.loc 1 2 0\ntrap;\n}}\n",
            at(name).display().to_string().replace('\\', "/"),
        );
        let path = at(ptx_file);
        std::fs::write(&path, &ptx).unwrap();
        let fault = launch(&device(), &ptx, &path.display().to_string(), "k", block(1), vec![]);
        fault.render_from(roots, false).contains("a line of the file")
    };
    let shown = |name: &str, roots: &[std::path::PathBuf]| shown_by("own/k.ptx", name, roots);
    for (name, expected) in [
        ("own/kernel.py", true),
        ("own/kernel.cu", true),
        ("own/inner/header.cuh", true),
        ("elsewhere/kernel.cu", true), // there is none: that of this name beside the PTX is meant
        ("elsewhere/other.cu", false),
        ("elsewhere/hidden.txt", false),
        ("own/../elsewhere/other.cu", false),
        ("own/link.cu", false),
        ("own/text.cu", true),
    ] {
        assert_eq!(shown(name, &[]), expected, "{name}");
    }
    // Sources stand above a folder `ptx`.
    assert!(shown_by("own/ptx/k.ptx", "own/kernel.cu", &[]));
    assert!(!shown_by("own/ptx/k.ptx", "elsewhere/other.cu", &[]));
    assert!(shown("elsewhere/other.cu", &[at("elsewhere")]));
    assert!(cfg!(not(unix)) || shown("own/link.cu", &[at("elsewhere")]));
    assert!(shown("elsewhere/hidden.txt", &[at("elsewhere")]));
    // A PTX text that is no file has no folder.
    let fault = launch(
        &device(),
        ".version 8.0\n.target sm_80\n.address_size 64\n.file 1 \"Cargo.toml\"\n.file 2 \"build.rs\"\n.visible .entry k() {\n.loc 2 2 0\ntrap;\n}\n",
        "k.ptx",
        "k",
        block(1),
        vec![],
    );
    assert!(fault.render(None, false).contains("cannot be read"));
}

/// A header's function that another header's calls, which the kernel calls: the location is the kernel's own line, and the
/// others are named below it.
#[test]
fn fault_in_a_header_names_the_line_of_the_kernel() {
    let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {\n\
        .loc 1 30 5\n.loc 2 12 3, function_name F0, inlined_at 1 30 5\n\
        .loc 3 7 9, function_name F1, inlined_at 2 12 3\ntrap;\n}\n\
        .file 1 \"kernel.cu\"\n.file 2 \"tile.cuh\"\n.file 3 \"word.h\"\n";
    let fault = launch(&device(), ptx, "k.ptx", "k", block(1), vec![]);
    assert_eq!(fault.place(), ("kernel.cu", 30));
    let lines: Vec<(&str, u32)> = fault.inlined.iter().map(|(file, line)| (file.as_str(), *line)).collect();
    assert_eq!(lines, [("kernel.cu", 30), ("tile.cuh", 12), ("word.h", 7)]);
    assert_eq!(fault.notes, ["inlined from tile.cuh:12", "inlined from word.h:7"]);
}

/// Two kernels call the same function at the same line of another, which was inlined for each.
#[test]
fn calls_of_calls_belong_to_the_kernel_before_them() {
    let kernel = |name: &str, line: u32| {
        format!(
            ".visible .entry {name}() {{\n.loc 1 {line} 5\n.loc 1 12 3, function_name F0, inlined_at 1 {line} 5\n\
             .loc 2 7 9, function_name F1, inlined_at 1 12 3\ntrap;\n}}\n"
        )
    };
    let ptx = [".version 8.0\n.target sm_80\n.address_size 64\n", &kernel("one", 30), &kernel("two", 40)].concat();
    let ptx = ptx + ".file 1 \"kernel.cu\"\n.file 2 \"word.h\"\n";
    for (name, line) in [("one", 30), ("two", 40)] {
        let fault = launch(&device(), &ptx, "k.ptx", name, block(1), vec![]);
        assert_eq!(fault.place(), ("kernel.cu", 12));
        assert_eq!(fault.notes, ["inlined from word.h:7".to_owned(), format!("called at kernel.cu:{line}")]);
    }
}

/// Kernels by hand, without line information: the PTX line is named.
#[test]
fn without_line_information() {
    let ptx = |body: &str| {
        format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{{\n    .reg .b32 %r<4>;\n    .reg .b64 %rd<4>;\n{body}    ret;\n}}\n"
        )
    };
    for (name, body) in [
        ("barrier_without_a_number", "    mov.u32 %r1, 16;\n    bar.sync %r1;\n"),
        ("barrier_count", "    mov.u32 %r1, 33;\n    bar.sync 0, %r1;\n"),
        ("jump_table", "    mov.u32 %r1, 2;\ntable: .branchtargets L0, L1;\n    brx.idx %r1, table;\nL0:\nL1:\n"),
        ("wild_address", "    mov.u64 %rd1, 0x123456789abc;\n    ld.u8 %r1, [%rd1];\n"),
    ] {
        insta::assert_snapshot!(
            name,
            without_addresses(&launch(&device(), &ptx(body), "k.ptx", "k", block(1), vec![]).render(None, false))
        );
    }
}

fn load_error(ptx: &str, kernel: &str) -> LoadError {
    match Module::from_ptx(ptx, "file.ptx") {
        Err(error) => error,
        Ok(module) => device().load(&module).expect("it fits").kernel(kernel).expect_err("it has no such kernel"),
    }
}

#[test]
fn unsupported_instructions_are_all_listed() {
    let ptx = include_str!("../kernels/unsupported.ptx");
    let error = load_error(ptx, "first");
    insta::assert_snapshot!(error.render(false));
    insta::assert_snapshot!("unsupported_one_line", error.to_string());
    let LoadError::Unsupported { items, .. } = error else { panic!("a limit of the simulator, not {error:?}") };
    let lines: Vec<&str> =
        items.iter().map(|item| ptx.lines().nth(item.line as usize - 1).unwrap_or("").trim()).collect();
    assert_eq!(lines, items.iter().map(|item| item.text.as_str()).collect::<Vec<_>>());
    let module = device().load(&Module::from_ptx(ptx, "file.ptx").unwrap()).unwrap();
    assert!(module.kernel("second").is_ok(), "what one kernel needs does not concern the other");
}

#[test]
fn unknown_kernel() {
    insta::assert_snapshot!(load_error(include_str!("../kernels/unsupported.ptx"), "third").render(false));
}

#[test]
fn text_that_is_not_ptx() {
    let head = ".version 8.0\n.target sm_80\n.address_size 64\n";
    let body = |text: &str| {
        format!("{head}.visible .entry k(.param .u64 p)\n{{\n    .reg .b32 %r<4>;\n    .reg .pred %p<2>;\n{text}}}\n")
    };
    for (name, ptx) in [
        ("empty", String::new()),
        ("garbage", "\u{7f}ELF\u{2}\u{1}".into()),
        ("cuda_source", "__global__ void k() {}\n".into()),
        ("truncated", body("    mov.u32 %r1, 1;\n").trim_end_matches("}\n").into()),
        ("missing_semicolon", body("    mov.u32 %r1, 1\n    ret;\n")),
        ("missing_operand", body("    add.u32 %r1, %r2;\n")),
        ("unknown_register", body("    mov.u32 %r1, %r9;\n")),
        ("unknown_label", body("    bra NOWHERE;\n")),
        ("label_twice", body("L:\nL:\n    ret;\n")),
        ("wrong_size", body("    ld.param.u64 %r1, [p];\n")),
        ("predicate_as_value", body("    add.u32 %r1, %r2, %p1;\n")),
        ("unclosed_comment", body("    /* ret;\n")),
        ("bad_number", body("    mov.u32 %r1, 0xyz;\n")),
        ("thirty_two_bits", ".version 8.0\n.target sm_80\n.address_size 32\n".into()),
    ] {
        insta::assert_snapshot!(format!("syntax_{name}"), load_error(&ptx, "k").render(false));
    }
}
