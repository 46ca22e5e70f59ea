//! PyTorch as a peer: `peers/torch_peer.py` in a process of its own, where a Python with PyTorch is found.
//!
//! `WARP_PYTHON` names the interpreter; without it `python3` and `python` are tried, first those of the virtual environments that
//! [`common::probe`] would look into. What it cannot measure is a sentence that tables show beside a dash.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use common::Device;
use common::reference::Conv2dParams;
use common::timing::{Bench, Clock, Queue, Timing};
use phase3_all_layers::PYTORCH_MODELS;
use serde::{Deserialize, Serialize};

/// The script, which says what it reads and writes.
const SCRIPT: (&str, &str) = ("torch_peer.py", include_str!("../peers/torch_peer.py"));

/// Whether an interpreter has PyTorch is answered by a lookup, without loading it.
const PROBE: &str = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)";
/// Why the simulator has no figures of PyTorch beside its own.
const ON_GPUS: &str = "PyTorch is measured on GPUs only";
const PROBE_LIMIT: Duration = Duration::from_secs(10);
/// Loading PyTorch from a cold disk takes long.
const ASK_LIMIT: Duration = Duration::from_secs(60);

/// Loading PyTorch and compiling take their time; a request that takes longer than this is given up.
const LIMIT: Duration = Duration::from_secs(600);

/// How PyTorch runs an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Operation by operation.
    Eager,
    /// By `torch.compile`.
    Compiled,
    /// By `torch.compile`, captured as a CUDA graph.
    CompiledGraph,
    /// By `torch.compile` with `max-autotune`, which tries kernels, captured as a CUDA graph.
    Autotuned,
    /// Captured once as a CUDA graph, and replayed.
    Graph,
    /// Operation by operation on the CPU, with as many threads as our side has; by the host's clock.
    Cpu,
}

/// What PyTorch computes with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arithmetic {
    /// As f32.
    #[default]
    F32,
    /// f32 whose products are rounded to TF32, on tensor cores; models are channels last.
    Tf32,
    /// Weights and activations in f16, channels last; for models.
    F16,
}

impl Arithmetic {
    fn is_f32(&self) -> bool {
        *self == Arithmetic::F32
    }
}

/// An implementation of scaled dot-product attention, as PyTorch names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Backend {
    /// FlashAttention-2.
    FlashAttention,
    /// cuDNN's.
    CudnnAttention,
    /// xFormers' memory-efficient attention.
    EfficientAttention,
    /// Two products and a softmax.
    Math,
}

/// One operation for PyTorch to measure; f32, without TF32 unless it is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PeerRequest {
    #[serde(flatten)]
    operation: Operation,
    mode: Mode,
    #[serde(skip_serializing_if = "Arithmetic::is_f32")]
    arithmetic: Arithmetic,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Operation {
    Gemm {
        shape: [usize; 3],
        transposed: bool,
    },
    LinearRelu {
        shape: [usize; 3],
        backward: bool,
    },
    Conv2d {
        shape: [usize; 4],
        weight: [usize; 4],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        groups: usize,
    },
    /// In f16, channels last; with BatchNorm, as a scale and a shift per channel, and SiLU if `silu`.
    HalfConv2d {
        shape: [usize; 4],
        weight: [usize; 4],
        stride: [usize; 2],
        padding: [usize; 2],
        silu: bool,
    },
    BatchNorm {
        shape: [usize; 4],
    },
    Relu {
        shape: [usize; 4],
    },
    Statistics {
        shape: [usize; 4],
    },
    Resnet18 {
        batch: usize,
    },
    Autoencoder {
        shape: [usize; 4],
        batch: usize,
    },
    Attention {
        shape: [usize; 4],
    },
    /// In f16, by one of PyTorch's implementations.
    HalfAttention {
        shape: [usize; 4],
        keys: usize,
        causal: bool,
        backend: Backend,
    },
    Unet {
        channels: usize,
        batch: usize,
    },
}

