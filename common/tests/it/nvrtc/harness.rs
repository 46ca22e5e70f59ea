//! Cases, and running them.

use bytemuck::Pod;
use common::compile::KernelSource;
use common::device::{Device, Kernel};
use common::prelude::*;
use common::probe;
use half::{bf16, f16};

/// One launch of one kernel.
pub(super) struct Case {
    kernel: &'static str,
    grid: (u32, u32, u32),
    block: (u32, u32, u32),
    shared: u32,
    minimum: u32,
    precise: bool,
    args: Vec<Argument>,
    printed: Option<&'static str>,
}

enum Argument {
    Value(Vec<u8>),
    In(Vec<u8>),
    Out { start: Vec<u8>, expected: Box<dyn Expected> },
}

/// The expected contents of a buffer.
trait Expected {
    /// The first few differences.
    fn differences(&self, bytes: &[u8], fast: bool) -> Vec<String>;
}

/// Every byte; `rows` names the equal parts of the buffer.
struct Exact {
    element: usize,
    rows: &'static [&'static str],
    bytes: Vec<u8>,
}

struct Anything;

/// A value and the tolerance for a result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Near {
    pub value: f64,
    /// At NVRTC's default options.
    pub bound: f64,
    /// With `--use_fast_math`.
    pub fast: f64,
}

struct Close {
    read: fn(&[u8]) -> Vec<f64>,
    rows: Vec<&'static str>,
    values: Vec<Near>,
}

/// Element types that a result can be read as for a comparison within bounds.
pub(super) trait Number: Pod {
    fn to_f64(self) -> f64;
}

impl Number for f32 {
    fn to_f64(self) -> f64 {
        self.into()
    }
}

impl Number for f64 {
    fn to_f64(self) -> f64 {
        self
    }
}

impl Number for f16 {
    fn to_f64(self) -> f64 {
        self.into()
    }
}

impl Number for bf16 {
    fn to_f64(self) -> f64 {
        self.into()
    }
}

impl Case {
    /// One block of 64 threads unless specified.
    pub(super) fn new(kernel: &'static str) -> Case {
        Case {
            kernel,
            grid: (1, 1, 1),
            block: (64, 1, 1),
            shared: 0,
            minimum: 0,
            precise: false,
            args: Vec::new(),
            printed: None,
        }
    }

    pub(super) fn grid(mut self, x: u32, y: u32, z: u32) -> Case {
        self.grid = (x, y, z);
        self
    }

    pub(super) fn block(mut self, x: u32, y: u32, z: u32) -> Case {
        self.block = (x, y, z);
        self
    }

    /// Bytes of dynamic shared memory.
    pub(super) fn shared(mut self, bytes: u32) -> Case {
        self.shared = bytes;
        self
    }

    /// Minimum architecture of the kernel.
    pub(super) fn minimum(mut self, architecture: u32) -> Case {
        self.minimum = architecture;
        self
    }

    /// `--use_fast_math` changes the results: loaded with it, not run.
    pub(super) fn precise(mut self) -> Case {
        self.precise = true;
        self
    }

    pub(super) fn value<T: Pod>(mut self, value: T) -> Case {
        self.args.push(Argument::Value(bytemuck::bytes_of(&value).to_vec()));
        self
    }

    pub(super) fn input<T: Pod>(mut self, values: &[T]) -> Case {
        self.args.push(Argument::In(bytemuck::cast_slice(values).to_vec()));
        self
    }

    /// A buffer that the kernel fills with exactly these values.
    pub(super) fn out<T: Pod>(self, expected: &[T]) -> Case {
        self.out_rows(&[], expected)
    }

