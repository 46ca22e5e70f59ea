//! Step 1: what is this device made of?
//!
//! **Hypothesis.** A handful of figures decides most of what follows: how many threads run at once, how much shared memory a
//! block can use, and how many bytes per second the memory delivers.
//!
//! **Change.** None yet; the step queries the driver.
//!
//! **Look at** the threads in flight: at least that many elements must be in progress to keep the device busy. Then divide the
//! bandwidth by 4 bytes: one addition per value is far below what the arithmetic units can do, so a kernel that accesses each
//! value once is limited by memory.

use bench::table::{Cell, ColumnSpec, Table, TableBuilder};
use bench::timing::si;
use common::{Device, Result};

const FIGURE: ColumnSpec = ColumnSpec::text("figure", "figure");
const VALUE: ColumnSpec = ColumnSpec::text("value", "value");
const DECIDES: ColumnSpec = ColumnSpec::text("what it decides", "what it decides");

/// The device's figures and what each decides.
///
/// # Errors
/// None on either device.
pub fn run(device: &Device) -> Result<Vec<Table>> {
    let p = device.properties();
    let memory = device.memory();
    let bytes = |n: u64| Some(format!("{}B", binary(n as f64)));
    let count = |n: Option<u32>| n.map(|n| n.to_string());
    let in_flight = p.multiprocessors.zip(p.max_threads_per_multiprocessor).map(|(m, t)| u64::from(m) * u64::from(t));

    let rows: [(&str, Option<String>, &str); 15] = [
        ("name", Some(p.name.clone()), ""),
        (
            "compute capability",
            p.compute_capability.map(|(major, minor)| format!("{major}.{minor}")),
            "which instructions there are",
        ),
        ("multiprocessors (SM)", count(p.multiprocessors), "blocks needed to keep all of them busy"),
        ("threads per SM", count(p.max_threads_per_multiprocessor), "how much latency an SM can hide"),
        ("threads in flight", in_flight.map(|n| n.to_string()), "elements to have in progress at a time"),
        ("warp", Some(format!("{} lanes", p.warp_size)), "threads that share an instruction"),
        ("threads per block", Some(p.max_threads_per_block.to_string()), "the largest block"),
        ("registers per SM", count(p.registers_per_multiprocessor), "divided among its threads"),
        ("shared memory per block", bytes(p.shared_per_block.into()), "the largest tile"),
        ("… if asked for", bytes(p.shared_per_block_optin.into()), "the largest tile, with fewer blocks per SM"),
        ("L2 cache", p.l2_bytes.and_then(bytes), "what stays on the chip between kernels"),
        ("memory", bytes(memory.total), "model, activations and batch must fit"),
        ("… free", bytes(memory.free), "what other programs and the driver leave"),
        (
            "clock",
            p.clock_khz.map(|khz| format!("{}Hz", si(f64::from(khz) * 1e3))),
            "SMs × f32 units × 2 × clock = peak FLOP/s",
        ),
        (
            "memory bandwidth",
            p.memory_bandwidth().map(|rate| format!("{}B/s", si(rate))),
            "the limit of a kernel that accesses each value once",
        ),
    ];
    let mut table = TableBuilder::on(device, "device-query", &[FIGURE, VALUE, DECIDES]);
    let absent =
        if device.is_sim() { "the simulator runs PTX itself and has no such part" } else { "this driver does not say" };
    for (figure, value, decides) in rows {
        let value = value.map_or_else(|| Cell::absent(absent), Cell::from);
        table.row().set(FIGURE, figure).set(VALUE, value).set(DECIDES, decides).complete();
    }
    Ok(vec![table.finish()])
}

/// `48 Ki`, `1.5 Gi`: powers of 1024, as is usual for memory.
pub(crate) fn binary(bytes: f64) -> String {
    let mut scaled = bytes;
    let mut prefixes = ["", "Ki", "Mi", "Gi"].iter();
    let mut prefix = prefixes.next();
    while scaled >= 1024.0
        && let Some(next) = prefixes.next()
    {
        scaled /= 1024.0;
        prefix = Some(next);
    }
    let decimals = usize::from(scaled.fract() != 0.0);
    format!("{scaled:.decimals$} {}", prefix.copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::binary;

    #[test]
    fn bytes_are_shown_in_powers_of_1024() {
        let shown = [0.0, 1023.0, 1024.0, 1536.0, 49152.0, (5u64 << 40) as f64].map(binary);
        assert_eq!(shown, ["0 ", "1023 ", "1 Ki", "1.5 Ki", "48 Ki", "5120 Gi"]);
    }
}