impl PeerRequest {
    fn new(operation: Operation, mode: Mode) -> PeerRequest {
        PeerRequest { operation, mode, arithmetic: Arithmetic::F32 }
    }

    /// The same in this arithmetic.
    #[must_use]
    pub fn with_arithmetic(self, arithmetic: Arithmetic) -> PeerRequest {
        PeerRequest { arithmetic, ..self }
    }

    /// A·B with A \[M, K\] and B \[K, N\], or A·Bᵀ with B \[N, K\].
    pub fn gemm([m, n, k]: [usize; 3], transposed: bool, mode: Mode) -> PeerRequest {
        PeerRequest::new(Operation::Gemm { shape: [m, n, k], transposed }, mode)
    }

    /// relu(x·Wᵀ + b) of `[batch, in, out]`, or its gradients.
    pub fn linear_relu(shape: [usize; 3], backward: bool, mode: Mode) -> PeerRequest {
        PeerRequest::new(Operation::LinearRelu { shape, backward }, mode)
    }

    /// A convolution without bias.
    pub fn conv2d(shape: [usize; 4], weight: [usize; 4], params: Conv2dParams, mode: Mode) -> PeerRequest {
        let Conv2dParams { stride, padding, dilation, groups } = params;
        PeerRequest::new(Operation::Conv2d { shape, weight, stride, padding, dilation, groups }, mode)
    }

    /// A convolution in f16, channels last, alone or with BatchNorm and SiLU.
    pub fn half_conv2d(
        shape: [usize; 4],
        weight: [usize; 4],
        params: Conv2dParams,
        silu: bool,
        mode: Mode,
    ) -> PeerRequest {
        let Conv2dParams { stride, padding, .. } = params;
        PeerRequest::new(Operation::HalfConv2d { shape, weight, stride, padding, silu }, mode)
    }

    /// BatchNorm with running statistics.
    pub fn batch_norm(shape: [usize; 4], mode: Mode) -> PeerRequest {
        PeerRequest::new(Operation::BatchNorm { shape }, mode)
    }

    /// A forward pass of ResNet18 over this many images of 224 × 224.
    pub fn resnet18(batch: usize, mode: Mode) -> PeerRequest {
        PeerRequest::new(Operation::Resnet18 { batch }, mode)
    }

    /// A forward pass of the autoencoder with `[n_mels, frames, latent, slice_latent]`.
    pub fn autoencoder(shape: [usize; 4], batch: usize, mode: Mode) -> PeerRequest {
        PeerRequest::new(Operation::Autoencoder { shape, batch }, mode)
    }

    /// Scaled dot-product attention of queries, keys and values `[batch, heads, tokens, d]`.
    pub fn attention(shape: [usize; 4], mode: Mode) -> PeerRequest {
        PeerRequest::new(Operation::Attention { shape }, mode)
    }

    /// The same in f16 by one implementation, with this number of keys; with a mask, of as many queries.
    pub fn half_attention(shape: [usize; 4], keys: usize, causal: bool, backend: Backend) -> PeerRequest {
        PeerRequest::new(Operation::HalfAttention { shape, keys, causal, backend }, Mode::Eager)
    }

    /// A forward pass of the video U-Net over `batch` latents of 64 × 64.
    pub fn unet(channels: usize, batch: usize, mode: Mode) -> PeerRequest {
        PeerRequest::new(Operation::Unet { channels, batch }, mode)
    }

    /// ReLU in place.
    pub fn relu(shape: [usize; 4], mode: Mode) -> PeerRequest {
        PeerRequest::new(Operation::Relu { shape }, mode)
    }

    /// Mean and biased variance of each channel.
    pub fn statistics(shape: [usize; 4], mode: Mode) -> PeerRequest {
        PeerRequest::new(Operation::Statistics { shape }, mode)
    }
}

