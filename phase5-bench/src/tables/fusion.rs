//! `fusion`: the same work in one launch and in several, with the bytes that each passes through memory.

use bench::ladder::{Contest, Cost, Expected, LadderTable, Peak, StepRun, columns, if_supported};
use bench::table::ColumnSpec;
use bench::timing::Bench;
use common::device::SimOptions;
use common::prelude::*;
use common::progress::Progress;
use common::reference::{self, Bounded, Conv2dParams, DiffusionParams, Reference, TensorGemm};
use phase2_conv_bn::conv::shapes::{Shape, shape};
use phase3_all_layers::layers::{self, Add, Silu, SiluSum};
use phase4_fusion::conv::{
    self,
    problem::{ConvProblem, Finish},
};
use phase4_fusion::fusion::layer_norm::{LayerNormLinear, LayerNormProblem, SeparateOperands, Way};
use phase4_fusion::fusion::upsample::{UpsampleConv, UpsampleProblem};
use phase4_fusion::fusion::{DiffusionStep, Separate};
use phase4_fusion::gemm::{self, Activation, Epilogue, Layout, Precision};
use phase4_fusion::models::parameters::scaled;

use crate::spec::{Context, FinishedTable, Make, Need, TableSpec};
use crate::tables::peers;

/// Computation.
pub(crate) const WORK: ColumnSpec = ColumnSpec::text("work", "work");
pub(crate) const LAUNCHES: ColumnSpec = ColumnSpec::text("launches", "launches");
pub(crate) const MB: ColumnSpec = ColumnSpec::text("mb", "MB");
const COLUMNS: &[ColumnSpec] = &[
    WORK,
    columns::STEP,
    LAUNCHES,
    MB,
    columns::MS,
    columns::GBPS.on_gpu(),
    // A line of 100 characters has no room for both.
    columns::OF_COPY.on_gpu(),
    columns::MB_ASKED.on_simulator(),
    columns::MAX_DIFFERENCE,
    columns::CHECK,
];

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "fusion",
    shows: "fused kernels against separate ones: ms, launches, bytes",
    uses: &[Need::Gpu],
    columns: COLUMNS,
    make: Make::Measured(run),
};

pub(crate) const SEPARATE: &str = "separate";
pub(crate) const FUSED: &str = "fused";
const FOLDED: &str = "folded";
/// Maximum relative change from rounding a value to f16.
const HALF_ROUND_OFF: f64 = 1.0 / 2048.0;
const STEP: DiffusionParams = DiffusionParams { alpha_bar: 0.5, weight: 0.7, threshold: 0.5 };

/// Sizes that are compared, by device.
struct Sizes {
    convolutions: &'static [Shape],
    /// Rows and columns of the input of a linear layer, whose output has four times as many, or three times.
    linear: [usize; 2],
    /// Sizes of a convolution that upsamples: images, height and width; channels of the small image, of the skip connection, and
    /// of the output.
    upsampled: [([usize; 3], [usize; 3]); 2],
    /// Values of a diffusion step: of a frame's latents, and of many.
    steps: [usize; 2],
    /// Values of silu(a + b·c).
    values: usize,
}

const GPU: Sizes = Sizes {
    convolutions: &[shape(64, 64, 3, 1, 56).images(32), shape(256, 256, 3, 1, 14).images(32)],
    linear: [8192, 320],
    upsampled: [([2, 64, 64], [320, 320, 320]), ([2, 64, 64], [640, 0, 640])],
    steps: [2 * 4 * 64 * 64, 1 << 24],
    values: 1 << 26,
};
const SIMULATED: Sizes = Sizes {
    convolutions: &[shape(64, 64, 3, 1, 8)],
    linear: [64, 64],
    upsampled: [([1, 8, 8], [64, 64, 64]), ([1, 8, 8], [64, 0, 64])],
    steps: [512, 4096],
    values: 4096,
};

/// A row.
struct Row {
    work: String,
    by: &'static str,
    launches: usize,
    cost: Cost,
    run: StepRun,
}

