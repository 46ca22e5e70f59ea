//! The cheapest formats within an error budget.

use bench::table::{Cell, ColumnSpec, Table, TableBuilder};

use super::super::Arithmetic;
use super::super::plan::Formats;
use super::calibrate::{Calibration, Layer};
use super::cost::Costs;
use super::{FORMATS, stored};

/// The chosen formats, with their predictions.
#[derive(Clone, Debug)]
pub struct Adaptive {
    /// One per node, with the steps of bytes.
    pub formats: Formats,
    /// Relative error ‖y − y in f32‖ / ‖y in f32‖, from [`Calibration::predicted`].
    pub predicted: f64,
    /// Milliseconds, from [`Costs::total`].
    pub ms: f64,
    /// Why each node has its format.
    pub why: Vec<String>,
}

// ANCHOR: choose
/// The cheapest formats whose predicted error is within `budget`. Deterministic.
///
/// Changing one layer can cost two conversions, so a search that starts with f32 everywhere would stop there. It starts with each format
/// everywhere instead, mends what is beyond the budget where that costs least per squared error saved, and then takes every change of one
/// layer, or of two of which one works on the other, that saves time and stays within the budget, until there is none. The best of these
/// ends is taken; f32 everywhere is one of the starts, so that there always is a plan.
pub fn choose(calibration: &Calibration, costs: &Costs, budget: f64) -> Adaptive {
    let search = Search { calibration, costs, budget };
    let found = FORMATS.into_iter().filter_map(|format| search.from(calibration.uniform(format)));
    let best = found.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(formats, _)| formats);
    let each = best.unwrap_or_else(|| calibration.uniform(Arithmetic::F32));
    let why = (0..each.len()).map(|node| search.reason(&each, node)).collect();
    let (predicted, ms) = (calibration.predicted(&each), costs.total(&each));
    Adaptive { formats: calibration.formats(each), predicted, ms, why }
}
// ANCHOR_END: choose

struct Search<'a> {
    calibration: &'a Calibration,
    costs: &'a Costs,
    budget: f64,
}

impl Search<'_> {
    /// The formats and their costs, from these on; `None` if no change brings them within the budget.
    fn from(&self, mut formats: Vec<Arithmetic>) -> Option<(Vec<Arithmetic>, f64)> {
        while self.calibration.predicted(&formats) > self.budget {
            formats = self.mended(&formats)?;
        }
        let mut ms = self.costs.total(&formats);
        while self.made_cheaper(&mut formats, &mut ms) {}
        Some((formats, ms))
    }

    /// Changes the layer whose other format costs least for the error that it saves.
    fn mended(&self, formats: &[Arithmetic]) -> Option<Vec<Arithmetic>> {
        let (ms, squared) = (self.costs.total(formats), |node: usize, format| {
            self.calibration.layers()[node].error(format).map_or(f64::INFINITY, |error| error * error)
        });
        let mut best: Option<(f64, Vec<Arithmetic>)> = None;
        let all = (0..formats.len())
            .flat_map(|node| self.others(formats, node).into_iter().map(move |format| (node, format)));
        for (node, format) in all {
            let saved = squared(node, formats[node]) - squared(node, format);
            if saved.is_nan() || saved <= 0.0 {
                continue;
            }
            let changed = self.changed(formats, &[(node, format)]);
            // What saves time and error at once comes first; an error without bounds is worth any time.
            let price = (self.costs.total(&changed) - ms) / saved;
            let price = if saved.is_infinite() { f64::NEG_INFINITY } else { price };
            if best.as_ref().is_none_or(|(least, _)| price < *least) {
                best = Some((price, changed));
            }
        }
        best.map(|(_, changed)| changed)
    }

    /// Makes each change of one layer, or of two neighbours, that saves time; returns whether there was one.
    fn made_cheaper(&self, formats: &mut Vec<Arithmetic>, ms: &mut f64) -> bool {
        let before = *ms;
        let mut take = |formats: &mut Vec<Arithmetic>, changes: &[(usize, Arithmetic)]| {
            let changed = self.changed(formats, changes);
            let took = self.costs.total(&changed);
            // Less by more than what sums of f64 are off by.
            if took < *ms * (1.0 - 1e-9) && self.calibration.predicted(&changed) <= self.budget {
                (*formats, *ms) = (changed, took);
            }
        };
        for node in 0..formats.len() {
            for format in self.others(formats, node) {
                take(formats, &[(node, format)]);
                for next in self.calibration.products_after(node) {
                    for then in self.others(formats, next) {
                        take(formats, &[(node, format), (next, then)]);
                    }
                }
            }
        }
        *ms < before
    }

    /// The other formats that a layer could have.
    fn others(&self, formats: &[Arithmetic], node: usize) -> Vec<Arithmetic> {
        let layer: &Layer = &self.calibration.layers()[node];
        let able = |format: &Arithmetic| *format != formats[node] && layer.error(*format).is_some_and(f64::is_finite);
        FORMATS.into_iter().filter(able).collect()
    }

    fn changed(&self, formats: &[Arithmetic], changes: &[(usize, Arithmetic)]) -> Vec<Arithmetic> {
        let mut changed = formats.to_vec();
        changes.iter().for_each(|&(node, format)| changed[node] = format);
        self.calibration.follow(&mut changed);
        changed
    }

    /// Why a node has its format.
    fn reason(&self, formats: &[Arithmetic], node: usize) -> String {
        let (layer, format) = (&self.calibration.layers()[node], formats[node]);
        if !layer.is_chosen_for() {
            return "as its operand lies".to_owned();
        }
        let cheaper = |other: &Arithmetic| self.costs.node(node, *other) < self.costs.node(node, format);
        let by_cost = |a: &Arithmetic, b: &Arithmetic| self.costs.node(node, *a).total_cmp(&self.costs.node(node, *b));
        let first = FORMATS.into_iter().filter(|other| layer.error(*other).is_some()).filter(cheaper).min_by(by_cost);
        let Some(other) = first else { return "the cheapest".to_owned() };
        let changed = self.changed(formats, &[(node, other)]);
        match layer.error(other) {
            Some(error) if error.is_infinite() => format!("{other}: beyond its range"),
            _ if self.calibration.predicted(&changed) > self.budget => format!("{other}: over budget"),
            _ if stored(other) != stored(format) => format!("{other}: its conversions"),
            _ => format!("{other}: no gain"),
        }
    }
}

