//! Untrusted PTX: no text may crash the host, keep it busy, fill its memory or show its files.

use crate::threads;

use std::time::{Duration, Instant};

use ptx_sim::{
    Arg, Device, DeviceConfig, DevicePtr, Fault, FaultKind, Kernel, LaunchConfig, LaunchError, LoadError, LoadLimits,
    Module, Observe, TraceRequest, WatchPoint, WatchRequest, WatchSink, WatchThreads,
};
use threads::kernel_of_threads;

const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

fn module(text: &str) -> Module {
    Module::from_ptx(&format!("{HEAD}{text}"), "attack.ptx").expect("it is PTX")
}

fn device(config: DeviceConfig) -> Device {
    Device::new(DeviceConfig { workers: 2, total_memory: 1 << 28, ..config })
}

/// The fault of kernel `k`, whose parameters are all buffers of 64 KiB.
fn fault(text: &str, device: &Device, config: LaunchConfig, observe: &Observe) -> Fault {
    let loaded = device.load(&module(text)).expect("it fits");
    let kernel = loaded.kernel("k").expect("it is known");
    let args: Vec<Arg> =
        kernel.info().params.iter().map(|_| device.alloc(1 << 16, "data").expect("there is room").into()).collect();
    match kernel.observe(&config, &args, observe) {
        Err(LaunchError::Fault(fault)) => *fault,
        Err(LaunchError::Findings(findings)) => findings.first().cloned().expect("a finding"),
        Ok(observation) => observation.findings.first().cloned().expect("a finding"),
        Err(error) => panic!("{error}"),
    }
}

/// The findings of a sanitised launch, whether it ran to its end or not.
fn findings(kernel: &Kernel, config: &LaunchConfig, data: DevicePtr) -> Vec<Fault> {
    match kernel.observe(config, &[data.into()], &Observe::default()) {
        Ok(observation) => observation.findings,
        Err(LaunchError::Findings(findings)) => findings,
        Err(other) => panic!("{other}"),
    }
}

fn blocks(grid: u32, block: u32) -> LaunchConfig {
    LaunchConfig { grid: [grid, 1, 1], block: [block, 1, 1], ..Default::default() }
}

/// The error of a text that cannot be read.
fn refused(text: &str) -> String {
    Module::from_ptx(&format!("{HEAD}{text}"), "attack.ptx").expect_err("it is refused").to_string()
}

const ENDLESS: &str = ".visible .entry k() {\n$L: bra $L;\n}";

#[test]
fn a_watched_nan_is_told_once() {
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let lines = told.clone();
    let watch = WatchRequest {
        points: vec![WatchPoint::Register("%f1".into())],
        block: [0; 3],
        threads: WatchThreads::Warp(0),
        sink: WatchSink::new(move |watched| {
            lines.lock().unwrap().push(watched.effects.join(", "));
            true
        }),
    };
    let text = ".visible .entry k() {\n.reg .f32 %f<3>;\nmov.f32 %f1, 0f7FC00000;\ntrap;\n}";
    let observe = Observe { watch: Some(watch), ..Default::default() };
    fault(text, &device(Default::default()), blocks(1, 32), &observe);
    assert_eq!(*told.lock().unwrap(), ["%f1 = NaN"]);
}