/// Makes the table.
fn run(context: &Context) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let (sizes, bench) = (if device.is_cuda() { GPU } else { SIMULATED }, peers::bench());
    let progress = Progress::new(0, "fusion");
    let announce = |what: &str| progress.set_message(format!("fusion: {what}"));
    let mut rows = Comparison { device, bench: &bench, announce: &announce }.all(&sizes)?;
    if device.is_sim() {
        // Once more, on a simulator that profiles.
        let profiling = Device::sim_with(SimOptions { profile: true, ..SimOptions::default() });
        let profiled = Comparison { device: &profiling, bench: &bench, announce: &announce }.all(&sizes)?;
        for (row, profiled) in rows.iter_mut().zip(profiled) {
            row.run.profiles = profiled.run.profiles;
        }
    }
    let limits = context.limits()?;
    let title = format!("fusion: one launch against several on {}", device.short_name());
    let mut table = LadderTable::new(title, device, COLUMNS).with_peak(limits.map(Peak::from));
    for Row { work, by, launches, cost, run } in &rows {
        let (launches, megabytes) = (launches.to_string(), format!("{:.2}", cost.bytes / 1e6));
        table.row(&[(WORK, work), (columns::STEP, by), (LAUNCHES, &launches), (MB, &megabytes)], *cost, run);
    }
    table.note("conv C@H: a window of 3 × 3 over 32 images of C × H × H (simulated: 1), to as many channels.");
    table.note(
        "Convolutions and linear layers are f16 on tensor cores where nothing else is said, the rest f32. BN: a scale and a shift per \
         channel. separate: a launch for each part. fused: one launch, what follows a product in its epilogue; folded: BN's scale in \
         the weights, its shift as a bias.",
    );
    table.note(
        "+GELU: of a linear layer. q, k, v: queries, keys, values, three products or one. norm: LayerNorm, then a linear layer; x̂ in memory and multiplied, or x multiplied and \
         its rows normalised behind the product. up C1 ‖ C2→K @H: an image upsampled, joined to a skip connection and convolved, or the \
         convolution reading both as they are.",
    );
    table.note("MB: each launch reads its inputs and writes its outputs once; GB/s: that by the time of all launches.");
    table.note(
        "|Δ|: to f64; separate passes over f16 may be off by one rounding more each. Of queries, keys and values, the queries'.",
    );
    if device.is_cuda() {
        table.note(peers::MEDIANS);
    }
    if let Some(limits) = &limits {
        table.note(limits.note());
    }
    Ok(table.into())
}

/// Both versions on a device.
struct Comparison<'a> {
    device: &'a Device,
    bench: &'a Bench,
    announce: &'a dyn Fn(&str),
}

