//! The GEMM ladder on tensor cores, step by step, in each type.

use bench::ladder::{Contest, Cost, Expected, LadderTable, LoadedStep, columns, load_steps};
use bench::parts::{Part, Report};
use bench::table::{ColumnSpec, Table, TableBuilder};
use bench::timing::{Bench, Queue};
use common::prelude::*;
use common::reference::{self, TensorGemm};

use super::{COUNTS, IDEA, allowed, finish, step_table};
use crate::gemm::{BLOCK, Epilogue, Gemm, LADDER, Layout, OTHERS, Precision, Scaled, Scales};

/// `cargo run -p phase4-fusion -- gemm`.
pub const PART: Part = Part {
    name: "gemm",
    about: "the ladder of matrix products on tensor cores: what each step asks of the hardware, and what it takes",
    tables: &["tensor-core-steps", "tensor-cores-f16", "tensor-cores-bf16", "tensor-cores-others"],
    by_default: true,
    run,
};

/// M = N = K on the simulator: 2 × 1 of the largest tiles.
const SIMULATED: usize = 256;
/// M = N = K on a GPU: enough for every SM to be busy for long.
const MEASURED: usize = 4096;

/// The type of A and B.
const TYPE: ColumnSpec = ColumnSpec::text("type", "type");

/// The steps, a table for each type of 16 bits, and one for the others.
fn run(device: &Device) -> Result<Report> {
    let mut report = Report { tables: vec![steps()], wrong: Vec::new() };
    let steps = load_steps(LADDER, device)?;
    for &precision in Precision::HALVES {
        add_table(device, precision, &steps, &mut report)?;
    }
    let title = format!("C = A·Bᵀ by the last steps in other types, {} on {}", cube(device), device.short_name());
    let mut others = step_table(title, &[TYPE], &COUNTS, device);
    for step in OTHERS {
        let loaded = LoadedStep::new(step.title(), step.load(device))?;
        for &precision in step.method.precisions() {
            let problem = TensorProblem::seeded(device, [size(device); 3], precision, Layout::Transposed)?;
            let name = if step.number == 12 { precision.to_string() } else { format!("{precision}, {}", step.title()) };
            problem.add_row(device, &mut others, (TYPE, &name), &loaded.step)?;
        }
    }
    finish(others, &mut report);
    Ok(report)
}

/// The steps' products of one type, a row each.
pub(super) fn add_table(
    device: &Device,
    precision: Precision,
    steps: &[LoadedStep<Gemm>],
    report: &mut Report,
) -> Result<()> {
    let title = format!("C = A·Bᵀ in {precision}, {} on {}", cube(device), device.short_name());
    let mut table = step_table(title, &[columns::STEP], &COUNTS, device);
    let problem = TensorProblem::seeded(device, [size(device); 3], precision, Layout::Transposed)?;
    for LoadedStep { title, step } in steps {
        problem.add_row(device, &mut table, (columns::STEP, title), step)?;
    }
    finish(table, report);
    Ok(())
}

fn size(device: &Device) -> usize {
    if device.is_sim() { SIMULATED } else { MEASURED }
}

fn cube(device: &Device) -> String {
    let size = size(device);
    format!("{size} × {size} × {size},")
}

/// New idea of each step.
fn steps() -> Table {
    let mut table = TableBuilder::of("the GEMM ladder on tensor cores", [columns::STEP, IDEA]);
    for step in LADDER {
        table.row().set(columns::STEP, step.title()).set(IDEA, step.idea).complete();
    }
    table.finish()
}

/// One product, for every step.
#[derive(Debug)]
pub struct TensorProblem {
    /// M, N, K.
    pub size: [usize; 3],
    /// Type of the operands.
    pub precision: Precision,
    /// Layout of B in memory.
    pub layout: Layout,
    /// \[M, K\], on the device.
    pub a: Tensor,
    /// \[K, N\], or \[N, K\] if it is transposed; on the device.
    pub b: Tensor,
    /// Scales of A's and B's blocks, if they have any; on the device.
    pub scales: Option<[Tensor; 2]>,
    /// Expected C.
    pub expected: Expected,
}

