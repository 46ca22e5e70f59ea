//! The command line of `ptx-sim`: options, and the arguments of a kernel as text.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use half::{bf16, f16};
use ptx_sim::{AccessKind, WatchPoint};
use serde_json::{Value, json};

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
    /// Run one kernel and draw what a block of it did, as SVG
    Trace(TraceOptions),
    /// List kernels, their parameters, and instructions that the simulator does not know
    Check(Check),
}

const RUN_HELP: &str = "\
Kernel arguments, one for each parameter, in order:
  TYPE:VALUE          a number                                 u32:256  f32:-1e-3  b32:0x3f800000
  TYPE:VALUE,VALUE…   a struct of several                      f32:1,0,-inf
  in:TYPE:LIST        a buffer the kernel reads                in:f32:1,2,3
  inout:TYPE:LIST     a buffer it reads and writes; printed    inout:s32:0,0,0,0
  out:TYPE:COUNT      a buffer of COUNT zeros; printed         out:f32:1024
A buffer becomes device memory, and the kernel gets its 64-bit address.

TYPE   u8 s8 u16 s16 u32 s32 u64 s64 f16 bf16 f32 f64, or b8 b16 b32 b64 for bits (printed as hexadecimal)
VALUE  integers: 10, -10, 0xff; floats: 1.5, 1e-3, nan, inf, -inf, or their bits as 0x3f800000, 0f3F800000, 0d3FF0000000000000
LIST   values separated by commas, or @FILE: the raw little-endian contents of a file

Output: what the kernel prints, then each inout and out buffer in order of the arguments, one a line, values separated by commas.
With --json one object:
  buffers             a list for each buffer; nan, inf and -inf are the strings \"nan\", \"inf\", \"-inf\"; bits are integers
  instructions        instructions that warps executed, and lane_instructions the same for each active lane
  output              what the kernel printed, if it did
  profile             with --profile: see there
  fault               instead of buffers and counts, if the kernel broke a rule: kind, message, kernel, file, line, block, thread, …
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
  unique_load_bytes   bytes of the different 32-byte sectors read, and unique_store_bytes of those written
  occupancy           blocks, warps, max_warps, share, limiter, arch, registers (null if not known) and registers_unknown (why not)
  lines               a list: file, line, the same counters, active_lanes, classes, flops
  metrics             Nsight Compute's names and the values of the counters that carry them

Exit status: 0 done, 1 the kernel broke a rule or the file cannot be loaded, 2 wrong usage.

Examples:
  ptx-sim run add.ptx --kernel add --block 4 in:f32:1,2,3,4 in:f32:10,20,30,40 out:f32:4 u32:4
  ptx-sim run scale.ptx --kernel scale --grid 8,8 --block 16,16 inout:f32:@image.bin f32:0.5
  ptx-sim run sum.ptx --kernel sum --block 256 --shared 1024 --json in:u32:@values.bin out:u32:1
  ptx-sim run sum.ptx --kernel sum --block 256 --shared 1024 --sanitize in:u32:@values.bin out:u32:1
  ptx-sim run add.ptx --kernel add --block 256 --profile --arch sm_80 in:f32:@a.bin in:f32:@b.bin out:f32:256 u32:256";

/// What to launch, and how.
#[derive(Debug, Args)]
pub(crate) struct Launch {
    /// The PTX file
    #[arg(value_name = "FILE.ptx")]
    pub file: PathBuf,
    /// The kernel's name in the PTX: mangled unless it is `extern "C"`
    #[arg(long, value_name = "NAME")]
    pub kernel: String,
    /// Blocks along x, y and z
    #[arg(long, value_name = "X[,Y[,Z]]", default_value = "1", allow_negative_numbers = true, value_parser = extents)]
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z
    #[arg(long, value_name = "X[,Y[,Z]]", default_value = "1", allow_negative_numbers = true, value_parser = extents)]
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory per block
    #[arg(long, value_name = "BYTES", default_value_t = 0, allow_negative_numbers = true)]
    pub shared: u32,
    /// Instructions that all warps together may execute before the kernel is stopped; a billion are under a minute
    #[arg(long, value_name = "N", default_value_t = 1_000_000_000, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    pub budget: u64,
    /// The kernel's arguments, see below
    #[arg(value_name = "ARG", value_parser = argument)]
    pub args: Vec<Argument>,
}

