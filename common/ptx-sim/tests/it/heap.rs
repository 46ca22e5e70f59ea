//! `malloc` and `free` of kernels: every kernel of `kernels/heap.cu`, correct and wrong.

use ptx_sim::{
    Arg, Device, DeviceConfig, DevicePtr, Fault, FaultKind, HEAP_BYTES, LaunchConfig, LaunchError, MemoryError, Module,
    Observe, TraceRequest,
};

const PTX: &str = include_str!("../kernels/heap.ptx");
const CU: &str = include_str!("../kernels/heap.cu");

fn device(sanitize: bool, workers: usize) -> Device {
    Device::new(DeviceConfig { sanitize, workers, ..Default::default() })
}

/// Launches a kernel of `heap.cu` with a buffer of this many bytes and then `args`. Returns the buffer's words.
fn launch(
    device: &Device,
    kernel: &str,
    grid: u32,
    block: u32,
    bytes: u64,
    args: &[Arg],
) -> Result<Vec<i32>, LaunchError> {
    let module = device.load(&Module::from_ptx(PTX, "heap.ptx").unwrap()).unwrap();
    let out = device.alloc(bytes, "out").unwrap();
    let config = LaunchConfig { grid: [grid, 1, 1], block: [block, 1, 1], ..Default::default() };
    let launched = module.kernel(kernel).unwrap().launch(&config, &[&[Arg::from(out)], args].concat());
    let mut contents = vec![0; bytes as usize];
    let read = device.read(out, &mut contents);
    device.free(out).unwrap();
    match (launched, read) {
        (Ok(_), Err(MemoryError::Undefined(findings))) => Err(LaunchError::Findings(findings)),
        (launched, read) => {
            read.unwrap();
            launched.map(|_| words(&contents))
        }
    }
}

fn words(bytes: &[u8]) -> Vec<i32> {
    bytes.as_chunks::<4>().0.iter().map(|word| i32::from_le_bytes(*word)).collect()
}

/// Findings of a sanitised launch, by kind, source line and count; followed by the blocks that it leaves in the heap.
fn findings(kernel: &str, block: u32, args: &[Arg]) -> Vec<(FaultKind, &'static str, u64)> {
    let device = device(true, 1);
    let mut findings = match launch(&device, kernel, 1, block, 64, args) {
        Ok(_) => Vec::new(),
        Err(LaunchError::Findings(findings)) => findings,
        Err(other) => panic!("{kernel}: {other}"),
    };
    findings.extend(device.heap_findings());
    findings.iter().map(|finding| (finding.kind, line(finding), finding.count)).collect()
}

/// The text of the line that a fault names.
fn line(fault: &Fault) -> &'static str {
    CU.lines().nth(fault.line.expect("the PTX has line information") as usize - 1).expect("it is a line").trim()
}

#[test]
fn each_thread_has_blocks_of_its_own() {
    for (sanitize, workers) in [(false, 1), (false, 4), (true, 1)] {
        let device = device(sanitize, workers);
        let sum = |block: i32, thread: i32| (0..9).map(|i| i * thread + block).sum::<i32>();
        let expected: Vec<i32> = (0..16).flat_map(|block| (0..40).map(move |thread| sum(block, thread))).collect();
        assert_eq!(launch(&device, "round_trip", 16, 40, 16 * 40 * 4, &[9.into()]).unwrap(), expected);
        let list = |thread: i32| (0..5).rev().fold(0, |sum, i| sum * 3 + i + thread);
        let expected: Vec<i32> = (0..33).map(list).collect();
        assert_eq!(launch(&device, "linked_list", 1, 33, 33 * 4, &[5.into()]).unwrap(), expected);
        assert_eq!(launch(&device, "aligned", 1, 32, 32 * 4, &[]).unwrap(), [2 + 3; 32], "offsets are 0");
        assert_eq!(device.leaks(), []);
    }
}

#[test]
fn malloc_returns_null_where_the_heap_is_full() {
    for sanitize in [false, true] {
        let device = device(sanitize, 1);
        // What the launch before has freed can be had again.
        for (bytes, blocks) in
            [(4096, HEAP_BYTES / 4096), (4097, HEAP_BYTES / 4112), (3 << 20, 2), (HEAP_BYTES, 1), (HEAP_BYTES + 1, 0)]
        {
            assert_eq!(launch(&device, "fill", 1, 1, 4, &[bytes.into()]).unwrap(), [blocks as i32], "{bytes}");
        }
        assert_eq!(launch(&device, "fill", 1, 1, 4, &[u64::MAX.into()]).unwrap(), [0]);
    }
}

