//! The command line of `ptx-sim`: options, and the arguments of a kernel as text.

mod argument;
mod element;
mod object;
mod tensor_map;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use ptx_sim::{AccessKind, Asynchrony, WatchPoint, parse_size};

pub(crate) use argument::{Address, Argument, Buffer, Contents, Value, address, case_argument};
use argument::{argument, named_buffer, output, variable};
pub(crate) use element::Element;
pub(crate) use object::{Object, address_mode, addresses, extent, format};
pub(crate) use tensor_map::{Map, Parts};

/// Runs PTX, the assembly that CUDA compilers produce, on the CPU, and names the line that is wrong.
#[derive(Debug, Parser)]
#[command(name = "ptx-sim", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one kernel and print the buffers that it wrote
    Run(Run),
    /// Run the launches that a TOML file lists, and compare or print what they leave in memory
    Case(CaseOptions),
    /// Run one kernel and draw what a block of it did, as SVG
    Trace(TraceOptions),
    /// List kernels, their parameters, and instructions that the simulator does not know
    Check(Check),
}

const RUN_HELP: &str = "\
Kernel arguments, one for each parameter, in order:
  TYPE:VALUE          a number                                 u32:256  f32:-1e-3  b32:0x3f800000
  TYPE:VALUE,VALUE…   a struct of several, or TYPE:@FILE       f32:1,0,-inf  f32:@matrix.bin
  in:TYPE:LIST        a buffer the kernel reads                in:f32:1,2,3
  inout:TYPE:LIST     a buffer it reads and writes; printed    inout:s32:0,0,0,0
  out:TYPE:COUNT      a buffer of COUNT zeros; printed         out:f32:1024
  NAME=in:TYPE:LIST   as in, inout and out, with a name        x=in:f32:1,2,3
  ptr:NAME+BYTES      an address in a buffer or variable       ptr:x  ptr:x+16  ptr:null
  struct:FIELD/FIELD  fields of different types, laid out as   struct:f32:0.5/u32:3/ptr:x
                      in C: TYPE:VALUE or ptr:NAME each
  tex:EXTENT/OPTION…:TYPExCHANNELS:LIST                        tex:64x48/linear/clamp:f32:@photo.bin
                      a texture; EXTENT is W, WxH or WxHxD, W@LAYERS or WxH@LAYERS; an OPTION is linear (filter), normalised
                      (coordinates), normalised-float (of integers), memory (linear memory, for tex1Dfetch), or wrap, clamp,
                      mirror or border, for all axes or one for each
  surf:EXTENT:TYPExCHANNELS:LIST                               surf:4x2:u8x4:@canvas.bin
                      a surface, printed
  tmap:BUFFER/TYPE/EXTENTS/OPTION…                             tmap:x/f16/64x100/box=64x16/swizzle=128
                      a tensor map (CUtensorMap) of a buffer; EXTENTS fastest dimension first; TYPE also f32_ftz, tf32, tf32_ftz; an OPTION
                      is box=SIZES, strides=BYTES (of all dimensions but the first; without, no gaps), steps=ELEMENT STRIDES,
                      swizzle=32, 64 or 128, atom=32 or 64 (bytes, of a swizzle of 128; else 16), flip (with atom=32), interleave=16 or 32,
                      nan (outside; else zeros); for im2col instead of box: lower=CORNER, upper=CORNER, channels=N and pixels=N
A texture or a surface is passed as its handle, which ptr:NAME is too if it has a name. A buffer becomes device memory, and the kernel gets its 64-bit address. NAME is also that of a __device__ or __constant__ variable.

TYPE   u8 s8 u16 s16 u32 s32 u64 s64 f16 bf16 f32 f64, or b8 b16 b32 b64 for bits (printed as hexadecimal)
VALUE  integers: 10, -10, 0xff; floats: 1.5, 1e-3, nan, inf, -inf, or their bits as 0x3f800000, 0f3F800000, 0d3FF0000000000000
LIST   values separated by commas, or @FILE: the raw little-endian contents of a file

