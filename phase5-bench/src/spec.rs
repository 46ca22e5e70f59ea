//! Specification and context of every table. Tables depend on this module, not on the list of the others, [`crate::registry`].

use std::cell::OnceCell;
use std::time::Duration;

use bench::ladder::{LadderTable, LoadedStep, Method, Step, load_steps};
use bench::record::Record;
use bench::table::{ColumnSpec, DeviceKind, Table, TableBuilder};
use bench::timing::Bench;
use common::prelude::*;
use media::photo::Photo;

use crate::Result;
use crate::limits::Limits;
use crate::torch::PyTorch;

/// One table of the course.
pub struct TableSpec {
    /// Name on the command line and in records.
    pub name: &'static str,
    /// Contents, in a few words.
    pub shows: &'static str,
    /// Needs of a machine for all of its numbers. A derived table's are those of the tables that it needs.
    pub uses: &'static [Need],
    /// Its columns.
    pub columns: &'static [ColumnSpec],
    /// How it is made.
    pub make: Make,
}

/// Something that a machine must have for some of a table's numbers. Tables declare which of them they use; [`crate::doctor`]
/// reports what is available and how to fix the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A GPU, for its clock.
    Gpu,
    /// A second GPU.
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
        /// Names of those tables.
        needs: &'static [&'static str],
        /// Called with a run that has them all: this one on a GPU, a recorded one on the simulator. `None` if there is no such
        /// run.
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

/// Side of ImageNet's images.
const SIDE: usize = 224;
const HURRIED_SIDE: usize = 64;

/// A table's numbers, and its errors.
#[derive(Clone, Debug)]
pub struct FinishedTable {
    /// The numbers.
    pub table: Table,
    /// One sentence for each result that failed its check; empty if all is well.
    pub wrong: Vec<String>,
}

/// Context in which a table is measured.
pub struct Context {
    /// Device for the kernels.
    pub device: Device,
    /// Input of the networks.
    pub photo: Photo,
    /// Whether host code is timed only once, for a first look.
    pub quick: bool,
    /// Whether only the summary's problems are measured.
    pub only_summary: bool,
    /// PyTorch, the peer, in one process for all tables.
    pub pytorch: PyTorch,
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
    /// Context for tables on this device.
    pub fn new(device: Device, photo: Photo) -> Context {
        Context {
            device,
            photo,
            quick: false,
            only_summary: false,
            pytorch: PyTorch::default(),
            limits: OnceCell::new(),
        }
    }

    /// Context for tables of counts: on the simulator, with the course's photo.
    pub fn simulator() -> Context {
        let context = Context::new(Device::sim_with(bench::parts::simulator()), Photo::built_in());
        Context { quick: true, ..context }
    }

    /// Context for the summary's problems only.
    pub fn of_summary(device: Device, photo: Photo) -> Context {
        Context { only_summary: true, ..Context::new(device, photo) }
    }

    /// Elements of `all` to measure: each, or the one that the summary shows, which is named for this kind of device.
    pub fn chosen<T: Copy>(&self, all: &[T], shown: InSummary, name: impl Fn(T) -> String) -> Vec<T> {
        let shown = if self.device.is_sim() { shown.simulator } else { shown.gpu };
        all.iter().copied().filter(|&one| !self.only_summary || name(one) == shown).collect()
    }

    /// The steps of a ladder to measure: all, or, for the summary on a GPU, the one with the title `shown`.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn load_steps<M: Method>(&self, ladder: &[Step<M>], shown: &str) -> common::Result<Vec<LoadedStep<M::Loaded>>> {
        let all = !self.only_summary || self.device.is_sim();
        load_steps(ladder.iter().filter(|step| all || step.title() == shown), &self.device)
    }

    /// How to time host code: as `careful` states; for the summary, as often as a second allows; or once.
    pub fn host_bench(&self, careful: Bench) -> Bench {
        if self.quick {
            Bench { warm_up: 0, repeats: 1, ..careful }
        } else if self.only_summary {
            Bench { warm_up: 0, limit: careful.limit.min(Duration::from_secs(1)), ..careful }
        } else {
            careful
        }
    }

    /// Whether each second counts: a first look, without a GPU.
    pub fn is_hurried(&self) -> bool {
        self.quick && self.device.is_sim()
    }

    /// The side of images for whole networks: ImageNet's, or a twelfth of the pixels for a first look without a GPU, as a
    /// [note](Context::side_note) states.
    pub fn side(&self) -> usize {
        if self.is_hurried() { HURRIED_SIDE } else { SIDE }
    }

    /// The photo, or the middle of it, of [`Context::side`].
    ///
    /// # Errors
    /// None: the photo is at least this large.
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

    /// Note on [`Context::side`] below a table.
    pub fn side_note(&self) -> Option<String> {
        let note =
            || format!("--quick on the simulator: images of {HURRIED_SIDE} × {HURRIED_SIDE}, of the photo its middle.");
        self.is_hurried().then(note)
    }

    /// Up to `limit` devices that work together: the GPU and those after it, or as many simulated ones.
    ///
    /// # Errors
    /// Same as [`DeviceGroup::open`].
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
    /// Errors of the device.
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
