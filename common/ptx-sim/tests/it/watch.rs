//! The small debugger: its reports match the kernel's work.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use ptx_sim::{
    Arg, Device, LaunchConfig, LaunchError, Module, Observe, WatchPoint, WatchRequest, WatchSink, WatchThreads, Watched,
};

/// Launches one block of a kernel that takes a buffer of zeros and returns the reports, up to `most` lines.
fn watch(
    ptx: &str,
    points: &str,
    threads: WatchThreads,
    block: u32,
    number: Option<i32>,
    most: usize,
) -> Result<Vec<Watched>, LaunchError> {
    let device = Device::new(Default::default());
    let module = device.load(&Module::from_ptx(ptx, "watch.ptx").unwrap()).unwrap();
    let out = device.alloc(4096, "out").unwrap();
    let args: Vec<Arg> = [Arg::from(out)].into_iter().chain(number.map(Arg::from)).collect();
    let told = Arc::new(Mutex::new(Vec::new()));
    let to = Arc::clone(&told);
    let sink = WatchSink::new(move |watched: &Watched| {
        let mut told = to.lock().unwrap();
        told.push(watched.clone());
        told.len() < most
    });
    let points = WatchPoint::list(points).unwrap();
    let request = WatchRequest { points, block: [0; 3], threads, sink };
    let config = LaunchConfig { block: [block, 1, 1], ..Default::default() };
    let observe = Observe { watch: Some(request), ..Default::default() };
    let kernel = if number.is_some() { "doubles" } else { "k" };
    module.kernel(kernel).unwrap().observe(&config, &args, &observe)?;
    let told = std::mem::take(&mut *told.lock().unwrap());
    Ok(told)
}

const TRACE: &str = include_str!("../kernels/trace.ptx");

/// The number of the line of `trace.cu` with that text.
fn line(text: &str) -> u32 {
    let source = include_str!("../kernels/trace.cu");
    source.lines().position(|line| line.trim() == text).expect("there is such a line") as u32 + 1
}

/// Reported values of a register, in order.
fn values<'w>(told: &'w [Watched], register: &str) -> Vec<&'w str> {
    let effects = told.iter().flat_map(|watched| &watched.effects);
    effects.filter_map(|effect| effect.strip_prefix(register)?.strip_prefix(" = ")).collect()
}

#[test]
fn a_loop_is_followed_value_by_value() {
    // value = 2 · value + 3, from 3 on
    let line = line("value = twice(value) + count;");
    let told = watch(TRACE, &format!("line {line}"), WatchThreads::Thread([2, 0, 0]), 4, Some(3), 100).unwrap();
    let registers: Vec<&str> = told.iter().map(|watched| watched.site.instruction.as_str()).collect();
    // Twice and add, three times: the function that was inlined belongs to its call.
    let all: Vec<String> = told.iter().map(|watched| watched.effects.join(" ").replace("%r", "")).collect();
    let numbers: Vec<i32> = all.iter().map(|text| text.split(" = ").nth(1).unwrap().parse().unwrap()).collect();
    assert_eq!(numbers, [6, 9, 18, 21, 42, 45], "{registers:?}");
    assert!(told.iter().all(|watched| watched.thread == Some([2, 0, 0]) && watched.site.line == Some(line)));
    // By the line of the inlined function itself.
    let inner = self::line("return value + value;");
    let told = watch(TRACE, &format!("line {inner}"), WatchThreads::Thread([2, 0, 0]), 4, Some(3), 100).unwrap();
    assert_eq!(told.len(), 3);
    // A register that carries the value round the loop.
    let carried = registers[1].split([' ', ',']).nth(1).unwrap();
    let told = watch(TRACE, carried, WatchThreads::Thread([1, 0, 0]), 4, Some(3), 100).unwrap();
    assert_eq!(values(&told, carried), ["2", "7", "17", "37"]); // value = 2 · value + 3, from 2 on
}

const PTX: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out) {
    .reg .pred %p<3>;
    .reg .b16 %h<3>;
    .reg .b32 %r<12>;
    .reg .f32 %f<5>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 20;
    bar.red.popc.u32 %r2, 0, %p1;
    bar.red.and.pred %p2, 0, %p1;
    cvt.rn.f32.s32 %f1, %r1;
    neg.s32 %r3, %r1;
    cvt.rn.f16.f32 %h1, %f1;
    mov.b32 %r4, {%h1, %h1};
    mov.b32 %r5, 0f3F800000;
    mul.wide.u32 %rd2, %r1, 16;
    add.s64 %rd3, %rd1, %rd2;
    st.global.v2.f32 [%rd3], {%f1, 0f3F800000};
    ld.global.v2.f32 {%f2, %f3}, [%rd3];
    shfl.sync.bfly.b32 %r6, %r1, 1, 31, -1;
    @%p1 add.s32 %r7, %r1, 100;
    atom.global.add.u32 %r8, [%rd1+8], 1;
    { .reg .b32 %r1; mov.b32 %r1, 77; }
    and.b32 %r9, %r1, 1;
    ret;
}";

