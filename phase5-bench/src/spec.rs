//! What every table is made of and made with. Tables know this module and none of the others' list, [`crate::registry`].

use std::cell::OnceCell;

use bench::ladder::{LadderTable, LoadedStep, Method, Step, load_steps};
use bench::record::Record;
use bench::table::{ColumnSpec, DeviceKind, Table, TableBuilder};
use bench::timing::Bench;
use common::prelude::*;
use media::photo::Photo;

use crate::Result;
use crate::limits::Limits;

/// One table of the course.
pub struct TableSpec {
    /// Its name on the command line and in records.
    pub name: &'static str,
    /// What it shows, in a few words.
    pub shows: &'static str,
    /// What a machine has to have for all of its numbers. What a derived table uses, its needs say.
    pub uses: &'static [Need],
    /// Its columns.
    pub columns: &'static [ColumnSpec],
    /// How it is made.
    pub make: Make,
}

/// Something that a machine has to have for some of a table's numbers. Which tables use it is theirs to say; what is here and what would
/// mend it, [`crate::doctor`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A clock.
    Gpu,
    /// Another one beside it.
    SecondGpu,
    /// A GPU of compute capability 9.0: its wgmma and its copy engine.
    Hopper,
    /// Products by the library.
    Cublas,
    /// Products with suggestions of the library.
    CublasLt,
    /// Convolutions and normalisation by the library.
    Cudnn,
    /// All-reduce by the library.
    Nccl,
    /// Whole models, and operations.
    PyTorch,
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

/// The problem of a table that the summary shows, by name.
#[derive(Clone, Copy, Debug)]
pub struct InSummary {
    /// On a GPU.
    pub gpu: &'static str,
    /// On the simulator, where each second counts.
    pub simulator: &'static str,
}

/// Of ImageNet's images.
const SIDE: usize = 224;
const HURRIED_SIDE: usize = 64;

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
    /// Whether only what the summary shows is measured.
    pub only_summary: bool,
    limits: OnceCell<Option<Limits>>,
}

impl TableSpec {
    /// Whether it is made from other tables, and not measured.
    pub fn is_derived(&self) -> bool {
        matches!(self.make, Make::Derived { .. })
    }

    /// The tables that it is made from.
    pub fn needs(&self) -> &'static [&'static str] {
        if let Make::Derived { needs, .. } = self.make { needs } else { &[] }
    }
}

impl Context {
    /// For tables on this device.
    pub fn new(device: Device, photo: Photo) -> Context {
        Context { device, photo, quick: false, only_summary: false, limits: OnceCell::new() }
    }

    /// For tables of counts: on the simulator, with the course's photo.
    pub fn simulator() -> Context {
        let context = Context::new(Device::sim_with(bench::parts::simulator()), Photo::built_in());
        Context { quick: true, ..context }
    }

    /// For what the summary shows, and no more.
    pub fn of_summary(device: Device, photo: Photo) -> Context {
        Context { only_summary: true, ..Context::new(device, photo) }
    }

    /// Those of `all` that are to be measured: each, or the one that the summary shows, which is named for this kind of device.
    pub fn chosen<T: Copy>(&self, all: &[T], shown: InSummary, name: impl Fn(T) -> String) -> Vec<T> {
        let shown = if self.device.is_sim() { shown.simulator } else { shown.gpu };
        all.iter().copied().filter(|&one| !self.only_summary || name(one) == shown).collect()
    }

    /// The steps of a ladder that are to be measured: all, or, for the summary on a GPU, the one with the title `shown`.
    ///
    /// # Errors
    /// What the device reports.
    pub fn load_steps<M: Method>(&self, ladder: &[Step<M>], shown: &str) -> common::Result<Vec<LoadedStep<M::Loaded>>> {
        let all = !self.only_summary || self.device.is_sim();
        load_steps(ladder.iter().filter(|step| all || step.title() == shown), &self.device)
    }

    /// How to time what runs on the host: as `careful` says, or once.
    pub fn host_bench(&self, careful: Bench) -> Bench {
        if self.quick { Bench { warm_up: 0, repeats: 1, ..careful } } else { careful }
    }

    /// Whether each second counts: a first look, without a GPU.
    pub fn is_hurried(&self) -> bool {
        self.quick && self.device.is_sim()
    }

    /// The side of images for whole networks: ImageNet's, or a twelfth of the pixels for a first look without a GPU, which a
    /// [note](Context::side_note) says.
    pub fn side(&self) -> usize {
        if self.is_hurried() { HURRIED_SIDE } else { SIDE }
    }

    /// The photo, or the middle of it, of [`Context::side`].
    ///
    /// # Errors
    /// None: the photo has this size at least.
    pub fn image(&self) -> Result<Tensor> {
        let (photo, side) = (self.photo.to_tensor(), self.side());
        let [_, channels, height, width] = photo.dims4()?;
        let (top, left) = ((height - side) / 2, (width - side) / 2);
        let values = photo.as_slice()?;
        let rows =
            (0..channels).flat_map(|channel| (top..top + side).map(move |y| (channel * height + y) * width + left));
        let middle = rows.flat_map(|start| values[start..start + side].iter().copied()).collect();
        Ok(Tensor::from_vec(&[1, channels, side, side], middle)?)
    }

    /// What is to be said of [`Context::side`] below a table.
    pub fn side_note(&self) -> Option<String> {
        let note =
            || format!("--quick on the simulator: images of {HURRIED_SIDE} × {HURRIED_SIDE}, of the photo its middle.");
        self.is_hurried().then(note)
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
