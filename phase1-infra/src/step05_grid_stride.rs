//! Step 5: a grid of fixed size for any n.
//!
//! **Hypothesis.** A grid with one thread per element starts and retires far more blocks than run at a time. Enough blocks to
//! fill the device, each stepping through the data in strides of the whole grid, should be as fast, and take any n.
//!
//! **Change.** `if (i < n)` becomes `for (; i < n; i += stride)`; the host chooses the number of blocks, independent of n.
//!
//! **Look at** the rates as blocks are added: one block uses one SM, and the rate grows until the device is full;
//! from there on more blocks change little. On the simulator, look at the instructions per element: the index is computed once
//! per thread, so they fall as each thread gets more elements, towards the cost of the loop itself.

use bench::table::{ColumnSpec, Table, TableBuilder};
use bench::timing::Bench;
use common::check::compare;
use common::prelude::*;
use common::reference;

use crate::columns::{GBPS, MAX_DIFFERENCE, MS, PER_ELEMENT};
use crate::step04_vector_add::BYTES_PER_ELEMENT;
use crate::{common_length, timing_cells};

/// `kernels/02_grid_stride.cu`.
pub const SOURCE: KernelSource = kernel_source!("02_grid_stride");

/// Threads per block.
pub const BLOCK: u32 = 256;

/// c = a + b by at most `blocks` blocks, with `kernel` from [`SOURCE`]. Never launches more blocks than there is work for.
///
/// # Errors
/// [`Error::Shape`] if the lengths differ or exceed 2³¹ − 1, [`Error::LaunchConfig`] for no blocks, or errors of the
/// launch.
// ANCHOR: launch
pub fn grid_stride_add(
    stream: &Stream,
    kernel: &Kernel,
    blocks: u32,
    a: &Buffer<f32>,
    b: &Buffer<f32>,
    c: &mut Buffer<f32>,
) -> Result<()> {
    let n = common_length("grid_stride_add", &[a.len(), b.len(), c.len()])?;
    let blocks = blocks.min(n.div_ceil(BLOCK).max(1));
    let config = LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (BLOCK, 1, 1), shared_mem_bytes: 0 };
    // SAFETY: the kernel compares each index with n, all three buffers hold n elements, and with n < 2³¹ and a grid of fewer
    // than n + 256 threads no index passes 2³².
    unsafe { stream.launch_builder(kernel).arg(a).arg(b).arg(c).arg(&n).launch(config) }
}
// ANCHOR_END: launch

const BLOCKS: ColumnSpec = ColumnSpec::identity("blocks", "blocks");
const ELEMENTS: ColumnSpec = ColumnSpec::number("elements per thread, at most", "elements per thread, at most", 0);

/// The same sum with more and more blocks.
///
/// # Errors
/// Errors of the device; [`Error::Invalid`] if a sum is wrong.
pub fn run(device: &Device) -> Result<Vec<Table>> {
    // Not a multiple of anything.
    let n = if device.is_sim() { (1 << 18) + 3 } else { (1 << 25) + 3 };
    let full = LaunchConfig::linear(n as u32, BLOCK).grid_dim.0;
    // Blocks that are resident at a time.
    let properties = device.properties();
    let sms = properties.multiprocessors.unwrap_or(4);
    let resident = sms * properties.max_threads_per_multiprocessor.unwrap_or(2048) / BLOCK;

    let columns = [BLOCKS, ELEMENTS, MAX_DIFFERENCE, MS, GBPS, ColumnSpec { decimals: Some(2), ..PER_ELEMENT }];
    let mut table = TableBuilder::on(device, &format!("grid-stride, n = {n}"), &columns);
    let stream = device.stream();
    let kernel = device.kernel(&SOURCE, "grid_stride_add")?;
    let host = [1, 2].map(|seed| Tensor::random(&[n], seed));
    let (a, b) = (host[0].as_slice()?, host[1].as_slice()?);
    let (a_dev, b_dev) = (stream.clone_htod(a)?, stream.clone_htod(b)?);
    let mut c = stream.alloc_uninit::<f32>(n)?;
    let expected = reference::vector_add(a, b)?;
    for blocks in [1, sms, resident, 4 * resident, full] {
        stream.poison(&mut c)?;
        let add = || grid_stride_add(&stream, &kernel, blocks, &a_dev, &b_dev, &mut c);
        let timing = Bench { warm_up: 1, repeats: 10, ..Bench::default() }.measure(&stream, add)?;
        let report = compare(&stream.clone_dtoh(&c)?, &expected.values, expected.tolerance())
            .map_err(|mismatch| Error::Invalid(format!("grid-stride, {blocks} blocks: {mismatch}")))?;
        let elements = n.div_ceil((blocks * BLOCK) as usize);
        let row = table.row().set(BLOCKS, u64::from(blocks)).set(ELEMENTS, elements);
        let row = row.set(MAX_DIFFERENCE, report.max_abs);
        row.set_all(timing_cells(&timing, BYTES_PER_ELEMENT * n, n)).complete();
    }
    if device.is_cuda() {
        table.note(format!("{sms} SMs hold {resident} such blocks at a time."));
    }
    Ok(vec![table.finish()])
}