/// The line of the PTX that contains the text.
fn ptx_line(text: &str) -> usize {
    PTX.lines().position(|line| line.contains(text)).unwrap() + 1
}

fn effect_of(text: &str, threads: WatchThreads) -> String {
    let point = format!("line {}", ptx_line(text));
    let told = watch(PTX, &point, threads, 32, None, 100).unwrap();
    told.iter().map(|watched| watched.effects.join(", ")).collect::<Vec<_>>().join(" | ")
}

#[test]
fn values_are_shown_as_the_instruction_means_them() {
    let thread = WatchThreads::Thread([5, 0, 0]);
    for (text, effect) in [
        ("ld.param", "%rd1 = `out` + 0"),
        ("mov.u32 %r1, %tid.x;", "%r1 = 5 | %p1 = true"), // two instructions in one line
        ("bar.red.popc", "%r2 = 20"),
        ("bar.red.and", "%p2 = false"),
        ("cvt.rn.f32.s32", "%f1 = 5.0"),
        ("neg.s32", "%r3 = -5"),
        ("cvt.rn.f16.f32", "%h1 = 5.0"),
        ("mov.b32 %r4", "%r4 = 0x45004500"),
        ("mov.b32 %r5", "%r5 = 0x3f800000"),
        ("mul.wide.u32", "%rd2 = 80"),
        ("add.s64", "%rd3 = `out` + 80"),
        ("ld.global.v2", "%f2 = 5.0, %f3 = 1.0"),
        ("shfl", "%r6 = 4"),
        ("@%p1 add", "%r7 = 105"),
        ("atom", "%r8 = 5"),
        ("and.b32", "%r9 = 1"),
    ] {
        let found = effect_of(text, thread);
        assert!(found.ends_with(effect), "{text}: {found}");
    }
    let store = effect_of("st.global.v2", thread);
    assert!(store.starts_with("writes `out` + 80 (0x") && store.ends_with("): 5.0, 1.0"), "{store}");
    assert!(effect_of("ld.global.v2", thread).starts_with("reads `out` + 80 (0x"));
    assert!(effect_of("atom", thread).starts_with("updates `out` + 8 (0x"));
    // A lane whose predicate is false.
    assert_eq!(effect_of("@%p1 add", WatchThreads::Thread([20, 0, 0])), "off: its predicate is false");
}

#[test]
fn a_warp_is_told_in_few_words() {
    let warp = WatchThreads::Warp(0);
    for (text, effect) in [
        ("ld.param", "%rd1 = `out` + 0"),
        ("bar.red.popc", "%r2 = 20"),
        ("cvt.rn.f32.s32", "%f1 = 0.0, 1.0 … 31.0"),
        ("neg.s32", "%r3 = 0, -1 … -31"),
        ("add.s64", "%rd3 = `out` + 0, 16 … 496"),
        ("@%p1 add", "%r7 = 100, 101 … 119"),
        ("st.global.v2", "writes `out` + 0, 16 … 496: 0.0, 1.0 … 31.0, 1.0"),
    ] {
        assert_eq!(effect_of(text, warp), effect, "{text}");
    }
    assert_eq!(effect_of("mov.u32 %r1, %tid.x;", warp), "%r1 = 0, 1 … 31 | %p1 = {0–19: true; 20–31: false}");
    assert!(effect_of("shfl", warp).starts_with("%r6 = [1 0 3 2 5 4 "));
    let told = watch(PTX, "%r7", warp, 32, None, 100).unwrap();
    assert_eq!((told.len(), told[0].lanes), (1, 0xfffff));
    assert!(told[0].to_string().starts_with("block (0, 0, 0), warp 0, lanes 0–19, PTX line "), "{}", told[0]);
}

#[test]
fn a_register_is_every_register_of_that_name() {
    let told = watch(PTX, "%r1", WatchThreads::Thread([5, 0, 0]), 32, None, 100).unwrap();
    assert_eq!(values(&told, "%r1"), ["5", "77"]);
}

#[test]
fn the_sink_ends_the_watch_but_not_the_kernel() {
    let told = watch(TRACE, "line 90", WatchThreads::Thread([0; 3]), 4, Some(1000), 7).unwrap();
    assert_eq!(told.len(), 7);
}

