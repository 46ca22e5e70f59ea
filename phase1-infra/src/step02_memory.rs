//! Step 2: allocate, copy and free, and the memory in use.
//!
//! **Hypothesis.** Device memory is a second heap: a buffer takes its bytes when it is allocated and returns them when it is
//! dropped, and the host can't read it without a copy.
//!
//! **Change.** One operation per row, with the allocator's count after it; the last one requests more memory than the device
//! has.
//!
//! **Look at** the bytes in use: they end where they began. The peak keeps the highest value, which decides whether a model
//! fits. What a GPU reports as free changes in larger steps, since the driver keeps a pool.

use bench::table::{ColumnSpec, Table, TableBuilder, wrap};
use common::device::MemoryInfo;
use common::prelude::*;

/// One operation and the memory after it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The operation.
    pub action: String,
    /// The allocator's count and the device's own after it.
    pub memory: MemoryInfo,
}

/// Elements of the first buffer: 4 MiB of f32.
pub const ELEMENTS: usize = 1 << 20;

/// Allocates, copies and frees, and records the memory after each operation.
///
/// # Errors
/// Errors of the device; [`Error::Invalid`] if a copy came back changed, or a request for twice the device's memory succeeded.
pub fn record(device: &Device) -> Result<Vec<Entry>> {
    let stream = device.stream();
    device.reset_peak_memory();
    let mut entries = Vec::new();
    let mut note = |action: &str| entries.push(Entry { action: action.to_owned(), memory: device.memory() });

    note("nothing yet");
    // ANCHOR: buffers
    let host: Vec<f32> = (0..ELEMENTS).map(|i| i as f32).collect();
    let first = stream.clone_htod(&host)?; // allocates, then copies host to device
    note("clone_htod: 4 MiB from the host");
    let second = stream.clone_dtod(&first)?; // a copy that never leaves the device
    note("clone_dtod: the same again, inside the device");
    let zeros = stream.alloc_zeros::<u8>(1000)?;
    note("alloc_zeros: 1000 bytes");
    drop(first); // Rust's ownership frees device memory too
    note("drop the first");
    let back = stream.clone_dtoh(&second)?; // device to host; complete when it returns
    drop((second, zeros));
    note("clone_dtoh, drop the rest");
    // ANCHOR_END: buffers
    if back != host {
        return Err(Error::Invalid("memory: the copy came back changed".to_owned()));
    }

    let too_much = 2 * device.memory().total as usize;
    match stream.alloc_uninit::<u8>(too_much) {
        Err(error @ Error::OutOfMemory { .. }) => note(&wrap(&error.to_string(), 48)),
        Err(error) => return Err(error),
        Ok(_) => return Err(Error::Invalid(format!("memory: allocated {too_much} bytes, twice the device's memory"))),
    }
    Ok(entries)
}

const ACTION: ColumnSpec = ColumnSpec::text("action", "action");
const BUFFERS: ColumnSpec = ColumnSpec::number("buffers", "buffers", 0);
const IN_USE: ColumnSpec = ColumnSpec::number("in use, bytes", "in use, bytes", 0);
const PEAK: ColumnSpec = ColumnSpec::number("peak, bytes", "peak, bytes", 0);
const FREE: ColumnSpec = ColumnSpec::number("free on the device, MiB", "free on the device, MiB", 0);

/// The record as a table.
///
/// # Errors
/// Same as [`record`].
pub fn run(device: &Device) -> Result<Vec<Table>> {
    let mut table = TableBuilder::on(device, "memory", &[ACTION, BUFFERS, IN_USE, PEAK, FREE]);
    for Entry { action, memory } in record(device)? {
        let free = memory.free as f64 / f64::from(1 << 20);
        let row = table.row().set(ACTION, action).set(BUFFERS, memory.allocations);
        row.set(IN_USE, memory.in_use).set(PEAK, memory.peak).set(FREE, free).complete();
    }
    if device.is_cuda() {
        table.note("Dropped buffers go back to the driver's pool once their stream has passed, so `free` lags behind.");
    }
    Ok(vec![table.finish()])
}
