//! One error type for the whole crate; each message says what was attempted, on what, and what to do about it.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use crate::element::{ElementType, MemoryFormat};

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong between a lesson and its device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A device name that [`crate::device::DeviceChoice`] does not know.
    #[error("no such device: `{0}` (use auto, sim, sim:N, cuda or cuda:N)")]
    DeviceName(String),

    /// The device asked for does not answer.
    #[error("{device} cannot be used: {reason}")]
    NoDevice {
        /// As the user named it.
        device: String,
        /// What the driver, or its absence, said.
        reason: String,
    },

    /// Something that this kind of device cannot do; tables show it as a dash with the reason.
    #[error("{what} is not possible on {device}: {reason}")]
    Unsupported {
        /// What was asked for.
        what: String,
        /// The device's short name.
        device: String,
        /// Why, and if there is another way, which.
        reason: String,
    },

    /// A buffer, kernel or event met a stream of another device.
    #[error("{operation}: the {what} belongs to {found}, but the stream is one of {expected}")]
    WrongDevice {
        /// The operation that was refused.
        operation: &'static str,
        /// "buffer", "kernel" or "event".
        what: &'static str,
        /// The stream's device.
        expected: String,
        /// Where the object lives.
        found: String,
    },

    /// The device does not have enough memory left.
    #[error(
        "out of memory on {device}: {requested} bytes requested, {free} of {total} are free ({in_use} are in our own buffers)"
    )]
    OutOfMemory {
        /// The device's short name.
        device: String,
        /// Bytes asked for.
        requested: u64,
        /// Bytes free when the request failed.
        free: u64,
        /// Bytes that the device has.
        total: u64,
        /// Bytes in live buffers of this process.
        in_use: u64,
    },

    /// Something that cannot be a part of a graph.
    #[error("{operation} is not possible in the capture of a graph: {reason}")]
    Capture {
        /// What was refused.
        operation: &'static str,
        /// Why, and what to do instead.
        reason: String,
    },

    /// Two lengths that must agree do not.
    #[error("{operation}: the source holds {source_len} elements, the destination {destination_len}")]
    Length {
        /// The copy that was refused.
        operation: &'static str,
        /// Elements in the source.
        source_len: usize,
        /// Elements in the destination.
        destination_len: usize,
    },

    /// Shapes that do not fit an operation; [`Error::shape`] makes one.
    #[error("{operation}: {detail}")]
    Shape {
        /// The operation that was refused.
        operation: String,
        /// What was expected, and the shape that came.
        detail: ShapeError,
    },

    /// A tensor with values of another type than an operation takes.
    #[error("the tensor {shape:?}: expected {expected}, got {got}")]
    ElementType {
        /// The tensor's shape.
        shape: Vec<usize>,
        /// The type that the operation takes.
        expected: ElementType,
        /// The tensor's.
        got: ElementType,
    },

    /// A tensor whose values lie in another order than an operation takes.
    #[error("the tensor {shape:?}: expected {expected}, got {got}")]
    MemoryFormat {
        /// The tensor's shape.
        shape: Vec<usize>,
        /// The format that the operation takes.
        expected: MemoryFormat,
        /// The tensor's.
        got: MemoryFormat,
    },

    /// A tensor map that breaks a rule, or reaches beyond its buffer.
    #[error("on {device}: {detail}")]
    TensorMap {
        /// The device's short name.
        device: String,
        /// The rule, with the numbers that break it.
        detail: String,
    },

    /// A launch whose arguments do not match the kernel's parameters.
    #[error("kernel `{kernel}`: {detail}")]
    Arguments {
        /// The kernel's name.
        kernel: String,
        /// The mismatch, with the kernel's own parameter list.
        detail: String,
    },

    /// A launch geometry that the kernel or the device cannot run.
    #[error("kernel `{kernel}` cannot be launched: {detail}")]
    LaunchConfig {
        /// The kernel's name.
        kernel: String,
        /// The limit and the value that exceeds it.
        detail: String,
    },

    /// A kernel did something wrong while the simulator watched.
    #[error("{rendered}")]
    Fault {
        /// The kind, for programs to match on.
        fault: Box<ptx_sim::Fault>,
        /// The diagnostic, with the CUDA source line.
        rendered: String,
    },

    /// What the simulator's sanitiser found in a launch.
    #[error("{rendered}")]
    Findings {
        /// At least one, in order of occurrence.
        findings: Vec<ptx_sim::Fault>,
        /// The diagnostics, with the CUDA source lines.
        rendered: String,
    },

    /// What the simulator's sanitiser found between the streams of a device.
    #[error("{rendered}")]
    UnorderedStreams {
        /// At least one.
        findings: Vec<UnorderedUse>,
        /// The diagnostics.
        rendered: String,
    },

    /// PTX that a device refused to load.
    #[error("cannot load `{module}` on {device}: {detail}")]
    Load {
        /// File or name of the module.
        module: String,
        /// The device's short name.
        device: String,
        /// The loader's own words.
        detail: String,
    },

    /// A module without the kernel asked for.
    #[error("`{module}` has no kernel `{kernel}`; it has {}", list(.available))]
    NoSuchKernel {
        /// File or name of the module.
        module: String,
        /// The name asked for.
        kernel: String,
        /// The names it has.
        available: Vec<String>,
    },

    /// A module without a constant that its host side reads.
    #[error("`{module}` has no `constexpr int {constant}`, which the host side reads, or it is negative")]
    NoSuchConstant {
        /// File or name of the module.
        module: String,
        /// The constant's name in C++.
        constant: String,
    },

    /// A kernel with another tile than its host side was written for.
    #[error("`{module}` has {constant} = {kernel}, but its host side was written for {host}; change both")]
    Geometry {
        /// File or name of the module.
        module: String,
        /// The constant's name in C++.
        constant: String,
        /// Its value in the kernel.
        kernel: usize,
        /// The value that the host side expects.
        host: usize,
    },

    /// NVRTC rejected a kernel.
    #[error("{file} does not compile:\n{log}")]
    Compile {
        /// The kernel's file.
        file: String,
        /// NVRTC's log: file, line, message.
        log: String,
    },

    /// A kernel must be compiled and there is no NVRTC to do it.
    #[error("{file} has to be compiled ({why}), and NVRTC cannot be used: {reason}. Install it with:\n    {remedy}")]
    NvrtcMissing {
        /// The kernel's file.
        file: String,
        /// Why the shipped PTX does not serve.
        why: String,
        /// Which libraries were tried, and what is wrong with each.
        reason: String,
        /// The one command that installs NVRTC.
        remedy: String,
    },

    /// The CUDA driver reported an error.
    #[error("{operation} failed on {device}: {message}")]
    Cuda {
        /// What was attempted. A kernel's fault surfaces at the next synchronisation.
        operation: String,
        /// The device's short name.
        device: String,
        /// The driver's number for it, a `CUresult`; `None` if a library reported it, whose numbers mean other things.
        code: Option<u32>,
        /// The driver's name for it and its description.
        message: String,
    },

    /// The simulator's memory rejected an access from the host.
    #[error("{operation} failed on {device}: {source}")]
    SimMemory {
        /// What was attempted.
        operation: &'static str,
        /// The device's short name.
        device: String,
        /// What the simulator said.
        source: ptx_sim::MemoryError,
    },

    /// A file that could not be read or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },

    /// A file that is no record of a run, or cannot become one.
    #[error("{}: {reason}", .path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },

    /// A file that does not hold what it should.
    #[error("{name}: {reason}")]
    File {
        /// The file, as it was given.
        name: String,
        /// What is wrong.
        reason: String,
    },

    /// A compiled model that was given another number of inputs than it takes.
    #[error("a {model} of {expected} inputs was given {found}")]
    Inputs {
        /// Kind of model: `plan`, `program`.
        model: &'static str,
        /// The number that it takes.
        expected: usize,
        /// The number that it was given.
        found: usize,
    },

    /// Something wrong in an input, told in one sentence.
    #[error("{0}")]
    Invalid(String),

    /// Ranks that no longer work together.
    #[error("{0}")]
    Ranks(RankFailure),
}