#[test]
fn nothing_to_watch_is_an_error_that_says_what_there_is() {
    let fails = |points: &str, threads| match watch(PTX, points, threads, 32, None, 9) {
        Err(LaunchError::Observe { message, .. }) => message,
        other => panic!("{points}: {other:?}"),
    };
    let thread = WatchThreads::Thread([0; 3]);
    let has = "the kernel uses %f1 to %f3, %h1, %p1 to %p2, %r1 to %r9, %rd1 to %rd3";
    assert_eq!(fails("%r99", thread), format!("there is no register `%r99`; {has}"));
    assert_eq!(fails("r3", thread), format!("there is no register `r3`; did you mean `%r3`? {has}"));
    assert!(fails("line 99", thread).starts_with("line 99 has no code; the nearest lines that have some: "));
    assert!(fails("line 1", thread).contains(&format!(": {}, ", ptx_line("ld.param"))));
    assert_eq!(
        fails("%r1", WatchThreads::Warp(1)),
        "there is no warp 1 in a block of 32 threads, which has warp 0 only"
    );
    assert!(fails("%r1", WatchThreads::Thread([32, 0, 0])).starts_with("there is no thread (32, 0, 0)"));
    for text in ["", "line x", "line 0", "%r1,,%r2", "row 5"] {
        assert!(WatchPoint::list(text).is_err(), "{text}");
    }
}

// The command

fn ptx_sim(args: &[&str]) -> (i32, String, String) {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("kernels");
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("ptx-sim"));
    let Output { status, stdout, stderr } =
        command.current_dir(kernels).args(args).output().expect("the command can be started");
    let text = |bytes| String::from_utf8(bytes).expect("output is text");
    (status.code().expect("the command ends by itself"), text(stdout), text(stderr))
}

const COPIES: [&str; 9] =
    ["run", "trace.ptx", "--kernel", "copies", "--block", "4", "in:f32:1.5,2.5,3.5", "out:f32:4", "s32:3"];

#[test]
fn a_session() {
    let (code, stdout, stderr) = ptx_sim(&[&COPIES[..], &["--watch", "line 5", "--thread", "2"]].concat());
    assert_eq!((code, stdout.as_str()), (0, "1.5,2.5,3.5,0\n"));
    insta::assert_snapshot!("watch_session", stderr);
}

#[test]
fn the_command_stops_where_it_is_enough() {
    let (code, _, stderr) =
        ptx_sim(&[&COPIES[..], &["--watch", "line 5", "--watch", "%r1", "--warp", "0", "--watch-limit", "2"]].concat());
    assert_eq!((code, stderr.lines().count()), (0, 3), "{stderr}");
    assert!(stderr.ends_with("watch: there is more after these 2 lines (--watch-limit)\n"), "{stderr}");
}

#[test]
fn the_instruction_at_fault_is_told() {
    let run = ["run", "faults.ptx", "--kernel", "read_past_the_end", "--block", "4"];
    let (code, _, stderr) =
        ptx_sim(&[&run[..], &["in:f32:1,2,3", "out:f32:4", "s32:4", "--watch", "line 5", "--thread", "3"]].concat());
    assert_eq!(code, 1);
    let last = stderr.lines().take_while(|line| !line.starts_with("error")).last().unwrap();
    assert!(last.contains("ld.global.f32") && last.ends_with("did not end"), "{stderr}");
}

#[test]
fn wrong_usage_is_explained() {
    for (options, reason) in [
        (&["--watch", "line 6000"][..], "line 6000 has no code; the nearest lines that have some: 5, 6"),
        (&["--watch", "%x"], "there is no register `%x`; the kernel uses %f1"),
        (&["--watch", "here and there"], "neither `line N` nor a register"),
        (&["--watch", "%r1", "--at-block", "0,1"], "there is no block (0, 1, 0)"),
        (&["--watch", "%r1", "--thread", "4"], "there is no thread (4, 0, 0) in a block of 4 × 1 × 1 threads"),
        (&["--watch", "%r1", "--thread", "1", "--warp", "0"], "cannot be used with"),
        (&["--thread", "1"], "--watch"),
    ] {
        let (code, stdout, stderr) = ptx_sim(&[&COPIES[..], options].concat());
        assert!(code == 2 && stdout.is_empty() && stderr.contains(reason), "{options:?}: {stderr}");
    }
}

/// The results of a call come when its lanes are back, and are not looked for among the registers of the function.
#[test]
fn a_call_writes_its_results_when_it_returns() {
    let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n\
        .func (.reg .b32 r) more(.reg .b32 a) { add.u32 r, a, 1; ret; }\n\
        .visible .entry k(.param .u64 p) {\n.reg .b64 %rd<9>; .reg .b32 %a<30>;\n\
        ld.param.u64 %rd1, [p]; mov.u32 %a1, 5;\ncall (%a29), more, (%a1);\nst.global.u32 [%rd1], %a29; ret;\n}";
    let told = watch(ptx, "%a29", WatchThreads::Thread([1, 0, 0]), 2, None, 100).unwrap();
    assert_eq!(values(&told, "%a29"), ["6"]);
}