#[derive(Serialize)]
struct Request<'a> {
    /// `None`: no GPU.
    device: Option<usize>,
    threads: usize,
    queue: &'static str,
    warm_up: usize,
    repeats: usize,
    limit_s: f64,
    work: &'a [PeerRequest],
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Response {
    Measured { version: String, results: Vec<Sampled> },
    Absent { absent: String },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Sampled {
    Samples { samples_ms: Vec<f64> },
    Absent { absent: String },
}

/// What PyTorch took for each piece of work, or why there is no number.
pub struct Measured {
    /// As PyTorch says it: `2.9.0+cu130`; none where it does not run.
    pub version: Option<String>,
    /// In the order of the work.
    pub timings: Vec<Result<Timing, String>>,
}

/// Measures all of `work` in one process, as `bench` says; on the simulator only what is for the CPU. It never fails: what is not
/// there has a reason.
pub fn measure(device: &Device, bench: &Bench, work: &[PeerRequest]) -> Measured {
    let all = |reason: String| Measured { version: None, timings: vec![Err(reason); work.len()] };
    let device = ordinal(device);
    if device.is_none() && work.iter().all(|work| work.mode != Mode::Cpu) {
        return all(ON_GPUS.to_owned());
    }
    let request = Request {
        device,
        threads: rayon::current_num_threads(),
        queue: match bench.queue {
            Queue::Empty => "empty",
            Queue::Warm => "warm",
            Queue::Cold => "cold",
        },
        warm_up: bench.warm_up,
        repeats: bench.repeats,
        limit_s: bench.limit.as_secs_f64(),
        work,
    };
    match python().and_then(|python| ask(&python, &request)) {
        Ok(Response::Measured { version, results }) if results.len() == work.len() => Measured {
            version: Some(version),
            timings: results
                .into_iter()
                .zip(work)
                .map(|(result, work)| match result {
                    Sampled::Samples { samples_ms } => {
                        let clock = if work.mode == Mode::Cpu { Clock::HostMonotonic } else { Clock::DeviceEvents };
                        Timing::from_samples(clock, samples_ms).map_err(|error| format!("PyTorch: {error}"))
                    }
                    Sampled::Absent { absent } => Err(absent),
                })
                .collect(),
        },
        Ok(Response::Measured { results, .. }) => {
            all(format!("PyTorch's script returned {} results for {} requests", results.len(), work.len()))
        }
        Ok(Response::Absent { absent }) => all(absent),
        Err(reason) => all(reason),
    }
}

#[cfg(feature = "cuda")]
fn ordinal(device: &Device) -> Option<usize> {
    device.as_cuda().map(|cuda| cuda.ordinal())
}

#[cfg(not(feature = "cuda"))]
fn ordinal(_: &Device) -> Option<usize> {
    None
}

/// Where PyTorch is, and which one; or why it measures nothing here. It is loaded, which takes seconds.
///
/// # Errors
/// A sentence.
pub fn installed() -> Result<(PathBuf, String), String> {
    const ASK: &str = "import torch; print(torch.__version__, torch.cuda.is_available())";
    let python = python()?;
    let answer = run(&python, &["-c", ASK], "", ASK_LIMIT)?;
    match answer.split_whitespace().collect::<Vec<_>>()[..] {
        [version, "True"] => Ok((python, version.to_owned())),
        [version, _] => Err(format!("PyTorch {version} of `{}` sees no GPU", python.display())),
        _ => Err(format!("`{}` does not say its PyTorch's version", python.display())),
    }
}

/// The interpreter that has PyTorch, looked for once.
fn python() -> Result<PathBuf, String> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let find = || {
        let named = std::env::var_os("WARP_PYTHON").map(PathBuf::from);
        let candidates = named.map_or_else(candidates, |python| vec![python]);
        let has_torch = |python: &PathBuf| run(python, &["-c", PROBE], "", PROBE_LIMIT).is_ok();
        candidates.iter().find(|python| has_torch(python)).cloned().ok_or_else(|| {
            let names: Vec<String> = candidates.iter().map(|python| format!("`{}`", python.display())).collect();
            format!("no PyTorch: none of {} has it; WARP_PYTHON names a Python that has", names.join(", "))
        })
    };
    FOUND.get_or_init(find).clone()
}