impl Comparison<'_> {
    fn all(&self, sizes: &Sizes) -> crate::Result<Vec<Row>> {
        let mut rows = Vec::new();
        for &shape in sizes.convolutions {
            for (name, residual, activation) in [
                ("conv+BN+ReLU", false, Activation::Relu),
                ("conv+BN+SiLU", false, Activation::Silu),
                ("conv+BN+add+ReLU", true, Activation::Relu),
            ] {
                let finish = Finish { scale_shift: true, residual, activation, ..Finish::default() };
                rows.extend(self.convolution(
                    &format!("{name} {}@{}", shape.weight()[0], shape.input()[2]),
                    shape,
                    finish,
                )?);
            }
        }
        rows.extend(self.linear_gelu(sizes.linear)?);
        rows.extend(self.projections(sizes.linear)?);
        for precision in [Precision::F16, Precision::Tf32] {
            rows.extend(self.layer_norm_linear(sizes.linear, precision)?);
        }
        for (sides, channels) in sizes.upsampled {
            rows.extend(self.upsample(sides, channels)?);
        }
        for values in sizes.steps {
            rows.extend(self.diffusion_step(values)?);
        }
        rows.extend(self.silu_sum(sizes.values)?);
        Ok(rows)
    }

    fn contest<'c>(&'c self, stream: &'c Stream, expected: &'c Expected) -> Contest<'c> {
        Contest { stream, bench: self.bench, expected, announce: self.announce }
    }

    /// A convolution with the operations that follow it, in f16.
    fn convolution(&self, work: &str, shape: Shape, finish: Finish) -> crate::Result<Vec<Row>> {
        let (device, stream) = (self.device, self.device.stream());
        let seeded = |finish: Finish| {
            ConvProblem::seeded(device, shape.input(), shape.weight(), shape.params(), Precision::F16, finish)
        };
        let (problem, plain) = (seeded(finish)?, seeded(Finish::default())?);
        let (conv, separate) = (if_supported(conv::Tuned::load(device))?, Separate::load(device)?);
        let epilogue = problem.epilogue();
        let passes = Separate::passes(&epilogue);
        let mut y = problem.output(device)?;
        let once = shape.cost().bytes / 2.0;
        let of_y = 2.0 * y.len() as f64;
        let residual = if finish.residual { of_y } else { 0.0 };
        let params: Conv2dParams = problem.params;
        let fused = self
            .contest(&stream, &problem.expected)
            .run(FUSED, &conv, &mut y, |conv, y| conv.launch(&stream, &problem.x, &problem.w, params, &epilogue, y))?;
        let expected = roundings(&problem.expected, passes, largest(&plain.expected));
        let apart = self.contest(&stream, &expected).run(SEPARATE, &conv, &mut y, |conv, y| {
            conv.launch(&stream, &problem.x, &problem.w, params, &Epilogue::default(), y)?;
            separate.launch(&stream, &epilogue, shape.weight()[0], y)
        })?;
        let row = |by, launches, bytes, run| Row { work: work.to_owned(), by, launches, cost: of_bytes(bytes), run };
        let mut rows = vec![
            row(SEPARATE, 1 + passes, once + 2.0 * of_y * passes as f64 + residual, apart),
            row(FUSED, 1, once + residual, fused),
        ];
        if let (Some(scale), Activation::Relu, false) = (epilogue.scale, finish.activation, finish.residual) {
            let in_planes = problem.w.to_host()?.to_type(ElementType::F32)?.to_format(MemoryFormat::Nchw)?;
            let scale = scale.to_host()?;
            let weights = scaled(&in_planes, scale.as_slice()?)?.to_type(ElementType::F16)?;
            let weights = weights.to_format(MemoryFormat::Nhwc)?.to_device(device)?;
            let epilogue = Epilogue { scale: None, ..epilogue };
            // Each weight is rounded once more; the scales are below 1.
            let expected = roundings(&problem.expected, 1, plain.expected.reference().magnitude);
            let folded = self.contest(&stream, &expected).run(FOLDED, &conv, &mut y, |conv, y| {
                conv.launch(&stream, &problem.x, &weights, params, &epilogue, y)
            })?;
            rows.push(row(FOLDED, 1, once, folded));
        }
        Ok(rows)
    }

    /// GELU(x·Wᵀ + b), with four times as many outputs as inputs.
    fn linear_gelu(&self, [rows, inputs]: [usize; 2]) -> crate::Result<[Row; 2]> {
        let (device, stream, outputs) = (self.device, self.device.stream(), 4 * inputs);
        let linear = Linear::seeded(device, rows, inputs, outputs, Activation::Gelu)?;
        let plain = Linear::seeded(device, rows, inputs, outputs, Activation::None)?;
        let (tuned, separate) = (if_supported(gemm::Tuned::load(device))?, Separate::load(device)?);
        let mut y = Tensor::empty_of(device, &[rows, outputs], ElementType::F16, MemoryFormat::Nchw)?;
        let fused = self.contest(&stream, &linear.expected).run(FUSED, &tuned, &mut y, |tuned, y| {
            tuned.launch(&stream, &linear.x, &linear.w, Layout::Transposed, &linear.epilogue(), y)
        })?;
        let expected = roundings(&linear.expected, 1, largest(&plain.expected));
        let gelu = Epilogue { activation: Activation::Gelu, ..Epilogue::default() };
        let apart = self.contest(&stream, &expected).run(SEPARATE, &tuned, &mut y, |tuned, y| {
            tuned.launch(&stream, &linear.x, &linear.w, Layout::Transposed, &plain.epilogue(), y)?;
            separate.launch(&stream, &gelu, outputs, y)
        })?;
        let (once, of_y) = (2.0 * (rows * inputs + inputs * outputs + rows * outputs) as f64, 2.0 * y.len() as f64);
        let work = format!("+GELU {rows}×{inputs}→{outputs}");
        let row = |by, launches, bytes, run| Row { work: work.clone(), by, launches, cost: of_bytes(bytes), run };
        Ok([row(SEPARATE, 2, once + 2.0 * of_y, apart), row(FUSED, 1, once, fused)])
    }

    /// Queries, keys and values as three products or one.
    fn projections(&self, [rows, inputs]: [usize; 2]) -> crate::Result<[Row; 2]> {
        let (device, stream) = (self.device, self.device.stream());
        let all = Linear::seeded(device, rows, inputs, 3 * inputs, Activation::None)?;
        let one = Linear::seeded(device, rows, inputs, inputs, Activation::None)?;
        let tuned = if_supported(gemm::Tuned::load(device))?;
        let place = |columns| Tensor::empty_of(device, &[rows, columns], ElementType::F16, MemoryFormat::Nchw);
        let mut y = place(3 * inputs)?;
        let fused = self.contest(&stream, &all.expected).run(FUSED, &tuned, &mut y, |tuned, y| {
            tuned.launch(&stream, &all.x, &all.w, Layout::Transposed, &all.epilogue(), y)
        })?;
        let (mut queries, mut keys, mut values) = (place(inputs)?, place(inputs)?, place(inputs)?);
        let apart = self.contest(&stream, &one.expected).run(SEPARATE, &tuned, &mut queries, |tuned, queries| {
            for y in [queries, &mut keys, &mut values] {
                tuned.launch(&stream, &one.x, &one.w, Layout::Transposed, &one.epilogue(), y)?;
            }
            Ok(())
        })?;
        let bytes = |reads: usize| 2.0 * (reads * rows * inputs + 3 * inputs * inputs + 3 * rows * inputs) as f64;
        let work = format!("q, k, v {rows}×{inputs}");
        let row = |by, launches, bytes, run| Row { work: work.clone(), by, launches, cost: of_bytes(bytes), run };
        Ok([row(SEPARATE, 3, bytes(3), apart), row(FUSED, 1, bytes(1), fused)])
    }

    /// LayerNorm, then the projection of queries, keys and values together.
    fn layer_norm_linear(&self, [rows, inputs]: [usize; 2], precision: Precision) -> crate::Result<[Row; 2]> {
        let (device, stream, outputs) = (self.device, self.device.stream(), 3 * inputs);
        let problem = LayerNormProblem::seeded([rows, inputs, outputs], 1.0, precision)?;
        let tuned = if_supported(gemm::Tuned::load(device))?;
        let fused = if_supported(LayerNormLinear::load(device))?;
        let operands = SeparateOperands::new(&problem, device)?;
        let (mut normalised, mut y) = (operands.like_x(device)?, problem.output(device)?);
        let apart =
            self.contest(&stream, &problem.expected(Way::Separate)?)
                .run(SEPARATE, &tuned, &mut y, |tuned, y| operands.launch(&stream, tuned, &mut normalised, y))?;
        let (x, linear) = (problem.x.to_device(device)?, problem.folded()?.to_device(device)?);
        let together =
            self.contest(&stream, &problem.expected(Way::Fused)?).run(FUSED, &fused, &mut y, |fused, y| {
                fused.launch(&stream, &x, &linear, problem.eps, Activation::None, y)
            })?;
        let size = precision.input().size() as f64;
        let once = size * (rows * inputs + inputs * outputs + rows * outputs) as f64;
        let work = format!("norm {rows}×{inputs}→{outputs} {precision}");
        let row = |by, launches, bytes, run| Row { work: work.clone(), by, launches, cost: of_bytes(bytes), run };
        let of_x = size * (rows * inputs) as f64;
        Ok([row(SEPARATE, 2, once + 2.0 * of_x, apart), row(FUSED, 1, once, together)])
    }

    /// A convolution of an upsampled image, with a skip connection if it has channels.
    fn upsample(&self, sides: [usize; 3], channels: [usize; 3]) -> crate::Result<[Row; 2]> {
        let (device, stream) = (self.device, self.device.stream());
        let problem = UpsampleProblem::seeded(sides, channels, Precision::F16)?;
        let (fused, conv) = (if_supported(UpsampleConv::load(device))?, if_supported(conv::Tuned::load(device))?);
        let mut operands = problem.to_device(device)?;
        let contest = self.contest(&stream, problem.expected());
        let mut y = problem.output(device)?;
        let apart = contest.run(SEPARATE, &conv, &mut y, |conv, y| operands.separate(&stream, conv, y))?;
        let together = contest.run(FUSED, &fused, &mut y, |fused, y| operands.fused(&stream, fused, y))?;
        let ([images, height, width], [first, second, outputs]) = (sides, channels);
        let pixels = images * height * width;
        let bytes = |values: usize| (2 * values) as f64;
        let (small, large, skip) = (pixels * first / 4, pixels * first, pixels * second);
        let rest = 9 * (first + second) * outputs + pixels * outputs;
        // Upsampled, then joined unless there is nothing to join, then convolved.
        let joined = if second > 0 { large + skip + large + skip } else { 0 };
        let separate = small + large + joined + large + skip + rest;
        let launches = if second > 0 { 3 } else { 2 };
        let name =
            if second > 0 { format!("up {first} ‖ {second}→{outputs}") } else { format!("up {first}→{outputs}") };
        let work = format!("{name} @{height} ×{images}");
        let row = |by, launches, bytes, run| Row { work: work.clone(), by, launches, cost: of_bytes(bytes), run };
        Ok([row(SEPARATE, launches, bytes(separate), apart), row(FUSED, 1, bytes(small + skip + rest), together)])
    }

    /// Prediction, blend and clamp.
    fn diffusion_step(&self, count: usize) -> crate::Result<[Row; 2]> {
        let (device, stream) = (self.device, self.device.stream());
        let (separate, fused) = (layers::DiffusionStep::load(device)?, DiffusionStep::load(device)?);
        let inputs = [1, 2, 3].map(|seed| Tensor::random(&[count], seed));
        let bits = common::cpu::diffusion_step(&inputs[0], &inputs[1], &inputs[2], STEP)?;
        let exact = bits.as_slice()?.iter().copied().map(f64::from).collect();
        let expected = bounded(Bounded { values: exact, tolerance: common::check::Tolerance::exact() });
        let there = |at: usize| inputs[at].to_device(device);
        let (noisy, noise, previous) = (there(0)?, there(1)?, there(2)?);
        let mut y = Tensor::empty_on(device, &[count])?;
        let apart = self.contest(&stream, &expected).run(SEPARATE, &Ok(separate), &mut y, |separate, y| {
            separate.launch(&stream, [&noisy, &noise, &previous], STEP, y)
        })?;
        let together = self
            .contest(&stream, &expected)
            .run(FUSED, &Ok(fused), &mut y, |fused, y| fused.launch(&stream, [&noisy, &noise, &previous], STEP, y))?;
        let row = |by, launches, bytes: usize, run| {
            let work = format!("diffusion step {count}");
            Row { work, by, launches, cost: of_bytes((bytes * count) as f64), run }
        };
        Ok([row(SEPARATE, 3, 32, apart), row(FUSED, 1, 16, together)])
    }

    /// silu(a + b·c).
    fn silu_sum(&self, count: usize) -> crate::Result<[Row; 2]> {
        let (device, stream) = (self.device, self.device.stream());
        let inputs = [1, 2, 3].map(|seed| Tensor::random(&[count], seed));
        let expected = bounded(reference::silu_sum(&inputs[0], &inputs[1], &inputs[2])?);
        let there = |at: usize| inputs[at].to_device(device);
        let (a, b, c) = (there(0)?, there(1)?, there(2)?);
        let fused = SiluSum::load(device)?;
        let separate = (Separate::load(device)?, Add::load(device)?, Silu::load(device)?);
        let mut y = Tensor::empty_on(device, &[count])?;
        let apart =
            self.contest(&stream, &expected).run(SEPARATE, &Ok(separate), &mut y, |(product, add, silu), y| {
                product.multiply(&stream, &b, &c, y)?;
                add.launch(&stream, y, &a)?;
                silu.launch_in_place(&stream, y)
            })?;
        let together = self
            .contest(&stream, &expected)
            .run(FUSED, &Ok(fused), &mut y, |fused, y| fused.launch(&stream, &a, &b, &c, y))?;
        let row = |by, launches, bytes: usize, run| {
            let work = format!("silu(a + b·c) {count}");
            Row { work, by, launches, cost: of_bytes((bytes * count) as f64), run }
        };
        Ok([row(SEPARATE, 3, 32, apart), row(FUSED, 1, 16, together)])
    }
}