    /// [`Case::out`], in named parts of equal length.
    pub(super) fn out_rows<T: Pod>(self, rows: &'static [&'static str], expected: &[T]) -> Case {
        let poison = vec![0xff; size_of_val(expected)];
        self.exact(poison, rows, expected)
    }

    /// A buffer that holds `start` before the launch and `expected` afterwards.
    pub(super) fn inout<T: Pod>(self, start: &[T], expected: &[T]) -> Case {
        assert_eq!(start.len(), expected.len(), "{}", self.kernel);
        self.exact(bytemuck::cast_slice(start).to_vec(), &[], expected)
    }

    /// A buffer whose contents afterwards depend on the order of threads.
    pub(super) fn scratch(mut self, bytes: usize) -> Case {
        self.args.push(Argument::Out { start: vec![0xff; bytes], expected: Box::new(Anything) });
        self
    }

    fn exact<T: Pod>(mut self, start: Vec<u8>, rows: &'static [&'static str], expected: &[T]) -> Case {
        assert!(rows.is_empty() || expected.len().is_multiple_of(rows.len()), "{}", self.kernel);
        let bytes = bytemuck::cast_slice(expected).to_vec();
        let expected = Box::new(Exact { element: size_of::<T>(), rows, bytes });
        self.args.push(Argument::Out { start, expected });
        self
    }

    /// A buffer of `T` that the kernel fills with approximately these values; in named parts of equal length.
    pub(super) fn near<T: Number>(mut self, rows: Vec<&'static str>, values: Vec<Near>) -> Case {
        assert!(rows.is_empty() || values.len().is_multiple_of(rows.len()), "{}", self.kernel);
        fn read<T: Number>(bytes: &[u8]) -> Vec<f64> {
            bytemuck::pod_collect_to_vec::<u8, T>(bytes).into_iter().map(T::to_f64).collect()
        }
        let start = vec![0xff; values.len() * size_of::<T>()];
        self.args.push(Argument::Out { start, expected: Box::new(Close { read: read::<T>, rows, values }) });
        self
    }

    /// The text that the kernel prints. (A GPU prints to the standard output, where the test can't see it.)
    pub(super) fn prints(mut self, text: &'static str) -> Case {
        self.printed = Some(text);
        self
    }

    /// Descriptions of the errors.
    fn run(&self, device: &Device, kernel: &Kernel, fast: bool) -> Result<Vec<String>> {
        enum Given<'a> {
            Value(&'a [u8]),
            In(Buffer<u8>),
            Out(Buffer<u8>, &'a dyn Expected),
        }
        let stream = device.stream();
        let mut given = Vec::new();
        for arg in &self.args {
            given.push(match arg {
                Argument::Value(bytes) => Given::Value(bytes),
                Argument::In(bytes) => Given::In(stream.clone_htod(bytes)?),
                Argument::Out { start, expected } => Given::Out(stream.clone_htod(start)?, &**expected),
            });
        }
        let mut launch = stream.launch_builder(kernel);
        for arg in &mut given {
            match arg {
                Given::Value(bytes) => launch.arg_bytes(bytes),
                Given::In(buffer) => launch.arg(&*buffer),
                Given::Out(buffer, _) => launch.arg(buffer),
            };
        }
        let config = LaunchConfig { grid_dim: self.grid, block_dim: self.block, shared_mem_bytes: self.shared };
        // SAFETY: each case is written for its kernel, and the simulator, which checks every access, runs it without findings.
        unsafe { launch.launch(config)? };
        device.synchronize()?;
        let mut wrong = Vec::new();
        for (i, arg) in given.iter().enumerate() {
            if let Given::Out(buffer, expected) = arg {
                let differences = expected.differences(&stream.clone_dtoh(buffer)?, fast);
                wrong.extend(differences.into_iter().map(|difference| format!("parameter {i}: {difference}")));
            }
        }
        let printed = device.take_output();
        if device.is_sim() && printed != self.printed.unwrap_or_default() {
            wrong.push(format!("it printed {printed:?}"));
        }
        Ok(wrong)
    }
}

/// `[row, index]`, or only the index.
fn place(rows: &[&str], count: usize, index: usize) -> String {
    match rows.len() {
        0 => format!("[{index}]"),
        rows_here => {
            let length = count / rows_here;
            format!("{} [{}]", rows[index / length], index % length)
        }
    }
}

impl Expected for Exact {
    fn differences(&self, bytes: &[u8], _fast: bool) -> Vec<String> {
        let hex = |bytes: &[u8]| bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect::<String>();
        let count = self.bytes.len() / self.element;
        let pairs = bytes.chunks(self.element).zip(self.bytes.chunks(self.element)).enumerate();
        pairs
            .filter(|(_, (actual, expected))| actual != expected)
            .take(4)
            .map(|(i, (a, e))| format!("{}: 0x{} instead of 0x{}", place(self.rows, count, i), hex(a), hex(e)))
            .collect()
    }
}

impl Expected for Anything {
    fn differences(&self, _bytes: &[u8], _fast: bool) -> Vec<String> {
        Vec::new()
    }
}

