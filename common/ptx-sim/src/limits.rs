//! Limits on the host resources of untrusted PTX: time and memory, of a load and of a launch.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::fault::FaultKind;

/// Limits on host resources for reading a PTX file ([`crate::Module::from_ptx_within`]); no limits by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadLimits {
    /// Wall-clock time.
    pub time: Option<Duration>,
    /// Bytes of host memory, the text itself included.
    pub memory: Option<u64>,
}

/// A limit that a load or a launch has reached: [`FaultKind::TimeLimit`] or [`FaultKind::MemoryLimit`], and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    pub kind: FaultKind,
    pub message: String,
}

/// Resources that a load has taken so far. It is checked once per statement, so each must take little.
#[derive(Debug)]
pub(crate) struct Allowance {
    begun: Instant,
    limits: LoadLimits,
    used: u64,
    ticks: u32,
    reached: Option<Reached>,
}

impl Allowance {
    /// Number of charges between two looks at the clock.
    const TICKS: u32 = 1 << 10;

    pub(crate) fn new(limits: LoadLimits) -> Self {
        Self { begun: Instant::now(), limits, used: 0, ticks: 0, reached: None }
    }

    /// Charges for `bytes` bytes, or for some work (0 bytes).
    #[inline]
    pub(crate) fn charge(&mut self, bytes: usize) {
        self.used += bytes as u64;
        self.ticks += 1;
        if self.ticks >= Self::TICKS || self.limits.memory.is_some_and(|limit| self.used > limit) {
            self.look();
        }
    }

    #[cold]
    fn look(&mut self) {
        self.ticks = 0;
        if let Some(limit) = self.limits.time
            && self.begun.elapsed() > limit
        {
            self.reached = Some(Reached { kind: FaultKind::TimeLimit, message: time_reached(limit) });
        }
        if let Some(limit) = self.limits.memory
            && self.used > limit
        {
            let message =
                format!("the memory limit of {} is reached by the module's text and instructions", human(limit));
            self.reached = Some(Reached { kind: FaultKind::MemoryLimit, message });
        }
    }

    /// The limit that has been reached, as an error.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Reached> {
        match &self.reached {
            None => Ok(()),
            Some(reached) => Err(reached.clone()),
        }
    }

    /// Bytes taken so far.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }
}

/// The sentence of a time limit.
pub(crate) fn time_reached(limit: Duration) -> String {
    format!("stopped by the time limit after {:.1} s", limit.as_secs_f64())
}

/// Formats a number of bytes for people.
pub(crate) fn human(bytes: u64) -> String {
    let units = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) if bytes.is_multiple_of(unit) => format!("{} {name}", bytes / unit),
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} bytes"),
    }
}

/// Reads a number of bytes as people write it: `1GiB`, `512MiB`, `64KiB`, `65536`.
///
/// # Errors
/// The sentence that says that it is none, or 0.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.len() - text.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
    let unit = match text[digits..].trim() {
        "" | "B" => Some(1),
        "KiB" => Some(1u64 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        _ => None,
    };
    let bytes = text[..digits].parse().ok().zip(unit).and_then(|(count, unit): (u64, _)| count.checked_mul(unit));
    bytes.filter(|bytes| *bytes > 0).ok_or_else(|| format!("`{text}` is not a size, as 1GiB, 512MiB or 65536"))
}

/// Use of host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Loaded modules, without their variables.
    Modules,
    /// Buffers of the host and variables of modules.
    Buffers,
    /// Blocks that kernels allocate.
    Heap,
    /// Registers, local and shared memory of blocks that have begun.
    Blocks,
    /// A sanitiser's records of accesses.
    Shadow,
    /// Traces, profiles and findings.
    Records,
}

const USES: [(Use, &str); 6] = [
    (Use::Modules, "loaded modules"),
    (Use::Buffers, "buffers and variables"),
    (Use::Heap, "the heap of kernels"),
    (Use::Blocks, "registers, local and shared memory of blocks"),
    (Use::Shadow, "the sanitiser's record of accesses"),
    (Use::Records, "traces, profiles and findings"),
];

/// The host memory that a device and its launches have taken.
#[derive(Debug)]
pub(crate) struct Ledger {
    limit: Option<u64>,
    total: AtomicU64,
    by_use: [AtomicU64; USES.len()],
}

