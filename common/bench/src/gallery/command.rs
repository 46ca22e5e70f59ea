//! The subcommand that shows a gallery: the list, one kernel, or the comparison of tools.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use super::compare::{compare, end_if_endless};
use super::{Broken, Gallery, Shown, Version};
use crate::command::Shell;
use crate::record::Record;
use common::device::{DeviceArgs, SimOptions};
use common::prelude::*;

/// The arguments of the subcommand for the gallery of `G`, for a variant of a `#[derive(Subcommand)]` that is named after
/// [`Gallery::command`]: [`compare`] runs it.
#[derive(Clone, Debug, clap::Args)]
pub struct GalleryArgs<G: Shown> {
    /// Kernel to run, by number or name [default: list them all]
    #[arg(value_name = "KERNEL", value_parser = names(G::GALLERY))]
    kernel: Option<Chosen>,
    /// Run the repaired version
    #[arg(long, requires = "kernel")]
    repaired: bool,
    /// Run all of them on the simulator and, if there is a GPU, on it and under NVIDIA's compute-sanitizer: which tool
    /// finds what?
    #[arg(long, conflicts_with = "kernel")]
    compare: bool,
    /// Save the comparison to FILE
    #[arg(long, value_name = "FILE", requires = "compare")]
    save: Option<PathBuf>,
    #[arg(skip)]
    gallery: PhantomData<G>,
}

/// The kernel that was named.
#[derive(Clone, Copy)]
struct Chosen(&'static Broken);

impl std::fmt::Debug for Chosen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name)
    }
}

fn names(gallery: &'static Gallery) -> impl TypedValueParser<Value = Chosen> {
    let value = |entry: &Broken| PossibleValue::new(entry.number).aliases(entry.keys()).help(entry.name);
    let names: PossibleValuesParser = gallery.entries.iter().map(value).into();
    names.try_map(|name| gallery.find(&name).map(Chosen).ok_or("not in the gallery"))
}

impl<G: Shown> GalleryArgs<G> {
    /// File to save the comparison to, for [`Shell::saving`].
    pub fn save(&self) -> Option<&Path> {
        self.save.as_deref()
    }

    /// Runs the subcommand. `simulator` is its device if there is no GPU; on a GPU, `records` is not read.
    ///
    /// # Errors
    /// Errors of [`Broken::run`], [`compare`] and `records`.
    pub fn run(
        &self,
        device: &DeviceArgs,
        simulator: SimOptions,
        records: impl FnOnce() -> Result<Vec<Record>>,
        shell: &mut Shell,
    ) -> Result<()> {
        match self.kernel {
            Some(Chosen(entry)) => {
                let version = if self.repaired { Version::Repaired } else { Version::Broken };
                run_one(entry, version, &shell.open(device, simulator)?, shell)
            }
            None if self.compare => run_comparison(G::GALLERY, &shell.open(device, simulator)?, records, shell),
            None => shell.table(&G::GALLERY.list()),
        }
    }
}

/// Runs one version; a wrong result fails the command.
fn run_one(entry: &Broken, version: Version, device: &Device, shell: &mut Shell) -> Result<()> {
    if !device.is_sim() {
        end_if_endless(entry, version);
    }
    let (outcome, report) = entry.report(device, version)?;
    if !outcome.is_right() {
        shell.fail_quietly();
    }
    shell.print(&report)
}

/// Runs the comparison of tools here, and shows the recorded one if there is no GPU here.
fn run_comparison(
    gallery: &Gallery,
    device: &Device,
    records: impl FnOnce() -> Result<Vec<Record>>,
    shell: &mut Shell,
) -> Result<()> {
    let mut record = Record::begin(device);
    let program = std::env::current_exe().map_err(|source| Error::Io { path: "this program".into(), source })?;
    let table = compare(gallery, device, &program)?;
    shell.table(&table)?;
    let recorded = if device.is_sim() { records()? } else { Vec::new() };
    for quoted in recorded.iter().filter_map(|record| record.quote(gallery.command)) {
        shell.table(&quoted)?;
    }
    record.push(gallery.command, table);
    shell.save(&record)
}