impl Expected for Close {
    fn differences(&self, bytes: &[u8], fast: bool) -> Vec<String> {
        let pairs = (self.read)(bytes).into_iter().zip(&self.values).enumerate();
        pairs
            .filter_map(|(i, (actual, near))| {
                let bound = if fast { near.fast } else { near.bound };
                let difference = (actual - near.value).abs();
                // Written so that NaN is a difference.
                let passes = difference <= bound;
                (!passes).then(|| {
                    let place = place(&self.rows, self.values.len(), i);
                    format!(
                        "{place}: {actual:e} instead of {:e} (off by {difference:.2e}, allowed {bound:.2e})",
                        near.value
                    )
                })
            })
            .take(6)
            .collect()
    }
}

/// Whether kernels can be compiled here; if not, prints why.
///
/// # Panics
/// If they cannot and `REQUIRE_NVRTC=1`.
pub(super) fn nvrtc_is_here() -> bool {
    let missing = probe::report().into_iter().find(|c| ["NVRTC", "CUDA headers"].contains(&c.name) && !c.present);
    let Some(missing) = missing else {
        return true;
    };
    let reason = format!("{} not found; install with: {}", missing.name, missing.remedy);
    assert!(!std::env::var("REQUIRE_NVRTC").is_ok_and(|value| value == "1"), "REQUIRE_NVRTC=1, but {reason}");
    println!("skipped: {reason}");
    false
}

/// Compiles `text` for each architecture, at the project's default options and with `--use_fast_math`; all its kernels must
/// load and have a case, and all cases must give the expected results.
pub(super) fn check(file: &str, text: &str, cases: &[Case], architectures: &[u32], device: impl Fn(u32) -> Device) {
    let mut failures = Vec::new();
    for &architecture in architectures {
        for fast in [false, true] {
            let option = if fast { " --use_fast_math" } else { "" };
            let variant = format!("{file} for compute_{architecture}{option}");
            let mut fail = |what: String| failures.push(format!("{variant}: {what}"));
            let head = format!("// nvrtc: --gpu-architecture=compute_{architecture}{option}\n");
            let source = KernelSource::from_text(file.trim_end_matches(".cu"), head + text);
            let device = device(architecture);
            let module = match device.load(&source) {
                Ok(module) => module,
                Err(error) => {
                    fail(error.to_string());
                    continue;
                }
            };
            for name in module.kernel_names() {
                let mut its_cases = cases.iter().filter(|case| case.kernel == name).peekable();
                if its_cases.peek().is_none() {
                    fail(format!("{name} has no case"));
                }
                let kernel = match module.kernel(name) {
                    Ok(kernel) => kernel,
                    Err(error) => {
                        fail(error.to_string());
                        continue;
                    }
                };
                for case in its_cases.filter(|case| !(fast && case.precise)) {
                    match case.run(&device, &kernel, fast) {
                        Ok(wrong) => wrong.into_iter().for_each(|wrong| fail(format!("{name}: {wrong}"))),
                        Err(error) => fail(format!("{name}: {error}")),
                    }
                }
            }
            for case in cases.iter().filter(|case| case.minimum <= architecture) {
                if !module.kernel_names().any(|name| name == case.kernel) {
                    fail(format!("there is no kernel {}", case.kernel));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// `rows` of `n` values, each a function of the index, one after another.
pub(super) fn rows<T>(n: usize, functions: &[&dyn Fn(usize) -> T]) -> Vec<T> {
    functions.iter().flat_map(|f| (0..n).map(f)).collect()
}

/// Distinct pseudo-random words, the same on every machine.
pub(super) fn words(n: usize, seed: u64) -> Vec<u64> {
    (0..n as u64)
        .map(|i| {
            let mut z = (seed << 32).wrapping_add(i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        })
        .collect()
}

/// Numbers in [low, high).
pub(super) fn uniform(n: usize, seed: u64, low: f64, high: f64) -> Vec<f64> {
    words(n, seed).into_iter().map(|word| low + (high - low) * (word >> 11) as f64 / (1u64 << 53) as f64).collect()
}

/// [`uniform`] in f32.
pub(super) fn uniform32(n: usize, seed: u64, low: f64, high: f64) -> Vec<f32> {
    uniform(n, seed, low, high).into_iter().map(|value| value as f32).collect()
}