#[test]
fn blocks_on_many_workers_share_one_heap() {
    let device = device(false, 4);
    for _ in 0..5 {
        let sums = launch(&device, "round_trip", 64, 128, 64 * 128 * 4, &[16.into()]).unwrap();
        assert!((0..64 * 128).all(|at| sums[at] == 120 * (at as i32 % 128) + 16 * (at as i32 / 128)));
    }
    assert_eq!(device.leaks(), []);
    assert_eq!(launch(&device, "fill", 1, 1, 4, &[(1u64 << 20).into()]).unwrap(), [8], "all of it is free again");
}

#[test]
fn blocks_live_until_a_later_launch_frees_them() {
    let device = device(true, 1);
    let module = device.load(&Module::from_ptx(PTX, "heap.ptx").unwrap()).unwrap();
    let (pointers, out) = (device.alloc(5 * 8, "pointers").unwrap(), device.alloc(5 * 4, "out").unwrap());
    let config = LaunchConfig { block: [5, 1, 1], ..Default::default() };
    module.kernel("give").unwrap().launch(&config, &[pointers.into()]).unwrap();
    let mut first = [0; 8];
    device.read(pointers, &mut first).unwrap();
    let first = DevicePtr(u64::from_le_bytes(first));
    assert!(matches!(device.free(first), Err(MemoryError::InvalidPointer { .. })), "it is not the host's");
    let blocks: Vec<_> = device.leaks().into_iter().filter(|leak| leak.finding.is_some()).collect();
    assert_eq!((blocks.len(), blocks[0].pointer, blocks[0].bytes), (5, first, 4));
    module.kernel("take").unwrap().launch(&config, &[pointers.into(), out.into()]).unwrap();
    let mut values = [0; 20];
    device.read(out, &mut values).unwrap();
    assert_eq!(words(&values), [10, 11, 12, 13, 14]);
    assert_eq!(device.heap_findings(), []);
}

#[test]
fn what_nobody_frees_is_a_leak_of_its_line() {
    let device = device(false, 1);
    launch(&device, "keeps_some", 2, 7, 14 * 4, &[]).unwrap();
    let leaks = device.leaks();
    let places: Vec<_> = leaks.iter().map(|leak| leak.finding.as_ref().unwrap()).collect();
    assert!(leaks.iter().all(|leak| leak.bytes == 8 && leak.label.starts_with("malloc at heap.cu:")));
    assert!(places.iter().all(|leak| leak.kernel == "keeps_some" && line(leak).contains("malloc(2 * sizeof(int))")));
    let threads: Vec<_> = places.iter().map(|leak| (leak.block[0], leak.thread[0])).collect();
    assert_eq!(threads, [0, 1].map(|block| [0, 2, 4, 6].map(|thread| (block, thread))).concat());
    let text = leaks[5].to_string();
    assert!(text.ends_with("kernel `keeps_some`, block (1, 0, 0), thread (2, 0, 0) allocated it"), "{text}");

    let findings = device.heap_findings();
    assert_eq!((findings.len(), findings[0].kind, findings[0].count), (1, FaultKind::Leak, 8));
    assert_eq!(findings[0].address, Some(leaks[0].pointer.0));
    assert!(findings[0].notes[0].contains("have 64 bytes together"), "{:?}", findings[0].notes);
}

#[test]
fn what_is_wrong_with_a_block_is_found() {
    let read = "out[threadIdx.x] = values[n - 1 + threadIdx.x];";
    assert_eq!(findings("past_the_end", 1, &[4.into()]), []);
    // Thread 1 reads what is just behind its block, thread 2 the next word.
    assert_eq!(findings("past_the_end", 3, &[4.into()]), [(FaultKind::OutOfBounds, read, 2)]);

    let read = "out[threadIdx.x] = ((int*)values)[1];";
    assert_eq!(findings("never_written", 8, &[4.into()]), []);
    assert_eq!(findings("never_written", 8, &[3.into()]), [], "half of the word, which may be padding");
    assert_eq!(findings("never_written", 8, &[2.into()]), [(FaultKind::UninitialisedRead, read, 8)]);

    let free = "if (threadIdx.x) free(out[threadIdx.x]);";
    assert_eq!(findings("twice", 8, &[]), [(FaultKind::InvalidFree, free, 7)]);
    let late = "*out[threadIdx.x] += 1;";
    assert_eq!(findings("too_late", 3, &[]), [(FaultKind::UseAfterFree, late, 6)], "a read and a write each");

    let (free, malloc) = ("free(bytes + offset);", "char* bytes = (char*)malloc(16);");
    assert_eq!(findings("inside", 3, &[0.into()]), []);
    assert_eq!(
        findings("inside", 3, &[15.into()]),
        [(FaultKind::InvalidFree, free, 3), (FaultKind::Leak, malloc, 3)],
        "what is not freed right is not freed"
    );

    let handed = device(true, 1);
    let pointer = handed.alloc(8, "handed").unwrap();
    let Err(LaunchError::Findings(found)) = launch(&handed, "shared_by_two", 1, 2, 8, &[pointer.into()]) else {
        panic!("both threads write the one block");
    };
    let found: Vec<_> = found.iter().map(|finding| (finding.kind, line(finding))).collect();
    assert_eq!(found, [(FaultKind::GlobalRace, "**handed = threadIdx.x;")]);
}

