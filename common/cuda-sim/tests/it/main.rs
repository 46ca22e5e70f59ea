//! Integration tests: a program that knows nothing of the simulator, run by the launcher.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;
use cuda_sim::log::Log;

mod functions;
#[cfg(target_os = "linux")]
mod nvcc;
mod runtime;

/// A program of `examples`, which Cargo builds for the tests.
fn example(name: &str) -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    let folder = deps.parent().and_then(Path::parent).unwrap();
    folder.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

fn client() -> PathBuf {
    example("client")
}

/// Runs the client's kernel with options of the launcher.
fn run(options: &[&str], kernel: &str) -> Output {
    Command::cargo_bin("cuda-sim").unwrap().args(options).arg(client()).arg(kernel).output().unwrap()
}

/// A file beside the client's kernels.
fn kernels(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels").join(file)
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn a_program_runs_as_it_is() {
    let Output { status, stdout, stderr } = run(&["--sanitize"], "add");
    assert!(status.success(), "{}", text(&stderr));
    assert_eq!(text(&stdout), "values 0 2 126\n");
    assert_eq!(text(&stderr), "cuda-sim: no findings\n");
}

/// Made of `client.ptx` by CUDA 13.0: `fatbinary --create=client_lz4.fatbin -64 --compress-mode=speed
/// --image3=kind=ptx,sm=75,file=client.ptx`, and with the mode `size`.
#[test]
fn fat_binaries_of_both_compressions_run() {
    for file in ["client_lz4.fatbin", "client_zstd.fatbin"] {
        let mut add = Command::cargo_bin("cuda-sim").unwrap();
        let Output { status, stdout, stderr } = add.arg(client()).arg("add").arg(kernels(file)).output().unwrap();
        assert!(status.success(), "{file}: {}", text(&stderr));
        assert_eq!(text(&stdout), "values 0 2 126\n", "{file}");
    }
}

#[test]
fn machine_code_alone_is_refused_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let cubin = folder.path().join("add.cubin");
    std::fs::write(&cubin, b"\x7fELF\x02\x01\x01A").unwrap();
    let Output { status, stderr, .. } =
        Command::cargo_bin("cuda-sim").unwrap().arg(client()).arg("add").arg(&cubin).output().unwrap();
    let stderr = text(&stderr);
    assert_eq!(status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("-gencode arch=compute_90,code=compute_90"), "{stderr}");
    assert!(stderr.contains("cuModuleLoadData failed with 209\n"), "{stderr}");
}

#[test]
fn a_profile_has_a_row_for_each_kernel() {
    let Output { status, stderr, .. } = run(&["--profile"], "add");
    let stderr = text(&stderr);
    assert!(status.success(), "{stderr}");
    let row = stderr.lines().find(|line| line.contains("add")).unwrap();
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    // 2 buffers of 64 floats are read, one is written, all in order.
    assert_eq!((cells[2], &cells[5..9], cells[9]), ("1", ["512", "1.00", "256", "1.00"].as_slice(), "-"), "{stderr}");
}

#[test]
fn late_streams_show_what_a_program_did_not_wait_for() {
    for (option, early, times, beside) in
        [("--devices=1", 2, "known", 4), ("--late", 0, "cuEventElapsedTime failed with 600", 2)]
    {
        let mut run = Command::cargo_bin("cuda-sim").unwrap();
        let Output { status, stdout, stderr } = run.arg(option).arg(example("streams")).output().unwrap();
        assert!(status.success(), "{option}: {}", text(&stderr));
        let expected = format!(
            "read at once: {early}, after waiting: 2\ntimes at once: {times}\nbeside the kernel: {beside}, after it: 4\n\
             behind a stream that blocks: 8\n"
        );
        assert_eq!(text(&stdout), expected, "{option}");
    }
}

/// Runs a program of the driver API as it is, under the sanitiser and late.
fn prints(program: &str, expected: &str) {
    for option in ["--devices=1", "--sanitize", "--late"] {
        let mut run = Command::cargo_bin("cuda-sim").unwrap();
        let Output { status, stdout, stderr } = run.arg(option).arg(example(program)).output().unwrap();
        assert!(status.success(), "{option}: {}{}", text(&stdout), text(&stderr));
        assert_eq!(text(&stdout), expected, "{option}: {}", text(&stderr));
        assert!(text(&stderr).ends_with("cuda-sim: no findings\n"), "{option}: {}", text(&stderr));
    }
}

