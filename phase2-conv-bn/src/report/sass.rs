//! Machine code to read: all of vector addition, the main loop of one step of the GEMM ladder, and an overview of the main loops
//! of all of them.

use std::ops::Range;

use bench::ladder::columns;
use bench::parts::{Part, Report};
use bench::resources;
use bench::sass::{self, Control, Instruction, Listing};
use bench::table::{Cell, ColumnSpec, Table, TableBuilder};
use common::prelude::*;
use phase1_infra::step04_vector_add;

use crate::gemm;

/// `cargo run -p phase2-conv-bn -- sass`.
pub const PART: Part = Part {
    name: "sass",
    about: "machine code to read: vector addition, and the main loops of the GEMM ladder, by ptxas and nvdisasm",
    tables: &["sass-vector-add", "sass-shared-tile", "sass-register-tile", "sass-loops"],
    by_default: false,
    run,
};

/// The step whose main loop is listed: the first with its operands in shared memory, and short.
const SHOWN: &str = "gemm_03_shared_tile";
/// The step whose loop is shown from its loads on: they are wide, and it has a tile of sums in registers.
const WIDE: &str = "gemm_06_vectors";
/// Instructions shown of it: its loads from shared memory, and the first that use them.
const FROM_LOADS: usize = 24;
/// The instruction that a main loop of the ladder is for.
const MULTIPLY_ADD: &str = "FFMA";

/// Bytes from the kernel's beginning, in hexadecimal.
pub const ADDRESS: ColumnSpec = ColumnSpec::text("address", "address");
/// The instruction, with its predicate.
pub const INSTRUCTION: ColumnSpec = ColumnSpec::text("instruction", "instruction");
const STALL: ColumnSpec = ColumnSpec::number("stall", "stall", 0);
const RESULT: ColumnSpec = ColumnSpec::text("result", "result");
const OPERANDS: ColumnSpec = ColumnSpec::text("operands", "operands");
const WAITS: ColumnSpec = ColumnSpec::text("waits", "waits for");

/// Instructions of the main loop.
pub const INSTRUCTIONS: ColumnSpec = ColumnSpec::number("instructions", "instructions", 0);
/// Multiply-adds among them.
pub const FFMA: ColumnSpec = ColumnSpec::number("ffma", MULTIPLY_ADD, 0);
const LDS: ColumnSpec = ColumnSpec::number("lds", "LDS", 0);
const STS: ColumnSpec = ColumnSpec::number("sts", "STS", 0);
const LDG: ColumnSpec = ColumnSpec::number("ldg", "LDG", 0);
const LDGSTS: ColumnSpec = ColumnSpec::number("ldgsts", "LDGSTS", 0);
const BAR: ColumnSpec = ColumnSpec::number("bar", "BAR", 0);
const OTHER: ColumnSpec = ColumnSpec::number("other", "other", 0);
const SHARE: ColumnSpec = ColumnSpec::number("share", "% FFMA", 1);
/// Instructions counted by name; the rest is [`OTHER`].
const COUNTED: [ColumnSpec; 6] = [FFMA, LDS, STS, LDG, LDGSTS, BAR];

fn run(device: &Device) -> Result<Report> {
    let architecture = resources::architecture(device);
    let vector_add = listing(&step04_vector_add::SOURCE, &architecture, "vector_add");
    let vector_add = instructions(format!("vector_add, compiled for {architecture}"), vector_add, |listing| {
        Some(0..listing.instructions.len())
    });
    let of_step = |name: &str, what: &str, part: fn(&Listing) -> Option<Range<usize>>| {
        let step = gemm::LADDER.iter().find(|step| step.source.name == name);
        let step = step.ok_or_else(|| Error::Invalid(format!("the ladder has no step `{name}`")))?;
        let title = format!("{what} of step {}, compiled for {architecture}", step.title());
        Ok::<Table, Error>(instructions(
            title,
            first_kernel(&step.source).and_then(|kernel| listing(&step.source, &architecture, &kernel)),
            part,
        ))
    };
    let main_loop = of_step(SHOWN, "the main loop", |listing| listing.main_loop(MULTIPLY_ADD))?;
    let tile = of_step(WIDE, "the first multiply-adds", |listing| {
        let range = listing.main_loop(MULTIPLY_ADD)?;
        let start = range.clone().find(|&at| listing.instructions[at].name() == "LDS")?;
        Some(start..range.end.min(start + FROM_LOADS))
    })?;
    Ok(Report { tables: vec![vector_add, main_loop, tile, loops(&architecture)], wrong: Vec::new() })
}

