//! PTX as compilers and tools leave it, and what is said of it: each test has its cause in a public report.

use ptx_sim::{Arg, Device, DeviceConfig, Fault, FaultKind, LaunchConfig, LaunchError, LoadError, Module};

const HEAD: &str = ".version 8.3\n.target sm_80\n.address_size 64\n";

/// A launch of kernel `k` by `threads` threads, with one buffer of bytes.
struct Run<'a> {
    ptx: &'a str,
    threads: u32,
    buffer: &'a [u8],
    /// Bytes of the buffer beyond `buffer`, never written.
    unwritten: u64,
    stack: Option<u32>,
}

impl Default for Run<'_> {
    fn default() -> Self {
        Self { ptx: "", threads: 1, buffer: &[], unwritten: 0, stack: None }
    }
}

impl Run<'_> {
    /// The faults or findings, and the buffer afterwards.
    fn go(&self, sanitize: bool) -> (Vec<Fault>, Vec<u8>) {
        let device = Device::new(DeviceConfig { workers: 1, sanitize, stack: self.stack, ..Default::default() });
        let module = device.load(&Module::from_ptx(self.ptx, "wild.ptx").unwrap()).unwrap();
        let buffer = device.alloc(self.buffer.len() as u64 + self.unwritten, "data").unwrap();
        device.write(buffer, self.buffer).unwrap();
        let config = LaunchConfig { block: [self.threads, 1, 1], ..Default::default() };
        let faults = match module.kernel("k").unwrap().launch(&config, &[Arg::from(buffer)]) {
            Ok(_) => device.undefined(buffer, self.buffer.len() as u64).unwrap(),
            Err(LaunchError::Fault(fault)) => vec![*fault],
            Err(LaunchError::Findings(findings)) => findings,
            Err(other) => panic!("{other}"),
        };
        let mut after = vec![0; self.buffer.len()];
        if faults.is_empty() {
            device.read(buffer, &mut after).unwrap();
        }
        (faults, after)
    }

    /// The kind of each fault or finding.
    fn kinds(&self, sanitize: bool) -> Vec<FaultKind> {
        self.go(sanitize).0.iter().map(|fault| fault.kind).collect()
    }
}