Output: what the kernel prints, then each inout and out buffer in order of the arguments, one a line, values separated by commas.
With --json one object:
  buffers             a list for each buffer; nan, inf and -inf are the strings \"nan\", \"inf\", \"-inf\"; bits are integers
  instructions        instructions that warps executed, and lane_instructions the same for each active lane
  output              what the kernel printed, if it did
  profile             with --profile: see there
  refused             instead of all else, if the kernel cannot be had: kind (syntax, unsupported, unresolved, unknown-kernel, memory), message, file,
                      line; of an unsupported one each of the instructions, and its forms with their count and lines
  fault               instead of buffers and counts, if the kernel broke a rule: kind, message, kernel, file, line, block, thread, …;
                      inlined: file and line of the call in the kernel, of the call in the function called there, and so on down
  fidelity            with --fidelity: a list: fidelity (exact, within, manual), bound, instructions, and the evidence
  findings            with --sanitize: a list of all that was found, each as a fault, with the count of its occurrences

With --sanitize the kernel goes on past what it does wrong: an access that cannot be made is left out, and a load gives 0. Each
finding goes to stderr once, however often it occurs. An out buffer holds zeros but counts as never written. Kinds: out-of-bounds,
misaligned, use-after-free, uninitialised-read, shared-race, global-race, barrier-divergence, invalid-mask, budget, invalid-free, leak
(what the kernel takes with malloc or new and never frees), and others.