#[test]
fn arrays_are_read_by_textures_and_written_by_surfaces() {
    let expected = "\
launch 0: 0.5 9 68.5000
launch 0: 0.005882353 0.105882354 0.8059
bytes [2.0, 3.0, 4.0]
batch [4.0, 5.0, 0.0]
batch of an array [2.0, 3.0]
beyond it: cuMemcpy3DBatchAsync failed with 1
layer 1: 0
layer 2: 69
layer 3: cuMemcpy3D_v2 failed with 1
five faces: cuArray3DCreate_v2 failed with 1
";
    prints("arrays", expected);
}

#[test]
fn programs_are_told_what_there_is() {
    let expected = "\
device Ok(0)
device Ok(0)
device Err(\"cuDeviceGetByPCIBusId failed with 101\")
memory 17179869184 true; cuMemAlloc_v2 failed with 2
2 kernels: clustered shares 0
of its library true, loaded 1, shares
parameter at 16, 48 bytes; cuKernelGetParamInfo failed with 1
managed 4 bytes; cuLibraryGetManaged failed with 500
2 functions, registers [Ok(24), Ok(64), Ok(20), Ok(20)]
linked with 20 registers
shared memory left [231448, 114712, 0]
clusters of 8 at most, [66, 66] of 4, 4 along x
clusters of 16 if that is allowed: 1
pointer 2 0 true 1000 0
pointer 0 0 false 0 -2
synchronous [0, 1]; cuPointerSetAttribute failed with 1
planes [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27]
context true 0 true 0, capturing 1
attribute true 0, pool true true
value 0x200000005; cuStreamWaitValue32_v2 failed with 801
cuCtxSynchronize [true, true]
cuStreamGetCaptureInfo [true, true]
cuMemAlloc [true, true]
";
    prints("queries", expected);
}

#[test]
fn the_size_of_memory_is_chosen() {
    let mut run = Command::cargo_bin("cuda-sim").unwrap();
    let Output { status, stdout, stderr } = run.args(["--memory", "3MiB"]).arg(example("queries")).output().unwrap();
    assert!(status.success(), "{}", text(&stderr));
    assert!(text(&stdout).contains("\nmemory 3145728 true; cuMemAlloc_v2 failed with 2\n"), "{}", text(&stdout));
}

#[test]
fn memory_is_mapped_to_addresses() {
    let expected = "\
supported 1, in units of 2097152
taken 2 units
twice: cuMemMap failed with 1
out of reach: cuMemcpyHtoD_v2 failed with 1
not all mapped: cuMemSetAccess failed with 1
access 3, launch 0, doubled true, then [124.0, 126.0, 2.0]
partly: cuMemUnmap failed with 1
freed: cuMemFree_v2 failed with 1
same true, taken 1 units
moved [64.0, 66.0, 68.0]
closed: cuMemcpyDtoH_v2 failed with 1
in use: cuMemAddressFree failed with 1
taken 0
too much: cuMemCreate failed with 2
";
    prints("virtual_memory", expected);
}

#[test]
fn graphs_do_what_their_nodes_say() {
    let expected = "\
parameters true true 2
value 110
child true 112, objects 0 1
capture: 4 nodes, 4 edges, cuEventQuery failed with 907
edges 6, 3 after the first, 2 before the fourth
5 without one
digraph dot {
  node0 [label=\"0: MEMSET\"];
  node1 [label=\"1: KERNEL add\"];
  node0 -> node1;
}
captured [(7, [4]), (2, [1])], true
node 1 of its graph true, named apart true
updated 0 60, cuGraphExecUpdate failed with 910, 2
loop 11
loop 13
a wait in a loop: cuGraphInstantiateWithFlags failed with 801
flags: cuGraphInstantiateWithFlags failed with 1
without a context: 0 7
";
    prints("graphs", expected);
}

#[test]
fn what_bindings_of_python_rely_on_is_there() {
    for option in ["--late", "--sanitize"] {
        let mut run = Command::cargo_bin("cuda-sim").unwrap();
        let Output { status, stdout, stderr } = run.arg(option).arg(example("bindings")).output().unwrap();
        assert!(status.success(), "{option}: {}{}", text(&stdout), text(&stderr));
        let forked = if cfg!(unix) { "in a forked process: error 3\n" } else { "" };
        let expected = format!(
            "blocks that wait: true\nin a launch of another kind: error 1\ntoo many: error 720\n\
             user objects: 0 ended, then 1\n{forked}"
        );
        assert_eq!(text(&stdout), expected, "{option}: {}", text(&stderr));
    }
}

#[test]
fn what_kernels_print_is_printed() {
    let Output { status, stdout, .. } = run(&[], "greet");
    assert!(status.success());
    let stdout = text(&stdout);
    assert!(stdout.starts_with("thread 0 of 64\n") && stdout.ends_with("thread 63 of 64\nvalues 0 1 63\n"), "{stdout}");
}

#[test]
fn a_race_fails_the_run_only_if_it_is_looked_for() {
    assert_eq!(run(&[], "reverse_race").status.code(), Some(0));
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("findings");
    let Output { status, stderr, .. } =
        run(&["--sanitize", "--error-exitcode", "7", "--log", log.to_str().unwrap()], "reverse_race");
    let stderr = text(&stderr);
    assert_eq!(status.code(), Some(7), "{stderr}");
    assert!(stderr.contains("error[shared-race]: kernel `reverse_race`"), "{stderr}");
    let Log { findings, .. } = Log::read(&log).unwrap();
    let found: Vec<_> = findings.iter().map(|entry| (entry.kind.as_str(), entry.file.as_str(), entry.line)).collect();
    // The write passes the read of the lane on the other side, and that lane may read before its value is there.
    let expected =
        [("shared-race", "client.cu", 14), ("shared-race", "client.cu", 15), ("uninitialised-read", "client.cu", 15)];
    assert_eq!(found, expected, "{stderr}");
    assert!(stderr.ends_with("cuda-sim: 3 findings: 2 shared-race, 1 uninitialised-read\n"), "{stderr}");
}

#[test]
fn an_error_of_a_kernel_comes_from_the_next_call_as_on_a_gpu() {
    let Output { status, stdout, stderr } = run(&[], "overrun");
    let stderr = text(&stderr);
    assert_eq!((status.code(), text(&stdout)), (Some(3), ""), "{stderr}");
    assert!(stderr.contains("error[out-of-bounds]: kernel `overrun`"), "{stderr}");
    assert!(stderr.contains("just past the end of `allocation of 256 bytes`"), "{stderr}");
    assert!(stderr.contains("cuCtxSynchronize failed with 700\n"), "{stderr}");
}

#[test]
fn time_and_memory_of_kernels_are_limited() {
    let folder = tempfile::tempdir().unwrap();
    let endless = folder.path().join("endless.ptx");
    let parameters = ".param .u64 a, .param .u64 b, .param .u64 out, .param .u32 n";
    let body = "again: bra again; ret;";
    std::fs::write(
        &endless,
        format!(".version 7.0\n.target sm_75\n.address_size 64\n.entry add({parameters}) {{ {body} }}\n"),
    )
    .unwrap();
    let mut launcher = Command::cargo_bin("cuda-sim").unwrap();
    let slow = launcher.args(["--time-limit", "1"]).arg(client()).arg("add").arg(&endless).output().unwrap();
    assert!(text(&slow.stderr).contains("error[time-limit]: kernel `add`"), "{}", text(&slow.stderr));
    let large = run(&["--memory-limit", "1KiB"], "add");
    assert!(text(&large.stderr).contains("failed with 2\n"), "{}", text(&large.stderr));
    assert_eq!(run(&["--time-limit", "60", "--memory-limit", "1GiB"], "add").status.code(), Some(0));
}

#[test]
fn what_is_missing_is_said_in_a_sentence() {
    let missing = Command::cargo_bin("cuda-sim").unwrap().arg("/no/such/program").output().unwrap();
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).starts_with("error: /no/such/program: "), "{}", text(&missing.stderr));
    let capability = Command::cargo_bin("cuda-sim").unwrap().args(["--compute", "7.0", "true"]).output().unwrap();
    assert_eq!(capability.status.code(), Some(2));
    assert!(text(&capability.stderr).contains("expected a compute capability from 7.5 to 10.0"));
    let kernel = run(&[], "no_such_kernel");
    assert!(text(&kernel.stderr).contains("cuModuleGetFunction failed with 500\n"), "{}", text(&kernel.stderr));
}