/// An instruction that is more work counts for more.
#[test]
fn the_budget_bounds_work() {
    let printf = "
        .extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
        .global .b8 format[14] = {37,57,57,57,57,57,57,57,57,57,100,10,0,0};
        .visible .entry k() {
            .reg .b64 %rd<3>;
            .local .align 8 .b8 stack[8];
            $L: mov.u64 %rd1, format;
            mov.u64 %rd2, stack;
            cvta.local.u64 %rd2, %rd2;
            { .param .b64 a; .param .b64 b; .param .b32 r;
              st.param.b64 [a], %rd1; st.param.b64 [b], %rd2;
              call.uni (r), vprintf, (a, b); }
            bra $L;
        }";
    let heap = "
        .extern .func (.param .b64 r) malloc (.param .b64 a);
        .extern .func free (.param .b64 a);
        .visible .entry k() {
            .reg .b64 %rd<3>;
            $L: mov.u64 %rd1, 16;
            { .param .b64 a; .param .b64 r; st.param.b64 [a], %rd1; call.uni (r), malloc, (a); ld.param.b64 %rd2, [r]; }
            { .param .b64 a; st.param.b64 [a], %rd2; call.uni free, (a); }
            bra $L;
        }";
    let copies = "
        .visible .entry k(.param .u64 data) {
            .reg .b64 %rd<3>; .reg .b32 %r<3>; .reg .pred %p<2>;
            .shared .align 16 .b8 tile[16];
            ld.param.u64 %rd1, [data]; mov.u32 %r1, tile; mov.u32 %r2, 0;
            $L: cp.async.ca.shared.global [%r1], [%rd1], 4;
            cp.async.commit_group;
            add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 2000;
            @%p1 bra $L;
            $M: cp.async.wait_group 100000;
            bra $M;
        }";
    // Of 200,000 instructions as cheap as any, these would take far longer than this test may.
    for (name, text) in [("printf", printf), ("heap", heap), ("copies", copies)] {
        let begun = Instant::now();
        let config = LaunchConfig { budget: Some(200_000), ..blocks(1, 32) };
        let fault = fault(text, &device(Default::default()), config, &Observe::default());
        assert_eq!(fault.kind, FaultKind::Budget, "{name}: {fault}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{name}: {:?}", begun.elapsed());
    }
}

/// Blocks that end in their first turn are counted, and so are those that end with a finding.
#[test]
fn the_budget_counts_every_block() {
    let config = LaunchConfig { budget: Some(5_000), ..blocks(1 << 20, 32) };
    let short = fault(".visible .entry k() { ret; }", &device(Default::default()), config, &Observe::default());
    assert_eq!(short.kind, FaultKind::Budget);
    let deadlock = ".visible .entry k() { bar.sync 0, 64; ret; }";
    let device = device(DeviceConfig { sanitize: true, ..Default::default() });
    let loaded = device.load(&module(deadlock)).unwrap();
    let observed = loaded.kernel("k").unwrap().observe(&config, &[], &Observe::default());
    let Err(LaunchError::Findings(findings)) = observed else { panic!("{observed:?}") };
    assert!(findings.iter().any(|finding| finding.kind == FaultKind::Budget));
}

#[test]
fn time_is_limited_however_a_launch_is_watched() {
    let limit = Duration::from_millis(300);
    let config = LaunchConfig { time_limit: Some(limit), ..blocks(4, 64) };
    let nanosleep = ".visible .entry k() {\n$L: nanosleep.u32 1;\nbra $L;\n}";
    let barriers = ".visible .entry k() {\n$L: bar.sync 0;\nbra $L;\n}";
    for (text, sanitize, profile, trace) in [
        (ENDLESS, false, false, false),
        (ENDLESS, true, false, false),
        (ENDLESS, false, true, true),
        (nanosleep, false, false, false),
        (barriers, true, true, true),
    ] {
        let observe = Observe { profile, trace: trace.then(TraceRequest::default), ..Default::default() };
        let device = device(DeviceConfig { sanitize, ..Default::default() });
        let begun = Instant::now();
        let fault = fault(text, &device, config, &observe);
        assert_eq!(fault.kind, FaultKind::TimeLimit, "{fault}");
        assert!(begun.elapsed() >= limit && begun.elapsed() < limit * 5, "{:?}", begun.elapsed());
        assert!(fault.render(None, false).contains("stopped by the time limit after 0.3 s"));
    }
}

