//! What it does to the values when a formula is rewritten so that one launch can do it.

use common::ladder::columns;
use common::parts::{Part, Report};
use common::prelude::*;
use common::table::{Cell, ColumnSpec, TableBuilder};

use crate::fusion::fold::{FoldProblem, ScaleIn};
use crate::models::Arithmetic;

/// `cargo run -p phase4-fusion -- rewrites`.
pub const PART: Part = Part {
    name: "rewrites",
    about: "how far values move when a formula is rewritten to be fused: BatchNorm in the weights",
    tables: &["batch-norm-folded"],
    by_default: true,
    run,
};

const TYPE: ColumnSpec = ColumnSpec::text("type", "type");
const SCALE: ColumnSpec = ColumnSpec::text("scale", "scale");
const EPILOGUE: ColumnSpec = ColumnSpec::number("epilogue", "in the epilogue, 10⁻⁶", 1);
const WEIGHTS: ColumnSpec = ColumnSpec::number("weights", "in the weights, 10⁻⁶", 1);
const RATIO: ColumnSpec = ColumnSpec::number("ratio", "ratio", 2);

fn run(device: &Device) -> Result<Report> {
    let mut report = Report::default();
    batch_norm(device, &mut report)?;
    Ok(report)
}

fn batch_norm(device: &Device, report: &mut Report) -> Result<()> {
    const CHANNELS: usize = 64;
    let title = "BatchNorm's scale in the epilogue or in the weights";
    let mut table = TableBuilder::on(device, title, &[TYPE, SCALE, EPILOGUE, WEIGHTS, RATIO, columns::CHECK]);
    for (typical, name) in [(1.0, "about 1"), (2f32.powi(-12), "about 2⁻¹²")] {
        let problem = FoldProblem::seeded(CHANNELS, 6, typical)?;
        for arithmetic in [Arithmetic::F32, Arithmetic::Tf32, Arithmetic::F16] {
            let ways = [ScaleIn::Epilogue, ScaleIn::Weights];
            let both = ways.map(|scale_in| problem.difference(&problem.run(device, arithmetic, scale_in)?));
            let row = table.row().set(TYPE, arithmetic.to_string()).set(SCALE, name);
            match both {
                [Err(error), _] | [_, Err(error)] if error.is_unsupported() => row.finish(&error.to_string()),
                [epilogue, weights] => {
                    let (epilogue, weights) = (epilogue?, weights?);
                    let right = |(found, way): (f64, ScaleIn)| found <= problem.allowed(arithmetic, way);
                    let check = if [epilogue, weights].into_iter().zip(ways).all(right) { "ok" } else { "WRONG" };
                    if check != "ok" {
                        report.wrong.push(format!(
                            "BatchNorm's scale, {name}, in {arithmetic}: off by {epilogue} and {weights}"
                        ));
                    }
                    row.set(EPILOGUE, 1e6 * epilogue)
                        .set(WEIGHTS, 1e6 * weights)
                        .set(RATIO, weights / epilogue)
                        .set(columns::CHECK, Cell::from(check))
                        .complete();
                }
            }
        }
    }
    table.note(format!(
        "A convolution of {CHANNELS} channels, 3 × 3. Differences are the largest to f64, each divided by its channel's scale. In f32 \
         the scale in the epilogue is a pass of its own."
    ));
    report.tables.push(table.finish());
    Ok(())
}
