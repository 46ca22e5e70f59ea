//! `gemm`: every step of the ladder, cuBLAS and PyTorch, over sizes.

use bench::ladder::{Contest, Cost, LadderTable, LoadedStep, Patience, StepResult, if_supported};
use bench::peer::{Cublas, TensorBlas};
use bench::table::ColumnSpec;
use common::cpu;
use common::prelude::*;
use common::progress::Progress;
use phase2_conv_bn::gemm::{Epilogue, LADDER, Layout, Tuned};
use phase2_conv_bn::report::gemm::{GemmProblem, cost};

use crate::spec::{Context, FinishedTable, InSummary, Make, Need, TableSpec};
use crate::tables::peers::{self, CUBLASLT, PYTORCH_AUTOTUNED, PYTORCH_EAGER};
use crate::torch::{Mode, PeerRequest};

/// The product of a row.
pub(crate) const PROBLEM: ColumnSpec = ColumnSpec::text("problem", "M×N×K");
/// The library that the others are compared with.
pub(crate) const LIBRARY: &str = "cuBLAS";
/// The ladder's first step.
pub(crate) const NAIVE: &str = "1 uncoalesced";
/// The product that the summary shows.
pub(crate) const IN_SUMMARY: InSummary = InSummary { gpu: "4096³", simulator: "256³" };
const COLUMNS: &[ColumnSpec] = &peers::ladder_columns(PROBLEM);

/// M × N × K, and the layout of B in memory.
#[derive(Clone, Copy, Debug)]
struct Size {
    m: usize,
    n: usize,
    k: usize,
    layout: Layout,
}

const fn cube(size: usize) -> Size {
    Size { m: size, n: size, k: size, layout: Layout::RowMajor }
}

/// A linear layer: `[batch, inputs]` times the transpose of `[outputs, inputs]`.
const fn linear(batch: usize, inputs: usize, outputs: usize) -> Size {
    Size { m: batch, n: outputs, k: inputs, layout: Layout::Transposed }
}

/// Ascending, so that a slow step is left out of the later ones.
const SIZES: [Size; 10] = [
    cube(256),
    cube(512),
    cube(1024),
    cube(2048),
    cube(4096),
    cube(8192),
    // Few tiles and a long K.
    Size { m: 256, n: 256, k: 4096, layout: Layout::RowMajor },
    linear(256, 256, 512),
    linear(1024, 784, 2048),
    linear(8192, 4096, 4096),
];

/// On the simulator: one that tiles fill, and a ragged one.
const SIMULATED: [Size; 2] = [cube(256), Size { m: 70, n: 131, k: 45, layout: Layout::Transposed }];

impl Size {
    fn name(self) -> String {
        let Size { m, n, k, layout } = self;
        match layout {
            Layout::RowMajor if m == n && n == k => format!("{m}³"),
            Layout::RowMajor => format!("{m}×{n}×{k}"),
            Layout::Transposed => format!("{m}×{n}×{k}ᵀ"),
        }
    }

    fn cost(self) -> Cost {
        cost([self.m, self.n, self.k])
    }
}

/// Cost of the measured product of this name.
pub(crate) fn roofline_cost(name: &str) -> Option<Cost> {
    SIZES.into_iter().find(|size| size.name() == name).map(Size::cost)
}

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "gemm",
    shows: "each step of the matrix product × sizes: ms, TFLOP/s, % of cuBLAS",
    uses: &[Need::Gpu, Need::Cublas, Need::CublasLt, Need::PyTorch],
    columns: COLUMNS,
    make: Make::Measured(run),
};

