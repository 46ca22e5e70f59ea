//! A format for each layer: the costs of single layers, and the plans made from them.

use bench::parts::{Part, Report};
use common::prelude::*;

use crate::commands::precision::{Model, Subject, plans};
use crate::models::adaptive::choose;
use crate::models::adaptive::choose::explained;

/// `cargo run -p phase4-fusion -- formats`.
pub const PART: Part = Part {
    name: "formats",
    about: "a format for each layer of the digits' network under an error budget, and what breaks formats",
    tables: &["precision-digits", "precision-layers", "precision-range", "precision-outlier"],
    by_default: false,
    run,
};

const BUDGET: f64 = 1e-3;

/// The plans of the network, of the same with a layer beyond f16, whose layers come first, and with a filter that is much larger.
fn run(device: &Device) -> Result<Report> {
    let mut tables = Vec::new();
    for model in [Model::Digits, Model::DigitsRange, Model::DigitsOutlier] {
        let subject = Subject::new(device, model)?;
        let calibration = subject.calibrate(device)?;
        let costs = subject.costs(device, &calibration)?;
        if model == Model::DigitsRange {
            let title = format!("layers of {} within {BUDGET:e}", subject.name);
            tables.push(explained(title, &calibration, &choose(&calibration, &costs, BUDGET)));
        }
        tables.push(plans(device, &subject, &calibration, &costs, BUDGET)?);
    }
    Ok(Report { tables, wrong: Vec::new() })
}