Profile: with --profile, after the buffers, counters of the kernel (those that are not 0, with Nsight Compute's name beside them), its
occupancy on ARCH (threads, shared memory, and registers if there is a ptxas to ask), and the 20 lines that cost most. With --json, `profile`:
  COUNTER: N          each counter: warp_instructions, lane_instructions, global_load_requests, global_load_sectors, …, barriers
  active_lanes        lanes that a warp runs together, mean of all instructions
  classes             instructions by class, of warps and of lanes: memory, f32, f64, f16, tensor, integer, conversion, control, …
  flops               additions and multiplications 1, fused multiply-adds 2; flops_per_unique_byte and flops_per_requested_byte
  longest_warp        instructions of the warp that executed most
  unique_load_bytes   bytes of the different 32-byte sectors read, and unique_store_bytes of those written
  occupancy           blocks, warps, max_warps, share, limiter, arch, registers (null if not known) and registers_unknown (why not)
  lines               a list: file, line, the same counters, active_lanes, classes, flops
  metrics             Nsight Compute's names and the values of the counters that carry them

A file or kernel that reaches --time-limit, --memory-limit or --budget is stopped, with a fault of the kind time-limit, memory-limit or
budget, as JSON too. The memory limit counts the module, buffers, registers, local and shared memory, and what --sanitize, --profile
and --watch remember; the command itself needs a few MiB more.

Exit status: 0 done, 1 the kernel broke a rule, reached a limit, or the file cannot be loaded, 2 wrong usage.

Examples:
  ptx-sim run untrusted.ptx --kernel k --time-limit 10 --memory-limit 1GiB --json out:f32:1024
  ptx-sim run add.ptx --kernel add --block 4 in:f32:1,2,3,4 in:f32:10,20,30,40 out:f32:4 u32:4
  ptx-sim run scale.ptx --kernel scale --grid 8,8 --block 16,16 inout:f32:@image.bin f32:0.5
  ptx-sim run sum.ptx --kernel sum --block 256 --shared 1024 --json in:u32:@values.bin out:u32:1
  ptx-sim run sum.ptx --kernel sum --block 256 --shared 1024 --sanitize in:u32:@values.bin out:u32:1
  ptx-sim run add.ptx --kernel add --block 256 --profile --arch sm_80 in:f32:@a.bin in:f32:@b.bin out:f32:256 u32:256";

/// Kernel to launch, and how.
#[derive(Debug, Args)]
pub(crate) struct Launch {
    /// The PTX file; `FILE.ptx.gz` will do
    #[arg(value_name = "FILE.ptx")]
    pub file: PathBuf,
    #[command(flatten)]
    pub linked: Linked,
    /// The kernel's name, as in the PTX or in the source; not needed if the file has only one
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,
    /// Blocks along x, y and z
    #[arg(long, value_name = "X[,Y[,Z]]", default_value = "1", allow_negative_numbers = true, value_parser = extents)]
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z
    #[arg(long, value_name = "X[,Y[,Z]]", default_value = "1", allow_negative_numbers = true, value_parser = extents)]
    pub block: [u32; 3],
    /// Blocks of a cluster along x, y and z, for a kernel that does not say itself: up to 8, or 16 where the GPU has room
    #[arg(long, value_name = "X[,Y[,Z]]", allow_negative_numbers = true, value_parser = extents)]
    pub cluster: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory per block
    #[arg(long, value_name = "BYTES", default_value_t = 0, allow_negative_numbers = true)]
    pub shared: u32,
    /// Bytes of each thread's stack that recursive calls may take, as cudaLimitStackSize sets them; the driver's default is 1024,
    /// which --sanitize checks
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    pub stack: Option<u32>,
    /// Let blocks wait for each other, as grid.sync() does: all must fit the device at once
    #[arg(long)]
    pub cooperative: bool,
    /// When pending asynchronous copies are made: late, early, or seed=N (at pseudo-random turns); a kernel must be
    /// right with all of them
    #[arg(long = "async", value_name = "WHEN", default_value_t)]
    pub asynchrony: Asynchrony,
    /// Instructions that all warps together may execute before the kernel is stopped; a billion of plain ones are under a minute
    #[arg(long, value_name = "N", default_value_t = 1_000_000_000, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    pub budget: u64,
    /// A buffer that is not an argument itself: its address is, as ptr:NAME
    #[arg(long, value_name = "NAME=in:TYPE:LIST", value_parser = named_buffer)]
    pub buffer: Vec<Buffer>,
    /// Initial value of a __device__ or __constant__ variable
    #[arg(long, value_name = "NAME=TYPE:LIST", value_parser = variable)]
    pub set: Vec<(String, Element, Vec<u8>)>,
    #[command(flatten)]
    pub limits: Limits,
    /// Show lines of source files in this folder and below it, too; otherwise only of those in the folder of the PTX file
    #[arg(long, value_name = "DIR")]
    pub source_root: Vec<PathBuf>,
    /// The kernel's arguments, see below
    #[arg(value_name = "ARG", value_parser = argument)]
    pub args: Vec<Argument>,
}

/// Files that a PTX file is linked with.
#[derive(Debug, Args)]
pub(crate) struct Linked {
    /// A PTX file with functions and variables that the first declares `.extern`, as of `nvcc -rdc=true`; may be given more than once
    #[arg(long = "link", value_name = "FILE.ptx")]
    pub files: Vec<PathBuf>,
}

/// Host resources that the command may take.
#[derive(Debug, Args)]
pub(crate) struct Limits {
    /// Stop after this many seconds, reading the file included; as 10 or 0.5
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub time_limit: Option<Duration>,
    /// Host memory that the file and its launch may take together: 1GiB, 512MiB, 64KiB, or a number of bytes
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_negative_numbers = true)]
    pub memory_limit: Option<u64>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| *seconds > 0.0);
    let seconds = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| format!("`{text}` is not a number of seconds, as 10 or 0.5"))
}

