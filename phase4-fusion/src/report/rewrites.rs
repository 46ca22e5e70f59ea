//! Effect on the values when a formula is rewritten so that one launch can do it.

use bench::ladder::columns;
use bench::parts::{Part, Report};
use bench::table::{Cell, ColumnSpec, TableBuilder};
use common::prelude::*;

use crate::fusion::fold::{FoldProblem, ScaleIn};
use crate::fusion::layer_norm::{LayerNormProblem, PRECISIONS, Way};
use crate::models::Arithmetic;

/// `cargo run -p phase4-fusion -- rewrites`.
pub const PART: Part = Part {
    name: "rewrites",
    about: "how far values move when a formula is rewritten to be fused: BatchNorm in the weights, LayerNorm behind a product",
    tables: &["batch-norm-folded", "layer-norm-behind"],
    by_default: true,
    run,
};

const TYPE: ColumnSpec = ColumnSpec::text("type", "type");
const SCALE: ColumnSpec = ColumnSpec::text("scale", "scale");
const EPILOGUE: ColumnSpec = ColumnSpec::number("epilogue", "in the epilogue, 10⁻⁶", 1);
const WEIGHTS: ColumnSpec = ColumnSpec::number("weights", "in the weights, 10⁻⁶", 1);
const MEAN: ColumnSpec = ColumnSpec::number("mean", "|μ| ÷ σ", 0);
const SEPARATE: ColumnSpec = ColumnSpec::number("separate", "before the product, 10⁻⁶", 0);
const FUSED: ColumnSpec = ColumnSpec::number("fused", "after it, 10⁻⁶", 0);
const RATIO: ColumnSpec = ColumnSpec::number("ratio", "ratio", 2);

fn run(device: &Device) -> Result<Report> {
    let mut report = Report::default();
    batch_norm(device, &mut report)?;
    layer_norm(device, &mut report)?;
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

fn layer_norm(device: &Device, report: &mut Report) -> Result<()> {
    const SIZE: [usize; 3] = [64, 128, 64];
    let title = "LayerNorm before the linear layer's product, or after it";
    let mut table = TableBuilder::on(device, title, &[TYPE, MEAN, SEPARATE, FUSED, RATIO, columns::CHECK]);
    for precision in PRECISIONS {
        for mean in [0.0, 1.0, 4.0, 16.0, 64.0, 256.0] {
            let problem = LayerNormProblem::seeded(SIZE, mean, precision)?;
            let mut check = "ok";
            let mut difference = |way| {
                let found = problem.expected(way)?.check(&problem.run(device, way)?.to_f64()?);
                Ok(found.map(|report| report.max_abs).unwrap_or_else(|mismatch| {
                    check = "WRONG";
                    report.wrong.push(format!("LayerNorm, {way:?}, {precision}, mean {mean}: {mismatch}"));
                    f64::NAN
                }))
            };
            let both: [Result<f64>; 2] = [difference(Way::Separate), difference(Way::Fused)];
            let row = table.row().set(TYPE, precision.to_string()).set(MEAN, f64::from(mean));
            match both {
                [Err(error), _] | [_, Err(error)] if error.is_unsupported() => row.finish(&error.to_string()),
                [separate, fused] => {
                    let (separate, fused) = (separate?, fused?);
                    row.set(SEPARATE, 1e6 * separate)
                        .set(FUSED, 1e6 * fused)
                        .set(RATIO, fused / separate)
                        .set(columns::CHECK, Cell::from(check))
                        .complete();
                }
            }
        }
    }
    let [rows, inputs, outputs] = SIZE;
    table.note(format!(
        "{rows} rows of {inputs} values with mean μ and deviation σ, to {outputs}. Differences are the largest to f64, of results up to \
         about 3. x is of the type; in tf32 that is f32, of which the tensor cores multiply 19 bits."
    ));
    report.tables.push(table.finish());
    Ok(())
}