/// What ended the work of all ranks; each of them reports the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct RankFailure {
    /// The rank at fault; of several, the first.
    pub rank: usize,
    /// The kind, for programs to match on.
    pub kind: RankFailureKind,
    /// What happened, with the ranks' numbers.
    pub sentence: String,
}

/// Why ranks no longer work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RankFailureKind {
    /// The rank reported an error of its own.
    Failed,
    /// The rank's process or thread ended without finishing.
    Ended,
    /// The rank never came.
    Absent,
    /// The rank did not come to a call in time.
    Late,
    /// The rank's process, or its host, says nothing any more.
    Silent,
    /// Two ranks called different things.
    Mismatch,
    /// Each rank waits for another.
    Stuck,
    /// The rank may not take part: another program, version or number of ranks.
    Refused,
}

impl Error {
    /// True if the device lacks the ability, rather than something having failed.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Error::Unsupported { .. })
    }

    /// What becomes of an error of the file system at `path`: for `map_err`.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { path, source }
    }

    /// [`Error::Shape`] in `operation`; `detail` may be a sentence.
    pub fn shape(operation: impl Into<String>, detail: impl Into<ShapeError>) -> Error {
        Error::Shape { operation: operation.into(), detail: detail.into() }
    }
}

/// What is wrong with a shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// Too many or too few dimensions.
    #[error("expected {expected} dimension{}, got shape {got:?}", if *.expected == 1 { "" } else { "s" })]
    Rank {
        /// Number of dimensions needed.
        expected: usize,
        /// The shape.
        got: Vec<usize>,
    },

    /// Another shape than the one needed.
    #[error("expected the shape {expected}, got {got:?}")]
    Mismatch {
        /// The shape needed; a letter stands for a dimension of any size: `[B, 320]`.
        expected: String,
        /// The shape.
        got: Vec<usize>,
    },

    /// A number of values that does not fill a shape.
    #[error("the shape {shape:?} takes {}, got {got}", count(*.expected))]
    Values {
        /// The shape to fill.
        shape: Vec<usize>,
        /// The values it takes; `None` if that is more than 64 bits can count.
        expected: Option<usize>,
        /// The values there are.
        got: usize,
    },

    /// A shape with more values than 64 bits can count.
    #[error("the shape {0:?} has more values than 64 bits can count")]
    Overflow(Vec<usize>),

    /// Another rule, with the shapes that break it.
    #[error("{0}")]
    Rule(String),
}

