//! Theoretical occupancy: how many blocks of a kernel a multiprocessor holds at a time, and what stops it from holding more.
//!
//! The limits are those of the CUDA C++ Programming Guide, "Compute Capabilities", and the allocation granularities those of
//! the CUDA Occupancy Calculator.

/// What a multiprocessor of one compute capability has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Threads that are resident at a time.
    pub threads: u32,
    /// Blocks that are resident at a time.
    pub blocks: u32,
    /// Bytes of shared memory.
    pub shared_bytes: u32,
    /// Bytes of shared memory that the system takes for each block.
    pub reserved_bytes: u32,
    /// Shared memory is given to a block in multiples of this.
    pub shared_granularity: u32,
}

/// 32-bit registers of a multiprocessor.
const REGISTERS: u32 = 65536;
/// Registers are given to a warp in multiples of this.
const REGISTER_GRANULARITY: u32 = 256;
/// Parts of a multiprocessor, each with its share of the registers and whole warps.
const PARTITIONS: u32 = 4;

/// By compute capability × 10.
#[rustfmt::skip]
const TABLE: [(u32, Limits); 8] = [
    (75,  Limits { threads: 1024, blocks: 16, shared_bytes:  64 << 10, reserved_bytes:    0, shared_granularity: 256 }),
    (80,  Limits { threads: 2048, blocks: 32, shared_bytes: 164 << 10, reserved_bytes: 1024, shared_granularity: 128 }),
    (86,  Limits { threads: 1536, blocks: 16, shared_bytes: 100 << 10, reserved_bytes: 1024, shared_granularity: 128 }),
    (87,  Limits { threads: 1536, blocks: 16, shared_bytes: 164 << 10, reserved_bytes: 1024, shared_granularity: 128 }),
    (89,  Limits { threads: 1536, blocks: 24, shared_bytes: 100 << 10, reserved_bytes: 1024, shared_granularity: 128 }),
    (90,  Limits { threads: 2048, blocks: 32, shared_bytes: 228 << 10, reserved_bytes: 1024, shared_granularity: 128 }),
    (100, Limits { threads: 2048, blocks: 32, shared_bytes: 228 << 10, reserved_bytes: 1024, shared_granularity: 128 }),
    (120, Limits { threads: 1536, blocks: 24, shared_bytes: 100 << 10, reserved_bytes: 1024, shared_granularity: 128 }),
];

impl Limits {
    /// Those of an architecture as compilers name it: `sm_90`, `sm_90a`. `None` if it is not in the table.
    #[must_use]
    pub fn of(arch: &str) -> Option<Self> {
        let digits = arch.strip_prefix("sm_")?.trim_end_matches(['a', 'f']);
        let capability: u32 = digits.parse().ok()?;
        TABLE.iter().find(|(known, _)| *known == capability).map(|(_, limits)| *limits)
    }

    /// Names of the architectures in the table.
    #[must_use]
    pub fn known() -> Vec<String> {
        TABLE.iter().map(|(capability, _)| format!("sm_{capability}")).collect()
    }
}

/// What keeps a multiprocessor from holding one more block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limiter {
    /// Its threads.
    Threads,
    /// Its number of blocks.
    Blocks,
    /// Its shared memory.
    SharedMemory,
    /// Its registers.
    Registers,
}

impl Limiter {
    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Threads => "threads",
            Self::Blocks => "blocks",
            Self::SharedMemory => "shared memory",
            Self::Registers => "registers",
        }
    }
}

/// How full a multiprocessor can be of a kernel's warps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Blocks that are resident at a time; 0 if not even one fits.
    pub blocks: u32,
    /// Their warps.
    pub warps: u32,
    /// Warps that a multiprocessor can hold.
    pub max_warps: u32,
    /// What is used up first; of several, the first in the order of [`Limiter`].
    pub limiter: Limiter,
}