/// 1,024 blocks of 1,024 threads, each with 512 KiB of local memory: only those begin that there is room for.
#[test]
fn begun_blocks_fit_the_memory_limit() {
    let text = ".visible .entry k() {\n.local .b8 x[65536];\n.reg .b32 %r<2>;\nmov.u32 %r1, x;\n$L: bra $L;\n}";
    let config = LaunchConfig { budget: Some(3_000_000), ..blocks(1024, 1024) };
    let run = |memory| {
        let device = device(DeviceConfig { memory_limit: Some(memory), ..Default::default() });
        fault(text, &device, config, &Observe::default())
    };
    assert_eq!(run(160 << 20).kind, FaultKind::Budget);
    let fault = run(32 << 20);
    assert_eq!(fault.kind, FaultKind::MemoryLimit);
    assert!(fault.message.starts_with("the memory limit of 32 MiB is reached: "), "{fault}");
    assert!(fault.message.contains("for registers, local and shared memory of blocks"), "{fault}");
}

#[test]
fn a_recursion_fits_the_memory_limit() {
    let text = "
        .func f() { .local .b8 y[4000]; .reg .b32 %r<2>; mov.u32 %r1, y; call f; ret; }
        .visible .entry k() { call f; ret; }";
    let device = device(DeviceConfig { memory_limit: Some(4 << 20), ..Default::default() });
    let found = fault(text, &device, blocks(1, 32), &Observe::default());
    assert_eq!(found.kind, FaultKind::MemoryLimit, "{found}");
    // What a launch took is given back.
    let found = fault(text, &device, blocks(1, 32), &Observe::default());
    assert_eq!(found.kind, FaultKind::MemoryLimit, "{found}");
    assert!(
        fault(ENDLESS, &device, LaunchConfig { budget: Some(9), ..blocks(1, 32) }, &Observe::default()).kind
            == FaultKind::Budget
    );
}

/// Allocations on threads' stacks end at the limit of their local memory, and count against the memory limit.
#[test]
fn what_a_stack_allocates_is_limited() {
    let kernel = |body: &str| {
        format!(
            ".visible .entry k() {{
                .reg .b64 %rd<4>; .reg .b32 %r<3>;
                {body}
                ret;
            }}"
        )
    };
    let run =
        |body: &str, config: DeviceConfig| fault(&kernel(body), &device(config), blocks(64, 32), &Observe::default());
    let plain = |body: &str| run(body, DeviceConfig::default());

    let endless = plain("$L: alloca.u64 %rd1, 4096; bra $L;");
    assert_eq!(endless.kind, FaultKind::StackOverflow, "{endless}");
    assert_eq!(endless.message, "alloca of 4096 bytes: a thread has 524288 bytes of local memory");
    assert_eq!(plain("alloca.u64 %rd1, 0xfffffffffffffff0, 16;").kind, FaultKind::StackOverflow);
    assert_eq!(plain("alloca.u64 %rd1, 1; alloca.u64 %rd1, 1, 8388608;").kind, FaultKind::StackOverflow);

    let past = plain("alloca.u64 %rd1, 24; st.local.u32 [%rd1+20], 1; st.local.u32 [%rd1+24], 1;");
    assert_eq!(past.kind, FaultKind::OutOfBounds, "{past}");
    let elsewhere = plain("stacksave.u64 %rd1; add.u64 %rd1, %rd1, 8; stackrestore.u64 %rd1;");
    assert_eq!(elsewhere.kind, FaultKind::OutOfBounds, "{elsewhere}");
    assert_eq!(elsewhere.message, "stackrestore to 0x8, where the function's stack has not been");

    let limited = run("alloca.u64 %rd1, 262144;", DeviceConfig { memory_limit: Some(4 << 20), ..Default::default() });
    assert_eq!(limited.kind, FaultKind::MemoryLimit, "{limited}");
    // What was given back was not written by its next owner.
    let sanitized = DeviceConfig { sanitize: true, ..Default::default() };
    let stale = run(
        "stacksave.u64 %rd2; alloca.u64 %rd1, 8; st.local.u32 [%rd1], 1; stackrestore.u64 %rd2;
         alloca.u64 %rd1, 8; ld.local.u32 %r1, [%rd1];
         cvt.u64.u32 %rd3, %r1; add.u64 %rd3, %rd1, %rd3; st.local.u8 [%rd3], 1;",
        sanitized,
    );
    assert_eq!(stale.kind, FaultKind::UninitialisedRead, "{stale}");
}