impl ShapeError {
    /// `got`, where `expected` is needed: a shape, or a pattern such as `[B, 320]`.
    pub fn mismatch(expected: impl Into<String>, got: &[usize]) -> ShapeError {
        ShapeError::Mismatch { expected: expected.into(), got: got.to_vec() }
    }
}

impl From<String> for ShapeError {
    fn from(rule: String) -> ShapeError {
        ShapeError::Rule(rule)
    }
}

impl From<&str> for ShapeError {
    fn from(rule: &str) -> ShapeError {
        ShapeError::Rule(rule.to_owned())
    }
}

/// Two operations at the same bytes that nothing orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnorderedUse {
    /// The operation that was queued first: a kernel, a copy or a fill, and its stream.
    pub earlier: String,
    /// The one that was queued second.
    pub later: String,
    /// The buffer.
    pub memory: String,
    /// The bytes that both touch, from the start of the buffer.
    pub bytes: Range<u64>,
}

impl fmt::Display for UnorderedUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnorderedUse { earlier, later, memory, bytes } = self;
        writeln!(f, "error[unordered-streams]: {later} what {earlier}, and nothing orders the two")?;
        writeln!(f, "  = memory: `{memory}`, bytes {} to {}", bytes.start, bytes.end)?;
        write!(
            f,
            "  = help: let the second stream wait for an event recorded after the first operation (`second.join(&first)`), or \
             synchronise in between"
        )
    }
}

fn count(values: Option<usize>) -> String {
    match values {
        Some(1) => "1 value".to_owned(),
        Some(values) => format!("{values} values"),
        None => "more values than 64 bits can count".to_owned(),
    }
}

fn list(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        _ => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
    }
}
