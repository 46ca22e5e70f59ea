//! A small debugger: the values of registers and memory while the kernel runs.

use std::sync::Arc;

use crate::trace::Site;

/// Instructions and threads to watch, and the receiver.
#[derive(Clone, Debug)]
pub struct WatchRequest {
    /// Instructions to report: those that match any of these.
    pub points: Vec<WatchPoint>,
    /// `blockIdx`.
    pub block: [u32; 3],
    /// Watched threads.
    pub threads: WatchThreads,
    /// Receives the reports.
    pub sink: WatchSink,
}

/// Instructions to report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchPoint {
    /// All of a 1-based line of the CUDA source, or of the PTX if that has no line information.
    Line(u32),
    /// Instructions that write the register of that name in the PTX.
    Register(String),
}

impl WatchPoint {
    /// Parses `line 42`, `%r5` or several of them with commas between.
    ///
    /// # Errors
    /// A sentence with the expected format.
    pub fn list(text: &str) -> Result<Vec<Self>, String> {
        text.split(',').map(|item| Self::one(item.trim())).collect()
    }

    fn one(text: &str) -> Result<Self, String> {
        let digits = match text.strip_prefix("line") {
            Some(rest) if rest.starts_with(char::is_whitespace) => rest.trim(),
            _ if text.is_empty() || text.contains(char::is_whitespace) => {
                return Err(format!("`{text}` is neither `line N` nor a register as `%r5`"));
            }
            _ => return Ok(Self::Register(text.to_owned())),
        };
        match digits.parse() {
            Ok(line) if line > 0 => Ok(Self::Line(line)),
            _ => Err(format!("`{digits}` is not the number of a line")),
        }
    }
}

/// Threads whose values are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchThreads {
    /// One thread, by its `threadIdx`.
    Thread([u32; 3]),
    /// All lanes of a warp of the block.
    Warp(u32),
}

/// Receives the reports, and says whether to go on; the kernel runs to its end in any case.
#[derive(Clone)]
pub struct WatchSink(Arc<dyn Fn(&Watched) -> bool + Send + Sync>);

impl WatchSink {
    /// `tell` is called in the order of the execution and says whether to go on watching.
    pub fn new(tell: impl Fn(&Watched) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub(crate) fn tell(&self, watched: &Watched) -> bool {
        (self.0)(watched)
    }
}

impl std::fmt::Debug for WatchSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WatchSink")
    }
}

/// An instruction that was executed, and its effects in the watched threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// `blockIdx`.
    pub block: [u32; 3],
    /// `threadIdx` of the one thread; `None` if a warp is watched.
    pub thread: Option<[u32; 3]>,
    /// Number of the warp in the block.
    pub warp: u32,
    /// The watched lanes that executed it, one bit per lane.
    pub lanes: u32,
    /// The instruction.
    pub site: Site,
    /// Effects in words: "reads `in` + 20", "%f1 = 3.5", "jumps".
    pub effects: Vec<String>,
}

impl std::fmt::Display for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [x, y, z] = self.block;
        write!(f, "block ({x}, {y}, {z}), ")?;
        match self.thread {
            Some([x, y, z]) => write!(f, "thread ({x}, {y}, {z})")?,
            None => write!(f, "warp {}, {}", self.warp, crate::picture::lanes_in_words(self.lanes))?,
        }
        write!(f, ", {}: {}", self.site.place(), self.site.instruction)?;
        if self.effects.is_empty() { Ok(()) } else { write!(f, "  {}", self.effects.join(", ")) }
    }
}