#[derive(Debug, Args)]
#[command(after_help = RUN_HELP)]
pub(crate) struct Run {
    #[command(flatten)]
    pub launch: Launch,
    /// Look for what results may hide: races, uninitialised reads, barriers and masks that some threads miss, leaks
    #[arg(long, visible_alias = "sanitise")]
    pub sanitize: bool,
    /// Count what the kernel asks of the hardware, by source line, see below; costs about half of the speed
    #[arg(long)]
    pub profile: bool,
    /// The architecture whose occupancy the profile has
    #[arg(long, value_name = "ARCH", default_value = "sm_90", requires = "profile", value_parser = architecture)]
    pub arch: String,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
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

const TRACE_HELP: &str = "\
Pictures:
  sectors    an access to global memory: which lane touches which bytes, and the 32-byte sectors that are moved for them
  banks      an access to shared memory: which lane asks which bank, and who has to wait
  fragment   a matrix instruction (mma, wmma, ldmatrix, stmatrix): which lane and register holds which element
  timeline   the block's warps side by side: lanes that are active, barriers, who waits for whom
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
    /// What to draw
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

/// What a picture shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Show {
    /// An access to global memory and the sectors it moves
    Sectors,
    /// An access to shared memory and its bank conflicts
    Banks,
    /// How a matrix instruction spreads its matrices over lanes and registers
    Fragment,
    /// The block's warps, their divergence and barriers
    Timeline,
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Loads
    Read,
    /// Stores
    Write,
    /// Atomics
    Atomic,
    /// Asynchronous copies
    Copy,
}

impl From<Kind> for AccessKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Read => Self::Read,
            Kind::Write => Self::Write,
            Kind::Atomic => Self::Atomic,
            Kind::Copy => Self::Copy,
        }
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 all instructions are known, 1 some are not or the file cannot be loaded, 2 wrong usage."
)]
pub(crate) struct Check {
    /// The PTX file
    #[arg(value_name = "FILE.ptx")]
    pub file: PathBuf,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// One argument of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Argument {
    /// The bytes of a number, or of a struct.
    Scalar(Vec<u8>),
    /// A buffer with these contents; `shown` afterwards or not.
    Buffer { element: Element, contents: Contents, shown: bool },
}

/// What a buffer holds before the launch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Contents {
    Bytes(Vec<u8>),
    /// That many bytes.
    Zeros(u64),
}

/// The type of a scalar or of a buffer's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[rustfmt::skip]
pub(crate) enum Element { U8, S8, U16, S16, U32, S32, U64, S64, F16, Bf16, F32, F64, B8, B16, B32, B64 }

#[rustfmt::skip]
const ELEMENTS: [(&str, Element); 16] = [
    ("u8", Element::U8), ("s8", Element::S8), ("u16", Element::U16), ("s16", Element::S16), ("u32", Element::U32), ("s32", Element::S32),
    ("u64", Element::U64), ("s64", Element::S64), ("f16", Element::F16), ("bf16", Element::Bf16), ("f32", Element::F32), ("f64", Element::F64),
    ("b8", Element::B8), ("b16", Element::B16), ("b32", Element::B32), ("b64", Element::B64),
];

fn architecture(text: &str) -> Result<String, String> {
    match ptx_sim::Limits::of(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(format!("the architectures are {}", ptx_sim::Limits::known().join(", "))),
    }
}

/// Up to three numbers; those that are not given are `rest`.
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

