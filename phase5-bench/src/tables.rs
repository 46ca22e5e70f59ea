//! The list of all tables of the course.

use std::cell::{OnceCell, RefCell};

use common::check::{Mismatch, Report};
use common::prelude::*;
use common::record::Record;
use common::table::{Column, Table};

use crate::limits::Limits;
use crate::{
    Error, Result, accuracy, attention, autoencoder, claims, conv, gemm, layers, linear_relu, norm, resnet, transfer,
    video,
};
use media::photo::Photo;

/// What a table is made with.
pub struct Context {
    /// Where the kernels run.
    pub device: Device,
    /// What the network looks at.
    pub photo: Photo,
    /// Runs of other machines, for what this one cannot measure.
    pub recorded: Vec<Record>,
    /// The run so far.
    pub run: RefCell<Record>,
    limits: OnceCell<Option<Limits>>,
}

impl Context {
    /// For tables on this device.
    pub fn new(device: Device, photo: Photo, recorded: Vec<Record>) -> Context {
        let run = RefCell::new(Record::begin(&device));
        Context { device, photo, recorded, run, limits: OnceCell::new() }
    }

    /// The device's limits, if a table has needed them.
    pub fn limits_if_measured(&self) -> Option<&Limits> {
        self.limits.get()?.as_ref()
    }