/// Makes the table.
fn run(context: &Context) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let sizes: &[Size] = if device.is_cuda() { &SIZES } else { &SIMULATED };
    let sizes = context.chosen(sizes, IN_SUMMARY, Size::name);
    let (stream, bench) = (device.stream(), peers::bench());
    let cublas = if_supported(Cublas::open(&stream))?;
    let lt = if_supported(TensorBlas::open(&stream))?.map(TensorBlas::in_f32);
    let (steps, tuned) = (context.load_steps(LADDER, NAIVE)?, Ok(Tuned::load(device)?));
    let progress = Progress::new((sizes.len() * (steps.len() + 4)) as u64, "gemm");
    let requests = |mode| -> Vec<PeerRequest> {
        let request =
            |&Size { m, n, k, layout }: &Size| PeerRequest::gemm([m, n, k], layout == Layout::Transposed, mode);
        sizes.iter().map(request).collect()
    };
    progress.set_message("gemm: PyTorch");
    let pytorch = context.pytorch.measure(device, &bench, &requests(Mode::Eager));
    // In a process of its own: should trying kernels take too long, eager's times are there.
    let tried = if context.only_summary { Vec::new() } else { requests(Mode::Autotuned) };
    let mut autotuned = context.pytorch.measure(device, &bench, &tried).timings.into_iter();

    let title = format!("gemm: C = A·B in f32 on {}", device.short_name());
    let mut table = LadderTable::new(title, device, COLUMNS).with_peer(LIBRARY);
    table = peers::noted(table, context.limits()?);
    table.note("ᵀ: B is given as [N, K], as a linear layer has its weight.");
    if device.is_cuda() {
        table.note(peers::about_cpu());
    }
    let mut patience = Patience::default();
    for (&size, pytorch) in sizes.iter().zip(pytorch.timings) {
        let (name, Size { m, n, k, layout }) = (size.name(), size);
        let problem = GemmProblem::seeded(device, [m, n, k], layout)?;
        let GemmProblem { a, b, expected, .. } = &problem;
        let announce = |step: &str| {
            progress.set_message(format!("gemm: {step} at {name}"));
            progress.inc(1);
        };
        let contest = Contest { stream: &stream, bench: &bench, expected, announce: &announce };
        let transposed = layout == Layout::Transposed;
        let by_library =
            |c: &mut Tensor| contest.run(LIBRARY, &cublas, c, |cublas, c| cublas.gemm(a, b, transposed, 1.0, 0.0, c));
        let mut c = problem.output(device)?;
        let before = by_library(&mut c)?;
        let mut runs = Vec::new();
        if device.is_cuda() {
            announce(peers::CPU);
            let (a, b) = (a.to_host()?, b.to_host()?);
            let work = || cpu::gemm(a.as_slice()?, b.as_slice()?, m, n, k, transposed);
            let run = || peers::step_on_cpu(context, expected, work);
            runs.push((peers::CPU, patience.run(peers::CPU, size.cost().flops, run)?));
        }
        for LoadedStep { title, step } in &steps {
            let run = || contest.run(title, step, &mut c, |gemm, c| problem.launch(&stream, gemm, c));
            runs.push((title.as_str(), patience.run(title, size.cost().flops, run)?));
        }
        let chosen = contest.run(peers::TUNED, &tuned, &mut c, |tuned, c| {
            tuned.launch(&stream, a, b, layout, &Epilogue::default(), c)
        })?;
        runs.push((peers::TUNED, chosen));
        let suggestion = lt.as_ref().map_err(String::clone).and_then(|lt| {
            peers::fastest(lt.suggestions(a, b, transposed, &c), &stream, |suggestion| suggestion.launch(a, b, &mut c))
        });
        let suggested = contest.run(CUBLASLT, &suggestion, &mut c, |suggestion, c| suggestion.launch(a, b, c))?;
        runs.push((CUBLASLT, suggested));
        runs.push((PYTORCH_EAGER, StepResult::Elsewhere(pytorch).into()));
        runs.extend(autotuned.next().map(|timing| (PYTORCH_AUTOTUNED, StepResult::Elsewhere(timing).into())));
        let library = before.or_faster(by_library(&mut c)?);
        table.problem((PROBLEM, &name), size.cost(), (LIBRARY, library), runs);
    }
    if device.is_cuda() {
        table.note("cuBLASLt: in f32, without TF32, by the fastest of its first 8 suggestions, each measured.");
    }
    if let Some(version) = pytorch.version {
        table.note(format!(
            "PyTorch {version}, without TF32; tuned: torch.compile with max-autotune, as a CUDA graph. cuBLAS in its default math, which \
             is f32 throughout."
        ));
    }
    Ok(table.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_named_as_the_note_says() {
        assert_eq!(cube(256).name(), "256³");
        assert_eq!(linear(1024, 784, 2048).name(), "1024×2048×784ᵀ");
        assert_eq!(cube(1024).cost().flops, 2.147483648e9);
    }
}
