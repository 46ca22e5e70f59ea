//! `tensor-cores`: every step of the ladder on tensor cores, in every type, compared with cuBLAS and the best of cuBLASLt's
//! suggestions.

use bench::ladder::{Contest, Cost, LadderTable, LoadedStep, Patience, StepResult, StepRun, columns, if_supported};
use bench::peer::{Suggestion, TensorBlas};
use bench::table::ColumnSpec;
use common::prelude::*;
use common::progress::Progress;
use phase4_fusion::gemm::{LADDER, Layout, Precision, Tuned};
use phase4_fusion::report::gemm::TensorProblem;

use crate::spec::{Context, FinishedTable, InSummary, Make, Need, TableSpec};
use crate::tables::peers;
use crate::torch::PeerRequest;

/// The product of a row: its type, and M × N × K.
pub(crate) const PROBLEM: ColumnSpec = ColumnSpec::text("problem", "type, M×N×K");
/// The product that the summary shows.
pub(crate) const IN_SUMMARY: InSummary = InSummary { gpu: "f16 4096³", simulator: "bf16 128³ᵀ" };
const COLUMNS: &[ColumnSpec] = &[
    PROBLEM,
    columns::STEP,
    columns::MS,
    columns::TFLOPS.on_gpu(),
    columns::OF_PEER,
    columns::LANES_PER_PRODUCT.on_simulator(),
    columns::MAX_DIFFERENCE,
    columns::CHECK,
];

/// The library that the others are compared with.
pub(crate) const LIBRARY: &str = "cuBLAS(Lt)";
/// The ladder's first step.
pub(crate) const NAIVE: &str = "1 wmma";

/// Type, M, N, K, layout of B in memory.
type Row = (Precision, [usize; 3], Layout);

const fn cube(precision: Precision, size: usize, layout: Layout) -> Row {
    (precision, [size; 3], layout)
}

/// On a GPU, ascending in each type, so that a slow step is left out of the later ones.
const MEASURED: [Row; 26] = [
    (Precision::F16, [256, 512, 256], Layout::Transposed),
    (Precision::F16, [1024, 2048, 784], Layout::Transposed),
    cube(Precision::F16, 1024, Layout::RowMajor),
    cube(Precision::F16, 2048, Layout::RowMajor),
    cube(Precision::F16, 4096, Layout::RowMajor),
    cube(Precision::F16, 4096, Layout::Transposed),
    cube(Precision::F16, 8192, Layout::RowMajor),
    (Precision::Bf16, [256, 512, 256], Layout::Transposed),
    (Precision::Bf16, [256, 256, 4096], Layout::Transposed),
    (Precision::Bf16, [512, 512, 8192], Layout::Transposed),
    (Precision::Bf16, [1024, 2048, 784], Layout::Transposed),
    cube(Precision::Bf16, 1024, Layout::RowMajor),
    cube(Precision::Bf16, 2048, Layout::RowMajor),
    cube(Precision::Bf16, 4096, Layout::RowMajor),
    cube(Precision::Bf16, 8192, Layout::RowMajor),
    (Precision::Tf32, [256, 256, 4096], Layout::Transposed),
    cube(Precision::Tf32, 4096, Layout::Transposed),
    (Precision::Tf32, [8192, 4096, 4096], Layout::Transposed),
    cube(Precision::Tf32, 8192, Layout::Transposed),
    cube(Precision::E4M3, 4096, Layout::Transposed),
    cube(Precision::E4M3, 8192, Layout::Transposed),
    (Precision::ScaledE4M3, [128, 7168, 2048], Layout::Transposed),
    (Precision::ScaledE4M3, [4096, 7168, 2048], Layout::Transposed),
    cube(Precision::ScaledE4M3, 4096, Layout::Transposed),
    cube(Precision::ScaledE4M3, 8192, Layout::Transposed),
    cube(Precision::S8, 8192, Layout::Transposed),
];

/// On the simulator: a ragged one, and one of each type.
const SIMULATED: [Row; 6] = [
    (Precision::F16, [136, 264, 72], Layout::RowMajor),
    (Precision::Bf16, [128, 128, 128], Layout::Transposed),
    (Precision::Tf32, [128, 128, 64], Layout::Transposed),
    (Precision::E4M3, [128, 128, 128], Layout::Transposed),
    (Precision::ScaledE4M3, [128, 128, 256], Layout::Transposed),
    (Precision::S8, [128, 128, 128], Layout::Transposed),
];

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "tensor-cores",
    shows: "products on tensor cores × types and sizes: ms, % of cuBLAS(Lt)",
    uses: &[Need::Gpu, Need::Hopper, Need::Cublas, Need::CublasLt, Need::PyTorch],
    columns: COLUMNS,
    make: Make::Measured(run),
};

/// `f16 4096³`, `tf32 8192×4096×4096ᵀ`.
fn name((precision, [m, n, k], layout): Row) -> String {
    let size = if m == n && n == k { format!("{m}³") } else { format!("{m}×{n}×{k}") };
    let transposed = if layout == Layout::Transposed { "ᵀ" } else { "" };
    format!("{precision} {size}{transposed}")
}

