//! Step 4: the first kernel.
//!
//! **Hypothesis.** Adding two vectors is one line of work that thousands of threads can do at once, each at its own index.
//!
//! **Change.** The loop over elements becomes a grid of threads, [`LaunchConfig::for_threads`]: ⌈n / 256⌉ blocks of 256. Since
//! n is rarely a multiple of 256, the last block reaches past the end, and its threads there must do nothing.
//!
//! **Look at** the idle threads, and at the largest difference: the sum of two floats is rounded once on either device, as on
//! the CPU. On a GPU, compare GB/s with the bandwidth that `device-query` shows: the small sizes are dominated by the launch,
//! the large one should come close to it. On the simulator, the instructions per element are what each thread executes to
//! compute its index, load, add and store.
//!
//! Next: `grid-stride`, where the grid no longer grows with n.

use bench::table::{ColumnSpec, Table, TableBuilder};
use bench::timing::Bench;
use common::check::compare;
use common::prelude::*;
use common::reference;

use crate::columns::{GBPS, MAX_DIFFERENCE, MS, PER_ELEMENT};
use crate::{common_length, timing_cells};

/// `kernels/01_vector_add.cu`.
pub const SOURCE: KernelSource = kernel_source!("01_vector_add");

/// Bytes moved per element: two values are read, one is written.
pub const BYTES_PER_ELEMENT: usize = 3 * size_of::<f32>();

/// c = a + b, with `kernel` from [`SOURCE`].
///
/// # Errors
/// [`Error::Shape`] if the lengths differ or exceed 2³¹ − 1, or errors of the launch.
// ANCHOR: launch
pub fn vector_add(
    stream: &Stream,
    kernel: &Kernel,
    a: &Buffer<f32>,
    b: &Buffer<f32>,
    c: &mut Buffer<f32>,
) -> Result<()> {
    let n = common_length("vector_add", &[a.len(), b.len(), c.len()])?;
    // SAFETY: the kernel compares its index with n, and all three buffers hold n elements.
    unsafe { stream.launch_builder(kernel).arg(a).arg(b).arg(c).arg(&n).launch(LaunchConfig::for_threads(n)) }
}
// ANCHOR_END: launch

/// Copies two vectors to the device, adds them, and copies the sum back.
///
/// # Errors
/// Same as [`vector_add`], and errors of compiling, allocating and copying.
// ANCHOR: round_trip
pub fn add_on(device: &Device, a: &[f32], b: &[f32]) -> Result<Vec<f32>> {
    let kernel = device.kernel(&SOURCE, "vector_add")?;
    let stream = device.stream();
    let a = stream.clone_htod(a)?;
    let b = stream.clone_htod(b)?;
    let mut c = stream.alloc_poisoned::<f32>(a.len())?; // NaN until the kernel has written
    vector_add(&stream, &kernel, &a, &b, &mut c)?;
    stream.clone_dtoh(&c) // waits for the kernel: same stream
}
// ANCHOR_END: round_trip

const N: ColumnSpec = ColumnSpec::identity("n", "n");
const BLOCKS: ColumnSpec = ColumnSpec::number("blocks", "blocks", 0);
const IDLE: ColumnSpec = ColumnSpec::number("idle threads", "idle threads", 0);

/// The sum at sizes around a block's, checked, and at a large size, measured.
///
/// # Errors
/// Errors of the device; [`Error::Invalid`] if a sum is wrong.
pub fn run(device: &Device) -> Result<Vec<Table>> {
    let large = if device.is_sim() { 1 << 18 } else { 1 << 25 };
    let columns = [N, BLOCKS, IDLE, MAX_DIFFERENCE, MS, GBPS, PER_ELEMENT];
    let mut table = TableBuilder::on(device, "vector-add", &columns);
    let stream = device.stream();
    let kernel = device.kernel(&SOURCE, "vector_add")?;
    for n in [1, 255, 256, 257, 100_003, large] {
        let host = [1, 2].map(|seed| Tensor::random(&[n], seed));
        let (a, b) = (host[0].as_slice()?, host[1].as_slice()?);
        let (a_dev, b_dev) = (stream.clone_htod(a)?, stream.clone_htod(b)?);
        let mut c = stream.alloc_poisoned::<f32>(n)?;
        let timing = Bench::default().measure(&stream, || vector_add(&stream, &kernel, &a_dev, &b_dev, &mut c))?;

        let expected = reference::vector_add(a, b)?;
        let report = compare(&stream.clone_dtoh(&c)?, &expected.values, expected.tolerance())
            .map_err(|mismatch| Error::Invalid(format!("vector-add, n = {n}: {mismatch}")))?;
        let blocks = LaunchConfig::for_threads(n as u32).grid_dim.0 as usize;
        let row = table.row().set(N, n).set(BLOCKS, blocks).set(IDLE, blocks * 256 - n);
        let row = row.set(MAX_DIFFERENCE, report.max_abs);
        row.set_all(timing_cells(&timing, BYTES_PER_ELEMENT * n, n)).complete();
    }
    table.note("max |Δ|: from the sum in f64, which f32 rounds once.");
    if device.is_cuda() {
        table.note("All but the largest size fit in the L2 cache and are warm there.");
    }
    Ok(vec![table.finish()])
}
