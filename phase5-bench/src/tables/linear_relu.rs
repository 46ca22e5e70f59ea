//! `linear-relu`: y = relu(x·Wᵀ + b), fused and not, with its gradients, compared with cuBLAS and PyTorch.

mod gradients;

use std::time::Duration;

use bench::ladder::{self, Cost, Expected, columns, if_supported, milliseconds, verdict};
use bench::peer::{Cublas, TensorBlas};
use bench::table::{Cell, ColumnSpec, TableBuilder};
use bench::timing::{Bench, NO_CLOCK, Queue, Timing};
use common::cpu;
use common::prelude::*;
use common::progress::Progress;
use common::reference::{Gemm as Reference, TensorGemm};
use phase2_conv_bn::linear::traffic::Traffic;
use phase2_conv_bn::linear::{LIBRARY, NAIVE, Step, TUNED, add_bias_and_clip, load_bias_and_clip};
use phase4_fusion::gemm::{Activation, Epilogue, Layout, Tuned};

use crate::spec::{Context, FinishedTable, InSummary, Make, Need, TableSpec};
use crate::tables::peers::{self, CPU, about_cpu, is_quick, on_cpu};
use crate::torch::Arithmetic::{self, F16, F32, Tf32};
use crate::torch::{Mode, PeerRequest};
use gradients::{Gradients, Size, Version};

const SIZES: [Size; 3] = [[256, 256, 512], [1024, 784, 2048], [8192, 4096, 4096]];
/// On the simulator: one that tiles fill, and a ragged one.
const SIMULATED: [Size; 2] = [[64, 64, 128], [33, 50, 67]];

/// `256×256→512`, as in SPEC.
pub(crate) fn name([batch, inputs, outputs]: Size) -> String {
    format!("{batch}×{inputs}→{outputs}")
}

/// The size of this name, if it is measured.
pub(crate) fn from_name(label: &str) -> Option<Size> {
    SIZES.into_iter().find(|&size| name(size) == label)
}

pub(crate) fn flops([batch, inputs, outputs]: Size) -> f64 {
    2.0 * batch as f64 * inputs as f64 * outputs as f64
}

/// Cost of the forward pass of the measured size of this name.
pub(crate) fn roofline_cost(name: &str) -> Option<Cost> {
    let size @ [batch, inputs, outputs] = from_name(name)?;
    Some(Cost {
        flops: flops(size),
        bytes: Traffic::ideal(batch, inputs, outputs) as f64,
        values: (batch * outputs) as f64,
    })
}

const NOT_COUNTED: &str = "a GPU does not count; the simulator does";

/// Batch, inputs and outputs of a row.
pub(crate) const SIZE: ColumnSpec = ColumnSpec::text("size", "batch×in→out");
/// One of [`versions`].
pub(crate) const VERSION: ColumnSpec = ColumnSpec::text("version", "version");
/// Time on the device only.
pub(crate) const TOTAL: ColumnSpec = ColumnSpec::number("total_ms", "total ms", 4);
const IDLE: ColumnSpec = ColumnSpec::number("idle_ms", "idle ms", 4);
const OVER_EAGER: ColumnSpec = ColumnSpec::number("over_eager", "× eager", 2).level_at(1);
/// 10⁶ bytes that must move.
pub(crate) const MB: ColumnSpec = ColumnSpec::number("mb", "MB", 1).on_gpu();

const COLUMNS: &[ColumnSpec] =
    &[SIZE, VERSION, TOTAL, IDLE, OVER_EAGER, columns::GBPS, columns::MB_ASKED.on_simulator(), MB, columns::CHECK];

/// The layer that the summary shows.
pub(crate) const IN_SUMMARY: InSummary = InSummary { gpu: "1024×784→2048", simulator: "33×50→67" };