fn argument(text: &str) -> Result<Argument, String> {
    let form = || "an argument is TYPE:VALUE, in:TYPE:LIST, inout:TYPE:LIST or out:TYPE:COUNT".to_owned();
    let (kind, rest) = text.split_once(':').ok_or_else(form)?;
    if !matches!(kind, "in" | "inout" | "out") {
        let element = Element::named(kind).map_err(|error| format!("{error}; {}", form()))?;
        let fields: Result<Vec<_>, _> = rest.split(',').map(|value| element.bytes_of(value)).collect();
        return Ok(Argument::Scalar(fields?.concat()));
    }
    let (ty, list) = rest.split_once(':').ok_or_else(form)?;
    let element = Element::named(ty)?;
    let contents = if kind == "out" {
        let count: u64 = list.parse().map_err(|_| format!("`{list}` is not a number of elements"))?;
        let bytes = count.checked_mul(element.size() as u64);
        Contents::Zeros(bytes.ok_or_else(|| format!("{count} elements are more than an address can tell apart"))?)
    } else {
        Contents::Bytes(element.list(list)?)
    };
    Ok(Argument::Buffer { element, contents, shown: kind != "in" })
}

impl Element {
    fn named(name: &str) -> Result<Self, String> {
        let found = ELEMENTS.iter().find(|(known, _)| *known == name);
        found.map(|(_, element)| *element).ok_or_else(|| {
            let known: Vec<&str> = ELEMENTS.iter().map(|(name, _)| *name).collect();
            format!("`{name}` is not a type; the types are {}", known.join(", "))
        })
    }

