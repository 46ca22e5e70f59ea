//! What every table is made of and made with. Tables know this module and none of the others' list, [`crate::registry`].

use std::cell::OnceCell;

use common::ladder::LadderTable;
use common::prelude::*;
use common::record::Record;
use common::table::{ColumnSpec, DeviceKind, Table, TableBuilder};
use common::timing::Bench;
use media::photo::Photo;

use crate::Result;
use crate::limits::Limits;

/// One table of the course.
pub struct TableSpec {
    /// Its name on the command line and in records.
    pub name: &'static str,
    /// What it shows, in a few words.
    pub shows: &'static str,
    /// The part of it that a later phase still owes; empty if it is complete.
    pub so_far: &'static str,
    /// Its columns.
    pub columns: &'static [ColumnSpec],
    /// How it is made.
    pub make: Make,
}

/// How a table is made.
pub enum Make {
    /// By measuring.
    Measured(fn(&Context) -> Result<FinishedTable>),
    /// From other tables, which the runner finishes first.
    Derived {
        /// Their names.
        needs: &'static [&'static str],
        /// Takes a run that has them all: this one on a GPU, a recorded one on the simulator. `None` if there is no such run.
        from: fn(Option<&Record>) -> Result<FinishedTable>,
    },
}

/// A table's numbers, and what in them is wrong.
#[derive(Clone, Debug)]
pub struct FinishedTable {
    /// The numbers.
    pub table: Table,
    /// One sentence for each result that failed its check; empty if all is well.
    pub wrong: Vec<String>,
}

/// What a table is measured with.
pub struct Context {
    /// Where the kernels run.
    pub device: Device,
    /// What networks look at.
    pub photo: Photo,
    /// Whether what runs on the host is timed once, for a first look.
    pub quick: bool,
    limits: OnceCell<Option<Limits>>,
}

impl TableSpec {
    /// The tables that it is made from.
    pub fn needs(&self) -> &'static [&'static str] {
        if let Make::Derived { needs, .. } = self.make { needs } else { &[] }
    }
}

impl Context {
    /// For tables on this device.
    pub fn new(device: Device, photo: Photo) -> Context {
        Context { device, photo, quick: false, limits: OnceCell::new() }
    }

    /// For tables of counts: on the simulator, with the course's photo.
    pub fn simulator() -> Context {
        let context = Context::new(Device::sim_with(common::parts::simulator()), Photo::built_in());
        Context { quick: true, ..context }
    }

    /// How to time what runs on the host: as `careful` says, or once.
    pub fn host_bench(&self, careful: Bench) -> Bench {
        if self.quick { Bench { warm_up: 0, repeats: 1, ..careful } } else { careful }
    }

    /// Up to `limit` devices that work together: the GPU and those after it, or as many simulated ones.
    ///
    /// # Errors
    /// As [`DeviceGroup::open`].
    pub fn group(&self, limit: usize) -> Result<DeviceGroup> {
        #[cfg(feature = "cuda")]
        if let Some(cuda) = self.device.as_cuda() {
            return Ok(DeviceGroup::open(DeviceChoice::Cuda(cuda.ordinal()), None)?.first(limit));
        }
        Ok(DeviceGroup::sim(limit as u32))
    }

    /// An empty table for this device.
    pub fn table(&self, title: impl Into<String>, columns: &[ColumnSpec]) -> TableBuilder {
        TableBuilder::new(title, DeviceKind::of(&self.device), columns)
    }

    /// The device's limits, measured once; `None` on the simulator.
    ///
    /// # Errors
    /// What the device reports.
    pub fn limits(&self) -> Result<Option<Limits>> {
        if let Some(limits) = self.limits.get() {
            return Ok(*limits);
        }
        let limits = Limits::measure(&self.device)?;
        Ok(*self.limits.get_or_init(|| limits))
    }

    /// The device's limits, if a table has needed them.
    pub fn limits_if_measured(&self) -> Option<&Limits> {
        self.limits.get()?.as_ref()
    }
}

impl From<LadderTable> for FinishedTable {
    fn from(table: LadderTable) -> FinishedTable {
        let (table, wrong) = table.finish();
        FinishedTable { table, wrong }
    }
}