/// Names of the versions in the table; other tables look for them.
pub(crate) mod versions {
    pub(crate) const NAIVE: &str = "v1 naive";
    pub(crate) const TUNED: &str = "v2 tuned";
    pub(crate) const LIBRARY: &str = "library";
    /// cuBLASLt with bias and ReLU in its epilogue.
    pub(crate) const LIBRARY_LT: &str = crate::tables::peers::CUBLASLT;
    pub(crate) const TENSOR_CORES_LT: &str = "tf32 cuBLASLt";
    pub(crate) const LIBRARY_GEMM: &str = "· its GEMM";
    pub(crate) const LIBRARY_RELU: &str = "· its ReLU";
    pub(crate) const EAGER: &str = "eager";
    pub(crate) const COMPILED: &str = "compiled";
    pub(crate) const AUTOTUNED: &str = "tuned";
    pub(crate) const TENSOR_CORES: &str = "tf32 v3";
    pub(crate) const TENSOR_CORES_EAGER: &str = "tf32 eager";
    pub(crate) const TENSOR_CORES_COMPILED: &str = "tf32 compiled";
    pub(crate) const HALF: &str = "f16 v3";
    pub(crate) const HALF_LT: &str = "f16 cuBLASLt";
    pub(crate) const HALF_EAGER: &str = "f16 eager";
    pub(crate) const HALF_COMPILED: &str = "f16 compiled";
    pub(crate) const BACKWARD: &str = "∇ fused";
    pub(crate) const SEPARATE: &str = "∇ separate";
    pub(crate) const WRITTEN: &str = "∇ written";
    pub(crate) const BACKWARD_EAGER: &str = "∇ eager";
    pub(crate) const BACKWARD_COMPILED: &str = "∇ compiled";
    pub(crate) const TENSOR_CORES_BACKWARD: &str = "tf32 ∇ v3";
    pub(crate) const TENSOR_CORES_BACKWARD_EAGER: &str = "tf32 ∇ eager";
    pub(crate) const TENSOR_CORES_BACKWARD_COMPILED: &str = "tf32 ∇ compiled";
}

/// Computation of a version, in f32, in f32 that the multiplication rounds to tf32, or in f16.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Forward(Arithmetic),
    /// The gradients of x, W and b.
    Backward(Arithmetic),
}

impl Pass {
    const ALL: [Pass; 5] =
        [Pass::Forward(F32), Pass::Forward(Tf32), Pass::Forward(F16), Pass::Backward(F32), Pass::Backward(Tf32)];

    /// Whether the summary shows it.
    fn is_in_summary(self) -> bool {
        matches!(self, Pass::Forward(F32 | F16))
    }

    /// Bytes that it must move, in one launch or with a second one over y.
    fn bytes(self, size: Size, second_pass: bool) -> u64 {
        match self {
            Pass::Forward(F16) => forward_bytes(size, second_pass) / 2,
            Pass::Forward(_) => forward_bytes(size, second_pass),
            Pass::Backward(_) if second_pass => Version::Separate.bytes(size),
            Pass::Backward(_) => Version::Fused.bytes(size),
        }
    }
}

/// One row: the time of a version, or of a part of one.
struct Row {
    version: &'static str,
    pass: Pass,
    /// Time on the device only.
    total: Result<f64, String>,
    /// On an idle device, the launch included.
    idle: Result<f64, String>,
    /// Bytes that it must move: each tensor once per kernel that touches it.
    bytes: u64,
    /// Bytes that its lanes requested, on the simulator.
    asked: Result<f64, String>,
    check: Result<&'static str, String>,
}

/// Milliseconds, or the reason why there are none.
fn ms(timing: &Timing) -> Result<f64, String> {
    timing.median_ms().ok_or_else(|| NO_CLOCK.to_owned())
}

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "linear-relu",
    shows: "fused Linear+ReLU, forward and backward: ms, bandwidth",
    uses: &[Need::Gpu, Need::Cublas, Need::CublasLt, Need::PyTorch],
    columns: COLUMNS,
    make: Make::Measured(run),
};