/// A kernel whose parameter is in `%rd1`.
fn kernel(body: &str) -> String {
    format!(
        "{HEAD}.visible .entry k(.param .u64 data) {{\n.reg .pred %p<4>; .reg .b32 %r<9>; .reg .f32 %f<5>; .reg .b64 %rd<9>;\n\
         ld.param.u64 %rd1, [data];\n{body}\nret;\n}}\n"
    )
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// NVRTC joins loads over bytes that are not the program's, and says which it uses (PTX ISA 8.3, `used_bytes_mask`).
#[test]
fn a_load_counts_for_its_used_bytes() {
    let load = |mask: &str, offset: u32| {
        let body = format!(
            ".pragma \"used_bytes_mask {mask}\";\nld.global.v4.b32 {{%r1, %r2, %r3, %r4}}, [%rd1+{offset}];\n\
             add.u32 %r5, %r1, %r3;\nst.global.u32 [%rd1], %r5;"
        );
        kernel(&body)
    };
    // seven words, of which the second four end beyond the buffer
    let buffer = words(&[1, 2, 3, 4, 5, 6, 7]);
    for mask in ["0xF0F", "3855"] {
        for sanitize in [false, true] {
            let (faults, after) = Run { ptx: &load(mask, 16), buffer: &buffer, ..Default::default() }.go(sanitize);
            assert_eq!((faults, &after[..4]), (vec![], &words(&[12])[..]), "{mask}");
        }
    }
    let run = |mask: &str, offset, unwritten| {
        let ptx = load(mask, offset);
        [false, true]
            .map(|sanitize| Run { ptx: &ptx, buffer: &buffer, unwritten, ..Default::default() }.kinds(sanitize))
    };
    // a used byte beyond the buffer; an address that hardware does not take
    assert_eq!(run("0xFFFF", 16, 0), [[FaultKind::OutOfBounds], [FaultKind::OutOfBounds]]);
    assert_eq!(run("0xF0F", 4, 0), [[FaultKind::Misaligned], [FaultKind::Misaligned]]);
    // the eighth word was never written: it counts if it is used
    assert_eq!(run("0xF0F", 16, 4), [vec![], vec![]]);
    let uses_last = load("0xFF0F", 16).replace("%r1, %r3;", "%r1, %r4;");
    assert_eq!(
        Run { ptx: &uses_last, buffer: &buffer, unwritten: 4, ..Default::default() }.kinds(true),
        [FaultKind::UninitialisedRead]
    );
}

/// NVRTC 13.0 computes a mask before it gives a second use to a register of the load: all of a parameter can be read.
#[test]
fn a_mask_hides_nothing_of_a_parameter() {
    let ptx = kernel(
        ".pragma \"used_bytes_mask 240\";\nld.param.v2.u32 {%r1, %r2}, [data];\nmov.b64 %rd2, {%r1, %r2};\n\
         sub.u64 %rd3, %rd2, %rd1;\ncvt.u32.u64 %r3, %rd3;\nst.global.u32 [%rd1], %r3;",
    );
    for sanitize in [false, true] {
        let (faults, after) = Run { ptx: &ptx, buffer: &words(&[7]), ..Default::default() }.go(sanitize);
        assert_eq!((faults, after), (vec![], words(&[0])));
    }
}

#[test]
fn unused_bytes_do_not_race() {
    // thread 32 writes the second word while thread 0 reads around it
    let body = |mask: &str| {
        kernel(&format!(
            "mov.u32 %r6, %tid.x;\nsetp.eq.u32 %p1, %r6, 32;\n@%p1 st.global.u32 [%rd1+4], 9;\nsetp.eq.u32 %p2, %r6, 0;\n@!%p2 bra END;\n\
             .pragma \"used_bytes_mask {mask}\";\nld.global.v4.b32 {{%r1, %r2, %r3, %r4}}, [%rd1];\nadd.u32 %r5, %r1, %r3;\n\
             st.global.u32 [%rd1+16], %r5;\nEND:"
        ))
    };
    let buffer = words(&[1, 2, 3, 4, 0]);
    let kinds = |mask| Run { ptx: &body(mask), threads: 64, buffer: &buffer, ..Default::default() }.kinds(true);
    assert_eq!(kinds("0xF0F"), []);
    assert_eq!(kinds("0xFFF"), [FaultKind::GlobalRace]);
}

#[test]
fn a_text_is_taken_with_marks_and_nuls_around_it() {
    let ptx = kernel("st.global.u32 [%rd1], 7;");
    for text in [format!("\u{feff}{ptx}"), format!("{ptx}\0")] {
        let (faults, after) = Run { ptx: &text, buffer: &[0; 4], ..Default::default() }.go(false);
        assert_eq!((faults, after), (vec![], words(&[7])));
    }
}

/// With `-rdc=true` a file calls functions of others.
#[test]
fn functions_without_a_body_are_a_link_error() {
    let calls = |name: &str| {
        let body = format!("call {name};");
        format!("{HEAD}.extern .func {name}();\n{}", kernel(&body).trim_start_matches(HEAD))
    };
    let load = |name: &str| {
        let module = Module::from_ptx(&calls(name), "part.ptx").unwrap();
        Device::new(Default::default()).load(&module).unwrap().kernel("k").expect_err("it cannot run")
    };
    let error = load("elsewhere");
    let LoadError::Unresolved { functions, .. } = &error else { panic!("{error:?}") };
    assert_eq!(*functions, ["elsewhere"]);
    assert!(error.render(false).contains("kernel `k` calls `elsewhere`, which part.ptx declares and does not define"));
    // By the names of CUDA 11 and 13.
    for name in ["cudaGetParameterBufferV2", "__cudaCDP2LaunchDeviceV2"] {
        let error = load(name);
        assert!(
            matches!(error, LoadError::Unsupported { .. }) && error.to_string().contains("dynamic parallelism"),
            "{error}"
        );
    }
}

/// Names of other files are found, and a file's own names stay its own.
#[test]
fn files_are_linked_by_name() {
    let first = kernel(
        "mov.u32 %r1, 1;\ncall (%r1), twice, (%r1);\nld.global.u32 %r2, [base];\nld.global.u32 %r3, [own];\n\
         call (%r4), mine;\nadd.u32 %r1, %r1, %r2;\nadd.u32 %r1, %r1, %r3;\nadd.u32 %r1, %r1, %r4;\nst.global.u32 [%rd1], %r1;",
    );
    let declared = ".extern .func (.reg .b32 r) twice(.reg .b32 a);\n.extern .global .b32 base;\n.global .b32 own = 300;\n\
                    .func (.reg .b32 r) mine() { mov.u32 r, 4000; ret; }\n.weak .func spare() { trap; }\n";
    let first = format!("{HEAD}{declared}{}", first.trim_start_matches(HEAD));
    let second = format!(
        "{HEAD}.visible .global .b32 base = 20;\n.global .b32 own = 1;\n.func (.reg .b32 r) mine() {{ ld.global.u32 r, [own]; ret; }}\n\
         .weak .func spare() {{ trap; }}\n\
         .visible .func (.reg .b32 r) twice(.reg .b32 a)\n{{ .reg .b32 %r<3>;\ncall (%r1), mine;\nadd.u32 r, a, %r1; ret; }}\n"
    );
    let link = |texts: &[(&str, &str)]| Module::link_within(texts, Default::default());
    let module = link(&[(&first, "first.ptx"), (&second, "second.ptx")]).unwrap();
    let device = Device::new(Default::default());
    let loaded = device.load(&module).unwrap();
    let data = device.alloc(4, "data").unwrap();
    loaded.kernel("k").unwrap().launch(&LaunchConfig::default(), &[Arg::from(data)]).unwrap();
    let mut sum = [0; 4];
    device.read(data, &mut sum).unwrap();
    assert_eq!(u32::from_le_bytes(sum), 4322);

    // Faults and errors name the file, and the line in it.
    let wrong = second.replace("[own]", "[0]");
    let loaded = device.load(&link(&[(&first, "first.ptx"), (&wrong, "second.ptx")]).unwrap()).unwrap();
    let error = loaded.kernel("k").unwrap().launch(&LaunchConfig::default(), &[Arg::from(data)]).unwrap_err();
    let LaunchError::Fault(fault) = error else { panic!("{error}") };
    assert_eq!(fault.place(), ("second.ptx", 6));
    let error = link(&[(&first, "first.ptx"), (&second.replace("add.u32 r", "add.u32"), "second.ptx")]).unwrap_err();
    assert!(matches!(&error, LoadError::Syntax { file, line: 11, .. } if file == "second.ptx"), "{error:?}");
    let error = link(&[(&second, "second.ptx"), (&second, "third.ptx")]).unwrap_err();
    assert!(error.to_string().contains("`twice` is defined twice"), "{error}");
}

/// numba-cuda declares C functions without a result as if they had one. No linker minds.
#[test]
fn a_result_that_the_other_file_does_not_give_is_left_as_it_was() {
    let first = kernel("mov.u32 %r1, 5;\nmov.u32 %r2, 70;\ncall (%r2), quiet, (%r1);\nst.global.u32 [%rd1], %r1;");
    let first = format!("{HEAD}.extern .func (.reg .b32 r) quiet(.reg .b32 a);\n{}", first.trim_start_matches(HEAD));
    let second = format!("{HEAD}.visible .func quiet(.reg .b32 a) {{ ret; }}\n");
    let module = Module::link_within(&[(&first, "first.ptx"), (&second, "second.ptx")], Default::default()).unwrap();
    let device = Device::new(Default::default());
    let loaded = device.load(&module).unwrap();
    let data = device.alloc(4, "data").unwrap();
    loaded.kernel("k").unwrap().launch(&LaunchConfig::default(), &[Arg::from(data)]).unwrap();
    let mut word = [0; 4];
    device.read(data, &mut word).unwrap();
    assert_eq!(u32::from_le_bytes(word), 5);
}

/// clang writes the calls that it inlined as a comment.
#[test]
fn inlined_calls_are_read_from_clangs_comments() {
    let body =
        ".loc 2 7 9 // word.h:7:9 @[ more.h:3:1 @[ kernel.cu:12:5 ] ]\nmov.u64 %rd2, 0;\nst.global.u32 [%rd2], 7;";
    let ptx = kernel(body) + ".file 1 \"src/kernel.cu\"\n.file 2 \"word.h\"\n.file 3 \"more.h\"\n";
    let (faults, _) = Run { ptx: &ptx, ..Default::default() }.go(false);
    assert_eq!(faults[0].place(), ("src/kernel.cu", 12));
    assert_eq!(faults[0].inlined, [("src/kernel.cu".to_owned(), 12), ("more.h".into(), 3), ("word.h".into(), 7)]);
}

/// clang may leave the calls out: what it inlined from another file is shown at the line before it.
#[test]
fn a_line_of_another_file_is_shown_where_it_was_inlined() {
    let body = ".loc 2 3 1\nmov.u32 %r1, %tid.x;\n.loc 1 12 5\nmov.u64 %rd2, 0;\n.loc 2 7 9\nst.global.u32 [%rd2], 7;\n.loc 1 13 1";
    let ptx = kernel(body) + ".file 1 \"kernel.cu\"\n.file 2 \"word.h\"\n";
    let (faults, _) = Run { ptx: &ptx, ..Default::default() }.go(false);
    assert_eq!(faults[0].place(), ("kernel.cu", 12));
    assert_eq!(faults[0].inlined, [("kernel.cu".to_owned(), 12), ("word.h".into(), 7)]);
}

/// Lanes that wait for each other at instructions that differ, in functions that the kernel calls.
#[test]
fn a_wait_in_a_function_names_the_calls() {
    let function = |name: &str, wait: &str| {
        format!(
            ".func {name}() {{ .reg .b32 %r<9>; .reg .pred %p<9>;\n.loc 2 5 1\nmov.u32 %r1, 1;\nsetp.ne.u32 %p1, %r1, 0;\n{wait}\nret; }}\n"
        )
    };
    let functions = function("vote", "vote.sync.ballot.b32 %r2, %p1, 3;") + &function("sync", "bar.warp.sync 3;");
    let body = ".loc 1 20 1\nmov.u32 %r6, %tid.x;\nsetp.ne.u32 %p1, %r6, 0;\n.loc 1 21 1\n@!%p1 call vote;\n@%p1 call sync;\n.loc 1 22 1";
    let ptx = format!("{HEAD}{functions}{}", kernel(body).trim_start_matches(HEAD))
        + ".file 1 \"kernel.cu\"\n.file 2 \"word.h\"\n";
    for sanitize in [false, true] {
        let (faults, _) = Run { ptx: &ptx, threads: 2, ..Default::default() }.go(sanitize);
        assert_eq!(faults.iter().map(|fault| fault.kind).collect::<Vec<_>>(), [FaultKind::InvalidMask]);
        assert_eq!(faults[0].place(), ("kernel.cu", 21), "{sanitize}: {faults:?}");
    }
}

/// Without inlining (`-G`, `noinline`) the calls are real.
#[test]
fn a_fault_in_a_function_names_the_calls() {
    let function = |name: &str, line: u32, file: u32, body: &str| {
        format!(".func {name}(.reg .b64 %rd1) {{ .reg .b64 %rd<9>;\n.loc {file} {line} 1\n{body}\nret; }}\n")
    };
    let callee =
        |file| function("inner", 5, file, "st.global.u32 [%rd1], 7;") + &function("outer", 8, 1, "call inner, (%rd1);");
    for (file, place, notes) in [
        (1, ("kernel.cu", 5), vec!["called at kernel.cu:8", "called at kernel.cu:20"]),
        (2, ("kernel.cu", 8), vec!["in a function called there, at word.h:5", "called at kernel.cu:20"]),
    ] {
        let kernel = kernel(".loc 1 20 1\nmov.u64 %rd2, 0;\ncall outer, (%rd2);");
        let ptx = format!("{HEAD}{}{}", callee(file), kernel.trim_start_matches(HEAD))
            + ".file 1 \"kernel.cu\"\n.file 2 \"word.h\"\n";
        for sanitize in [false, true] {
            let (faults, _) = Run { ptx: &ptx, ..Default::default() }.go(sanitize);
            assert_eq!(faults[0].place(), place);
            let told: Vec<&str> =
                faults[0].notes.iter().map(String::as_str).filter(|note| note.contains(" at ")).collect();
            assert_eq!(told, notes, "{sanitize}");
        }
    }
}

#[test]
fn an_index_that_overflowed_is_told() {
    for (offset, told) in [
        (-(1i64 << 33), "that is about 2³¹ elements of 4 bytes"),
        ((1 << 34) + 4, "2³² elements of 4 bytes away it is 4 bytes into `data`"),
        (-(1 << 32), "2³² elements of 1 byte away it is 0 bytes into `data`"),
    ] {
        let ptx = kernel(&format!("mov.u64 %rd2, {offset};\nadd.s64 %rd1, %rd1, %rd2;\nld.global.u32 %r1, [%rd1];"));
        let (faults, _) = Run { ptx: &ptx, buffer: &[0; 16], ..Default::default() }.go(false);
        assert!(
            faults[0].notes.iter().any(|note| note.contains(told) && note.contains("size_t")),
            "{:?}",
            faults[0].notes
        );
    }
    let ptx = kernel("ld.global.u32 %r1, [%rd1+4000];");
    let (faults, _) = Run { ptx: &ptx, buffer: &[0; 16], ..Default::default() }.go(false);
    assert!(!faults[0].notes.iter().any(|note| note.contains("size_t")));
}

#[test]
fn help_calls_a_named_barrier_by_its_name() {
    let help = |barrier: &str| {
        let body = format!(
            "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 32;\n@%p1 bra END;\n{barrier}\nEND:\n{barrier}\nbar.sync 5;"
        );
        let (faults, _) = Run { ptx: &kernel(&body), threads: 64, ..Default::default() }.go(false);
        assert_eq!(faults[0].kind, FaultKind::BarrierDivergence);
        faults[0].render(None, false)
    };
    for named in ["bar.sync 1, 96;", "barrier.sync 3, 96;", "bar.red.popc.u32 %r2, 1, 96, %p1;"] {
        let help = help(named);
        assert!(help.contains("a named barrier waits until") && !help.contains("__syncthreads()"), "{help}");
    }
}

/// A misaligned write that was left out is one mistake, not two.
#[test]
fn bytes_of_a_write_that_was_left_out_count_as_written() {
    let ptx = kernel(
        "st.global.v2.b32 [%rd1+4], {%r1, %r1};\nld.global.u32 %r2, [%rd1+4];\nld.global.u32 %r3, [%rd1+8];\n\
         add.u32 %r2, %r2, %r3;\nst.global.u32 [%rd1+12], %r2;",
    );
    let ptx = ptx.replace("st.global.v2", "mov.u32 %r1, 1;\nst.global.v2");
    assert_eq!(Run { ptx: &ptx, unwritten: 16, ..Default::default() }.kinds(true), [FaultKind::Misaligned]);
}

/// A recursion of 16 calls, 256 bytes each.
#[test]
fn the_stack_is_limited() {
    let function = ".func down(.reg .b32 %r1) { .reg .pred %p<2>; .reg .b32 %r<4>; .local .b8 depot[256];\n\
                    setp.eq.u32 %p1, %r1, 0;\n@%p1 ret;\nsub.u32 %r2, %r1, 1;\ncall down, (%r2);\nret; }\n";
    let ptx = format!("{HEAD}{function}{}", kernel("mov.u32 %r1, 15;\ncall down, (%r1);").trim_start_matches(HEAD));
    let kinds = |stack, sanitize| Run { ptx: &ptx, stack, ..Default::default() }.kinds(sanitize);
    assert_eq!(kinds(None, false), []);
    assert_eq!(kinds(None, true), [FaultKind::StackOverflow]);
    assert_eq!(kinds(Some(2048), false), [FaultKind::StackOverflow]);
    assert_eq!((kinds(Some(8192), false), kinds(Some(8192), true)), (vec![], vec![]));
    let (findings, _) = Run { ptx: &ptx, ..Default::default() }.go(true);
    assert!(findings[0].message.contains("`down` is called 5 deep: the frames take"), "{}", findings[0].message);
    assert!(findings[0].notes[0].contains("cudaLimitStackSize"));
}

/// Without recursion the compiler knows what a thread needs, and the driver provides it.
#[test]
fn frames_without_recursion_fit_any_stack() {
    let function = ".func large() { .local .b8 depot[4096]; ret; }\n";
    let ptx = format!("{HEAD}{function}{}", kernel("call large;").trim_start_matches(HEAD));
    assert_eq!(Run { ptx: &ptx, stack: Some(1024), ..Default::default() }.kinds(true), []);
}