/// Cost of the product of a row, if it is one of [`MEASURED`].
pub(crate) fn roofline_cost(row_name: &str) -> Option<Cost> {
    let (precision, [m, n, k], _) = MEASURED.into_iter().find(|row| name(*row) == row_name)?;
    let (inputs, outputs) = (precision.input().size() * (m * k + k * n), precision.output().size() * m * n);
    Some(Cost { flops: 2.0 * (m * n * k) as f64, bytes: (inputs + outputs) as f64, values: (m * n) as f64 })
}

/// Makes the table.
fn run(context: &Context) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let rows: &[Row] = if device.is_cuda() { &MEASURED } else { &SIMULATED };
    let rows = context.chosen(rows, IN_SUMMARY, name);
    let (stream, bench) = (device.stream(), peers::bench());
    let library = if_supported(TensorBlas::open(&stream))?;
    let (steps, tuned) = (context.load_steps(LADDER, NAIVE)?, if_supported(Tuned::load(device))?);
    let progress = Progress::new((rows.len() * (steps.len() + 3)) as u64, "tensor-cores");
    let in_blocks = |row: &&Row| row.0 == Precision::ScaledE4M3;
    let requests: Vec<_> = rows.iter().filter(in_blocks).map(|row| PeerRequest::scaled_gemm(row.1)).collect();
    let pytorch = context.pytorch.measure(device, &bench, &requests);
    let mut by_pytorch = pytorch.timings.into_iter();
    let title = format!("tensor-cores: C = A·B on tensor cores, on {}", device.short_name());
    let mut table = LadderTable::new(title, device, COLUMNS).with_peer(LIBRARY);
    table.note(
        "ᵀ: B is given as [N, K], as a linear layer has its weight. tf32: f32 in memory. e4m3 gives f16, s8 gives i32. \
         scaled e4m3: a scale for 128 values of a row of A and for 128 × 128 of B; it gives bf16.",
    );
    table.note(
        "|Δ|: to the f64 product of the same rounded values, within what the tensor cores' sums and the type of C may cost. Of \
         large outputs a seeded sample of 16384 is compared, and all must be finite.",
    );
    if device.is_cuda() {
        table.note(peers::MEDIANS);
        table.note(format!(
            "{LIBRARY}: the fastest of cublasGemmEx and cuBLASLt's first 8 suggestions, measured before and after the steps."
        ));
        if let Some(version) = &pytorch.version {
            table.note(format!("{LIBRARY} of scaled e4m3: cuBLASLt by PyTorch {version}, torch._scaled_mm."));
        }
    }
    let mut patience = Patience::default();
    for row in rows {
        let (name, (precision, size, layout)) = (name(row), row);
        let problem = TensorProblem::seeded(device, size, precision, layout)?;
        let announce = |step: &str| {
            progress.set_message(format!("tensor-cores: {step} at {name}"));
            progress.inc(1);
        };
        let contest = Contest { stream: &stream, bench: &bench, expected: &problem.expected, announce: &announce };
        let mut c = problem.output(device)?;
        let elsewhere = if in_blocks(&&row) { by_pytorch.next() } else { None };
        let suggestion = match &library {
            Ok(library) if elsewhere.is_none() => {
                let TensorProblem { a, b, .. } = &problem;
                let suggestions = library.suggestions(a, b, layout == Layout::Transposed, &c);
                peers::fastest(suggestions, &stream, |suggestion| suggestion.launch(a, b, &mut c)).ok()
            }
            _ => None,
        };
        let by_library = |c: &mut Tensor| match &elsewhere {
            Some(timing) => Ok(StepRun::from(StepResult::Elsewhere(timing.clone()))),
            None => by_library(&contest, &library, suggestion.as_ref(), &problem, c),
        };
        let before = by_library(&mut c)?;
        let mut runs = Vec::new();
        let halves = Precision::HALVES.contains(&precision);
        for LoadedStep { title, step } in steps.iter().filter(|_| halves) {
            let run = || contest.run(title, step, &mut c, |gemm, c| problem.launch(&stream, gemm, c));
            let of_type = format!("{title} {precision}");
            runs.push((title.as_str(), patience.run(&of_type, problem.cost().flops, run)?));
        }
        let chosen = contest.run(peers::TUNED, &tuned, &mut c, |tuned, c| {
            tuned.launch(&stream, &problem.a, &problem.b, layout, &problem.epilogue(), c)
        })?;
        runs.push((peers::TUNED, chosen));
        let library = before.or_faster(by_library(&mut c)?);
        table.problem((PROBLEM, &name), problem.cost(), (LIBRARY, library), runs);
    }
    Ok(table.into())
}

/// The faster one of both libraries.
fn by_library(
    contest: &Contest<'_>,
    library: &Result<TensorBlas, String>,
    suggestion: Option<&Suggestion<'_>>,
    problem: &TensorProblem,
    c: &mut Tensor,
) -> Result<StepRun> {
    let TensorProblem { a, b, layout, .. } = problem;
    let plain = contest.run(LIBRARY, library, c, |library, c| library.gemm(a, b, *layout == Layout::Transposed, c))?;
    let Some(suggestion) = suggestion else { return Ok(plain) };
    let suggested = contest.run(LIBRARY, &Ok(suggestion), c, |suggestion, c| suggestion.launch(a, b, c))?;
    Ok(if plain.result.ms().is_err() { suggested } else { plain.or_faster(suggested) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_named_once_as_the_note_says() {
        let mut names = MEASURED.map(name);
        assert_eq!(names[0], "f16 256×512×256ᵀ");
        assert_eq!(names[4], "f16 4096³");
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
