//! Order of the work on the streams of a simulated device, and work that is not ordered at all.
//!
//! Each operation gets a vector clock: for each stream the number of the last operation that it comes after. A stream's clock
//! grows with its own work and with the events that it waits for; the host's clock, which all later work inherits, with
//! everything that the program waits for. Two operations that touch the same bytes, at least one of which writes, must be ordered
//! by these clocks. Two atomic accesses need not be.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::schedule::{Engine, Schedule};
use crate::error::{Error, Result, UnorderedUse};

/// For each stream, the last of its operations that is known.
pub(crate) type Clock = BTreeMap<u64, u64>;

/// Adds the knowledge of `other`.
pub(crate) fn join(clock: &mut Clock, other: &Clock) {
    for (&stream, &at) in other {
        let known = clock.entry(stream).or_default();
        *known = at.max(*known);
    }
}

/// Kind of access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Read,
    Write,
    Atomic,
}

impl How {
    fn conflicts(self, other: How) -> bool {
        self != other || self == How::Write
    }

    fn verb(self) -> &'static str {
        match self {
            How::Read => "reads",
            How::Write => "writes",
            How::Atomic => "changes by atomics",
        }
    }
}

/// Bytes of an allocation that an operation accesses.
#[derive(Clone, Debug)]
pub(crate) struct Touch {
    /// Address of the allocation.
    pub base: u64,
    /// Name.
    pub label: Arc<str>,
    pub how: How,
    /// From the start of the allocation.
    pub bytes: Range<u64>,
}

/// An access that later ones are compared with.
#[derive(Debug)]
struct Access {
    how: How,
    bytes: Range<u64>,
    stream: u64,
    at: u64,
    what: Arc<str>,
}

/// An operation, as later ones and a schedule know it.
pub(crate) struct Work<'a> {
    pub stream: u64,
    pub clock: &'a Clock,
    /// The subject of sentences about it.
    pub what: &'a str,
    pub engine: Engine,
}

/// Operations that are recorded for a schedule, each with its stream, its number there, and what it comes after.
type Log = Vec<(Engine, u64, Clock)>;

#[derive(Debug, Default)]
struct Known {
    /// Whether accesses are recorded: not as long as there is one stream.
    tracking: bool,
    /// Operations since [`Order::record`].
    log: Option<Log>,
    streams: HashMap<u64, Clock>,
    host: Clock,
    accesses: HashMap<u64, Vec<Access>>,
}

/// Knowledge of the order of all work on a device.
#[derive(Debug, Default)]
pub(crate) struct Order(Mutex<Known>);

impl Order {
    fn lock(&self) -> MutexGuard<'_, Known> {
        // A panic elsewhere leaves nothing half done here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that there is a second stream from now on. Making it waits for all work, as in cudarc.
    pub(crate) fn track(&self) {
        self.lock().tracking = true;
    }

    /// The clock of an operation that `stream` begins now, which also comes after `others`; `None` without tracking.
    pub(crate) fn begin(&self, stream: u64, others: &[&Clock]) -> Option<Clock> {
        let mut known = self.lock();
        if !known.tracking {
            return None;
        }
        let Known { streams, host, .. } = &mut *known;
        let clock = streams.entry(stream).or_default();
        join(clock, host);
        others.iter().for_each(|other| join(clock, other));
        *clock.entry(stream).or_default() += 1;
        Some(clock.clone())
    }

    /// Records the operation's accesses.
    ///
    /// # Errors
    /// [`Error::UnorderedStreams`] if another operation accessed the same bytes, and is not ordered with it.
    pub(crate) fn touch(&self, work: &Work<'_>, touches: Vec<Touch>) -> Result<()> {
        let Work { stream, clock, what, engine } = *work;
        let mut known = self.lock();
        let Known { host, accesses, log, .. } = &mut *known;
        if let Some(log) = log {
            log.push((engine, stream, clock.clone()));
        }
        let what: Arc<str> = what.into();
        let at = clock.get(&stream).copied().unwrap_or_default();
        let mut findings: Vec<UnorderedUse> = Vec::new();
        let mut pairs: Vec<(Arc<str>, u64, u64)> = Vec::new();
        for Touch { base, label, how, bytes } in touches {
            let all = accesses.entry(base).or_default();
            let known_to =
                |clock: &Clock, access: &Access| clock.get(&access.stream).is_some_and(|&at| access.at <= at);
            // What the program has waited for comes before all that is queued from now on.
            all.retain(|access| !known_to(host, access));
            for access in &*all {
                let common = access.bytes.start.max(bytes.start)..access.bytes.end.min(bytes.end);
                if access.stream == stream || common.is_empty() || !access.how.conflicts(how) || known_to(clock, access)
                {
                    continue;
                }
                let finding = UnorderedUse {
                    earlier: format!("{} {} {}", access.what, name(access.stream), access.how.verb()),
                    later: format!("{what} {} {}", name(stream), how.verb()),
                    memory: label.to_string(),
                    bytes: common,
                };
                // One finding for two operations and a buffer.
                let pair = (access.what.clone(), access.stream, base);
                if !pairs.contains(&pair) {
                    pairs.push(pair);
                    findings.push(finding);
                }
            }
            let same = |access: &&mut Access| access.stream == stream && access.how == how && access.bytes == bytes;
            match all.iter_mut().find(same) {
                // What is not ordered with the earlier one is not ordered with this one either.
                Some(access) => (access.at, access.what) = (at, what.clone()),
                None => all.push(Access { how, bytes, stream, at, what: what.clone() }),
            }
        }
        if findings.is_empty() {
            return Ok(());
        }
        let rendered: Vec<_> = findings.iter().map(UnorderedUse::to_string).collect();
        Err(Error::UnorderedStreams { rendered: rendered.join("\n\n"), findings })
    }