/// A sanitiser's records of a buffer are many times as large as the buffer.
#[test]
fn a_shadow_fits_the_memory_limit() {
    let text = kernel_of_threads(
        "mul.wide.u32 %rd2, %r1, 1024;
         add.u64 %rd1, %rd1, %rd2;
         st.global.u32 [%rd1], %r1;",
    );
    let run = |memory| {
        let device = device(DeviceConfig { memory_limit: Some(memory), sanitize: true, ..Default::default() });
        let data = device.alloc(16 << 20, "data").unwrap();
        let loaded = device.load(&module(&text)).unwrap();
        let config = blocks(512, 32);
        findings(&loaded.kernel("k").unwrap(), &config, data)
    };
    let findings = run(40 << 20);
    assert_eq!(findings[0].kind, FaultKind::MemoryLimit, "{}", findings[0]);
    assert!(findings[0].message.contains("the sanitiser's record of accesses"), "{}", findings[0]);
    assert_eq!(run(1 << 30), []);
}

/// Only the touched part of a buffer has a shadow.
#[test]
fn a_shadow_is_as_large_as_what_is_touched() {
    let text = kernel_of_threads(
        "mul.wide.u32 %rd2, %r1, 4;
         add.u64 %rd1, %rd1, %rd2;
         st.global.u32 [%rd1], %r1;
         ld.global.u32 %r4, [%rd1];",
    );
    let run = |text: &str, room: u64| {
        // A GiB of a buffer, and a bit for each of its bytes.
        let limit = (1 << 30) + (1 << 27) + room;
        let config = DeviceConfig { total_memory: 1 << 31, memory_limit: Some(limit), ..Default::default() };
        let device = Device::new(DeviceConfig { sanitize: true, ..config });
        let data = device.alloc(1 << 30, "data").unwrap();
        let loaded = device.load(&module(text)).unwrap();
        let kernel = loaded.kernel("k").unwrap();
        findings(&kernel, &blocks(1024, 256), data)
    };
    assert_eq!(run(&text, 3 << 20), [], "a MiB of a GiB");
    // Words out of order need more, and bytes most.
    let backwards = text.replace("ld.global", "sub.u32 %r1, 262143, %r1;\nst.global.u32 [%rd1], %r1;\nld.global");
    assert_eq!(run(&backwards, 3 << 20), []);
    let bytes = text
        .replace("%r1, 4;", "%r1, 1;")
        .replace("st.global.u32", "st.global.u8")
        .replace("ld.global.u32", "ld.global.u8");
    assert_eq!(run(&bytes, 3 << 20)[0].kind, FaultKind::MemoryLimit);
    assert_eq!(run(&bytes, 16 << 20), []);
}

/// Knowledge that threads hand over to each other is counted, too.
#[test]
fn handovers_fit_the_memory_limit() {
    let text = kernel_of_threads(
        "mul.wide.u32 %rd2, %r1, 4;
         add.u64 %rd1, %rd1, %rd2;
         INSTRUCTION [%rd1], %r1;",
    );
    let run = |instruction: &str, memory| {
        let device = device(DeviceConfig { memory_limit: Some(memory), sanitize: true, ..Default::default() });
        let data = device.alloc(256 << 10, "data").unwrap();
        let loaded = device.load(&module(&text.replace("INSTRUCTION", instruction))).unwrap();
        let kernel = loaded.kernel("k").unwrap();
        findings(&kernel, &blocks(256, 256), data)
    };
    assert_eq!(run("st.relaxed.gpu.global.u32", 8 << 20), []);
    let findings = run("st.release.gpu.global.u32", 8 << 20);
    assert_eq!(findings[0].kind, FaultKind::MemoryLimit, "{}", findings[0]);
    assert_eq!(run("st.release.gpu.global.u32", 64 << 20), []);
}

