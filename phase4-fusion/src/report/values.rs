//! One product of the same size and instructions, by the values that it multiplies.

use bench::ladder::{Contest, LadderTable, columns, if_supported};
use bench::parts::{Part, Report};
use bench::table::ColumnSpec;
use bench::timing::{Bench, Queue};
use common::prelude::*;

use super::gemm::TensorProblem;
use super::{allowed, finish};
use crate::gemm::{Layout, Precision, Tuned};

/// `cargo run -p phase4-fusion -- values`.
pub const PART: Part = Part {
    name: "values",
    about: "one product of f16 and bf16 values: a GPU at its power limit is faster with values of few bits",
    tables: &["product-values"],
    by_default: false,
    run,
};

/// The type of A and B.
const TYPE: ColumnSpec = ColumnSpec::text("type", "type");
const VALUES: ColumnSpec = ColumnSpec::text("values", "values");
const COLUMNS: &[ColumnSpec] = &[
    TYPE,
    VALUES,
    columns::LANE_MILLIONS,
    columns::MS,
    columns::TFLOPS.on_gpu(),
    columns::MAX_DIFFERENCE,
    columns::CHECK,
];

/// The values of A and B.
#[derive(Clone, Copy)]
enum Values {
    /// Distinct ones in (−1, 1).
    Random,
    /// The same, rounded to bf16's 8 bits of precision.
    Rounded,
    /// Zeros.
    Zeros,
}

/// The coolest first.
const ROWS: [(Precision, Values); 5] = [
    (Precision::F16, Values::Zeros),
    (Precision::Bf16, Values::Zeros),
    (Precision::Bf16, Values::Random),
    (Precision::F16, Values::Rounded),
    (Precision::F16, Values::Random),
];

impl Values {
    fn name(self) -> &'static str {
        match self {
            Values::Random => "random",
            Values::Rounded => "random, 8 bits",
            Values::Zeros => "zeros",
        }
    }

    /// A matrix on the host.
    fn matrix(self, precision: Precision, shape: &[usize], seed: u64) -> Result<Tensor> {
        match self {
            Values::Random => precision.random(shape, seed),
            Values::Rounded => {
                let rounded = Tensor::random(shape, seed).to_type(ElementType::BF16)?;
                rounded.to_type(ElementType::F32)?.to_type(precision.input())
            }
            Values::Zeros => Tensor::from_vec(shape, vec![0.0; shape.iter().product()])?.to_type(precision.input()),
        }
    }
}

fn run(device: &Device) -> Result<Report> {
    // On a GPU long enough for its power to be limited.
    let size = if device.is_sim() { 256 } else { 8192 };
    let title = format!("one product of {size} × {size} × {size} by its values, on {}", device.short_name());
    let mut table = LadderTable::new(title, device, COLUMNS);
    let bench = Bench { repeats: 200, queue: Queue::Warm, ..Bench::default() };
    let (stream, gemm) = (device.stream(), if_supported(Tuned::load(device))?);
    for (precision, values) in ROWS {
        let [a, b] = [1, 2].map(|seed| values.matrix(precision, &[size, size], seed));
        let problem = TensorProblem::of(device, [size; 3], precision, Layout::Transposed, [a?, b?])?;
        let contest = Contest { stream: &stream, bench: &bench, expected: &problem.expected, announce: &|_| () };
        let launch = |gemm: &Tuned, c: &mut Tensor| {
            gemm.launch(&stream, &problem.a, &problem.b, problem.layout, &problem.epilogue(), c)
        };
        let run = contest.run(values.name(), &gemm, &mut problem.output(device)?, launch)?;
        table.allow(allowed(&problem.expected));
        table.row(&[(TYPE, &precision.to_string()), (VALUES, values.name())], problem.cost(), &run);
    }
    let mut report = Report::default();
    finish(table, &mut report);
    Ok(report)
}
