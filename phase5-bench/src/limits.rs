//! This device's measured limits: multiply-adds per second, and bytes per second through its memory.

use bench::ladder::Peak;
use bench::record::Record;
use bench::table::{ColumnSpec, DeviceKind, Table, TableBuilder};
use bench::timing::{Bench, Queue};
use common::prelude::*;

/// `kernels/fma_peak.cu`.
const SOURCE: KernelSource = kernel_source!("fma_peak");

/// Multiply-adds of a thread per round, as in the kernel.
const A_ROUND: u64 = 16 * 8;
const ROUNDS: u32 = 2048;
const BLOCK: u32 = 256;
/// Blocks per SM: 2048 threads, the maximum of any.
const BLOCKS: u32 = 8;

/// Large enough that no cache holds a significant part of it.
const COPY_BYTES: u64 = 2 << 30;

/// Name of the table of the limits in a run, if they were measured for another table.
pub const LIMITS: &str = "limits";

const LIMIT: ColumnSpec = ColumnSpec::text("limit", "limit");
const UNIT: ColumnSpec = ColumnSpec::text("unit", "unit");
const MEASURED: ColumnSpec = ColumnSpec::number("measured", "measured", 3);

const MULTIPLY_ADDS: &str = "multiply-adds in registers";
const COPY: &str = "copy inside the device";

/// The limits of one GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// f32 operations per second, two per fused multiply-add: measured by a kernel that does nothing else.
    pub flops: f64,
    /// Bytes per second through the memory, read and written: measured by a copy inside the device.
    pub bandwidth: f64,
}

impl Limits {
    /// Measures both; `None` on the simulator, which has no clock.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn measure(device: &Device) -> Result<Option<Limits>> {
        if device.is_sim() {
            return Ok(None);
        }
        let bench = Bench { queue: Queue::Cold, ..Bench::default() };
        let stream = device.stream();
        let kernel = device.kernel(&SOURCE, "fma_peak")?;
        let blocks = BLOCKS * device.properties().multiprocessors.unwrap_or(1);
        let mut out = stream.alloc_poisoned::<f32>((blocks * BLOCK) as usize)?;
        let timing = bench.measure(&stream, || queue(&stream, &kernel, &mut out, blocks, ROUNDS))?;
        let multiply_adds = out.len() as u64 * A_ROUND * u64::from(ROUNDS);
        let flops = timing.rate(2.0 * multiply_adds as f64);
        drop(out);

        let bytes = COPY_BYTES.min(device.memory().free / 4);
        let source = stream.alloc_zeros::<u8>(bytes as usize)?;
        let mut copy = stream.alloc_uninit::<u8>(bytes as usize)?;
        let timing = bench.measure(&stream, || stream.memcpy_dtod(&source, &mut copy))?;
        let bandwidth = timing.rate(2.0 * bytes as f64);
        Ok(flops.zip(bandwidth).map(|(flops, bandwidth)| Limits { flops, bandwidth }))
    }

    /// Table of the limits for a run.
    pub fn table(&self) -> Table {
        let mut table = TableBuilder::new("limits of this device, measured", DeviceKind::Gpu, &[LIMIT, UNIT, MEASURED]);
        let mut row = |limit: &str, unit: &str, value: f64| {
            table.row().set(LIMIT, limit).set(UNIT, unit).set(MEASURED, value / 1e12).finish("not measured");
        };
        row(MULTIPLY_ADDS, "TFLOP/s", self.flops);
        row(COPY, "TB/s", self.bandwidth);
        table.finish()
    }

    /// Limits stored in a run; `None` if it has no such rows.
    ///
    /// # Errors
    /// [`Error::Invalid`] if its table has no such columns.
    pub fn of_run(run: &Record) -> Result<Option<Limits>> {
        let Some(table) = run.table(LIMITS) else { return Ok(None) };
        let measured = |limit: &str| -> Result<Option<f64>> {
            let Some(row) = table.find(&[(LIMIT, limit.into())])? else { return Ok(None) };
            Ok(row.number(MEASURED)?.map(|value| value * 1e12))
        };
        let (flops, bandwidth) = (measured(MULTIPLY_ADDS)?, measured(COPY)?);
        Ok(flops.zip(bandwidth).map(|(flops, bandwidth)| Limits { flops, bandwidth }))
    }

    /// A note for below a table.
    pub fn note(&self) -> String {
        format!(
            "This device's limits, measured: {:.1} TFLOP/s (multiply-adds in registers), {:.2} TB/s (a copy, reading and \
             writing).",
            self.flops / 1e12,
            self.bandwidth / 1e12
        )
    }
}

impl From<Limits> for Peak {
    fn from(Limits { flops, bandwidth }: Limits) -> Peak {
        Peak { flops, bandwidth }
    }
}

fn queue(stream: &Stream, kernel: &Kernel, out: &mut Buffer<f32>, blocks: u32, rounds: u32) -> Result<()> {
    let mut launch = stream.launch_builder(kernel);
    // Values that stay where they are in size: neither infinite nor subnormal.
    launch.arg(out).arg(&-1.0f32).arg(&1.0f32).arg(&rounds);
    let config = LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (BLOCK, 1, 1), shared_mem_bytes: 0 };
    // SAFETY: each thread writes one value, and `out` holds one for each; the caller made it so.
    unsafe { launch.launch(config) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_come_back_from_their_table() {
        let limits = Limits { flops: 61.5e12, bandwidth: 4.25e12 };
        let mut run = Record::begin(&Device::sim());
        assert_eq!(Limits::of_run(&run).unwrap(), None);
        run.push(LIMITS, limits.table());
        let back = Limits::of_run(&run).unwrap().unwrap();
        assert!(
            (back.flops / limits.flops - 1.0).abs() < 1e-12 && (back.bandwidth / limits.bandwidth - 1.0).abs() < 1e-12
        );
        let mut other = Record::begin(&Device::sim());
        other.push(LIMITS, TableBuilder::of("limits", [UNIT]).finish());
        assert!(Limits::of_run(&other).unwrap_err().to_string().contains("has no column `limit`"));
    }

    common::device_test! {
        fn the_kernel_does_all_of_its_multiply_adds(device) {
            let stream = device.stream();
            let kernel = device.kernel(&SOURCE, "fma_peak")?;
            let mut out = stream.alloc_poisoned::<f32>(2 * BLOCK as usize)?;
            queue(&stream, &kernel, &mut out, 2, 3)?;
            // x → 1 − x, an even number of times: each chain ends where it began.
            let expected: Vec<f32> = (0..2 * BLOCK).map(|i| (16 * i + 120) as f32).collect();
            assert_eq!(stream.clone_dtoh(&out)?, expected);
            if let Some(counts) = device.counts() {
                let needed = u64::from(2 * BLOCK) * 3 * A_ROUND;
                let counted = counts.lane_instructions;
                assert!((needed..needed + needed / 4).contains(&counted), "{counted} for {needed} multiply-adds");
            }
            Ok(())
        }

        fn limits_are_those_of_a_gpu(device) {
            let limits = Limits::measure(&device)?;
            assert_eq!(limits.is_some(), device.is_cuda());
            if let Some(limits) = limits {
                println!("{}", limits.note());
                assert!(limits.flops > 1e11 && limits.bandwidth > 1e9, "{limits:?}");
                if let Some(known) = device.properties().memory_bandwidth() {
                    assert!(limits.bandwidth < 1.05 * known, "{limits:?}, {known}");
                }
            }
            Ok(())
        }
    }
}