/// Makes the table.
fn run(context: &Context) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let sizes: &[Size] = if device.is_cuda() { &SIZES } else { &SIMULATED };
    let sizes = context.chosen(sizes, IN_SUMMARY, name);
    let progress = Progress::new(sizes.len() as u64 * 13 + 1, "linear-relu");
    progress.set_message("linear-relu: PyTorch");
    let mut measure =
        Measure { context, device, warm: bench(Queue::Warm), idle: bench(Queue::Empty), wrong: Vec::new() };
    let pytorch = measure.pytorch(&sizes);
    progress.inc(1);

    let title = format!("linear-relu: y = relu(x·Wᵀ + b) in f32 on {}", device.short_name());
    let mut table = context.table(title, COLUMNS);
    for (&size, mut peers) in sizes.iter().zip(pytorch.rows) {
        for pass in Pass::ALL.into_iter().filter(|pass| !context.only_summary || pass.is_in_summary()) {
            let mut rows = match pass {
                Pass::Forward(F32) => measure.forward(size, &progress)?,
                Pass::Forward(arithmetic) => measure.tensor_cores(size, &progress, arithmetic)?,
                Pass::Backward(arithmetic) => measure.backward(size, &progress, arithmetic)?,
            };
            rows.extend(peers.extract_if(.., |row| row.pass == pass));
            let is_eager = |row: &&Row| {
                let names = [
                    versions::EAGER,
                    versions::TENSOR_CORES_EAGER,
                    versions::HALF_EAGER,
                    versions::BACKWARD_EAGER,
                    versions::TENSOR_CORES_BACKWARD_EAGER,
                ];
                names.contains(&row.version)
            };
            let eager = rows.iter().find(is_eager).map_or_else(|| Err(NO_CLOCK.to_owned()), |row| row.total.clone());
            for row in &rows {
                append(&mut table, size, row, &eager);
            }
        }
    }
    notes(&mut table, device, pytorch.version);
    Ok(FinishedTable { table: table.finish(), wrong: measure.wrong })
}

fn bench(queue: Queue) -> Bench {
    Bench { queue, limit: Duration::from_secs(2), ..Bench::default() }
}

/// Appends a row, whose time is compared with that of PyTorch's eager version.
fn append(table: &mut TableBuilder, size: Size, row: &Row, eager: &Result<f64, String>) {
    let over_eager = row.total.clone().and_then(|total| Ok(eager.clone()? / total));
    let rate = row.total.clone().map(|total| row.bytes as f64 / (total * 1e-3) / 1e9);
    table
        .row()
        .set(SIZE, name(size))
        .set(VERSION, row.version)
        .set(TOTAL, row.total.clone())
        .set(IDLE, row.idle.clone())
        .set(OVER_EAGER, over_eager)
        .set(columns::GBPS, rate)
        .set(columns::MB_ASKED, row.asked.clone().map(|bytes| bytes / 1e6))
        .set(MB, row.bytes as f64 / 1e6)
        .set(columns::CHECK, row.check.clone().map_or_else(Cell::Absent, Cell::from))
        .finish("not measured");
}

fn notes(table: &mut TableBuilder, device: &Device, pytorch: Option<String>) {
    table.note(
        "v1: one thread per output, fused. v2: the GEMM ladder's best with bias and ReLU as its epilogue. library: cuBLAS, then a \
         kernel for bias and ReLU. cuBLASLt: both in its epilogue, by the fastest of its first 8 suggestions, each measured. eager, compiled, tuned (max-autotune): PyTorch. tf32: f32 in memory, rounded by the tensor cores; f16: in memory too; v3: their ladder's best, \
         fused. ∇: the gradients of x, W and b; fused: masked as they are loaded, in two launches; separate: the same with the masked \
         gradient written first; written: that with the ladder's best products, of which dW's reads a transposed A; tf32 ∇ v3: on \
         tensor cores, which need W, x and the masked gradient transposed too.",
    );
    if device.is_cuda() {
        table.note(about_cpu());
    }
    table.note(if device.is_sim() {
        "MB asked: what the lanes of the simulator loaded and stored, 10⁶ bytes."
    } else {
        "total ms: medians by events of the device alone, launches queued ahead, warm. idle ms: on an idle device, the launch \
         included. MB: each tensor once for each kernel that touches it; GB/s: that by the total."
    });
    if let Some(version) = pytorch {
        table.note(format!("PyTorch {version}, without TF32 but where it is named, in a process of its own."));
    }
}