    /// Begins to record operations for [`Order::recorded`].
    pub(crate) fn record(&self) {
        let mut known = self.lock();
        (known.tracking, known.log) = (true, Some(Log::new()));
    }

    /// Schedule of the operations since [`Order::record`], and ends the recording.
    pub(crate) fn recorded(&self) -> Schedule {
        let log = self.lock().log.take().unwrap_or_default();
        let mut schedule = Schedule::default();
        for (i, (engine, _, clock)) in log.iter().enumerate() {
            let is_known = |(_, stream, own): &(Engine, u64, Clock)| clock.get(stream) >= own.get(stream);
            schedule.queue(*engine, (0..i).filter(|&earlier| is_known(&log[earlier])));
        }
        schedule
    }

    /// Accesses that are ordered before some of these clocks and not before others: their bytes, and for each clock whether it
    /// comes after.
    pub(crate) fn known_in_part(&self, clocks: &[Clock]) -> Vec<ptx_sim::EarlierWork> {
        let known = self.lock();
        let of_access = |(&base, access): (&u64, &Access)| {
            let comes_after = |clock: &Clock| clock.get(&access.stream).is_some_and(|&at| access.at <= at);
            let known_to: Vec<bool> =
                clocks.iter().map(|clock| comes_after(clock) || comes_after(&known.host)).collect();
            (known_to.contains(&true) && known_to.contains(&false)).then(|| ptx_sim::EarlierWork {
                what: format!("{} {} {}", access.what, name(access.stream), access.how.verb()),
                pointer: ptx_sim::DevicePtr(base),
                bytes: access.bytes.clone(),
                writes: access.how != How::Read,
                known_to,
            })
        };
        let all = known.accesses.iter().flat_map(|(base, all)| all.iter().map(move |access| (base, access)));
        all.filter_map(of_access).collect()
    }

    /// Forgets a freed allocation.
    pub(crate) fn forget(&self, base: u64) {
        self.lock().accesses.remove(&base);
    }

    /// Clock of a stream's work so far, including itself.
    pub(crate) fn clock_of(&self, stream: u64) -> Clock {
        self.lock().streams.get(&stream).cloned().unwrap_or_default()
    }

    /// Orders later work of `stream` after that clock.
    pub(crate) fn wait(&self, stream: u64, other: &Clock) {
        let mut known = self.lock();
        if known.tracking {
            join(known.streams.entry(stream).or_default(), other);
        }
    }

    /// Records that the program has waited for that clock.
    pub(crate) fn host_waits(&self, other: &Clock) {
        join(&mut self.lock().host, other);
    }

    /// Records that the program has waited for all streams of a device.
    pub(crate) fn host_waits_for_all(&self, ordinal: Option<u32>) {
        let mut known = self.lock();
        let Known { streams, host, .. } = &mut *known;
        let of_device = streams.iter().filter(|(stream, _)| **stream >> DEVICE == first_stream(ordinal) >> DEVICE);
        of_device.for_each(|(_, clock)| join(host, clock));
    }
}

/// Position of the device's number plus one in a stream's number; 0 for a device that has its host for itself.
const DEVICE: u32 = 40;

/// The number of a device's default stream, by the device's number among several.
pub(crate) fn first_stream(ordinal: Option<u32>) -> u64 {
    ordinal.map_or(0, |ordinal| u64::from(ordinal + 1) << DEVICE)
}

/// Name of a stream. Streams of a device are numbered as they are made, including those inside graphs.
fn name(stream: u64) -> String {
    let (device, number) = (stream >> DEVICE, stream & ((1 << DEVICE) - 1));
    let stream = match number {
        0 => "on the default stream".to_owned(),
        other => format!("on stream {other}"),
    };
    match device.checked_sub(1) {
        None => stream,
        Some(ordinal) => format!("{stream} of sim:{ordinal}"),
    }
}
