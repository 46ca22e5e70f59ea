//! Blocks that fit on an SM, by the reader's arithmetic.

use std::fmt::Write;

use common::ptx_sim::{Limits, Occupancy};
use common::{Error, Result};

use super::Verdict;

/// A kernel's needs, and what its number of blocks depends on.
struct Kernel {
    threads: u32,
    registers: u32,
    shared: u32,
    decides: &'static str,
}

const fn kernel(threads: u32, registers: u32, shared: u32, decides: &'static str) -> Kernel {
    Kernel { threads, registers, shared, decides }
}

/// Each kernel needs one rule more than those before it.
const KERNELS: [Kernel; 7] = [
    kernel(256, 32, 0, "its warps fill the 64 places"),
    kernel(32, 16, 0, "an SM holds no more than 32 blocks"),
    kernel(256, 128, 33_792, "an SM has 65,536 registers"),
    kernel(256, 33, 0, "a warp's registers come in units of 256"),
    kernel(64, 88, 0, "a warp's registers lie in one of four partitions"),
    kernel(128, 32, 58_368, "the system takes 1 KiB of shared memory for every block"),
    kernel(1024, 96, 0, "not even one block fits"),
];

/// Judges a function of a block's threads, a thread's registers and a block's bytes of shared memory.
///
/// # Errors
/// [`Error::Invalid`] if the limits of an H100 are not known.
pub fn judge(blocks_per_sm: impl Fn(u32, u32, u32) -> u32) -> Result<Verdict> {
    let h100 = Limits::of("sm_90").ok_or_else(|| Error::Invalid("the limits of sm_90 are not known".to_owned()))?;
    let mut seen = String::from("threads  registers  shared bytes  blocks: yours  an H100\n");
    let mut missing = None;
    for Kernel { threads, registers, shared, decides } in KERNELS {
        let yours = blocks_per_sm(threads, registers, shared);
        let fit = Occupancy::of(&h100, threads, shared, Some(registers)).blocks;
        let _ = writeln!(seen, "{threads:>7}  {registers:>9}  {shared:>12}  {yours:>13}  {fit:>7}");
        if yours != fit {
            missing = missing.or(Some((threads, registers, decides)));
        }
    }
    seen.push('\n');
    Ok(match missing {
        None => Verdict::right(seen),
        Some((threads, registers, decides)) => {
            Verdict::wrong(seen, format!("At {threads} threads and {registers} registers: {decides}."))
        }
    })
}
