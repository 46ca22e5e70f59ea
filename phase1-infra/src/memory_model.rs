//! When another thread sees what one wrote: small kernels in pairs, one that hopes for an order and one that asks for it.
//!
//! | kernel file | broken | right | what makes the order |
//! | --- | --- | --- | --- |
//! | `06_message.cu` | `message_plain`, `message_volatile`, `message_block` | `message_fenced`, `message_released` | `__threadfence()` on both sides, or a release and an acquire |
//! | `07_swap.cu` | `swap_hoped` | `swap_ordered` | `__syncwarp()` |
//! | `08_last_block.cu` | `sum_hoped` | `sum_fenced` | `__threadfence()` and an atomic count |
//!
//! The page of the book shows what the simulator's sanitiser says of each. Only the right ones have a function here: a broken one
//! may wait forever.

use common::prelude::*;

use crate::common_length;

/// `kernels/06_message.cu`.
pub const MESSAGE: KernelSource = kernel_source!("06_message");
/// `kernels/07_swap.cu`.
pub const SWAP: KernelSource = kernel_source!("07_swap");
/// `kernels/08_last_block.cu`.
pub const LAST_BLOCK: KernelSource = kernel_source!("08_last_block");

/// Which block of a message's two writes. A right kernel gives the same result either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The first: a device that runs blocks one after another has written before anyone waits.
    First,
    /// The second: the first block waits for one that may not have begun.
    Second,
}

impl Writer {
    /// Both.
    pub const ALL: [Writer; 2] = [Writer::First, Writer::Second];
}

/// Hands `value` from one block to another, with `kernel` from [`MESSAGE`], and returns what arrived.
///
/// # Errors
/// Errors of allocating, copying and launching.
pub fn message(stream: &Stream, kernel: &Kernel, value: f32, writer: Writer) -> Result<f32> {
    let x = stream.clone_htod(&[value])?;
    let mut cell = stream.alloc_poisoned::<f32>(1)?;
    let mut flag = stream.alloc_zeros::<u32>(1)?;
    let mut out = stream.alloc_poisoned::<f32>(1)?;
    let writer = writer as u32;
    // SAFETY: the kernel's two threads access the one element of each buffer, in the order that the flag gives them.
    unsafe {
        stream
            .launch_builder(kernel)
            .arg(&x)
            .arg(&mut cell)
            .arg(&mut flag)
            .arg(&mut out)
            .arg(&writer)
            .launch(LaunchConfig::linear(2, 1))?;
    }
    first(&stream.clone_dtoh(&out)?)
}

/// Swaps the neighbours of each pair of `x`, with `kernel` from [`SWAP`]; the last of an odd number becomes 0.
///
/// # Errors
/// [`Error::Shape`] beyond 2³¹ − 1 values, or what allocating, copying and launching report.
pub fn swap(stream: &Stream, kernel: &Kernel, x: &[f32]) -> Result<Vec<f32>> {
    let n = common_length("swap", &[x.len()])?;
    let x = stream.clone_htod(x)?;
    let mut y = stream.alloc_poisoned::<f32>(x.len())?;
    // SAFETY: the kernel compares its index with n, and both buffers hold n elements.
    unsafe { stream.launch_builder(kernel).arg(&x).arg(&mut y).arg(&n).launch(LaunchConfig::linear(n, 32))? };
    stream.clone_dtoh(&y)
}

/// The sum of `x` in one launch, with `kernel` from [`LAST_BLOCK`]; 0 if there are no values.
///
/// # Errors
/// Same as [`swap`].
pub fn sum(stream: &Stream, kernel: &Kernel, x: &[f32]) -> Result<f32> {
    let n = common_length("sum", &[x.len()])?;
    // One block for an empty sum too: something has to write the 0.
    let blocks = n.div_ceil(32).max(1);
    let x = stream.clone_htod(x)?;
    let mut partial = stream.alloc_poisoned::<f32>(blocks as usize)?;
    let mut done = stream.alloc_zeros::<u32>(1)?;
    let mut sum = stream.alloc_poisoned::<f32>(1)?;
    // SAFETY: the kernel compares its index with n, which is the length of x, and writes one element of `partial` per block.
    unsafe {
        stream
            .launch_builder(kernel)
            .arg(&x)
            .arg(&mut partial)
            .arg(&mut done)
            .arg(&mut sum)
            .arg(&n)
            .launch(LaunchConfig::linear(blocks * 32, 32))?;
    }
    first(&stream.clone_dtoh(&sum)?)
}

fn first(values: &[f32]) -> Result<f32> {
    values.first().copied().ok_or_else(|| Error::Invalid("a buffer of one value came back empty".to_owned()))
}