#[derive(Debug, Args)]
#[command(after_help = RUN_HELP)]
pub(crate) struct Run {
    #[command(flatten)]
    pub launch: Launch,
    /// Look for what results may hide: races, uninitialised reads, barriers and masks that some threads miss, leaks
    #[arg(long, visible_alias = "sanitise")]
    pub sanitize: bool,
    /// With --sanitize: also report what the PTX memory model does not guarantee, even if today's GPUs bear it
    #[arg(long, requires = "sanitize")]
    pub strict: bool,
    /// Count what the kernel asks of the hardware, by source line, see below; costs about half of the speed
    #[arg(long)]
    pub profile: bool,
    /// Tell after the results which of the instructions are exact to the bit, which lie within a bound, and where that is shown
    #[arg(long)]
    pub fidelity: bool,
    /// The architecture whose occupancy the profile has
    #[arg(long, value_name = "ARCH", default_value = "sm_90", requires = "profile", value_parser = architecture)]
    pub arch: String,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Write the bytes of a buffer or variable to a file; a buffer without a name is the number of its argument, from 1 on
    #[arg(long, value_name = "NAME=FILE", value_parser = output)]
    pub save: Vec<(String, PathBuf)>,
    /// Tell on stderr what a thread does at a line of the CUDA source, or whenever it writes a register: 'line 42', %r5, '%r5,%f3'
    #[arg(long, value_name = "POINT", value_parser = watch_points)]
    pub watch: Vec<Points>,
    /// The thread to watch, by its threadIdx [default: 0,0,0]
    #[arg(long, value_name = "X[,Y[,Z]]", value_parser = place, requires = "watch", conflicts_with = "warp")]
    pub thread: Option<[u32; 3]>,
    /// Watch all lanes of this warp of the block
    #[arg(long, value_name = "W", requires = "watch")]
    pub warp: Option<u32>,
    /// The block to watch, by its blockIdx
    #[arg(long, value_name = "X[,Y[,Z]]", default_value = "0", value_parser = place)]
    pub at_block: [u32; 3],
    /// Maximum number of lines to print
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub watch_limit: u64,
}

/// The points of one `--watch`.
#[derive(Clone, Debug)]
pub(crate) struct Points(pub Vec<WatchPoint>);

fn watch_points(text: &str) -> Result<Points, String> {
    WatchPoint::list(text).map(Points)
}