impl Occupancy {
    /// Of blocks of `threads` threads (at least 1) with `shared_bytes` of shared memory and `registers` 32-bit registers a
    /// thread. Registers that are not known (`None`) limit nothing.
    #[must_use]
    pub fn of(limits: &Limits, threads: u32, shared_bytes: u32, registers: Option<u32>) -> Self {
        let warps = threads.div_ceil(32).max(1);
        let max_warps = limits.threads / 32;
        let shared = shared_bytes.saturating_add(limits.reserved_bytes);
        let shared = shared.checked_next_multiple_of(limits.shared_granularity).unwrap_or(u32::MAX);
        let by_shared = limits.shared_bytes.checked_div(shared).unwrap_or(u32::MAX);
        let by_registers = registers.filter(|count| *count != 0).map_or(u32::MAX, |count| {
            let of_warp = (count * 32).next_multiple_of(REGISTER_GRANULARITY);
            REGISTERS / PARTITIONS / of_warp * PARTITIONS / warps
        });
        let candidates = [
            (max_warps / warps, Limiter::Threads),
            (limits.blocks, Limiter::Blocks),
            (by_shared, Limiter::SharedMemory),
            (by_registers, Limiter::Registers),
        ];
        let (blocks, limiter) =
            candidates.into_iter().min_by_key(|(blocks, _)| *blocks).unwrap_or((0, Limiter::Threads));
        Self { blocks, warps: blocks * warps, max_warps, limiter }
    }

    /// The share of the warps that it could hold: 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        f64::from(self.warps) / f64::from(self.max_warps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [threads, shared bytes, registers] on an architecture → [blocks, warps] and the limiter.
    #[test]
    fn follows_the_occupancy_calculator() {
        use Limiter::{Blocks, Registers, SharedMemory, Threads};
        for (arch, [threads, shared, registers], [blocks, warps], limiter) in [
            // 2048 threads are 8 blocks of 256; 32 registers are 65536 / 2048: both fit exactly.
            ("sm_80", [256, 0, 32], [8, 64], Threads),
            // 33 registers round up to 40: 65536 / 4 / (40 · 32) = 12 warps a partition, 48 in all.
            ("sm_80", [256, 0, 33], [6, 48], Registers),
            // 48 warps hold one block of 1024, not two.
            ("sm_80", [1024, 0, 33], [1, 32], Registers),
            // 32 blocks of one warp fill half of it.
            ("sm_80", [32, 0, 16], [32, 32], Blocks),
            // 48 KiB and 1 KiB reserved: 164 / 49 = 3.
            ("sm_80", [128, 48 << 10, 32], [3, 12], SharedMemory),
            // All of it: 163 KiB and the one reserved.
            ("sm_80", [1024, 163 << 10, 32], [1, 32], SharedMemory),
            ("sm_90", [1024, 227 << 10, 64], [1, 32], SharedMemory),
            // 100 KiB and 1: two blocks on 228, one on 164, none on 100.
            ("sm_90a", [256, 100 << 10, 64], [2, 16], SharedMemory),
            ("sm_86", [256, 100 << 10, 64], [0, 0], SharedMemory),
            // 255 registers round up to 256: 2 warps a partition, 8 in all.
            ("sm_90", [128, 0, 255], [2, 8], Registers),
            ("sm_86", [256, 0, 40], [6, 48], Threads),
            ("sm_86", [64, 0, 32], [16, 32], Blocks),
            ("sm_89", [64, 0, 32], [24, 48], Threads),
            ("sm_120", [32, 0, 32], [24, 24], Blocks),
            // Nothing is reserved before 8.0.
            ("sm_75", [512, 32 << 10, 64], [2, 32], Threads),
            ("sm_75", [256, 32 << 10, 64], [2, 16], SharedMemory),
            // A last warp that is not full counts as one.
            ("sm_100", [33, 0, 32], [32, 64], Threads),
        ] {
            let found = Occupancy::of(&Limits::of(arch).unwrap(), threads, shared, Some(registers));
            assert_eq!(
                ([found.blocks, found.warps], found.limiter),
                ([blocks, warps], limiter),
                "{arch} {threads} {shared} {registers}"
            );
        }
    }

    #[test]
    fn unknown_registers_limit_nothing() {
        let limits = Limits::of("sm_90").unwrap();
        assert_eq!(Occupancy::of(&limits, 1024, 0, None), Occupancy::of(&limits, 1024, 0, Some(32)));
        assert_eq!(Occupancy::of(&limits, 1024, 0, None).share(), 1.0);
    }

    #[test]
    fn architectures_are_known_by_name() {
        for name in ["sm_60", "90", "sm_", "compute_90", "sm_x"] {
            assert_eq!(Limits::of(name), None, "{name}");
        }
        assert!(Limits::known().iter().all(|name| Limits::of(name).is_some()));
    }
}