/// A wrong access ends the launch without a sanitiser, too.
#[test]
fn what_is_wrong_with_a_block_is_a_fault() {
    let found = |kernel: &str, args: &[Arg]| match launch(&device(false, 2), kernel, 1, 3, 64, args) {
        Err(LaunchError::Fault(fault)) => (fault.kind, fault.thread[0], fault.threads),
        other => panic!("{kernel}: a fault is expected, not {other:?}"),
    };
    assert_eq!(found("past_the_end", &[4.into()]), (FaultKind::OutOfBounds, 1, 2));
    assert_eq!(found("twice", &[]), (FaultKind::InvalidFree, 1, 2));
    assert_eq!(found("too_late", &[]), (FaultKind::UseAfterFree, 0, 3));
    assert_eq!(found("inside", &[4.into()]), (FaultKind::InvalidFree, 0, 3));
    assert_eq!(found("frees_a_buffer", &[]), (FaultKind::InvalidFree, 0, 3));
}

#[test]
fn a_trace_names_the_block() {
    let device = device(false, 1);
    let module = device.load(&Module::from_ptx(PTX, "heap.ptx").unwrap()).unwrap();
    let out = device.alloc(4, "out").unwrap();
    let observe = Observe { trace: Some(TraceRequest::default()), profile: true, ..Observe::default() };
    let args = [out.into(), 2.into()];
    let trace = module.kernel("round_trip").unwrap().observe(&Default::default(), &args, &observe).unwrap().trace;
    let names: Vec<String> = trace.unwrap().variables.iter().map(|variable| variable.name.clone()).collect();
    let line = CU.lines().position(|line| line.contains("malloc(")).unwrap() + 1;
    assert_eq!(names, ["out".to_owned(), format!("malloc at heap.cu:{line}")]);
}

/// Code that no compiler generates from CUDA: `cp.async` from a block that is freed before the copy is waited for, and a
/// function of the module's own with the name of one of the device's.
#[test]
fn blocks_in_ptx_by_hand() {
    let head = ".version 8.0\n.target sm_80\n.address_size 64\n";
    let declared = ".extern .func (.param .b64 r) malloc (.param .b64 n);\n.extern .func free (.param .b64 p);\n";
    let copies = ".visible .entry k(.param .u64 out) {
        .reg .b32 %r<4>;
        .reg .b64 %rd<4>;
        .shared .align 16 .b8 tile[16];
        .param .b64 n;
        .param .b64 p;
        st.param.b64 [n], 16;
        call (p), malloc, (n);
        ld.param.b64 %rd1, [p];
        st.global.v4.u32 [%rd1], {1, 2, 3, 4};
        mov.u32 %r1, tile;
        cp.async.ca.shared.global [%r1], [%rd1], 16;
        call free, (p);
        cp.async.wait_all;
        ld.shared.u32 %r2, [tile+12];
        ld.param.u64 %rd2, [out];
        st.global.u32 [%rd2], %r2;
        ret;
    }";
    let own = ".func (.param .b64 r) malloc (.param .b64 n) {
        .reg .b64 %rd<2>;
        ld.param.b64 %rd1, [n];
        add.u64 %rd1, %rd1, 1;
        st.param.b64 [r], %rd1;
        ret;
    }
    .visible .entry k(.param .u64 out) {
        .reg .b64 %rd<3>;
        .param .b64 n;
        st.param.b64 [n], 41;
        call (n), malloc, (n);
        ld.param.b64 %rd1, [n];
        ld.param.u64 %rd2, [out];
        st.global.u32 [%rd2], %rd1;
        ret;
    }";
    for (ptx, expected) in [(format!("{head}{declared}{copies}"), 4), (format!("{head}{own}"), 42)] {
        for sanitize in [false, true] {
            let device = device(sanitize, 1);
            let module = device.load(&Module::from_ptx(&ptx, "k.ptx").unwrap()).unwrap();
            let out = device.alloc(4, "out").unwrap();
            module.kernel("k").unwrap().launch(&Default::default(), &[out.into()]).unwrap();
            let mut word = [0; 4];
            device.read(out, &mut word).unwrap();
            assert_eq!((i32::from_le_bytes(word), device.heap_findings()), (expected, vec![]));
        }
    }
}