/// activation(x·Wᵀ + b) of random values in f16.
struct Linear {
    x: Tensor,
    w: Tensor,
    bias: Tensor,
    activation: Activation,
    expected: Expected,
}

impl Linear {
    fn seeded(
        device: &Device,
        rows: usize,
        inputs: usize,
        outputs: usize,
        activation: Activation,
    ) -> crate::Result<Linear> {
        let half = |shape: &[usize], seed: u64| Tensor::random(shape, seed).to_type(ElementType::F16);
        let (x, w, bias) = (half(&[rows, inputs], 1)?, half(&[outputs, inputs], 2)?, Tensor::random(&[outputs], 3));
        let wide = |tensor: &Tensor| tensor.to_f64().map(|values| values.iter().map(|&v| v as f32).collect::<Vec<_>>());
        let (wide_x, wide_w) = (wide(&x)?, wide(&w)?);
        let product =
            reference::Gemm { transposed: true, ..reference::Gemm::new(&wide_x, &wide_w, rows, outputs, inputs) };
        let reference = TensorGemm {
            shift: Some(bias.as_slice()?),
            activation,
            ..TensorGemm::new(product, ElementType::F16, ElementType::F16)
        };
        let expected = Expected::tensor_gemm(&reference, 4)?;
        let (x, w, bias) = (x.to_device(device)?, w.to_device(device)?, bias.to_device(device)?);
        Ok(Linear { x, w, bias, activation, expected })
    }

    fn epilogue(&self) -> Epilogue<'_> {
        Epilogue { shift: Some(&self.bias), activation: self.activation, ..Epilogue::default() }
    }
}

fn of_bytes(bytes: f64) -> Cost {
    Cost { bytes, ..Cost::default() }
}

/// The largest result.
fn largest(expected: &Expected) -> f64 {
    expected.reference().values.iter().fold(0.0, |most: f64, value| most.max(value.abs()))
}

/// The same where `passes` over values up to `most` round to f16 in between; later operations enlarge a difference at most 1.13
/// times.
fn roundings(expected: &Expected, passes: usize, most: f64) -> Expected {
    let mut tolerance = expected.tolerance();
    tolerance.absolute += 1.13 * passes as f64 * HALF_ROUND_OFF * (most + 2.0);
    expected.clone().within(tolerance)
}

fn bounded(Bounded { values, tolerance }: Bounded) -> Expected {
    Expected::all(Reference { values, terms: 0, magnitude: 0.0 }).within(tolerance)
}