impl Ledger {
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self { limit, total: AtomicU64::new(0), by_use: Default::default() }
    }

    /// Whether anything is counted at all.
    pub(crate) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// Takes bytes; returns false, and takes nothing, if they do not fit.
    pub(crate) fn take(&self, what: Use, bytes: u64) -> bool {
        let Some(limit) = self.limit else { return true };
        let fits = |total: u64| total.checked_add(bytes).filter(|total| *total <= limit);
        let taken = self.total.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok();
        if taken {
            self.by_use[what as usize].fetch_add(bytes, Ordering::Relaxed);
        }
        taken
    }

    /// Gives back bytes.
    pub(crate) fn give(&self, what: Use, bytes: u64) {
        if self.limit.is_some() {
            self.total.fetch_sub(bytes, Ordering::Relaxed);
            self.by_use[what as usize].fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// The message for reaching the limit with a request for `bytes` more.
    pub(crate) fn message(&self, what: Use, bytes: u64) -> String {
        let mut taken: Vec<(u64, &str)> =
            USES.iter().map(|(what, name)| (self.by_use[*what as usize].load(Ordering::Relaxed), *name)).collect();
        taken.retain(|(bytes, _)| *bytes != 0);
        taken.sort_unstable_by(|a, b| b.cmp(a));
        let taken: Vec<String> = taken.into_iter().map(|(bytes, name)| format!("{} {name}", human(bytes))).collect();
        let so_far =
            if taken.is_empty() { "nothing is taken yet".to_owned() } else { format!("taken: {}", taken.join(", ")) };
        let limit = human(self.limit.unwrap_or(u64::MAX));
        format!("the memory limit of {limit} is reached: {} more for {}; {so_far}", human(bytes), USES[what as usize].1)
    }
}

/// Share of one launch in a [`Ledger`], given back when it ends.
#[derive(Debug)]
pub(crate) struct Account<'l> {
    ledger: &'l Ledger,
    own: [AtomicU64; USES.len()],
    /// Whether no limit is set.
    free: bool,
    /// Set once a request was refused, with a message: the launch is to end.
    refused: AtomicBool,
    message: std::sync::Mutex<Option<String>>,
    deadline: Option<(Instant, Duration)>,
}

impl<'l> Account<'l> {
    pub(crate) fn new(ledger: &'l Ledger, time: Option<Duration>) -> Self {
        Self {
            ledger,
            own: Default::default(),
            free: !ledger.is_limited() && time.is_none(),
            refused: AtomicBool::new(false),
            message: std::sync::Mutex::new(None),
            deadline: time.and_then(|time| Some((Instant::now().checked_add(time)?, time))),
        }
    }

    /// Whether memory is counted at all.
    pub(crate) fn is_limited(&self) -> bool {
        self.ledger.is_limited()
    }

    /// Whether there is no limit, of memory or of time.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.free
    }

    /// Takes bytes; where they do not fit, the launch ends soon, and goes on without them until then.
    #[must_use]
    pub(crate) fn take(&self, what: Use, bytes: u64) -> bool {
        let taken = self.take_quietly(what, bytes);
        if !taken && !self.refused.load(Ordering::Relaxed) {
            let mut message = self.message.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            message.get_or_insert_with(|| self.ledger.message(what, bytes));
            self.refused.store(true, Ordering::Relaxed);
        }
        taken
    }

    /// [`Self::take`], but if refused the launch just goes on without.
    pub(crate) fn take_quietly(&self, what: Use, bytes: u64) -> bool {
        let taken = self.ledger.take(what, bytes);
        if taken && self.is_limited() {
            self.own[what as usize].fetch_add(bytes, Ordering::Relaxed);
        }
        taken
    }

    /// Gives back some bytes before the launch ends.
    pub(crate) fn give(&self, what: Use, bytes: u64) {
        if self.is_limited() {
            self.own[what as usize].fetch_sub(bytes, Ordering::Relaxed);
            self.ledger.give(what, bytes);
        }
    }

    /// Takes or gives back until `taken` is about `bytes`; false if there is no room. Small changes are collected.
    pub(crate) fn adjust(&self, what: Use, taken: &mut u64, bytes: u64) -> bool {
        const GRAIN: u64 = 1 << 14;
        if self.free || bytes.abs_diff(*taken) < GRAIN {
            return true;
        }
        if bytes < *taken {
            self.give(what, *taken - bytes);
        } else if !self.take(what, bytes - *taken) {
            return false;
        }
        *taken = bytes;
        true
    }

    /// The memory limit, if it has been reached.
    pub(crate) fn out_of_memory(&self) -> Option<Reached> {
        if !self.refused.load(Ordering::Relaxed) {
            return None;
        }
        let message = self.message.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        Some(Reached { kind: FaultKind::MemoryLimit, message: message.unwrap_or_default() })
    }

    /// The time limit, if it has been reached. Looks at the clock.
    pub(crate) fn out_of_time(&self) -> Option<Reached> {
        let (deadline, limit) = self.deadline?;
        (Instant::now() >= deadline).then(|| Reached { kind: FaultKind::TimeLimit, message: time_reached(limit) })
    }
}

impl Drop for Account<'_> {
    fn drop(&mut self) {
        for (what, _) in USES {
            self.ledger.give(what, self.own[what as usize].load(Ordering::Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_well() {
        for (bytes, text) in
            [(0, "0 bytes"), (1023, "1023 bytes"), (1 << 20, "1 MiB"), (3 << 29, "1.5 GiB"), (1 << 30, "1 GiB")]
        {
            assert_eq!(human(bytes), text);
        }
    }

    #[test]
    fn a_launch_gives_back_what_it_took() {
        let ledger = Ledger::new(Some(1000));
        assert!(ledger.take(Use::Buffers, 600));
        let account = Account::new(&ledger, None);
        assert!(account.take(Use::Blocks, 300) && account.out_of_memory().is_none());
        assert!(!account.take(Use::Shadow, 101));
        let message = account.out_of_memory().unwrap().message;
        assert!(message.contains("1000 bytes") && message.contains("600 bytes buffers and variables"), "{message}");
        drop(account);
        assert!(ledger.take(Use::Heap, 400) && !ledger.take(Use::Heap, 1) && !ledger.take(Use::Heap, u64::MAX));
    }
}