impl TensorProblem {
    /// A product of random matrices.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn seeded(
        device: &Device,
        size @ [m, n, k]: [usize; 3],
        precision: Precision,
        layout: Layout,
    ) -> Result<TensorProblem> {
        let (of_a, of_b) = ([m, k], layout.shape(n, k));
        if precision == Precision::ScaledE4M3 {
            let (a, b) = (Scaled::rows(&Tensor::random(&of_a, 1))?, Scaled::squares(&Tensor::random(&of_b, 2))?);
            let scales = [a.scales.to_device(device)?, b.scales.to_device(device)?];
            let problem =
                TensorProblem::new(device, size, precision, layout, [a.values, b.values], [a.rounded, b.rounded])?;
            return Ok(TensorProblem { scales: Some(scales), ..problem });
        }
        let (a, b) = (precision.random(&of_a, 1)?, precision.random(&of_b, 2)?);
        TensorProblem::of(device, size, precision, layout, [a, b])
    }

    /// The product of these matrices, which are on the host.
    pub(super) fn of(
        device: &Device,
        size: [usize; 3],
        precision: Precision,
        layout: Layout,
        [a, b]: [Tensor; 2],
    ) -> Result<TensorProblem> {
        let wide = [a.to_type(ElementType::F32)?, b.to_type(ElementType::F32)?];
        TensorProblem::new(device, size, precision, layout, [a, b], wide)
    }

    /// The product of matrices, whose values are `wide` in f32.
    fn new(
        device: &Device,
        size @ [m, n, k]: [usize; 3],
        precision: Precision,
        layout: Layout,
        [a, b]: [Tensor; 2],
        wide: [Tensor; 2],
    ) -> Result<TensorProblem> {
        let product = reference::Gemm {
            transposed: layout == Layout::Transposed,
            ..reference::Gemm::new(wide[0].as_slice()?, wide[1].as_slice()?, m, n, k)
        };
        let gemm = TensorGemm {
            chain: if precision == Precision::ScaledE4M3 { BLOCK } else { k },
            ..TensorGemm::new(product, precision.input(), precision.output())
        };
        let expected = Expected::tensor_gemm(&gemm, 3)?;
        let (a, b) = (a.to_device(device)?, b.to_device(device)?);
        Ok(TensorProblem { size, precision, layout, a, b, scales: None, expected })
    }

    /// Two operations per multiply-add, and each matrix once.
    pub fn cost(&self) -> Cost {
        let [m, n, k] = self.size.map(|size| size as f64);
        let (input, output) = (self.precision.input().size() as f64, self.precision.output().size() as f64);
        Cost { flops: 2.0 * m * n * k, bytes: input * (m * k + k * n) + output * m * n, values: m * n }
    }

    /// Memory for C.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn output(&self, device: &Device) -> Result<Tensor> {
        Tensor::empty_of(device, &self.size[..2], self.precision.output(), MemoryFormat::Nchw)
    }

    /// Only the product, with the scales of its blocks.
    pub fn epilogue(&self) -> Epilogue<'_> {
        let blocks = self.scales.as_ref().map(|[a, b]| Scales { a, b });
        Epilogue { blocks, ..Epilogue::default() }
    }

    /// Queues C = A·B.
    ///
    /// # Errors
    /// Same as [`Gemm::launch`].
    pub fn launch(&self, stream: &Stream, gemm: &Gemm, c: &mut Tensor) -> Result<()> {
        gemm.launch(stream, &self.a, &self.b, self.layout, &self.epilogue(), c)
    }

    /// Runs a step, and appends its row, with this name in that column.
    fn add_row(
        &self,
        device: &Device,
        table: &mut LadderTable,
        (column, name): (ColumnSpec, &str),
        step: &Result<Gemm, String>,
    ) -> Result<()> {
        let (stream, bench) = (device.stream(), Bench { queue: Queue::Warm, ..Bench::default() });
        let contest = Contest { stream: &stream, bench: &bench, expected: &self.expected, announce: &|_| () };
        let run = contest.run(name, step, &mut self.output(device)?, |gemm, c| self.launch(&stream, gemm, c))?;
        table.allow(allowed(&self.expected));
        table.row(&[(column, name)], self.cost(), &run);
        Ok(())
    }
}