/// A block of the heap that is freed takes its shadow along.
#[test]
fn shadows_of_freed_blocks_are_given_back() {
    let text = "
        .extern .func (.param .b64 r) malloc (.param .b64 a);
        .extern .func free (.param .b64 a);
        .visible .entry k() {
            .reg .b64 %rd<3>; .reg .b32 %r<3>; .reg .pred %p<2>;
            mov.u32 %r1, 0;
            $L: mov.u64 %rd1, 4096;
            { .param .b64 a; .param .b64 r; st.param.b64 [a], %rd1; call.uni (r), malloc, (a); ld.param.b64 %rd2, [r]; }
            st.global.u8 [%rd2], %r1;
            { .param .b64 a; st.param.b64 [a], %rd2; call.uni free, (a); }
            add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 2000;
            @%p1 bra $L;
            ret;
        }";
    let device = device(DeviceConfig { memory_limit: Some(1 << 20), sanitize: true, ..Default::default() });
    let loaded = device.load(&module(text)).unwrap();
    let observation = loaded.kernel("k").unwrap().observe(&blocks(1, 1), &[], &Observe::default()).unwrap();
    assert_eq!(observation.findings, []);
}

#[test]
fn buffers_and_modules_count() {
    let device = device(DeviceConfig { memory_limit: Some(1 << 20), ..Default::default() });
    let error = device.alloc(1 << 20, "data").unwrap_err();
    assert!(error.to_string().contains("the memory limit of 1 MiB is reached: 1.0 MiB more for buffers"), "{error}");
    let large = module(".global .b8 x[2000000];\n.visible .entry k() { ret; }");
    let error = device.load(&large).unwrap_err().to_string();
    assert!(error.contains("the memory limit of 1 MiB is reached"), "{error}");
    // Nothing stays taken.
    device.free(device.alloc(900 << 10, "data").unwrap()).unwrap();
    device.alloc(900 << 10, "data").unwrap();
}