    fn name(self) -> &'static str {
        ELEMENTS.iter().find(|(_, element)| *element == self).map_or("", |(name, _)| name)
    }

    /// Bytes of one element.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::U8 | Self::S8 | Self::B8 => 1,
            Self::U16 | Self::S16 | Self::F16 | Self::Bf16 | Self::B16 => 2,
            Self::U32 | Self::S32 | Self::F32 | Self::B32 => 4,
            Self::U64 | Self::S64 | Self::F64 | Self::B64 => 8,
        }
    }

    fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }

    fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    /// The little-endian bytes of a LIST.
    fn list(self, list: &str) -> Result<Vec<u8>, String> {
        if let Some(path) = list.strip_prefix('@') {
            let bytes = std::fs::read(path).map_err(|error| format!("cannot read `{path}`: {error}"))?;
            if bytes.len() % self.size() != 0 {
                let (length, size) = (bytes.len(), self.size());
                return Err(format!("`{path}` has {length} bytes, not a multiple of the {size} of a {}", self.name()));
            }
            return Ok(bytes);
        }
        if list.is_empty() {
            return Err("the list is empty (a buffer of no elements is out:TYPE:0)".into());
        }
        let mut bytes = Vec::new();
        for item in list.split(',') {
            bytes.extend(self.bytes_of(item)?);
        }
        Ok(bytes)
    }

    /// The little-endian bytes of a VALUE.
    fn bytes_of(self, text: &str) -> Result<Vec<u8>, String> {
        let bits = if self.is_float() { self.float_bits(text)? } else { self.integer_bits(text)? };
        Ok(bits.to_le_bytes()[..self.size()].to_vec())
    }

    fn integer_bits(self, text: &str) -> Result<u64, String> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let digits = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X"));
        let parsed = match digits {
            Some(digits) => i128::from_str_radix(digits, 16),
            None => unsigned.parse::<i128>(),
        };
        // A second sign would pass `parse`.
        let starts_well = digits.unwrap_or(unsigned).starts_with(|first: char| first.is_ascii_hexdigit());
        let magnitude = match parsed {
            Ok(magnitude) if starts_well => magnitude,
            Err(error) if *error.kind() == std::num::IntErrorKind::PosOverflow && starts_well => i128::MAX,
            _ => return Err(format!("`{text}` is not a whole number")),
        };
        let value = if text.starts_with('-') { -magnitude } else { magnitude };
        let bits = self.size() as u32 * 8;
        let (low, high) = match self.is_signed() {
            true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
            false => (0, (1i128 << bits) - 1),
        };
        if !(low..=high).contains(&value) {
            let advice =
                if self.is_signed() && digits.is_some() { format!("; for bits write b{bits}") } else { String::new() };
            return Err(format!("`{text}` is not a {}, which is {low} to {high}{advice}", self.name()));
        }
        Ok(value as u64)
    }

    fn float_bits(self, text: &str) -> Result<u64, String> {
        let bits = self.size() * 8;
        let prefixes: &[&str] = match self {
            Self::F32 => &["0x", "0X", "0f", "0F"],
            Self::F64 => &["0x", "0X", "0d", "0D"],
            _ => &["0x", "0X"],
        };
        if let Some(digits) = prefixes.iter().find_map(|prefix| text.strip_prefix(prefix)) {
            let value = u64::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'));
            return match value {
                Some(value) if bits == 64 || value >> bits == 0 => Ok(value),
                _ => Err(format!("`{text}` is not {bits} bits in hexadecimal")),
            };
        }
        let value: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
        let (raw, finite) = match self {
            Self::F16 => (u64::from(f16::from_f64(value).to_bits()), f16::from_f64(value).is_finite()),
            Self::Bf16 => (u64::from(bf16::from_f64(value).to_bits()), bf16::from_f64(value).is_finite()),
            // from the text, so that it is rounded once
            Self::F32 => {
                let value: f32 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
                (u64::from(value.to_bits()), value.is_finite())
            }
            _ => (value.to_bits(), value.is_finite()),
        };
        let written_infinite = !text.contains(|digit: char| digit.is_ascii_digit());
        if !finite && !written_infinite {
            return Err(format!("`{text}` is too large for {} (infinity is written inf)", self.name()));
        }
        Ok(raw)
    }

    /// The elements of a buffer's bytes, as raw bits.
    pub(crate) fn elements(self, bytes: &[u8]) -> impl Iterator<Item = u64> {
        bytes.chunks_exact(self.size()).map(|chunk| {
            let mut raw = [0; 8];
            raw[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(raw)
        })
    }

    /// A float as a f64, exactly.
    fn value(self, bits: u64) -> f64 {
        match self {
            Self::F16 => f16::from_bits(bits as u16).to_f64(),
            Self::Bf16 => bf16::from_bits(bits as u16).to_f64(),
            Self::F32 => f64::from(f32::from_bits(bits as u32)),
            _ => f64::from_bits(bits),
        }
    }

    fn integer(self, bits: u64) -> i128 {
        match self {
            Self::S8 => i128::from(bits as i8),
            Self::S16 => i128::from(bits as i16),
            Self::S32 => i128::from(bits as i32),
            Self::S64 => i128::from(bits as i64),
            _ => i128::from(bits),
        }
    }

    /// An element as text that reads back to the same bits (any NaN as `nan`).
    pub(crate) fn text(self, bits: u64) -> String {
        let digits = self.size() * 2;
        match self {
            Self::B8 | Self::B16 | Self::B32 | Self::B64 => format!("{bits:#0width$x}", width = digits + 2),
            _ if self.is_float() => self.float_text(bits),
            _ => self.integer(bits).to_string(),
        }
    }

    fn float_text(self, bits: u64) -> String {
        let value = self.value(bits);
        if value.is_nan() {
            return "nan".into();
        }
        if value.is_infinite() {
            return if value < 0.0 { "-inf" } else { "inf" }.into();
        }
        // The fewest digits that read back; 17 are enough for any f64.
        let scientific = (0..17)
            .map(|precision| format!("{value:.precision$e}"))
            .find(|text| self.float_bits(text) == Ok(bits))
            .unwrap_or_else(|| format!("{value:e}"));
        match value.abs() {
            // written out, where that is short
            small if small == 0.0 || (1e-5..1e16).contains(&small) => match scientific.parse::<f64>() {
                Ok(short) => short.to_string(),
                Err(_) => scientific,
            },
            _ => scientific,
        }
    }

    /// An element as JSON, which has no NaN and no infinity: those are strings.
    pub(crate) fn json(self, bits: u64) -> Value {
        if !self.is_float() {
            return if self.is_signed() { json!(self.integer(bits) as i64) } else { json!(bits) };
        }
        let text = self.float_text(bits);
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => json!(value),
            _ => json!(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_their_type() {
        for (text, bytes) in [
            ("u8:255", &[255][..]),
            ("s8:-128", &[128]),
            ("u16:0x1234", &[0x34, 0x12]),
            ("s16:-0x10", &[0xf0, 0xff]),
            ("u32:+7", &[7, 0, 0, 0]),
            ("s32:-1", &[255; 4]),
            ("u64:18446744073709551615", &[255; 8]),
            ("s64:-9223372036854775808", &[0, 0, 0, 0, 0, 0, 0, 128]),
            ("f16:1", &[0, 0x3c]),
            ("bf16:1", &[0x80, 0x3f]),
            ("f32:1", &[0, 0, 0x80, 0x3f]),
            ("f32:-1e-3", &(-1e-3f32).to_le_bytes()),
            ("f32:0f3F800000", &[0, 0, 0x80, 0x3f]),
            ("f32:0x3f800000", &[0, 0, 0x80, 0x3f]),
            ("f32:-inf", &f32::NEG_INFINITY.to_le_bytes()),
            ("f64:0d3FF0000000000000", &1f64.to_le_bytes()),
            ("b32:0x3f800000", &[0, 0, 0x80, 0x3f]),
            ("b8:9", &[9]),
            ("s16:1,-1", &[1, 0, 255, 255]),
        ] {
            assert_eq!(argument(text), Ok(Argument::Scalar(bytes.to_vec())), "{text}");
        }
        let Ok(Argument::Scalar(bytes)) = argument("f32:nan") else { panic!("nan is a float") };
        assert!(f32::from_le_bytes(bytes.try_into().unwrap()).is_nan());
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "an argument is"),
            ("5", "an argument is"),
            ("f33:1", "`f33` is not a type"),
            ("u8:256", "0 to 255"),
            ("u8:-1", "0 to 255"),
            ("s8:128", "-128 to 127"),
            ("s32:0xffffffff", "for bits write b32"),
            ("u64:18446744073709551616", "0 to 18446744073709551615"),
            ("u64:99999999999999999999999999999999999999999999", "0 to 18446744073709551615"),
            ("u32:", "not a whole number"),
            ("u32:1,", "not a whole number"),
            ("u32:--1", "not a whole number"),
            ("u32:0x-1", "not a whole number"),
            ("u32:1.5", "not a whole number"),
            ("f32:one", "not a number"),
            ("f32:1e50", "too large for f32"),
            ("f16:70000", "too large for f16"),
            ("f32:0x3f8000000", "not 32 bits"),
            ("f64:0f3F800000", "not a number"),
            ("in:f32", "an argument is"),
            ("in:f32:", "the list is empty"),
            ("in:f32:1,,2", "`` is not a number"),
            ("in:f32:1,2,", "`` is not a number"),
            ("out:f32:-1", "not a number of elements"),
            ("out:f64:18446744073709551615", "more than an address"),
            ("in:u8:@no/such/file", "cannot read `no/such/file`"),
        ] {
            let error = argument(text).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn floats_print_the_fewest_digits_that_read_back() {
        for (element, value, text) in [
            (Element::F32, "0.1", "0.1"),
            (Element::F32, "1", "1"),
            (Element::F32, "-0", "-0"),
            (Element::F32, "16777216", "16777216"),
            (Element::F32, "0x00000001", "1e-45"),
            (Element::F32, "0x7f7fffff", "3.4028235e38"),
            (Element::F64, "0.1", "0.1"),
            (Element::F64, "5e-324", "5e-324"),
            (Element::F64, "0.30000000000000004", "0.30000000000000004"),
            (Element::F16, "0.1", "0.1"),
            (Element::F16, "65504", "65500"),
            (Element::Bf16, "3.14", "3.14"),
            (Element::F32, "-inf", "-inf"),
            (Element::F32, "nan", "nan"),
        ] {
            let bits = element.float_bits(value).unwrap();
            assert_eq!(element.text(bits), text);
        }
        for bits in (0..=u16::MAX).map(u64::from) {
            for element in [Element::F16, Element::Bf16] {
                if !element.value(bits).is_nan() {
                    assert_eq!(element.float_bits(&element.text(bits)), Ok(bits));
                }
            }
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
