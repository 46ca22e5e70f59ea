//! Tables that the simulator fills, the same on every machine.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use bench::{gallery, table::Table};
use common::Device;
use phase1_infra::{Run, STEPS};
use phase2_conv_bn::report as phase2;
use phase4_fusion::{broken, published, report as phase4};
use phase5_bench::{
    spec::{Context, Make},
    tables::TABLES,
};

use super::{PHASE5, RecordError, no_table};

/// Maker of tables on the simulator: a step of phase 1, a part of another phase's report, a gallery, or a table of phase 5.
struct Maker {
    phase: &'static str,
    tables: &'static [&'static str],
    run: Box<dyn Fn() -> Result<Vec<Table>, RecordError>>,
}

/// All makers with the same output on every machine.
fn makers() -> impl Iterator<Item = Maker> {
    let steps = STEPS.iter().filter_map(|step| match step.run {
        Run::OnDevice(run) => {
            let run = Box::new(move || Ok(run(&Device::sim())?));
            Some(Maker { phase: "phase1-infra", tables: step.tables, run })
        }
        Run::Anywhere(_) => None,
    });
    let phases = [("phase2-conv-bn", phase2::PARTS), ("phase4-fusion", phase4::PARTS)];
    let parts = phases.into_iter().flat_map(|(phase, parts)| {
        parts.iter().map(move |part| {
            let run = Box::new(|| Ok((part.run)(&Device::sim_with(bench::parts::simulator()))?.tables));
            Maker { phase, tables: part.tables, run }
        })
    });
    let orders = [(&broken::GALLERY, &["orders"]), (&published::GALLERY, &["published"])].map(|(shown, tables)| {
        let run = Box::new(move || Ok(vec![gallery::orders::orders(shown)?]));
        Maker { phase: "phase4-fusion", tables, run }
    });
    let measured = TABLES.iter().filter_map(|spec| match spec.make {
        Make::Measured(run) => {
            let run = Box::new(move || Ok(vec![run(&Context::simulator())?.table]));
            Some(Maker { phase: PHASE5, tables: std::slice::from_ref(&spec.name), run })
        }
        Make::Derived { .. } => None,
    });
    steps.chain(parts).chain(orders).chain(measured)
}

/// A table that the simulator fills. Each maker runs once per process.
pub(super) fn simulated(phase: &str, name: &str) -> Result<Arc<Table>, RecordError> {
    type Made = Arc<Mutex<HashMap<&'static str, Arc<Table>>>>;
    // By the maker's phase and its first table, each with a lock of its own: pages are made side by side.
    static KNOWN: Mutex<BTreeMap<(&str, &str), Made>> = Mutex::new(BTreeMap::new());
    let of_phase = || makers().filter(|maker| maker.phase == phase);
    let Some(maker) = of_phase().find(|maker| maker.tables.contains(&name)) else {
        let known = of_phase().flat_map(|maker| maker.tables);
        return Err(no_table(name, format!("{phase} on the simulator"), known.copied()));
    };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let made = known.entry((maker.phase, maker.tables[0])).or_default().clone();
    drop(known);
    let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
    if made.is_empty() {
        made.extend(maker.tables.iter().copied().zip((maker.run)()?.into_iter().map(Arc::new)));
    }
    let missing = || no_table(name, format!("what is made on {}", Device::sim().describe()), [].into_iter());
    made.get(name).cloned().ok_or_else(missing)
}
