//! The cheapest formats within an error budget.

use common::table::{Cell, ColumnSpec, Table, TableBuilder};

use super::super::Arithmetic;
use super::super::plan::Formats;
use super::calibrate::{Calibration, Layer};
use super::cost::Costs;
use super::{FORMATS, stored};

/// The formats that were chosen, and what is expected of them.
#[derive(Clone, Debug)]
pub struct Adaptive {
    /// One per node, with the steps of bytes.
    pub formats: Formats,
    /// ‖y − y in f32‖ / ‖y in f32‖, as [`Calibration::predicted`].
    pub predicted: f64,
    /// Milliseconds, as [`Costs::total`].
    pub ms: f64,
    /// Why each node has its format.
    pub why: Vec<String>,
}

// ANCHOR: choose
/// The cheapest formats whose predicted error is within `budget`. Deterministic.
///
/// Changing one layer can cost two conversions, so a search that starts with f32 everywhere would stop there. It starts with each format
/// everywhere instead, mends what is beyond the budget where that costs least per error saved, and then takes every change of one layer,
/// or of two of which one works on the other, that saves time and stays within the budget. The best of these starts is taken; f32
/// everywhere is one of them, so that there always is a plan.
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
    /// The formats and what they take, from these on; `None` if no change brings them within the budget.
    fn from(&self, mut formats: Vec<Arithmetic>) -> Option<(Vec<Arithmetic>, f64)> {
        while self.calibration.predicted(&formats) > self.budget {
            formats = self.mended(&formats)?;
        }
        let mut ms = self.costs.total(&formats);
        while let Some((cheaper, least)) = self.cheaper(&formats, ms) {
            (formats, ms) = (cheaper, least);
        }
        Some((formats, ms))
    }

    /// With the layer in another format that costs least for the error that it saves.
    fn mended(&self, formats: &[Arithmetic]) -> Option<Vec<Arithmetic>> {
        let (ms, squared) = (self.costs.total(formats), |node: usize, format| {
            self.calibration.layers()[node].error(format).map_or(f64::INFINITY, |error| error * error)
        });
        let mut best: Option<(f64, Vec<Arithmetic>)> = None;
        for (node, format) in self.changes(formats) {
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

    /// The change of one layer, or of two neighbours, that saves most.
    fn cheaper(&self, formats: &[Arithmetic], ms: f64) -> Option<(Vec<Arithmetic>, f64)> {
        let mut best: Option<(Vec<Arithmetic>, f64)> = None;
        let mut consider = |changes: &[(usize, Arithmetic)]| {
            let changed = self.changed(formats, changes);
            let took = self.costs.total(&changed);
            let least = best.as_ref().map_or(ms, |(_, least)| *least);
            // Less by more than what sums of f64 are off by.
            if took < least * (1.0 - 1e-9) && self.calibration.predicted(&changed) <= self.budget {
                best = Some((changed, took));
            }
        };
        for (node, format) in self.changes(formats) {
            consider(&[(node, format)]);
            for next in self.calibration.products_after(node) {
                for then in self.others(formats, next) {
                    consider(&[(node, format), (next, then)]);
                }
            }
        }
        best
    }

    /// Each other format of each layer.
    fn changes<'f>(&'f self, formats: &'f [Arithmetic]) -> impl Iterator<Item = (usize, Arithmetic)> + 'f {
        (0..formats.len()).flat_map(move |node| self.others(formats, node).map(move |format| (node, format)))
    }

    fn others<'f>(&'f self, formats: &'f [Arithmetic], node: usize) -> impl Iterator<Item = Arithmetic> + 'f {
        let layer: &Layer = &self.calibration.layers()[node];
        let able =
            move |format: &Arithmetic| *format != formats[node] && layer.error(*format).is_some_and(f64::is_finite);
        FORMATS.into_iter().filter(able)
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
            _ if self.calibration.predicted(&changed) > self.budget => format!("{other}: beyond the budget"),
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

/// A row per node: the range of its values, the error of each format, the one chosen, and why.
pub fn explained(title: impl Into<String>, calibration: &Calibration, chosen: &Adaptive) -> Table {
    let columns = [NODE, LAYERS, LARGEST].into_iter().chain(ERRORS).chain([FORMAT, WHY]);
    let mut table = TableBuilder::of(title, columns);
    let mut reasons: Vec<String> = Vec::new();
    for (node, layer) in calibration.layers().iter().enumerate() {
        let mut row = table.row().set(NODE, node).set(LAYERS, &*layer.name).set(LARGEST, f64::from(layer.largest));
        for (column, format) in ERRORS.into_iter().zip(&FORMATS[1..]) {
            let candidate = layer.candidates.iter().find(|candidate| candidate.format == *format);
            let cell = match candidate.map(|candidate| &candidate.error) {
                None => Cell::absent("it follows its operand"),
                Some(Err(reason)) => {
                    reasons.push(format!("{format}: {reason}"));
                    Cell::absent(reason.clone())
                }
                Some(Ok(error)) if error.is_infinite() => "∞".into(),
                Some(Ok(error)) => format!("{error:.0e}").into(),
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
