//! How many blocks of each step a multiprocessor holds, and what they use it up with.

use common::device::Module;
use common::ladder::columns;
use common::parts::{Part, Report};
use common::prelude::*;
use common::ptx_sim::{Limits, Occupancy, ptxas};
use common::resources::{self, Compiled};
use common::table::{Cell, ColumnSpec, Table, TableBuilder};

use super::resources::ladders;
use crate::gemm::{Precision, Tiling};
use crate::tile::TileShape;
use crate::{conv, gemm};

/// `cargo run -p phase4-fusion -- occupancy`.
pub const PART: Part = Part {
    name: "occupancy",
    about: "blocks of each step of the ladders that a multiprocessor holds, and what limits them",
    tables: &["occupancy"],
    by_default: false,
    run,
};

const TILE: ColumnSpec = ColumnSpec::text("tile", "tile");
const THREADS: ColumnSpec = ColumnSpec::text("threads_registers", "threads × registers");
const HANDED_ON: ColumnSpec = ColumnSpec::text("handed_on", "handed on");
const STAGES: ColumnSpec = ColumnSpec::text("stages_kib", "stages × KiB");
const SHARED_KIB: ColumnSpec = ColumnSpec::number("shared_kib", "shared KiB", 1);
/// Blocks that a multiprocessor holds at once.
pub const BLOCKS: ColumnSpec = ColumnSpec::number("blocks", "blocks", 0);
const LIMIT: ColumnSpec = ColumnSpec::text("limit", "limited by");

/// Behind a dash in the column of registers handed on.
const KEPT: &str = "every thread keeps the registers that it starts with";
/// Behind a dash in the columns of stages.
const NO_STAGE: &str = "operands come straight from global memory";

/// A kernel of a step, and the names of its tile's sizes.
pub(super) struct Tile {
    pub(super) title: String,
    pub(super) source: &'static KernelSource,
    pub(super) kernel: String,
    precision: Precision,
    /// What the sizes' names begin with, as the file has them: of the shape and of what follows from it.
    shape: String,
    derived: String,
    /// Whether tiles of A and B lie in shared memory.
    is_staged: bool,
}

impl Tile {
    /// Those of a step of the products, in its first type, for B as its transpose.
    pub(super) fn of_product(step: &'static gemm::Step) -> Vec<Tile> {
        let precision = step.method.precisions()[0];
        let tile = |suffix: &str| Tile {
            title: step.title(),
            source: step.source(),
            kernel: format!("gemm_nt_{precision}{suffix}"),
            precision,
            shape: String::new(),
            derived: String::new(),
            is_staged: !matches!(step.method, Tiling::Fragments),
        };
        match step.method {
            Tiling::Shapes(shapes, _) => shapes.iter().map(|shape| tile(shape.suffix).sized_by(shape.name)).collect(),
            _ => vec![tile("")],
        }
    }

    /// Those of a step of the convolutions, in the first of their types.
    pub(super) fn of_conv(step: &'static conv::Step) -> Vec<Tile> {
        let [precision, ..] = conv::PRECISIONS;
        let of_tile = |tile: &TileShape| {
            let unsized_tile = Tile {
                title: format!("conv {}", step.title()),
                source: step.source(),
                kernel: format!("conv_{precision}{}", tile.suffix),
                precision,
                shape: String::new(),
                derived: String::new(),
                is_staged: true,
            };
            unsized_tile.sized_by(tile.name)
        };
        step.method.0.iter().map(of_tile).collect()
    }

    /// With the sizes of this struct of the file.
    fn sized_by(self, name: &str) -> Tile {
        let shape = format!("{name}<{}>", self.precision.to_string().to_uppercase());
        Tile { derived: format!("Geometry<{shape}>::"), shape: format!("{shape}::"), ..self }
    }
}

/// The table, for the GPU at hand.
fn run(device: &Device) -> Result<Report> {
    let compiled = resources::compile(device, ladders());
    Ok(Report { tables: vec![table(&compiled)?], wrong: Vec::new() })
}

