//! Number of blocks of each step that an SM holds, and their use of its resources.

use bench::ladder::columns;
use bench::parts::{Part, Report};
use bench::resources::{self, Compiled};
use bench::table::{Cell, ColumnSpec, Table, TableBuilder};
use common::device::Module;
use common::prelude::*;
use common::ptx_sim::{Limits, Occupancy, ptxas};

use super::resources::ladders;
use crate::gemm::{Precision, Tiling};
use crate::tile::{Geometry, TileShape};
use crate::{conv, gemm};

/// `cargo run -p phase4-fusion -- occupancy`.
pub const PART: Part = Part {
    name: "occupancy",
    about: "blocks of each step of the ladders that an SM holds, and what limits them",
    tables: &["occupancy"],
    by_default: false,
    run,
};

const TILE: ColumnSpec = ColumnSpec::text("tile", "tile");
const THREADS: ColumnSpec = ColumnSpec::text("threads_registers", "threads × registers");
const HANDED_ON: ColumnSpec = ColumnSpec::text("handed_on", "handed on");
const STAGES: ColumnSpec = ColumnSpec::text("stages_kib", "stages × KiB");
const SHARED_KIB: ColumnSpec = ColumnSpec::number("shared_kib", "shared KiB", 1);
/// Blocks that an SM holds at once.
pub const BLOCKS: ColumnSpec = ColumnSpec::number("blocks", "blocks", 0);
const LIMIT: ColumnSpec = ColumnSpec::text("limit", "limited by");

/// Note for a dash in the column of registers handed on.
const KEPT: &str = "every thread keeps the registers that it starts with";
/// Note for a dash in the columns of stages.
const NO_STAGE: &str = "operands come straight from global memory";

/// A kernel of a step, and its tile.
pub(super) struct Tile {
    pub(super) title: String,
    pub(super) source: &'static KernelSource,
    pub(super) kernel: String,
    precision: Precision,
    /// `None`: the file's only one.
    shape: Option<TileShape>,
    /// Whether tiles of A and B lie in shared memory.
    is_staged: bool,
}

impl Tile {
    /// Tiles of a step of the products, in its first type, for B as its transpose.
    pub(super) fn of_product(step: &'static gemm::Step) -> Vec<Tile> {
        let precision = step.method.precisions()[0];
        let tile = |shape: Option<TileShape>| Tile {
            title: step.title(),
            source: &step.source,
            kernel: format!("gemm_nt_{}{}", precision.suffix(), shape.map_or("", |shape| shape.suffix)),
            precision,
            shape,
            is_staged: !matches!(step.method, Tiling::Fragments),
        };
        match step.method {
            Tiling::Shapes(shapes, _) => shapes.iter().map(|shape| tile(Some(*shape))).collect(),
            _ => vec![tile(None)],
        }
    }

    /// Tiles of a step of the convolutions, in the first of their types.
    pub(super) fn of_conv(step: &'static conv::Step) -> Vec<Tile> {
        let [precision, ..] = conv::PRECISIONS;
        let of_shape = |shape: &TileShape| Tile {
            title: format!("conv {}", step.title()),
            source: &step.source,
            kernel: format!("conv_{precision}{}", shape.suffix),
            precision,
            shape: Some(*shape),
            is_staged: true,
        };
        step.method.shapes().iter().map(of_shape).collect()
    }

    fn geometry(&self, module: &Module) -> Result<Geometry> {
        match &self.shape {
            Some(shape) => Geometry::of_shape(module, shape, self.precision.class()),
            None => Geometry::of_file(module),
        }
    }

    /// Number of tiles of A and B in shared memory, and the KiB of each.
    fn stages(&self, geometry: &Geometry) -> Option<String> {
        let along_k = geometry.along_k.filter(|_| self.is_staged)?;
        let bytes = geometry.tile.iter().sum::<usize>() * along_k * self.precision.input().size();
        Some(format!("{} × {}", geometry.stages, bytes / 1024))
    }
}

/// The table, for the available GPU.
fn run(device: &Device) -> Result<Report> {
    let compiled = resources::compile(device, ladders());
    Ok(Report { tables: vec![table(&compiled)?], wrong: Vec::new() })
}

/// One row per tile of each step, in f16.
///
/// # Errors
/// [`Error::NoSuchConstant`] if a kernel file does not name its tile's sizes.
pub fn table(compiled: &[Compiled]) -> Result<Table> {
    let columns = [columns::STEP, TILE, THREADS, HANDED_ON, STAGES, SHARED_KIB, BLOCKS, LIMIT];
    let architecture = compiled.iter().map(|file| file.architecture.as_str()).max().unwrap_or_default();
    let limits = Limits::of(architecture);
    let mut table = TableBuilder::of(format!("blocks on an SM of {architecture}"), columns);
    // The sizes are in the PTX, whatever device reads it.
    let reader = Device::sim();
    let products = gemm::LADDER.iter().flat_map(Tile::of_product);
    for tile in products.chain(conv::LADDER.iter().flat_map(Tile::of_conv)) {
        let geometry = tile.geometry(&reader.load(tile.source)?)?;
        let row = table
            .row()
            .set(columns::STEP, &*tile.title)
            .set(TILE, geometry.name())
            .set(HANDED_ON, handed_on(&tile).map_or_else(|| Cell::absent(KEPT), Cell::from))
            .set(STAGES, tile.stages(&geometry).map_or_else(|| Cell::absent(NO_STAGE), Cell::from));
        let found = of_kernel(compiled, &tile).and_then(|kernel| {
            let limits = limits.as_ref().ok_or_else(|| format!("the limits of {architecture} are not known"))?;
            let shared = kernel.shared + geometry.shared_bytes;
            Ok((kernel.registers, shared, Occupancy::of(limits, geometry.threads, shared, Some(kernel.registers))))
        });
        match found {
            Ok((registers, shared, occupancy)) => row
                .set(THREADS, format!("{} × {registers}", geometry.threads))
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
         its barriers. blocks: those that an SM holds at once.",
    );
    resources::origin(compiled).into_iter().for_each(|origin| table.note(origin));
    Ok(table.finish())
}

/// Compiled resources of the kernel.
fn of_kernel<'c>(compiled: &'c [Compiled], tile: &Tile) -> std::result::Result<&'c ptxas::Resources, String> {
    let file = compiled.iter().find(|file| file.source.name == tile.source.name);
    let file = file.ok_or_else(|| format!("{} was not compiled", tile.source.name))?;
    let kernels = file.kernels.as_ref().map_err(String::clone)?;
    let kernel = kernels.iter().find(|kernel| kernel.kernel == tile.kernel);
    kernel.ok_or_else(|| format!("ptxas says nothing of `{}`", tile.kernel))
}

/// Registers of a producer's thread and a consumer's, if they are not those of the start: `40, 232`.
fn handed_on(tile: &Tile) -> Option<String> {
    let ptx = tile.source.shipped_ptx()?;
    let kernel = ptx.split(".entry ").find(|text| text.split('(').next() == Some(&*tile.kernel))?;
    let of = |direction: &str| {
        let (_, rest) = kernel.split_once(&format!("setmaxnreg.{direction}.sync.aligned.u32 "))?;
        rest.split(';').next()
    };
    Some(format!("{}, {}", of("dec")?, of("inc")?))
}
