//! `precision`: models with each format everywhere, and with one per layer under an error budget.

use bench::ladder::columns;
use bench::table::{Cell, ColumnSpec};
use common::progress::Progress;
use phase4_fusion::commands::precision::{ABOUT_ERRORS, Model, NOT_CALIBRATED, Subject, Tried, spread, tried};
use phase4_fusion::models::Arithmetic;

use crate::spec::{Context, FinishedTable, Make, Need, TableSpec};

const MODEL: ColumnSpec = ColumnSpec::text("model", "model");
const PLAN: ColumnSpec = ColumnSpec::text("plan", "plan");
const PREDICTED: ColumnSpec = ColumnSpec::number("predicted", "predicted", 5);
const MEASURED: ColumnSpec = ColumnSpec::number("measured", "measured", 5);
const ACCURACY: ColumnSpec = ColumnSpec::number("accuracy", "% right", 2).on_gpu();
const MS: ColumnSpec = ColumnSpec::number("ms", "ms", 3).on_gpu();
const LAYERS: ColumnSpec = ColumnSpec::text("layers", "layers");
const COLUMNS: &[ColumnSpec] = &[MODEL, PLAN, PREDICTED, MEASURED, ACCURACY, MS, LAYERS, columns::CHECK];

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "precision",
    shows: "a format per layer: error predicted and measured, accuracy, ms",
    uses: &[Need::Gpu],
    columns: COLUMNS,
    make: Make::Measured(run),
};

const BUDGETS: [f64; 2] = [1e-3, 1e-2];
/// Factor by which a plan may exceed its budget, over inputs that it was not calibrated with.
const MARGIN: f64 = 1.5;
/// Maximum loss of accuracy of a plan in bytes, 0 to 1.
const LOST: f64 = 0.003;
const OVERFLOW: &str = "a value overflows";

fn run(context: &Context) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let models = if device.is_sim() {
        &[Model::Digits][..]
    } else {
        &[Model::Digits, Model::DigitsRange, Model::DigitsOutlier, Model::ResNet18, Model::UNet]
    };
    let progress = Progress::new(models.len() as u64, "precision");
    let mut table = context.table(format!("precision: a format per layer on {}", device.short_name()), COLUMNS);
    let mut wrong = Vec::new();
    for &model in models {
        let subject = Subject::new(device, model)?;
        progress.set_message(format!("precision: {}", subject.name));
        progress.inc(1);
        let calibration = subject.calibrate(device)?;
        let costs = subject.costs(device, &calibration)?;
        let plans = tried(device, &subject, &calibration, &costs, &BUDGETS)?;
        let of_f32 = plans.iter().find(|tried| tried.plan == Arithmetic::F32.to_string());
        let accuracy_in_f32 = of_f32.and_then(|tried| tried.accuracy);
        for tried in &plans {
            let problem = problem(model, tried, accuracy_in_f32);
            let word = if problem.is_some() { "WRONG" } else { "ok" };
            wrong.extend(problem.map(|problem| format!("{} in {}: {problem}", subject.name, tried.plan)));
            let error = |error: f64| Cell::or_absent(Some(error).filter(|error| error.is_finite()), OVERFLOW);
            let predicted = tried.predicted.map_or(Cell::absent(NOT_CALIBRATED), error);
            let accuracy = Cell::or_absent(tried.accuracy.map(|right| 100.0 * right), "no labelled images of its kind");
            table
                .row()
                .set(MODEL, &*subject.name)
                .set(PLAN, &*tried.plan)
                .set(PREDICTED, predicted)
                .set(MEASURED, error(tried.measured))
                .set(ACCURACY, accuracy)
                .set(MS, Cell::or_absent(tried.ms, bench::timing::NO_CLOCK))
                .set(LAYERS, spread(&calibration, &tried.each))
                .set(columns::CHECK, word)
                .complete();
        }
    }
    table.note(ABOUT_ERRORS);
    table.note(format!(
        "check: an adaptive plan is off by at most {MARGIN} times its budget, and reads at most {:.1} % fewer digits than f32; so does int8 \
         with a step per filter. adaptive 1e-3: within that budget. layers: how many are in f32, tf32, f16, fp8, int8. % right: of \
         360 digits that neither training nor calibration has seen.",
        100.0 * LOST
    ));
    Ok(FinishedTable { table: table.finish(), wrong })
}

/// Error of a plan, if any.
fn problem(model: Model, tried: &Tried, accuracy_in_f32: Option<f64>) -> Option<String> {
    if let Some(budget) = tried.budget.filter(|budget| tried.measured > MARGIN * budget) {
        return Some(format!("it is off by {:e}, and {budget:e} was allowed", tried.measured));
    }
    let keeps = tried.budget.is_some() || (tried.plan == Arithmetic::Int8.to_string() && model != Model::DigitsRange);
    let lost = accuracy_in_f32.zip(tried.accuracy).map(|(of_f32, own)| of_f32 - own);
    lost.filter(|lost| keeps && *lost > LOST)
        .map(|lost| format!("it reads {:.2} % fewer digits than f32", 100.0 * lost))
}