/// A row for each tile of each step, in f16.
///
/// # Errors
/// [`Error::NoSuchConstant`] if a kernel file does not name its tile's sizes.
pub fn table(compiled: &[Compiled]) -> Result<Table> {
    let columns = [columns::STEP, TILE, THREADS, HANDED_ON, STAGES, SHARED_KIB, BLOCKS, LIMIT];
    let architecture = compiled.iter().map(|file| file.architecture.as_str()).max().unwrap_or_default();
    let limits = Limits::of(architecture);
    let mut table = TableBuilder::of(format!("blocks on a multiprocessor of {architecture}"), columns);
    // The sizes are in the PTX, whatever device reads it.
    let reader = Device::sim();
    let products = gemm::LADDER.iter().flat_map(Tile::of_product);
    for tile in products.chain(conv::LADDER.iter().flat_map(Tile::of_conv)) {
        let sizes = Sizes::of(&reader.load(tile.source)?, &tile)?;
        let row = table
            .row()
            .set(columns::STEP, &*tile.title)
            .set(TILE, sizes.tile)
            .set(HANDED_ON, handed_on(&tile).map_or_else(|| Cell::absent(KEPT), Cell::from))
            .set(STAGES, sizes.stages.map_or_else(|| Cell::absent(NO_STAGE), Cell::from));
        let found = of_kernel(compiled, &tile).and_then(|kernel| {
            let limits = limits.as_ref().ok_or_else(|| format!("the limits of {architecture} are not known"))?;
            let shared = kernel.shared + sizes.dynamic_bytes;
            Ok((kernel.registers, shared, Occupancy::of(limits, sizes.threads, shared, Some(kernel.registers))))
        });
        match found {
            Ok((registers, shared, occupancy)) => row
                .set(THREADS, format!("{} × {registers}", sizes.threads))
                .set(SHARED_KIB, f64::from(shared) / 1024.0)
                .set(BLOCKS, u64::from(occupancy.blocks))
                .set(LIMIT, occupancy.limiter.name())
                .complete(),
            Err(reason) => row.finish(&reason),
        }
    }
    table.note(
        "f16, with B as its transpose. threads × registers: of a block at its start. handed on: registers after setmaxnreg, of \
         a producer's thread and a consumer's. stages × KiB: tiles of A and B. shared KiB: of a block, with its boxes of C and \
         its barriers. blocks: those that a multiprocessor holds at once.",
    );
    if let Ok(version) = ptxas::version() {
        table.note(format!("By ptxas {version}, of the PTX shipped beside each kernel."));
    }
    Ok(table.finish())
}

/// What is known of the kernel.
fn of_kernel<'c>(compiled: &'c [Compiled], tile: &Tile) -> std::result::Result<&'c ptxas::Resources, String> {
    let file = compiled.iter().find(|file| file.source.name == tile.source.name);
    let file = file.ok_or_else(|| format!("{} was not compiled", tile.source.name))?;
    let kernels = file.kernels.as_ref().map_err(String::clone)?;
    let kernel = kernels.iter().find(|kernel| kernel.kernel == tile.kernel);
    kernel.ok_or_else(|| format!("ptxas says nothing of `{}`", tile.kernel))
}

/// The sizes that a kernel file names.
struct Sizes {
    /// Rows and columns of C; behind a stroke the blocks that share it.
    tile: String,
    threads: u32,
    dynamic_bytes: u32,
    /// Tiles of A and B in shared memory, and the KiB of each.
    stages: Option<String>,
}

impl Sizes {
    fn of(module: &Module, Tile { shape, derived, is_staged, precision, .. }: &Tile) -> Result<Sizes> {
        let of_shape = |name: &str| module.constant(&format!("{shape}{name}"));
        let of_derived = |name: &str| module.constant(&format!("{derived}{name}"));
        let or = |name: String, default: i64| module.find_constant(&name).unwrap_or(default);
        let (rows, columns) = (of_shape("BM")?, of_shape("BN")?);
        let slices = match or(format!("{shape}SLICES"), 1) {
            1 => String::new(),
            slices => format!("/{slices}"),
        };
        let stage = |along_k: usize| (rows + columns) * along_k * precision.input().size() / 1024;
        let stages = if *is_staged {
            Some(format!("{} × {}", or(format!("{shape}STAGES"), 1), stage(of_derived("BK")?)))
        } else {
            None
        };
        let tile = format!("{rows}×{columns}{slices}");
        let dynamic_bytes = or(format!("{derived}SHARED"), 0) as u32;
        Ok(Sizes { tile, threads: of_derived("THREADS")? as u32, dynamic_bytes, stages })
    }
}

/// Registers of a producer's thread and a consumer's, if they are not those of the start: `40, 232`.
fn handed_on(tile: &Tile) -> Option<String> {
    let ptx = tile.source.ptx.as_deref()?;
    let kernel = ptx.split(".entry ").find(|text| text.split('(').next() == Some(&*tile.kernel))?;
    let of = |direction: &str| {
        let (_, rest) = kernel.split_once(&format!("setmaxnreg.{direction}.sync.aligned.u32 "))?;
        rest.split(';').next()
    };
    Some(format!("{}, {}", of("dec")?, of("inc")?))
}