/// Loading is about linear in the text, and stops at its limits.
#[test]
fn loading_is_limited() {
    let registers: String = (0..20_000).map(|at| format!(".reg .b32 %x{at}_<2>;\n")).collect();
    let uses: String = (0..20_000).map(|at| format!("mov.u32 %x{at}_1, 1;\n")).collect();
    let families = format!(".visible .entry k() {{\n{registers}{uses}ret;\n}}");
    let functions: String = (0..20_000).map(|at| format!(".func f{at}() {{ ret; }}\n")).collect();
    let calls: String = (0..20_000).map(|at| format!("call f{at};\n")).collect();
    let calls = format!("{functions}.visible .entry k() {{\n{calls}ret;\n}}");
    let labels: Vec<String> = (0..20_000).map(|at| format!("$L{at}")).collect();
    let branches = "brx.idx %r1, $T;\n".repeat(20_000);
    let marks: String = labels.iter().map(|label| format!("{label}: ")).collect();
    let targets = labels.join(", ");
    let branches =
        format!(".visible .entry k() {{\n.reg .b32 %r<2>;\n$T: .branchtargets {targets};\n{branches}{marks} ret;\n}}");
    let unknown = "vote.ballot.b32 %r1, %p1;\n".repeat(10_000);
    let kernels: String = (0..10_000).map(|at| format!(".entry k{at}() {{ call f; ret; }}\n")).collect();
    let unknown = format!(".func f() {{\n{unknown}ret;\n}}\n{kernels}");
    let zeros = "0,".repeat(100_000);
    let names: String = (0..10_000).map(|at| format!(", v{at}")).collect();
    let variables = format!(".global .b32 v[] = {{ {zeros} 0 }}{names};\n");
    let ladder: String = (0..100_000).map(|at| format!("@%p1 bra $L{};\n$L{at}: ", (at * 7919) % 100_000)).collect();
    let ladder = format!(".visible .entry k() {{\n.reg .pred %p<2>;\n{ladder} ret;\n}}");
    for (name, text) in [
        ("register families", families),
        ("calls", calls),
        ("branches", branches),
        ("unknown instructions", unknown),
        ("variables", variables),
        ("branches over each other", ladder),
    ] {
        let text = format!("{HEAD}{text}");
        let begun = Instant::now();
        let within = LoadLimits { time: None, memory: Some(1 << 28) };
        if let Err(error) = Module::from_ptx_within(&text, name, within) {
            panic!("{name}: {error}");
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{name}: {:?}", begun.elapsed());
        for (limits, kind) in [
            (LoadLimits { memory: Some(1 << 20), time: None }, FaultKind::MemoryLimit),
            (LoadLimits { memory: None, time: Some(Duration::from_micros(1)) }, FaultKind::TimeLimit),
        ] {
            match Module::from_ptx_within(&text, name, limits) {
                Err(LoadError::Limit { kind: reached, .. }) => assert_eq!(reached, kind, "{name}"),
                other => panic!("{name}: {:?}", other.map(|_| "loaded")),
            }
        }
    }
}

/// A few values far apart take their own size, not that of the gaps between them.
#[test]
fn initialisers_take_what_is_written() {
    let within = LoadLimits { time: None, memory: Some(1 << 20) };
    let empty = "{}, ".repeat(1000);
    for text in [
        format!(".global .b8 x[1001][1000000000] = {{ {empty} {{1}} }};"),
        ".global .b8 x[1099511627776] = {1};".to_owned(),
        ".global .v2 .b64 x[2][0][3] = {};".to_owned(),
    ] {
        Module::from_ptx_within(&format!("{HEAD}{text}"), "attack.ptx", within).expect("it is PTX");
    }
    for text in [
        ".global .b8 x[0] = {1};",
        ".global .b8 x[0][4294967296][4294967296] = {{{1}}, {{1}}};",
        ".global .b64 x[2] = {1, 2, 3};",
        ".global .b64 x[2][0] = {{1}, {2}};",
    ] {
        let message = refused(text);
        assert!(message.contains("too many initialisers") || message.contains("too large"), "{text}: {message}");
    }
}

#[test]
fn nothing_nests_without_end() {
    let deep = 200_000;
    for (name, text) in [
        ("casts", format!(".global .b64 x = {}1;", "(.s64)".repeat(deep))),
        ("signs", format!(".global .b64 x = {}1;", "-".repeat(deep))),
        ("choices", format!(".global .b64 x = {}1{};", "1?".repeat(deep), ":1".repeat(deep))),
        ("sums", format!(".global .b64 x = {}1;", "1+(".repeat(deep))),
        ("offsets", format!(".global .b64 y; .global .b64 x = y+{}1;", "(.s64)(".repeat(deep))),
        ("braces", format!(".global .b64 x = {};", "{".repeat(deep))),
        ("blocks", format!(".entry k() {}", "{".repeat(deep))),
        ("operands", format!(".entry k() {{ mov.u32 {}", "{".repeat(deep))),
    ] {
        assert!(refused(&text).contains("nested too deeply"), "{name}");
    }
}

#[test]
fn vectors_that_are_too_long_are_refused() {
    let text = |ty: &str| {
        format!(
            ".visible .entry k(.param .u64 a) {{\n.reg .b64 %rd<9>;\nld.param.u64 %rd1, [a];\n\
             st.global.{ty} [%rd1], {{%rd1, %rd2, %rd3, %rd4, %rd5, %rd6, %rd7, %rd8}};\n}}"
        )
    };
    assert!(refused(&text("v8.b64")).contains("at most 16 bytes"));
}

/// An address past a function's start is not that function's, nor another's.
#[test]
fn an_offset_to_a_function_is_no_function() {
    for offset in ["f+8", "f+16", "f+-16", "g+65536"] {
        let text = format!(
            ".func f() {{ ret; }}\n.func g() {{ ret; }}\n.visible .entry k() {{\n.reg .b64 %rd<2>;\n\
             mov.u64 %rd1, {offset};\n$P: .callprototype ()_ ();\ncall %rd1, $P;\nret;\n}}"
        );
        let found = fault(&text, &device(Default::default()), blocks(1, 1), &Observe::default());
        assert_eq!(found.kind, FaultKind::InvalidCall, "{offset}: {found}");
    }
}

/// A called function has the type that the call says: sizes and numbers of arguments and results.
#[test]
fn a_call_through_a_pointer_names_the_argument_that_differs() {
    let launched = |function: &str, prototype: &str, call: &str| {
        let text = format!(
            "{function}\n.visible .entry k() {{\n.reg .b64 %rd<2>; .param .b32 a; .param .b64 b; .param .b32 r;\n\
             mov.u64 %rd1, f;\nP: .callprototype {prototype};\n{call};\nret;\n}}"
        );
        device(Default::default()).load(&module(&text)).unwrap().kernel("k").unwrap().launch(&blocks(1, 1), &[])
    };
    let two = ".func f(.param .b64 x, .param .b64 y) { ret; }";
    assert!(launched(two, "()_ (.param .b64 _, .param .b64 _)", "call %rd1, (b, b), P").is_ok());
    let valued = ".func (.param .b64 out) f(.param .align 8 .b8 x[16]) { ret; }";
    for (function, prototype, call, expected) in [
        (
            two,
            "()_ (.param .b64 _, .param .b32 _)",
            "call %rd1, (b, a), P",
            "argument 2 of the call has 4 bytes, where `f` declares 8 bytes",
        ),
        (
            two,
            "()_ (.param .b64 _)",
            "call %rd1, (b), P",
            "the number of arguments of the call is 1, where `f` declares 2",
        ),
        (
            valued,
            "(.param .b64 _)_ (.param .b64 _)",
            "call (b), %rd1, (b), P",
            "argument 1 of the call has 8 bytes, where `f` declares 16 bytes",
        ),
        (
            ".func (.param .b64 out) f() { ret; }",
            "(.param .b32 _)_ ()",
            "call (r), %rd1, P",
            "result 1 of the call has 4 bytes, where `f` declares 8 bytes",
        ),
    ] {
        let Err(LaunchError::Fault(fault)) = launched(function, prototype, call) else { panic!("{call}: no fault") };
        assert_eq!((fault.kind, fault.message.as_str()), (FaultKind::InvalidCall, expected), "{call}");
    }
}

/// A call that differs from what its function or its prototype declares is no PTX: ptxas refuses it too.
#[test]
fn a_call_that_differs_from_its_declaration_is_refused() {
    let text = |call: &str| {
        format!(
            ".func (.param .b32 r) f(.param .b32 x, .param .b64 y) {{ ret; }}\n\
             .visible .entry k() {{\n.reg .b64 %rd<3>; .reg .b32 %r<3>; .param .b32 a; .param .b64 b;\n\
             mov.u64 %rd1, f;\nP: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _);\n{call};\nret;\n}}"
        )
    };
    for (call, expected) in [
        ("call (a), f, (a, a)", "argument 2 of the call has 4 bytes, where 8 bytes are declared"),
        ("call (a), f, (%rd2, b)", "argument 1 of the call has 8 bytes, where 4 bytes are declared"),
        ("call (b), f, (a, b)", "result 1 of the call has 8 bytes, where 4 bytes are declared"),
        ("call (a), f, (a)", "the number of arguments of the call is 1, where 2 are declared"),
        ("call f, (a, b)", "the number of results of the call is 0, where 1 are declared"),
        ("call (a), %rd1, (a, a), P", "argument 2 of the call has 4 bytes, where 8 bytes are declared"),
    ] {
        assert!(refused(&text(call)).contains(expected), "{call}: {}", refused(&text(call)));
    }
    for call in ["call (_), f, (5, -1)", "call (%r1), f, (%r1, %rd2)", "call (a), %rd1, (0, b), P"] {
        module(&text(call));
    }
}

#[test]
fn parameters_are_not_written() {
    for access in ["st.b32 [%rd2], %r1;", "atom.add.u32 %r1, [%rd2], 1;"] {
        let text = format!(
            ".visible .entry k(.param .u64 a) {{\n.reg .b64 %rd<3>; .reg .b32 %r<2>;\nmov.u32 %r1, 1;\n\
             mov.u64 %rd1, a;\ncvta.param.u64 %rd2, %rd1;\n{access}\nret;\n}}"
        );
        let found = fault(&text, &device(Default::default()), blocks(1, 1), &Observe::default());
        assert_eq!((found.kind, found.message.as_str()), (FaultKind::ReadOnly, "write to the kernel's parameters"));
    }
}

/// Dynamic shared memory that an alignment moves has all of its bytes, and no more.
#[test]
fn aligned_dynamic_shared_memory_is_whole() {
    let text = |offset: u32| {
        format!(
            ".extern .shared .align 1024 .b8 dynamic[];\n.visible .entry k() {{\n.shared .b8 fixed[4];\n.reg .b32 %r<3>;\n\
             mov.u32 %r1, fixed;\nst.shared.b8 [%r1], 0;\nmov.u32 %r2, dynamic;\nst.shared.b32 [%r2+{offset}], 1;\ntrap;\n}}"
        )
    };
    let config = LaunchConfig { shared_bytes: 2048, ..blocks(1, 1) };
    for sanitize in [false, true] {
        let run = |offset| {
            let device = device(DeviceConfig { sanitize, ..Default::default() });
            fault(&text(offset), &device, config, &Observe::default()).kind
        };
        assert_eq!(run(2044), FaultKind::Trap);
        assert_eq!(run(2048), FaultKind::OutOfBounds);
    }
    // The room that the alignment takes counts.
    let device = device(Default::default());
    let loaded = device.load(&module(&text(0))).unwrap();
    let config = LaunchConfig { shared_bytes: ptx_sim::MAX_SHARED - 4, ..blocks(1, 1) };
    assert!(matches!(loaded.kernel("k").unwrap().launch(&config, &[]), Err(LaunchError::Config { .. })));
}

/// A kernel whose threads arrive, the last thread of each block excepted, and then wait without end.
const MISSES_AN_ARRIVAL: &str = "
    .visible .entry k() {
        .reg .b32 %r<4>; .reg .b64 %rd<2>; .reg .pred %p<3>;
        .shared .align 8 .b64 bar; .shared .b32 other;
        mov.u32 %r1, %tid.x; mov.u32 %r2, bar;
        setp.eq.u32 %p1, %r1, 0;
        @%p1 mbarrier.init.shared.b64 [%r2], 64;
        bar.sync 0;
        setp.lt.u32 %p1, %r1, 63;
        @%p1 mbarrier.arrive.shared.b64 %rd1, [%r2];
        $L: STEP mbarrier.test_wait.parity.shared.b64 %p2, [%r2], PARITY;
        @!%p2 bra $L;
        $M: LAST;
    }";

#[test]
fn a_wait_in_vain_is_told() {
    for sanitize in [false, true] {
        let device = device(DeviceConfig { sanitize, ..Default::default() });
        let told = |text: &str, step: &str, last: &str, config: LaunchConfig| {
            let text = MISSES_AN_ARRIVAL.replace("PARITY", text).replace("STEP", step).replace("LAST", last);
            let fault = fault(&text, &device, config, &Observe::default());
            (fault.kind, fault.notes.join("\n"))
        };
        let note = "for a phase of parity 0 of the mbarrier at 0x0 in shared memory: 1 of 64 arrivals is missing";
        let budget = LaunchConfig { budget: Some(100_000), ..blocks(1, 64) };
        let (kind, notes) = told("0", "", "ret", budget);
        assert!(
            kind == FaultKind::Deadlock
                && notes.contains("thread (0, 0, 0) waits at attack.ptx:14")
                && notes.contains(note),
            "{notes}"
        );
        // Warps that do anything else may yet end it.
        let step = "st.shared.u32 [other], 7;";
        let (kind, notes) = told("0", step, "ret", budget);
        assert!(kind == FaultKind::Budget && notes.contains(note), "{notes}");
        let time = LaunchConfig { time_limit: Some(Duration::from_millis(100)), ..blocks(1, 64) };
        let (kind, notes) = told("0", step, "ret", time);
        assert!(kind == FaultKind::TimeLimit && notes.contains(note), "{notes}");
        // The phase before the first is over, so no thread waits.
        let (kind, notes) = told("1", "", "bra $M", budget);
        assert!(kind == FaultKind::Budget && !notes.contains("mbarrier"), "{notes}");
    }
}