fn candidates() -> Vec<PathBuf> {
    let inside = |environment: PathBuf| match cfg!(windows) {
        true => environment.join("Scripts").join("python.exe"),
        false => environment.join("bin").join("python3"),
    };
    let active = std::env::var_os("VIRTUAL_ENV").map(PathBuf::from).map(inside);
    active.into_iter().chain(["python3", "python"].map(PathBuf::from)).collect()
}

fn ask(python: &Path, request: &Request<'_>) -> Result<Response, String> {
    let files = PYTORCH_MODELS.iter().chain([&SCRIPT]);
    let dir = tempfile::tempdir()
        .and_then(|dir| {
            for (name, text) in files {
                std::fs::write(dir.path().join(name), text)?;
            }
            Ok(dir)
        })
        .map_err(|error| format!("PyTorch's script cannot be written to a temporary directory: {error}"))?;
    let path = dir.path().join(SCRIPT.0);
    let path = path.to_str().ok_or("the temporary directory's name is no UTF-8")?;
    let request = serde_json::to_string(request).map_err(|error| format!("PyTorch's request: {error}"))?;
    let response = run(python, &[path], &request, LIMIT)?;
    serde_json::from_str(&response).map_err(|error| format!("PyTorch's script answered no JSON: {error}"))
}

/// What the program writes to its standard output, if it succeeds in time.
fn run(program: &Path, args: &[&str], input: &str, limit: Duration) -> Result<String, String> {
    let name = program.display();
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("`{name}` does not start: {error}"))?;
    // Each pipe is served by a thread of its own, so that none fills up while another is waited for.
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.map(|mut pipe| pipe.write_all(input.as_bytes())));
        let stdout = scope.spawn(move || text(stdout));
        let stderr = scope.spawn(move || text(stderr));
        let ended = wait(&mut child, limit);
        let (stdout, stderr) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
        match ended {
            Some(true) => Ok(stdout),
            Some(false) => Err(format!("`{name}` failed: {}", stderr.trim().lines().last().unwrap_or("no message"))),
            None => Err(format!("`{name}` took longer than {} s", limit.as_secs())),
        }
    })
}

/// Whether it succeeded; `None`, after ending it, if it took longer than `limit`.
fn wait(child: &mut Child, limit: Duration) -> Option<bool> {
    let begin = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.success()),
            Ok(None) if begin.elapsed() < limit => std::thread::sleep(Duration::from_millis(10)),
            _ => {
                // It may have ended by itself in the meantime: then there is nothing left to do.
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
}