const CASE_HELP: &str = "\
The file, whose paths are relative to it:
  ptx = \"kernels.ptx\"
  print = [\"y\"]                # buffers and variables to print at the end, in this order

  [buffer.x]                   # device memory
  type = \"f32\"
  values = [1, 2.5, \"nan\"]     # or file = \"x.bin\" (little-endian), zeros = COUNT, unwritten = COUNT

  [variable.table]             # what a __device__ or __constant__ variable of the PTX holds at first
  type = \"u32\"
  values = [1, 2]              # or file

  [texture.photo]              # an argument ptr:photo is its handle
  type = \"u8\"                  # of a channel; channels = 4 if there are more than one
  extent = [2, 1]              # texels: width, height, depth; layers = N if there are any
  values = [0, 255]            # or file: all texels, x fastest
  sampling = { filter = \"linear\", address = [\"wrap\", \"clamp\"], normalised_coordinates = true, normalised_float = true, border = [0, 0, 0, 0] }
                               # or linear_memory = true, for tex1Dfetch; by default filter = \"point\", address = [\"clamp\"], and none else

  [tensormap.tiles]            # an argument tmap:tiles is a CUtensorMap of a buffer
  buffer = \"x\"                 # or \"x+256\"
  type = \"f16\"                 # or f32_ftz, tf32, …
  extents = [64, 100]          # fastest dimension first
  box = [64, 16]               # or lower = [-1, -1], upper = [-1, -1], channels = 16, pixels = 32, for im2col
  swizzle = 128                # also atom = 32 or 64, flip = true, strides = BYTES, steps = ELEMENT STRIDES, interleave = 16 or 32, nan = true

  [surface.canvas]             # as a texture, without sampling; may be printed, compared and saved as a buffer

  [[launch]]                   # as many as there are, in order
  kernel = \"scale\"             # not needed if the PTX has only one
  grid = [4]                   # x, y, z; 1 where not given
  block = [256]
  cluster = [1]                # blocks of a cluster along x, y and z, up to 16; left out: as the kernel says
  shared = 0                   # bytes of dynamic shared memory
  args = [\"ptr:x\", \"ptr:y+16\", \"f32:0.5\"]   # as in `ptx-sim run`, without in, inout and out

  [[compare]]                  # at the end
  buffer = \"y\"                 # or a variable
  values = [0.5, 1.25, \"nan\"]  # or file; of the buffer's type
  absolute = 1e-6              # a difference up to absolute + relative · |expected| is none; by default there must be none
  relative = 1e-5

  [save]                       # write what is there at the end to files
  y = \"y.bin\"

With --json one object: `buffers` by name, `compared` (buffer, elements, different, first, largest), instructions, output, findings,
fault, refused. The limits are those of the whole command, and its faults as `ptx-sim run` has them, see there.

Exit status: 0 done and equal, 1 something differs, a kernel broke a rule or a file cannot be loaded, 2 wrong usage.

Example:
  ptx-sim case softmax/case.toml --sanitize";

#[derive(Debug, Args)]
#[command(after_help = CASE_HELP)]
pub(crate) struct CaseOptions {
    /// The file, see below
    #[arg(value_name = "FILE.toml")]
    pub file: PathBuf,
    #[command(flatten)]
    pub linked: Linked,
    /// Look for what results may hide: races, uninitialised reads, barriers and masks that some threads miss, leaks
    #[arg(long, visible_alias = "sanitise")]
    pub sanitize: bool,
    /// With --sanitize: also report what the PTX memory model does not guarantee, even if today's GPUs bear it
    #[arg(long, requires = "sanitize")]
    pub strict: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// When pending asynchronous copies are made: late, early, or seed=N (at pseudo-random turns); a kernel must be
    /// right with all of them
    #[arg(long = "async", value_name = "WHEN", default_value_t)]
    pub asynchrony: Asynchrony,
    /// Instructions that all warps of one launch together may execute
    #[arg(long, value_name = "N", default_value_t = 1_000_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub budget: u64,
    #[command(flatten)]
    pub limits: Limits,
    /// Show lines of source files in this folder and below it, too; otherwise only of those in the folder of the PTX file
    #[arg(long, value_name = "DIR")]
    pub source_root: Vec<PathBuf>,
}

const TRACE_HELP: &str = "\
Pictures:
  sectors    an access to global memory: which lane touches which bytes, and the 32-byte sectors that are moved for them
  banks      an access to shared memory: which lane asks which bank, and who has to wait
  fragment   a matrix instruction (mma, wmma, ldmatrix, stmatrix, wgmma): which lane and register holds which element
  operand    A or B of a wgmma in shared memory: how its descriptor leads to each 8 x 16 bytes, and through the swizzle
  tile       a bulk copy of a tensor: where each 16 bytes of the box lie in shared memory, swizzled or not
  box        the same copy in its tensor: what it takes, and what of it is outside
  tensor-memory
             a tcgen05.ld, .st, .cp, .shift or .mma: which lanes and columns of tensor memory it uses
  timeline   the block's warps side by side: lanes that are active, barriers and mbarriers, who waits for whom, and which
             copies and wgmma groups are under way
They follow the reader's system, light or dark; inside a page of mdBook, its theme.

Of several that fit, --nth picks one; they count in the order in which the simulator executes them, warp after warp.
Kernel arguments are those of `ptx-sim run`, see there.

Exit status: 0 done, 1 nothing to draw, or the kernel broke a rule, or the file cannot be loaded, 2 wrong usage.

Examples:
  ptx-sim trace copy.ptx --kernel copy --block 32 --show sectors in:f32:@in.bin out:f32:32 u32:32 -o copy.svg
  ptx-sim trace tile.ptx --kernel tile --block 32,32 --show banks --line 31 --kind read in:f32:@in.bin out:f32:1024 > banks.svg
  ptx-sim trace tile.ptx --kernel tile --block 32,32 --list in:f32:@in.bin out:f32:1024";

#[derive(Debug, Args)]
#[command(after_help = TRACE_HELP)]
pub(crate) struct TraceOptions {
    #[command(flatten)]
    pub launch: Launch,
    /// Kind of picture
    #[arg(long, value_enum, required_unless_present = "list")]
    pub show: Option<Show>,
    /// List the accesses to memory instead
    #[arg(long, conflicts_with = "show")]
    pub list: bool,
    /// Only what is at this line of the CUDA source
    #[arg(long, value_name = "N")]
    pub line: Option<u32>,
    /// Only accesses that do this
    #[arg(long, value_enum)]
    pub kind: Option<Kind>,
    /// Which of those that fit, from 1 on
    #[arg(long, value_name = "I", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub nth: u64,
    /// The block, by its blockIdx
    #[arg(long, value_name = "X[,Y[,Z]]", default_value = "0", value_parser = place)]
    pub at_block: [u32; 3],
    /// Only this warp of the block
    #[arg(long, value_name = "W")]
    pub warp: Option<u32>,
    /// Warp instructions of the block to record
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub max_steps: usize,
    /// Write the picture or the list there instead of to stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Kind of picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Show {
    /// An access to global memory and the sectors it moves
    Sectors,
    /// An access to shared memory and its bank conflicts
    Banks,
    /// Layout of a matrix instruction's matrices over lanes and registers
    Fragment,
    /// A or B of a wgmma in shared memory
    Operand,
    /// A tensor's box in shared memory
    Tile,
    /// A tensor's box in the tensor
    Box,
    /// Lanes and columns of tensor memory
    TensorMemory,
    /// The block's warps, their divergence and barriers, and what they have under way
    Timeline,
}

/// Kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Loads
    Read,
    /// Stores
    Write,
    /// Atomics
    Atomic,
    /// Asynchronous copies (cp.async)
    Copy,
    /// Bulk copies (cp.async.bulk), which take no turns of the lanes
    Bulk,
}

impl From<Kind> for AccessKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Read => Self::Read,
            Kind::Write => Self::Write,
            Kind::Atomic => Self::Atomic,
            Kind::Copy => Self::Copy,
            Kind::Bulk => Self::Bulk,
        }
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 all instructions are known, 1 some are not, the file cannot be loaded or reaches a limit, 2 wrong usage."
)]
pub(crate) struct Check {
    /// The PTX file; `FILE.ptx.gz` will do
    #[arg(value_name = "FILE.ptx", required_unless_present = "list")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub linked: Linked,
    #[command(flatten)]
    pub limits: Limits,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// List what the simulator supports and what it refuses, as the tables of its README
    #[arg(long, conflicts_with_all = ["file", "files", "json"])]
    pub list: bool,
}

fn architecture(text: &str) -> Result<String, String> {
    match ptx_sim::Limits::of(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(format!("the architectures are {}", ptx_sim::Limits::known().join(", "))),
    }
}

/// Up to three numbers; missing ones are `rest`.
fn axes(text: &str, rest: u32) -> Result<[u32; 3], String> {
    let mut axes = [rest; 3];
    if text.split(',').count() > 3 {
        return Err("there are three axes: X, Y and Z".into());
    }
    for (axis, part) in axes.iter_mut().zip(text.split(',')) {
        *axis = part.parse().map_err(|_| format!("`{part}` is not a 32-bit whole number"))?;
    }
    Ok(axes)
}

fn extents(text: &str) -> Result<[u32; 3], String> {
    let extents = axes(text, 1)?;
    if extents.contains(&0) { Err("an extent is at least 1".into()) } else { Ok(extents) }
}

/// A `blockIdx` or `threadIdx`.
fn place(text: &str) -> Result<[u32; 3], String> {
    axes(text, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asynchrony_has_three_forms() {
        for (text, asynchrony) in
            [("late", Asynchrony::Late), ("early", Asynchrony::Early), ("seed=7", Asynchrony::Seeded(7))]
        {
            assert_eq!((text.parse(), asynchrony.to_string().as_str()), (Ok(asynchrony), text));
        }
        for text in ["", "seed", "seed=", "seed=-1", "soon"] {
            assert!(text.parse::<Asynchrony>().is_err(), "{text}");
        }
    }

    #[test]
    fn limits_have_units() {
        for (text, bytes) in [("1", 1), ("64KiB", 1 << 16), ("512MiB", 1 << 29), ("1GiB", 1 << 30), ("3 GiB", 3 << 30)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "0", "-1", "1GB", "GiB", "1.5GiB", "99999999999GiB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["", "0", "-1", "nan", "inf", "1s", "1e300"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn extents_are_one_to_three() {
        assert_eq!(extents("4"), Ok([4, 1, 1]));
        assert_eq!(extents("4,3,2"), Ok([4, 3, 2]));
        for text in ["", "0", "1,0", "1,2,3,4", "-1", "1,", "x", "4294967296"] {
            assert!(extents(text).is_err(), "{text}");
        }
    }
}
