//! One error type for the whole crate; each message says what was attempted, on what, and how to fix it.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use crate::element::{ElementType, MemoryFormat};

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A compiler that is not there.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{compiler} cannot be used: {reason}. Install it with:\n    {remedy}")]
pub struct MissingCompiler {
    /// Its name.
    pub compiler: &'static str,
    /// Files that were tried, and the problem with each.
    pub reason: String,
    /// The one command that installs it.
    pub remedy: &'static str,
}

/// All errors between a lesson and its device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A device name that [`crate::device::DeviceChoice`] does not know.
    #[error("no such device: `{0}` (use auto, sim, sim:N, cuda or cuda:N)")]
    DeviceName(String),

    /// The requested device does not answer.
    #[error("{device} cannot be used: {reason}")]
    NoDevice {
        /// Name given by the user.
        device: String,
        /// Message of the driver, or its absence.
        reason: String,
    },

    /// An operation that this kind of device cannot do; tables show it as a dash with the reason.
    #[error("{what} is not possible on {device}: {reason}")]
    Unsupported {
        /// The requested operation.
        what: String,
        /// The device's short name.
        device: String,
        /// The reason, and an alternative if there is one.
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
        /// Device of the object.
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
        /// Bytes of the device.
        total: u64,
        /// Bytes in live buffers of this process.
        in_use: u64,
    },

    /// An operation that cannot be a part of a graph.
    #[error("{operation} is not possible in the capture of a graph: {reason}")]
    Capture {
        /// The refused operation.
        operation: &'static str,
        /// The reason, and an alternative.
        reason: String,
    },

    /// Two lengths differ that must be equal.
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
        /// The expected and the actual shape.
        detail: ShapeError,
    },

    /// A tensor with values of another type than an operation takes.
    #[error("the tensor {shape:?}: expected {expected}, got {got}")]
    ElementType {
        /// The tensor's shape.
        shape: Vec<usize>,
        /// The type that the operation takes.
        expected: ElementType,
        /// Its own one.
        got: ElementType,
    },

    /// A tensor whose values have another order than an operation takes.
    #[error("the tensor {shape:?}: expected {expected}, got {got}")]
    MemoryFormat {
        /// The tensor's shape.
        shape: Vec<usize>,
        /// The format that the operation takes.
        expected: MemoryFormat,
        /// Its own one.
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

    /// A kernel broke a rule on the simulator.
    #[error("{rendered}")]
    Fault {
        /// The kind, for programs to match on.
        fault: Box<ptx_sim::Fault>,
        /// The diagnostic, with the CUDA source line.
        rendered: String,
    },

    /// Findings of the simulator's sanitiser in a launch.
    #[error("{rendered}")]
    Findings {
        /// At least one, in order of occurrence.
        findings: Vec<ptx_sim::Fault>,
        /// The diagnostics, with the CUDA source lines.
        rendered: String,
    },

    /// Findings of the simulator's sanitiser between the streams of a device.
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
        /// Message of the loader.
        detail: String,
    },

    /// A module without the requested kernel.
    #[error("`{module}` has no kernel `{kernel}`; it has {}", list(.available))]
    NoSuchKernel {
        /// File or name of the module.
        module: String,
        /// Requested name.
        kernel: String,
        /// Existing names.
        available: Vec<String>,
    },

    /// A module without a constant that its host code reads.
    #[error("`{module}` has no `constexpr int {constant}`, which the host side reads, or it is negative")]
    NoSuchConstant {
        /// File or name of the module.
        module: String,
        /// The constant's name in C++.
        constant: String,
    },

    /// A kernel whose tile differs from the one that its host code assumes.
    #[error("`{module}` has {constant} = {kernel}, but its host side was written for {host}; change both")]
    Geometry {
        /// File or name of the module.
        module: String,
        /// The constant's name in C++.
        constant: String,
        /// Its value in the kernel.
        kernel: usize,
        /// The value that the host code expects.
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

    /// A kernel must be compiled and there is no compiler to do it.
    #[error("{file} has to be compiled ({why}), and {missing}")]
    CompilerMissing {
        /// The kernel's file.
        file: String,
        /// Reason why the shipped PTX cannot be used.
        why: String,
        /// The compiler to install.
        missing: MissingCompiler,
    },

    /// The CUDA driver reported an error.
    #[error("{operation} failed on {device}: {message}")]
    Cuda {
        /// The attempted operation. A kernel's fault surfaces at the next synchronisation.
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
        /// The attempted operation.
        operation: &'static str,
        /// The device's short name.
        device: String,
        /// Error of the simulator.
        source: ptx_sim::MemoryError,
    },

    /// A file that could not be read or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },

    /// A file that is no record of a run, or cannot become one.
    #[error("{}: {reason}", .path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },

    /// A file that does not hold what it should.
    #[error("{name}: {reason}")]
    File {
        /// The file, as it was given.
        name: String,
        /// The reason.
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

    /// An invalid input, described in one sentence.
    #[error("{0}")]
    Invalid(String),

    /// Ranks that no longer work together.
    #[error("{0}")]
    Ranks(RankFailure),
}

/// Failure that ended the work of all ranks; each of them reports the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct RankFailure {
    /// The rank at fault; of several, the first.
    pub rank: usize,
    /// The kind, for programs to match on.
    pub kind: RankFailureKind,
    /// The event, with the ranks' numbers.
    pub sentence: String,
}

/// Reason why ranks no longer work together.
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
    /// The rank's process, or its host, no longer answers.
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

    /// Converts an error of the file system at `path`: for `map_err`.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { path, source }
    }

    /// [`Error::Shape`] in `operation`; `detail` may be a sentence.
    pub fn shape(operation: impl Into<String>, detail: impl Into<ShapeError>) -> Error {
        Error::Shape { operation: operation.into(), detail: detail.into() }
    }
}

/// Problem with a shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// Too many or too few dimensions.
    #[error("expected {expected} dimension{}, got shape {got:?}", if *.expected == 1 { "" } else { "s" })]
    Rank {
        /// Expected number of dimensions.
        expected: usize,
        /// The shape.
        got: Vec<usize>,
    },

    /// Another shape than the one needed.
    #[error("expected the shape {expected}, got {got:?}")]
    Mismatch {
        /// Expected shape; a letter stands for a dimension of any size: `[B, 320]`.
        expected: String,
        /// The shape.
        got: Vec<usize>,
    },

    /// A number of values that does not fill a shape.
    #[error("the shape {shape:?} takes {}, got {got}", count(*.expected))]
    Values {
        /// The shape to fill.
        shape: Vec<usize>,
        /// Number of values that fills it; `None` if 64 bits cannot count them.
        expected: Option<usize>,
        /// Actual number of values.
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
    /// `got` instead of `expected`, which is a shape, or a pattern such as `[B, 320]`.
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

/// Two unordered operations at the same bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnorderedUse {
    /// The operation that was queued first: a kernel, a copy or a fill, and its stream.
    pub earlier: String,
    /// The operation that was queued second.
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