/// Device and settings of the measurement, and its errors.
struct Measure<'a> {
    context: &'a Context,
    device: &'a Device,
    warm: Bench,
    idle: Bench,
    wrong: Vec<String>,
}

/// PyTorch's rows for each size.
struct PyTorch {
    version: Option<String>,
    rows: Vec<Vec<Row>>,
}

impl Measure<'_> {
    fn pytorch(&self, sizes: &[Size]) -> PyTorch {
        const ROWS: [(&str, Pass, Mode); 11] = [
            (versions::EAGER, Pass::Forward(F32), Mode::Eager),
            (versions::COMPILED, Pass::Forward(F32), Mode::Compiled),
            (versions::AUTOTUNED, Pass::Forward(F32), Mode::Autotuned),
            (versions::TENSOR_CORES_EAGER, Pass::Forward(Tf32), Mode::Eager),
            (versions::TENSOR_CORES_COMPILED, Pass::Forward(Tf32), Mode::Autotuned),
            (versions::HALF_EAGER, Pass::Forward(F16), Mode::Eager),
            (versions::HALF_COMPILED, Pass::Forward(F16), Mode::Autotuned),
            (versions::BACKWARD_EAGER, Pass::Backward(F32), Mode::Eager),
            (versions::BACKWARD_COMPILED, Pass::Backward(F32), Mode::Compiled),
            (versions::TENSOR_CORES_BACKWARD_EAGER, Pass::Backward(Tf32), Mode::Eager),
            (versions::TENSOR_CORES_BACKWARD_COMPILED, Pass::Backward(Tf32), Mode::Compiled),
        ];
        let is_wanted =
            |&(_, pass, mode): &(_, Pass, Mode)| !self.context.only_summary || pass.is_in_summary() && is_quick(mode);
        let wanted: Vec<_> = ROWS.into_iter().filter(is_wanted).collect();
        let request = |size, &(_, pass, mode): &(_, Pass, Mode)| {
            let (is_backward, arithmetic) = match pass {
                Pass::Forward(arithmetic) => (false, arithmetic),
                Pass::Backward(arithmetic) => (true, arithmetic),
            };
            PeerRequest::linear_relu(size, is_backward, mode).with_arithmetic(arithmetic)
        };
        let work: Vec<PeerRequest> =
            sizes.iter().flat_map(|&size| wanted.iter().map(move |row| request(size, row))).collect();
        let (warm, idle) = (
            self.context.pytorch.measure(self.device, &self.warm, &work),
            self.context.pytorch.measure(self.device, &self.idle, &work),
        );
        let elsewhere = || "measured in a process of its own, which was asked for the total".to_owned();
        let timings = warm.timings.chunks(wanted.len()).zip(idle.timings.chunks(wanted.len()));
        let rows = sizes.iter().zip(timings).map(|(&size, (warm, idle))| {
            let all = wanted.iter().zip(warm).zip(idle).map(|((&(version, pass, _), warm), idle)| Row {
                version,
                pass,
                total: milliseconds(warm),
                idle: milliseconds(idle),
                bytes: pass.bytes(size, true),
                asked: Err(elsewhere()),
                check: Err(warm.as_ref().err().cloned().unwrap_or_else(elsewhere)),
            });
            all.collect()
        });
        PyTorch { version: warm.version, rows: rows.collect() }
    }

    /// On tensor cores, fused.
    fn tensor_cores(&mut self, size: Size, progress: &Progress, arithmetic: Arithmetic) -> crate::Result<Vec<Row>> {
        let [batch, inputs, outputs] = size;
        let (device, stream, pass) = (self.device, self.device.stream(), Pass::Forward(arithmetic));
        let (element, version, by_library) = match arithmetic {
            F16 => (ElementType::F16, versions::HALF, versions::HALF_LT),
            _ => (ElementType::F32, versions::TENSOR_CORES, versions::TENSOR_CORES_LT),
        };
        progress.set_message(format!("linear-relu: {version} at {}", name(size)));
        progress.inc(1);
        let bytes = pass.bytes(size, false);
        let random = |shape: &[usize], seed| Tensor::random(shape, seed).to_type(element);
        let (x, w, b) = (random(&[batch, inputs], 1)?, random(&[outputs, inputs], 2)?, random(&[outputs], 3)?);
        let exact = |tensor: &Tensor| tensor.to_type(ElementType::F32);
        let (exact_x, exact_w, shift) = (exact(&x)?, exact(&w)?, exact(&b)?);
        let product = Reference {
            transposed: true,
            ..Reference::new(exact_x.as_slice()?, exact_w.as_slice()?, batch, outputs, inputs)
        };
        let reference = TensorGemm {
            shift: Some(shift.as_slice()?),
            activation: Activation::Relu,
            ..TensorGemm::new(product, element, element)
        };
        let expected = Expected::tensor_gemm(&reference, 4)?;
        let (x, w, b) = (x.to_device(device)?, w.to_device(device)?, b.to_device(device)?);
        let shift = shift.to_device(device)?;
        let mut y = Tensor::empty_of(device, &[batch, outputs], element, MemoryFormat::default())?;
        let epilogue = Epilogue { shift: Some(&shift), activation: Activation::Relu, ..Epilogue::default() };
        let ours = match if_supported(Tuned::load(device))? {
            Ok(tuned) => {
                let mut launch = |y: &mut Tensor| tuned.launch(&stream, &x, &w, Layout::Transposed, &epilogue, y);
                let outcome = ladder::run(&stream, &self.warm, &mut y, &expected, &mut launch)?;
                self.row(version, size, bytes, outcome, || launch(&mut y))?
            }
            Err(reason) => Row::absent(version, bytes, &reason),
        };
        let library = if_supported(TensorBlas::open(&stream))?;
        let suggested = self.suggested(by_library, size, progress, library, &expected, [&x, &w, &b], &mut y)?;
        Ok([ours, suggested].map(|row| Row { pass, bytes, ..row }).into())
    }

    /// cuBLASLt's fastest suggestion of relu(x·Wᵀ + b), in the library's arithmetic.
    #[expect(clippy::too_many_arguments, reason = "the operands of one layer, and what it has to compute")]
    fn suggested(
        &mut self,
        version: &'static str,
        size: Size,
        progress: &Progress,
        library: Result<TensorBlas, String>,
        expected: &Expected,
        [x, w, b]: [&Tensor; 3],
        y: &mut Tensor,
    ) -> crate::Result<Row> {
        progress.set_message(format!("linear-relu: {version} at {}", name(size)));
        progress.inc(1);
        let (stream, bytes) = (self.device.stream(), forward_bytes(size, false));
        let suggestion = library.as_ref().map_err(String::clone).and_then(|library| {
            let suggestions = library.suggestions_with_bias(x, w, true, y);
            peers::fastest(suggestions, &stream, |suggestion| suggestion.launch_with_bias(x, w, b, y))
        });
        let suggestion = match suggestion {
            Ok(suggestion) => suggestion,
            Err(reason) => return Ok(Row::absent(version, bytes, &reason)),
        };
        let outcome = ladder::run(&stream, &self.warm, y, expected, |y| suggestion.launch_with_bias(x, w, b, y))?;
        self.row(version, size, bytes, outcome, || suggestion.launch_with_bias(x, w, b, y))
    }

    fn forward(&mut self, size: Size, progress: &Progress) -> crate::Result<Vec<Row>> {
        let [batch, inputs, outputs] = size;
        let (device, stream) = (self.device, self.device.stream());
        let (x, w) = (Tensor::random(&[batch, inputs], 1), Tensor::random(&[outputs, inputs], 2));
        let b = Tensor::random(&[outputs], 3);
        let reference = Reference {
            transposed: true,
            bias: Some(b.as_slice()?),
            relu: true,
            ..Reference::new(x.as_slice()?, w.as_slice()?, batch, outputs, inputs)
        };
        let expected = Expected::gemm(&reference, 4)?;
        let mut rows = Vec::new();
        if device.is_cuda() {
            progress.set_message(format!("linear-relu: {CPU} at {}", name(size)));
            let (timing, y) = on_cpu(self.context, || cpu::linear_relu(&x, &w, &b))?;
            let (_, word) = verdict(&format!("{CPU}, {}", name(size)), expected.check(y.as_slice()?), &mut self.wrong);
            let bytes = forward_bytes(size, false);
            rows.push(Row { total: ms(&timing), check: Ok(word), ..Row::absent(CPU, bytes, "nothing is launched") });
        }
        let (x, w, b) = (x.to_device(device)?, w.to_device(device)?, b.to_device(device)?);
        let mut y = Tensor::empty_on(device, &[batch, outputs])?;
        for (version, step, fused) in
            [(versions::NAIVE, &NAIVE, true), (versions::TUNED, &TUNED, true), (versions::LIBRARY, &LIBRARY, false)]
        {
            progress.set_message(format!("linear-relu: {version} at {}", name(size)));
            progress.inc(1);
            let bytes = forward_bytes(size, !fused);
            let mut asked = Err(NOT_COUNTED.to_owned());
            if device.is_sim() {
                asked = if_supported(Traffic::measure(step, batch, inputs, outputs))?.map(|it| it.requested as f64);
            }
            let layer = match if_supported(step.load(device))? {
                Ok(layer) => layer,
                Err(reason) => {
                    rows.push(Row::absent(version, bytes, &reason));
                    continue;
                }
            };
            let outcome =
                ladder::run(&stream, &self.warm, &mut y, &expected, |y| layer.launch(&stream, &x, &w, &b, y))?;
            let ran = matches!(outcome, ladder::Outcome::Ran { .. });
            let mut row = self.row(version, size, bytes, outcome, || layer.launch(&stream, &x, &w, &b, &mut y))?;
            if ran {
                row.asked = asked;
            }
            rows.push(row);
            if ran && !fused {
                rows.extend(self.parts(size, step, &stream, &x, &w, &b, &mut y)?);
            }
        }
        let library = if_supported(TensorBlas::open(&stream))?.map(TensorBlas::in_f32);
        rows.push(self.suggested(versions::LIBRARY_LT, size, progress, library, &expected, [&x, &w, &b], &mut y)?);
        Ok(rows)
    }

    /// The row of a forward version that has run, or not. `launch` runs it again, on an idle device.
    fn row(
        &mut self,
        version: &'static str,
        size: Size,
        bytes: u64,
        outcome: ladder::Outcome,
        launch: impl FnMut() -> common::Result<()>,
    ) -> crate::Result<Row> {
        Ok(match outcome {
            ladder::Outcome::Unsupported(reason) => Row::absent(version, bytes, &reason),
            ladder::Outcome::Wrong(mismatch) => {
                let what = format!("{version} at {}", name(size));
                let (_, word) = verdict(&what, Err(mismatch), &mut self.wrong);
                Row { check: Ok(word), ..Row::absent(version, bytes, "it is wrong, and so was not timed") }
            }
            ladder::Outcome::Ran { timing, .. } => Row {
                total: ms(&timing),
                idle: ms(&self.idle.measure(&self.device.stream(), launch)?),
                check: Ok("ok"),
                ..Row::absent(version, bytes, "counted for the version in f32")
            },
        })
    }

    /// The library's product and the operations that follow it, each separately.
    #[expect(clippy::too_many_arguments, reason = "the operands of one layer")]
    fn parts(
        &self,
        size: Size,
        step: &Step,
        stream: &Stream,
        x: &Tensor,
        w: &Tensor,
        b: &Tensor,
        y: &mut Tensor,
    ) -> crate::Result<Vec<Row>> {
        let Some(source) = step.source() else { return Ok(Vec::new()) };
        let (cublas, relu) = (Cublas::open(stream)?, load_bias_and_clip(self.device, source)?);
        let whole = forward_bytes(size, false);
        let second_pass = forward_bytes(size, true) - whole;
        let mut gemm = || cublas.gemm(x, w, true, 1.0, 0.0, y);
        let gemm = self.part(stream, versions::LIBRARY_GEMM, whole, &mut gemm)?;
        let mut relu = || add_bias_and_clip(stream, &relu, b, y);
        Ok(vec![gemm, self.part(stream, versions::LIBRARY_RELU, second_pass, &mut relu)?])
    }

    fn part(
        &self,
        stream: &Stream,
        version: &'static str,
        bytes: u64,
        launch: &mut dyn FnMut() -> common::Result<()>,
    ) -> crate::Result<Row> {
        let (warm, idle) = (self.warm.measure(stream, &mut *launch)?, self.idle.measure(stream, &mut *launch)?);
        let reason = || "checked and counted as part of the whole".to_owned();
        Ok(Row {
            version,
            pass: Pass::Forward(F32),
            total: ms(&warm),
            idle: ms(&idle),
            bytes,
            asked: Err(reason()),
            check: Err(reason()),
        })
    }

    /// The versions of the backward pass, in f32 or on tensor cores.
    fn backward(&mut self, size: Size, progress: &Progress, arithmetic: Arithmetic) -> crate::Result<Vec<Row>> {
        let (device, stream) = (self.device, self.device.stream());
        let mut gradients = Gradients::seeded(device, size)?;
        let (pass, on_tensor_cores) = (Pass::Backward(arithmetic), arithmetic != F32);
        let versions: &[_] = if on_tensor_cores {
            &[(versions::TENSOR_CORES_BACKWARD, Version::TensorCores)]
        } else {
            &[
                (versions::BACKWARD, Version::Fused),
                (versions::SEPARATE, Version::Separate),
                (versions::WRITTEN, Version::Written),
            ]
        };
        let mut rows = Vec::new();
        for &(version, kind) in versions {
            progress.set_message(format!("linear-relu: {version} at {}", name(size)));
            progress.inc(1);
            let bytes = kind.bytes(size);
            gradients.poison(&stream)?;
            let (warm, idle) = match self.timed(&mut gradients, kind)? {
                Ok(timings) => timings,
                Err(reason) => {
                    rows.push(Row { pass, ..Row::absent(version, bytes, &reason) });
                    continue;
                }
            };
            let mut check = "ok";
            for (what, result) in gradients.check(size, on_tensor_cores)? {
                let (_, word) = verdict(&format!("{what} of {version} at {}", name(size)), result, &mut self.wrong);
                check = if word == "ok" { check } else { word };
            }
            let counted = device.is_sim().then(|| Gradients::traffic(kind, size)).transpose()?;
            let asked = counted.map(|it| it.requested as f64).ok_or_else(|| NOT_COUNTED.to_owned());
            rows.push(Row { version, pass, total: ms(&warm), idle: ms(&idle), bytes, asked, check: Ok(check) });
        }
        Ok(rows)
    }

    /// A version's times, warm and on an idle device; or why it does not take this size.
    fn timed(&self, gradients: &mut Gradients, version: Version) -> crate::Result<Result<(Timing, Timing), String>> {
        let (device, stream) = (self.device, self.device.stream());
        let mut pass = match if_supported(gradients.load(device, version))? {
            Ok(pass) => pass,
            Err(reason) => return Ok(Err(reason)),
        };
        if let Err(reason) = if_supported(pass.launch(gradients, &stream))? {
            return Ok(Err(reason));
        }
        let mut launch = || pass.launch(gradients, &stream);
        Ok(Ok((self.warm.measure(&stream, &mut launch)?, self.idle.measure(&stream, &mut launch)?)))
    }
}

impl Row {
    /// A forward version that has no numbers here, all for one reason.
    fn absent(version: &'static str, bytes: u64, reason: &str) -> Row {
        let absent = || Err(reason.to_owned());
        Row {
            version,
            pass: Pass::Forward(F32),
            total: absent(),
            idle: absent(),
            bytes,
            asked: absent(),
            check: Err(reason.to_owned()),
        }
    }
}

/// x, W, b and y once; a second pass reads and writes y again.
fn forward_bytes([batch, inputs, outputs]: Size, second_pass: bool) -> u64 {
    let again = if second_pass { Traffic::second_pass(batch, outputs) } else { 0 };
    Traffic::ideal(batch, inputs, outputs) + again
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_sizes() {
        assert_eq!(name([1024, 784, 2048]), "1024×784→2048");
        assert_eq!(from_name("1024×784→2048"), Some([1024, 784, 2048]));
        assert_eq!(from_name("1×2→3"), None);
    }
}