fn text(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        // What was read until an error is all there is.
        let _ = pipe.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_what_the_script_reads() {
        let work = [
            PeerRequest::gemm([2, 3, 4], true, Mode::Eager),
            PeerRequest::conv2d([1, 2, 8, 8], [4, 2, 3, 3], Conv2dParams::new(2, 1), Mode::Graph),
            PeerRequest::statistics([1, 2, 8, 8], Mode::Eager),
            PeerRequest::half_attention([1, 2, 3, 8], 5, false, Backend::CudnnAttention),
            PeerRequest::resnet18(4, Mode::Cpu),
            PeerRequest::autoencoder([64, 5, 32, 64], 3, Mode::Compiled),
            PeerRequest::unet(16, 1, Mode::CompiledGraph).with_arithmetic(Arithmetic::F16),
            PeerRequest::linear_relu([2, 3, 4], false, Mode::Eager).with_arithmetic(Arithmetic::Tf32),
        ];
        let json = serde_json::to_value(&work).unwrap();
        assert_eq!(
            json,
            serde_json::json!([
                { "op": "gemm", "shape": [2, 3, 4], "transposed": true, "mode": "eager" },
                { "op": "conv2d", "shape": [1, 2, 8, 8], "weight": [4, 2, 3, 3], "stride": [2, 2], "padding": [1, 1],
                  "dilation": [1, 1], "groups": 1, "mode": "graph" },
                { "op": "statistics", "shape": [1, 2, 8, 8], "mode": "eager" },
                { "op": "half_attention", "shape": [1, 2, 3, 8], "keys": 5, "causal": false,
                  "backend": "CUDNN_ATTENTION", "mode": "eager" },
                { "op": "resnet18", "batch": 4, "mode": "cpu" },
                { "op": "autoencoder", "shape": [64, 5, 32, 64], "batch": 3, "mode": "compiled" },
                { "op": "unet", "channels": 16, "batch": 1, "mode": "compiled_graph", "arithmetic": "f16" },
                { "op": "linear_relu", "shape": [2, 3, 4], "backward": false, "mode": "eager", "arithmetic": "tf32" }
            ])
        );
    }

    #[test]
    fn without_a_gpu_every_piece_of_work_has_the_reason() {
        let work =
            [PeerRequest::relu([1, 1, 2, 2], Mode::Eager), PeerRequest::batch_norm([1, 1, 2, 2], Mode::Compiled)];
        let measured = measure(&Device::sim(), &Bench::default(), &work);
        assert_eq!(measured.version, None);
        assert_eq!(measured.timings, vec![Err(ON_GPUS.to_owned()); 2]);
    }

    #[test]
    fn programs_that_are_not_there_fail_or_hang_are_sentences() {
        let missing = run(Path::new("no-such-python"), &[], "", LIMIT).unwrap_err();
        assert!(missing.starts_with("`no-such-python` does not start: "), "{missing}");
        let Some(python) = candidates().into_iter().find(|python| run(python, &["-c", ""], "", LIMIT).is_ok()) else {
            println!("skipped the rest: no Python on this machine");
            return;
        };
        let echo = "import sys; sys.stdout.write(sys.stdin.read())";
        let long = "x".repeat(1 << 20);
        assert_eq!(run(&python, &["-c", echo], &long, LIMIT).unwrap(), long);
        let failed = run(&python, &["-c", "raise ValueError('a reason')"], "", LIMIT).unwrap_err();
        assert!(failed.ends_with("failed: ValueError: a reason"), "{failed}");
        let hangs = run(&python, &["-c", "import time; time.sleep(60)"], "", Duration::from_millis(200)).unwrap_err();
        assert!(hangs.ends_with("took longer than 0 s"), "{hangs}");
    }

    #[test]
    fn the_script_answers_in_json_whether_pytorch_is_there_or_not() {
        let request =
            Request { device: None, threads: 1, queue: "warm", warm_up: 1, repeats: 1, limit_s: 1.0, work: &[] };
        let Some(python) = candidates().into_iter().find(|python| run(python, &["-c", ""], "", LIMIT).is_ok()) else {
            println!("skipped: no Python on this machine");
            return;
        };
        match ask(&python, &request).unwrap() {
            Response::Absent { absent } => assert!(absent.contains("PyTorch"), "{absent}"),
            Response::Measured { version, results } => assert!(!version.is_empty() && results.is_empty()),
        }
    }

    #[test]
    fn models_run_on_the_cpu_where_pytorch_is() {
        if python().is_err() {
            println!("skipped: no PyTorch on this machine");
            return;
        }
        let bench = Bench { warm_up: 0, repeats: 2, ..Bench::default() };
        let work = [
            PeerRequest::autoencoder([8, 2, 4, 6], 3, Mode::Cpu),
            PeerRequest::attention([1, 2, 16, 8], Mode::Cpu),
            PeerRequest::unet(16, 1, Mode::Eager),
        ];
        let measured = measure(&Device::sim(), &bench, &work);
        assert!(measured.version.is_some());
        for timing in &measured.timings[..2] {
            assert_eq!(timing.as_ref().map(Timing::clock), Ok(Clock::HostMonotonic));
        }
        assert_eq!(measured.timings[2], Err(ON_GPUS.to_owned()));
    }
}