    /// A run with the tables `names`: on a GPU this one, for which those are made that it has not yet, with what is wrong in them;
    /// on the simulator a recorded one that has them all, if there is one.
    ///
    /// # Errors
    /// What the tables report.
    pub fn measurements(&self, names: &[&str], wrong: &mut Vec<String>) -> Result<Option<Record>> {
        if self.device.is_sim() {
            let has_all = |record: &&Record| names.iter().all(|name| record.table(name).is_some());
            return Ok(self.recorded.iter().find(has_all).cloned());
        }
        let mut run = self.run.borrow().clone();
        for entry in TABLES
            .iter()
            .filter(|entry| names.contains(&entry.name) && run.table(entry.name).is_none())
            .collect::<Vec<_>>()
        {
            if let State::Here(make, _) = entry.state {
                let outcome = make(self)?;
                wrong.extend(outcome.wrong);
                run.push(entry.name, outcome.table);
            }
        }
        if let Some(limits) = self.limits()?.filter(|_| run.table(LIMITS).is_none()) {
            run.push(LIMITS, limits.table());
        }
        Ok(Some(run))
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
}

/// What a run calls the table of its device's limits, if they were measured for another.
pub const LIMITS: &str = "limits";

/// A finished table, and what in it is wrong.
#[derive(Debug)]
pub struct Outcome {
    /// The numbers.
    pub table: Table,
    /// One sentence for each result that failed its check; empty if all is well.
    pub wrong: Vec<String>,
}

/// One table of the course.
pub struct Entry {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it shows, in a few words.
    pub shows: &'static str,
    /// How to make it, if it is here.
    pub state: State,
}

/// Whether a table is here yet.
pub enum State {
    /// It is; the second part says what of it is still missing.
    Here(fn(&Context) -> Result<Outcome>, &'static str),
    /// It arrives with a later phase.
    ArrivesWith(&'static str),
}

const fn later(name: &'static str, shows: &'static str, phase: &'static str) -> Entry {
    Entry { name, shows, state: State::ArrivesWith(phase) }
}

/// All tables, in the order of the course.
pub const TABLES: &[Entry] = &[
    Entry {
        name: "transfer",
        shows: "copies of 1 KiB to 1 GiB, host and device: GB/s, % of the limit",
        state: State::Here(transfer::run, ""),
    },
    Entry {
        name: "gemm",
        shows: "each step of the matrix product × sizes: ms, TFLOP/s, % of cuBLAS",
        state: State::Here(gemm::run, ""),
    },
    Entry {
        name: "conv",
        shows: "each step of the convolution × shapes: ms, TFLOP/s, % of cuDNN",
        state: State::Here(conv::run, ""),
    },
    Entry {
        name: "norm",
        shows: "each step of BatchNorm, ReLU, statistics: ms, GB/s, % of a copy",
        state: State::Here(norm::run, ""),
    },
    Entry {
        name: "layers",
        shows: "layers of ResNet18: CPU and device ms, speed-up, check",
        state: State::Here(layers::run, ""),
    },
    Entry {
        name: "resnet-single",
        shows: "five implementations of ResNet18: ms, speed-up, difference",
        state: State::Here(resnet::single, "four of the five; the last: phase 4"),
    },
    Entry {
        name: "resnet-batch",
        shows: "ResNet18, batch 1 to 64, CPU and device: ms, images/s",
        state: State::Here(resnet::batch, "f32 of phase 3; others: phase 4"),
    },
    Entry {
        name: "memory",
        shows: "phases 1 to 4: peak bytes on the device",
        state: State::Here(resnet::memory, "phases 1 to 3"),
    },
    Entry {
        name: "accuracy",
        shows: "each model and implementation: difference to the CPU, accuracy",
        state: State::Here(accuracy::run, "phases 1 to 3"),
    },
    Entry {
        name: "linear-relu",
        shows: "fused Linear+ReLU, forward and backward: ms, bandwidth",
        state: State::Here(linear_relu::run, ""),
    },
    Entry {
        name: "autoencoder",
        shows: "unfused, fused, PyTorch: ms, speed-up, difference",
        state: State::Here(autoencoder::run, "unfused, and PyTorch's; fused: phase 4"),
    },
    Entry {
        name: "attention",
        shows: "naive, tiled, flash × sequence: ms, TFLOP/s, memory",
        state: State::Here(attention::run, "naive, and PyTorch's; tiled and flash: phase 4"),
    },
    later("fusion", "fused kernels against separate ones: ms, launches, bytes", "phase 4"),
    later("ptx", "instructions written in PTX against CUDA C", "phase 4"),
    later("streams", "overlap, graphs, persistent kernel: ms and gain", "phase 4"),
    Entry {
        name: "video",
        shows: "video U-Net unfused, fused, f16: ms a frame, frames/s",
        state: State::Here(video::run, "unfused, and PyTorch's; fused and f16: phase 4"),
    },
    Entry {
        name: "claims",
        shows: "claims of the literature, measured again",
        state: State::Here(claims::run, "those that phases 1 to 3 can answer; others: phase 4"),
    },
    later("multi-gpu", "1, 2, 4 GPUs: images/s, frames/s, efficiency", "phase 4"),
];

/// The tables called `names`, in the order of the course; all that are here if there is no name.
///
/// # Errors
/// [`Error::UnknownTable`], [`Error::NotYet`].
pub fn select(names: &[String]) -> Result<Vec<&'static Entry>> {
    for name in names {
        let Some(entry) = TABLES.iter().find(|entry| entry.name == name) else {
            let known = TABLES.iter().map(|entry| entry.name).collect();
            return Err(Error::UnknownTable { name: name.clone(), known });
        };
        if let State::ArrivesWith(phase) = entry.state {
            return Err(Error::NotYet { name: entry.name, phase });
        }
    }
    let chosen = |entry: &&Entry| match names.is_empty() {
        true => matches!(entry.state, State::Here(..)),
        false => names.iter().any(|name| name == entry.name),
    };
    Ok(TABLES.iter().filter(chosen).collect())
}

/// The list itself as a table.
pub fn list() -> Table {
    let columns = [Column::text("name"), Column::text("shows"), Column::text("here")];
    let mut table = Table::new("tables of `cargo run -p phase5-bench`", columns);
    for entry in TABLES {
        let here = match entry.state {
            State::Here(_, "") => "yes".to_owned(),
            State::Here(..) => "in part".to_owned(),
            State::ArrivesWith(phase) => phase.to_owned(),
        };
        table.row([entry.name.into(), entry.shows.into(), here.into()]);
        if let State::Here(_, part) = entry.state
            && !part.is_empty()
        {
            table.note(format!("{}: {part}", entry.name));
        }
    }
    table.note("A phase under `here`: the table arrives with it.");
    table
}

/// What a comparison with the reference says in a table: the largest difference and a word.
pub(crate) fn verdict(what: &str, result: Result<Report, Mismatch>, wrong: &mut Vec<String>) -> (f64, &'static str) {
    match result {
        Ok(report) => (report.max_abs, "ok"),
        Err(mismatch) => {
            wrong.push(format!("{what}: {mismatch}"));
            let max_abs = match mismatch {
                Mismatch::Values { report, .. } => report.max_abs,
                Mismatch::Length { .. } | Mismatch::NotFinite { .. } => f64::NAN,
            };
            (max_abs, "WRONG")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::check::{Tolerance, compare};

    #[test]
    fn no_name_selects_all_that_are_here_and_names_keep_the_order_of_the_course() {
        let names = |entries: Vec<&Entry>| entries.iter().map(|entry| entry.name).collect::<Vec<_>>();
        assert_eq!(
            names(select(&[]).unwrap()),
            [
                "transfer",
                "gemm",
                "conv",
                "norm",
                "layers",
                "resnet-single",
                "resnet-batch",
                "memory",
                "accuracy",
                "linear-relu",
                "autoencoder",
                "attention",
                "video",
                "claims"
            ]
        );
        let asked = ["layers", "transfer", "layers"].map(str::to_owned);
        assert_eq!(names(select(&asked).unwrap()), ["transfer", "layers"]);
    }

    #[test]
    fn a_name_that_is_none_and_one_that_is_not_here_yet_are_told_apart() {
        let error = |name: &str| select(&[name.to_owned()]).map(drop).unwrap_err();
        assert!(
            error("gemmm").to_string().starts_with("no such table: `gemmm`; there are transfer, gemm, conv, norm,")
        );
        assert_eq!(
            error("fusion").to_string(),
            "the table `fusion` is not here yet: it arrives with phase 4; `--list` says which are"
        );
        assert!(error("gemmm").is_usage() && error("fusion").is_usage());
    }

    #[test]
    fn a_planted_wrong_value_fails_the_check_and_so_does_nan() {
        let expected = [1.0f64, 2.0, 3.0];
        let tolerance = Tolerance::dot(147, 2.0);
        let mut wrong = Vec::new();
        let right = compare(&[1.0f32, 2.0, 3.0], &expected, tolerance);
        assert_eq!(verdict("Conv2D", right, &mut wrong), (0.0, "ok"));
        assert!(wrong.is_empty());
        let planted = compare(&[1.0f32, 2.001, 3.0], &expected, tolerance);
        let (max_abs, word) = verdict("Conv2D", planted, &mut wrong);
        assert_eq!(word, "WRONG");
        assert!((max_abs - 0.001).abs() < 1e-6);
        let (max_abs, word) = verdict("ReLU", compare(&[1.0f32, f32::NAN, 3.0], &expected, tolerance), &mut wrong);
        assert!(max_abs.is_nan() && word == "WRONG");
        assert!(wrong[0].starts_with("Conv2D: 1 of 3 values are wrong, the first at 1"), "{wrong:?}");
        assert!(wrong[1].starts_with("ReLU: 1 of 3 values are wrong"), "{wrong:?}");
    }
}
