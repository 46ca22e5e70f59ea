//! Step 3: pageable and pinned host memory.
//!
//! **Hypothesis.** The copy engine can only read host memory that the operating system guarantees not to move. So the driver
//! copies ordinary, pageable memory twice, through a small pinned buffer of its own:
//!
//! ```text
//! pageable:  Vec ──CPU──▶ driver's buffer ──copy engine──▶ device
//! pinned:    PinnedBuffer ────────────────copy engine──▶ device
//! ```
//!
//! **Change.** The same bytes, from a `Vec` and from [`Device::alloc_pinned`].
//!
//! **Look at** the rates at the largest size: pinned should come close to the link's limit, and pageable stay well below it. At
//! the smallest size neither comes close, since a copy has a fixed cost of a few microseconds. Then compare the link with the
//! copy within the device: that gap is why data should stay where it is. Events measure what the GPU did, the host clock how
//! long the program waited.

use bench::table::{Cell, ColumnSpec, Table, TableBuilder};
use bench::timing::{Bench, Timing};
use common::prelude::*;

use crate::NO_CLOCK;

/// The direction of a copy, and the kind of host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// From a `Vec` to the device.
    PageableToDevice,
    /// From a pinned buffer to the device.
    PinnedToDevice,
    /// From the device to a `Vec`.
    DeviceToPageable,
    /// From the device to a pinned buffer.
    DeviceToPinned,
    /// Between two buffers of the device. Each byte is read and written, so the memory moves twice the bytes copied.
    DeviceToDevice,
}

impl Path {
    /// All of them.
    pub const ALL: [Path; 5] = [
        Path::PageableToDevice,
        Path::PinnedToDevice,
        Path::DeviceToPageable,
        Path::DeviceToPinned,
        Path::DeviceToDevice,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Path::PageableToDevice => "pageable → device",
            Path::PinnedToDevice => "pinned → device",
            Path::DeviceToPageable => "device → pageable",
            Path::DeviceToPinned => "device → pinned",
            Path::DeviceToDevice => "device → device",
        }
    }
}

/// One path's copy, checked byte by byte, and its time.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The direction of a copy, and the kind of host memory.
    pub path: Path,
    /// Bytes of one copy.
    pub bytes: usize,
    /// Between two events in the stream; `None` on the simulator.
    pub events: Option<Timing>,
    /// By the host's clock until the copy was complete; `None` on the simulator.
    pub host: Option<Timing>,
}

/// Copies `bytes` bytes along `path`, compares each one with the original, and measures the copy on a GPU. On the simulator the
/// host makes the copy and its time would say nothing about a GPU, so there it is only checked.
///
/// # Errors
/// Errors of the device; [`Error::Invalid`] if a byte arrived changed.
pub fn measure(stream: &Stream, path: Path, bytes: usize, bench: &Bench) -> Result<Transfer> {
    let sent = pattern(bytes);
    let ((events, host), arrived) = match path {
        Path::PageableToDevice => {
            // ANCHOR: pageable
            let pageable: Vec<u8> = sent.clone();
            let mut dst = stream.alloc_poisoned::<u8>(bytes)?;
            let times = timed(stream, bench, || stream.memcpy_htod(&pageable, &mut dst))?;
            // ANCHOR_END: pageable
            (times, stream.clone_dtoh(&dst)?)
        }
        Path::PinnedToDevice => {
            // ANCHOR: pinned
            let mut pinned = stream.device().alloc_pinned::<u8>(bytes)?;
            pinned.as_mut_slice()?.copy_from_slice(&sent);
            let mut dst = stream.alloc_poisoned::<u8>(bytes)?;
            let times = timed(stream, bench, || stream.memcpy_htod(&pinned, &mut dst))?;
            // ANCHOR_END: pinned
            (times, stream.clone_dtoh(&dst)?)
        }
        Path::DeviceToPageable => {
            let source = stream.clone_htod(&sent)?;
            let mut pageable = vec![0xFF; bytes];
            let times = timed(stream, bench, || stream.memcpy_dtoh(&source, &mut pageable))?;
            (times, pageable)
        }
        Path::DeviceToPinned => {
            let source = stream.clone_htod(&sent)?;
            let mut pinned = stream.device().alloc_pinned::<u8>(bytes)?;
            let times = timed(stream, bench, || stream.memcpy_dtoh(&source, &mut pinned))?;
            (times, pinned.as_slice()?.to_vec())
        }
        Path::DeviceToDevice => {
            let source = stream.clone_htod(&sent)?;
            let mut dst = stream.alloc_poisoned::<u8>(bytes)?;
            let times = timed(stream, bench, || stream.memcpy_dtod(&source, &mut dst))?;
            (times, stream.clone_dtoh(&dst)?)
        }
    };
    match sent.iter().zip(&arrived).position(|(sent, arrived)| sent != arrived) {
        None => Ok(Transfer { path, bytes, events, host }),
        Some(at) => Err(Error::Invalid(format!("{}: byte {at} of {bytes} arrived changed", path.name()))),
    }
}

/// By events and by the host's clock; on the simulator `copy` runs once, untimed.
fn timed(
    stream: &Stream,
    bench: &Bench,
    mut copy: impl FnMut() -> Result<()>,
) -> Result<(Option<Timing>, Option<Timing>)> {
    if stream.device().is_sim() {
        copy()?;
        return Ok((None, None));
    }
    let events = bench.measure(stream, &mut copy)?;
    // A copy from pinned memory is only queued when its call returns.
    let host = bench.measure_host(|| copy().and_then(|()| stream.synchronize()))?;
    Ok((Some(events), Some(host)))
}

/// Bytes that differ from their neighbours and at every power of two, so that a short or shifted copy is detected.
fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes as u32).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 24) as u8).collect()
}

const PATH: ColumnSpec = ColumnSpec::text("path", "path");
const KIB: ColumnSpec = ColumnSpec::identity("KiB", "KiB");
const EVENTS: ColumnSpec = ColumnSpec::number("GB/s, events", "GB/s, events", 2);
const HOST: ColumnSpec = ColumnSpec::number("GB/s, host clock", "GB/s, host clock", 2);
const CHECK: ColumnSpec = ColumnSpec::text("check", "check");

/// Every path at several sizes.
///
/// # Errors
/// Same as [`measure`].
pub fn run(device: &Device) -> Result<Vec<Table>> {
    // On the simulator the largest size takes long and shows nothing that the others do not.
    let sizes: &[usize] = if device.is_sim() { &[1 << 16, 1 << 22] } else { &[1 << 16, 1 << 22, 1 << 28] };
    let bench = Bench { warm_up: 2, repeats: 10, ..Bench::default() };
    let mut table = TableBuilder::on(device, "transfers", &[PATH, KIB, EVENTS, HOST, CHECK]);
    for &bytes in sizes {
        for path in Path::ALL {
            let transfer = measure(&device.stream(), path, bytes, &bench)?;
            let rate = |timing: &Option<Timing>| {
                let rate = timing.as_ref().and_then(|timing| timing.rate(bytes as f64));
                Cell::or_absent(rate.map(|rate| rate / 1e9), NO_CLOCK)
            };
            let row = table.row().set(PATH, path.name()).set(KIB, bytes >> 10);
            let row = row.set(EVENTS, rate(&transfer.events)).set(HOST, rate(&transfer.host));
            row.set(CHECK, format!("{bytes} bytes equal")).complete();
        }
    }
    Ok(vec![table.finish()])
}
