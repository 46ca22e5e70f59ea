//! Effects of asynchronous bugs on values: runs each broken kernel on a simulator that does not check, with copies made
//! late, early and at pseudo-random times.
//!
//! A sanitised launch always makes them late; its findings do not depend on their order.

use ptx_sim::Asynchrony;

use super::{Gallery, Outcome, Version, sanitising};
use crate::table::{Cell, ColumnSpec, Table, TableBuilder};
use common::device::SimOptions;
use common::prelude::*;

const KERNEL: ColumnSpec = ColumnSpec::text("kernel", "kernel");
const BUG: ColumnSpec = ColumnSpec::text("bug", "bug");
const EARLY: ColumnSpec = ColumnSpec::text("early", "early");
const SEEDED: ColumnSpec = ColumnSpec::text("seeded", "pseudo-random");
const LATE: ColumnSpec = ColumnSpec::text("late", "late");
const CHECKED: ColumnSpec = ColumnSpec::text("checked", "sanitised");

/// The last row.
pub const ALL: &str = "all";

/// The orders of the table, from the one that hides most to the one that hides least.
pub const ORDERS: [Asynchrony; 3] = [Asynchrony::Early, Asynchrony::Seeded(1), Asynchrony::Late];

/// A simulator that makes copies in this order and does not check, so that only values differ.
pub fn unchecked(asynchrony: Asynchrony) -> SimOptions {
    SimOptions { asynchrony, ..SimOptions::default() }
}

/// One row per kernel: the state of its values in each of [`ORDERS`], and the findings of a sanitised launch. The last row,
/// `all`, counts the kernels whose values are right.
///
/// # Errors
/// Errors of [`super::Broken::run`].
pub fn orders(gallery: &Gallery) -> Result<Table> {
    let mut table = TableBuilder::of(
        "what shows when copies are made early or late, on the simulator",
        [KERNEL, BUG, EARLY, SEEDED, LATE, CHECKED],
    );
    let columns = [EARLY, SEEDED, LATE, CHECKED];
    let mut right = [0u64; 4];
    for entry in gallery.entries {
        let run = |options| -> Result<Cell> {
            Ok(match entry.run(&Device::sim_with(options), Version::Broken, entry.sizes[0])? {
                Outcome::Right(_) => "right".into(),
                Outcome::Wrong(_) => "wrong".into(),
                found => found.kinds().join("\n").into(),
            })
        };
        let mut row = table.row().set(KERNEL, entry.number).set(BUG, entry.title);
        let options = ORDERS.map(unchecked).into_iter().chain([sanitising()]);
        for ((options, column), right) in options.zip(columns).zip(&mut right) {
            let cell = run(options)?;
            *right += u64::from(cell == "right".into());
            row = row.set(column, cell);
        }
        row.complete();
    }
    let mut row = table.row().set(KERNEL, ALL).set(BUG, "values are right");
    for (column, right) in columns.into_iter().zip(right) {
        row = row.set(column, right);
    }
    row.complete();
    Ok(table.finish())
}