const NODE: ColumnSpec = ColumnSpec::identity("node", "#");
const LAYERS: ColumnSpec = ColumnSpec::text("layers", "layers");
const LARGEST: ColumnSpec = ColumnSpec::number("largest", "largest", 1);
const FORMAT: ColumnSpec = ColumnSpec::text("format", "format");
const WHY: ColumnSpec = ColumnSpec::text("why", "why not cheaper");
const ERRORS: [ColumnSpec; 4] = [
    ColumnSpec::text("error_tf32", "tf32"),
    ColumnSpec::text("error_f16", "f16"),
    ColumnSpec::text("error_fp8", "fp8"),
    ColumnSpec::text("error_int8", "int8"),
];

/// An error in a table, with this many decimals.
pub fn in_short(error: f64, decimals: usize) -> String {
    if error.is_finite() { format!("{error:.decimals$e}") } else { "∞".to_owned() }
}

/// One row per node: the range of its values, the error of each format, the chosen one, and why.
pub fn explained(title: impl Into<String>, calibration: &Calibration, chosen: &Adaptive) -> Table {
    let columns = [NODE, LAYERS, LARGEST].into_iter().chain(ERRORS).chain([FORMAT, WHY]);
    let mut table = TableBuilder::of(title, columns);
    let mut reasons: Vec<String> = Vec::new();
    for (node, layer) in calibration.layers().iter().enumerate() {
        let mut row = table.row().set(NODE, node).set(LAYERS, &*layer.name).set(LARGEST, f64::from(layer.largest));
        for (column, format) in ERRORS.into_iter().zip(&FORMATS[1..]) {
            let cell = match layer.candidate(*format).map(|candidate| &candidate.error) {
                None => Cell::absent("it follows its operand"),
                Some(Err(reason)) => {
                    reasons.push(format!("{format}: {reason}"));
                    Cell::absent(reason.clone())
                }
                Some(Ok(error)) => in_short(*error, 0).into(),
            };
            row = row.set(column, cell);
        }
        let format = chosen.formats.each[node].to_string();
        row.set(FORMAT, format).set(WHY, &*chosen.why[node]).complete();
    }
    table.note(
        "largest: magnitude of the result; f16 ends at 65504. tf32 to int8: the error at the model's output when this layer alone has \
         that format, relative L2 norm to f32; ∞: a value overflows; –: no kernel.",
    );
    reasons.sort_unstable();
    reasons.dedup();
    reasons.into_iter().for_each(|reason| table.note(reason));
    table.finish()
}