/// A row for each instruction of a part of a kernel.
fn instructions(
    title: String,
    listing: std::result::Result<Listing, String>,
    part: impl Fn(&Listing) -> Option<Range<usize>>,
) -> Table {
    let mut table = TableBuilder::of(title, [ADDRESS, INSTRUCTION, STALL, RESULT, OPERANDS, WAITS]);
    let shown = listing.and_then(|listing| {
        let part = part(&listing).ok_or("this code has no such part")?;
        Ok((part, listing))
    });
    match shown {
        Ok((part, listing)) => {
            for instruction in &listing.instructions[part] {
                let row = table.row().set(ADDRESS, format!("{:04x}", instruction.address));
                let row = row.set(INSTRUCTION, with_address(instruction, &listing));
                match instruction.control {
                    Some(control) => row.set_all(cells(control)).complete(),
                    None => row.finish("nvdisasm did not show the encoding"),
                }
            }
        }
        Err(reason) => table.row().set(ADDRESS, "–").finish(&reason),
    }
    table.note(
        "stall: cycles until the warp's next instruction. result, operands: the scoreboard that says when the result is there, and \
         when the operands have been read. waits for: scoreboards before it is issued.",
    );
    note_tools(&mut table);
    table.finish()
}

fn cells(control: Control) -> [(ColumnSpec, Cell); 4] {
    let scoreboard = |number: Option<u8>| Cell::from(number.map(|number| format!("SB{number}")).unwrap_or_default());
    [
        (STALL, Cell::from(u64::from(control.stall))),
        (RESULT, scoreboard(control.result)),
        (OPERANDS, scoreboard(control.operands)),
        (WAITS, Cell::from(control.waited_for())),
    ]
}

/// With addresses in place of labels, which have no meaning outside a listing.
fn with_address(instruction: &Instruction, listing: &Listing) -> String {
    let Some((before, rest)) = instruction.text.split_once("`(") else { return instruction.text.clone() };
    let Some((label, after)) = rest.split_once(')') else { return instruction.text.clone() };
    let place = listing.instructions.iter().find(|at| at.labels.iter().any(|known| known == label));
    place.map_or_else(|| instruction.text.clone(), |place| format!("{before}{:04x}{after}", place.address))
}

/// One row per step of the ladder: an overview of its main loop.
fn loops(architecture: &str) -> Table {
    let columns = [columns::STEP, INSTRUCTIONS].into_iter().chain(COUNTED).chain([OTHER, SHARE]);
    let mut table = TableBuilder::of(format!("main loops of the GEMM ladder, compiled for {architecture}"), columns);
    for step in gemm::LADDER {
        let row = table.row().set(columns::STEP, step.title());
        let counted = first_kernel(&step.source).and_then(|kernel| {
            let listing = listing(&step.source, architecture, &kernel)?;
            let range = listing.main_loop(MULTIPLY_ADD).ok_or("this code has no loop with multiply-adds")?;
            Ok((listing, range))
        });
        match counted {
            Ok((listing, range)) => {
                let counts = COUNTED.map(|column| (column, listing.named(range.clone(), column.heading)));
                let named: usize = counts.iter().map(|(_, count)| count).sum();
                let share = 100.0 * counts[0].1 as f64 / range.len() as f64;
                let row = row.set(INSTRUCTIONS, range.len()).set(OTHER, range.len() - named).set(SHARE, share);
                row.set_all(counts.map(|(column, count)| (column, Cell::from(count)))).complete();
            }
            Err(reason) => row.finish(&reason),
        }
    }
    table.note(
        "Of each step's first kernel for B as it is. The main loop: the innermost loop with the most FFMA. Instructions as they \
         stand in the code, whatever their width: LDS.128 is one LDS.",
    );
    note_tools(&mut table);
    table.finish()
}

/// The first kernel of a file that takes B untransposed.
fn first_kernel(source: &KernelSource) -> std::result::Result<String, String> {
    let ptx = source.shipped_ptx().unwrap_or_default();
    let mut entries = ptx.split(".entry ").skip(1).filter_map(|text| text.split('(').next());
    let first = entries.find(|name| *name == "gemm" || name.starts_with("gemm_nn")).map(str::to_owned);
    first.ok_or_else(|| format!("{} has no kernel gemm and no gemm_nn", source.name))
}

/// The shipped PTX of a kernel, compiled for `architecture`.
fn listing(source: &KernelSource, architecture: &str, kernel: &str) -> std::result::Result<Listing, String> {
    sass::listing(&source.shipped_ptx().unwrap_or_default(), &resources::architecture_of(source, architecture), kernel)
}

fn note_tools(table: &mut TableBuilder) {
    if let Ok([ptxas, nvdisasm]) = sass::versions() {
        table.note(format!("By ptxas {ptxas} and nvdisasm {nvdisasm}, of the PTX shipped beside each kernel."));
    }
}
