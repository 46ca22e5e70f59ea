//! Theoretical occupancy: number of resident blocks of a kernel on an SM, and the resource that limits it.
//!
//! The limits are those of the CUDA C++ Programming Guide, "Compute Capabilities", and the allocation granularities those of
//! the CUDA Occupancy Calculator.

/// Resources of an SM of one compute capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum resident threads.
    pub threads: u32,
    /// Maximum resident blocks.
    pub blocks: u32,
    /// Bytes of shared memory.
    pub shared_bytes: u32,
    /// Bytes of shared memory that the system reserves for each block.
    pub reserved_bytes: u32,
    /// Granularity of a block's shared memory.
    pub shared_granularity: u32,
}

/// Maximum threads of a block.
pub const MAX_THREADS_PER_BLOCK: u32 = 1024;
/// Maximum 32-bit registers of a thread.
pub const MAX_REGISTERS_PER_THREAD: u32 = 255;
/// 32-bit registers of an SM.
pub const REGISTERS: u32 = 65536;
/// Granularity of a warp's registers.
pub const REGISTER_GRANULARITY: u32 = 256;
/// Parts of an SM, each with its share of the registers and whole warps.
pub const PARTITIONS: u32 = 4;

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
    /// Limits of an architecture by its name: `sm_90`, `sm_90a`. `None` if it is not in the table.
    #[must_use]
    pub fn of(arch: &str) -> Option<Self> {
        let digits = arch.strip_prefix("sm_")?.trim_end_matches(['a', 'f']);
        let capability: u32 = digits.parse().ok()?;
        TABLE.iter().find(|(known, _)| *known == capability).map(|(_, limits)| *limits)
    }

    /// Maximum bytes of shared memory of a block.
    #[must_use]
    pub fn shared_per_block(&self) -> u32 {
        self.shared_bytes - self.reserved_bytes
    }

    /// Maximum bytes of shared memory of a block for `blocks` of them, at least 1, to be resident; `None` if the system's reserve
    /// for each is already too much.
    #[must_use]
    pub fn shared_for(&self, blocks: u32) -> Option<u32> {
        let share = self.shared_bytes.checked_div(blocks)? / self.shared_granularity * self.shared_granularity;
        share.checked_sub(self.reserved_bytes)
    }

    /// Names of the architectures in the table.
    #[must_use]
    pub fn known() -> Vec<String> {
        TABLE.iter().map(|(capability, _)| format!("sm_{capability}")).collect()
    }
}

/// Resource that keeps an SM from holding one more block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limiter {
    /// Threads.
    Threads,
    /// Number of blocks.
    Blocks,
    /// Shared memory.
    SharedMemory,
    /// Registers.
    Registers,
}

impl Limiter {
    /// Name in words.
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

/// Share of an SM that a kernel's warps can fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Resident blocks; 0 if not even one fits.
    pub blocks: u32,
    /// Their warps.
    pub warps: u32,
    /// Warps that an SM can hold.
    pub max_warps: u32,
    /// Resource that is used up first; of several, the first in the order of [`Limiter`].
    pub limiter: Limiter,
}

/// Bound that one resource of an SM sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The resource.
    pub limiter: Limiter,
    /// Amount that a block takes, in the units of allocation: in whole warps, and in multiples of a granularity. `None`:
    /// not known.
    pub takes: Option<u32>,
    /// Amount that an SM has.
    pub has: u32,
    /// Blocks that it suffices for; `None` if any number.
    pub blocks: Option<u32>,
}

impl Bound {
    fn blocks(&self) -> u32 {
        self.blocks.unwrap_or(u32::MAX)
    }
}

/// Change that makes one more block resident: all of these are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneMore {
    /// The resource that is used up.
    pub limiter: Limiter,
    /// Maximum of a block: threads, bytes of shared memory without the system's reserve, or registers per thread. `None` if a
    /// lower one does not help.
    pub at_most: Option<u32>,
}

impl Occupancy {
    /// Occupancy for blocks of `threads` threads (at least 1) with `shared_bytes` of shared memory and `registers` 32-bit
    /// registers per thread. Unknown registers (`None`) limit nothing.
    #[must_use]
    pub fn of(limits: &Limits, threads: u32, shared_bytes: u32, registers: Option<u32>) -> Self {
        let warps = warps_of(threads);
        let max_warps = limits.threads / 32;
        let bounds = Self::bounds(limits, threads, shared_bytes, registers);
        let tightest = bounds.iter().min_by_key(|bound| bound.blocks());
        let (blocks, limiter) = tightest.map_or((0, Limiter::Threads), |bound| (bound.blocks(), bound.limiter));
        Self { blocks, warps: blocks * warps, max_warps, limiter }
    }

    /// Bound of each resource for such blocks, in the order of [`Limiter`].
    #[must_use]
    pub fn bounds(limits: &Limits, threads: u32, shared_bytes: u32, registers: Option<u32>) -> [Bound; 4] {
        let warps = warps_of(threads);
        let max_warps = limits.threads / 32;
        let shared = shared_bytes.saturating_add(limits.reserved_bytes);
        let shared = shared.checked_next_multiple_of(limits.shared_granularity).unwrap_or(u32::MAX);
        let of_warp = registers.map(|count| count.saturating_mul(32).checked_next_multiple_of(REGISTER_GRANULARITY));
        let of_warp = of_warp.map(|registers| registers.unwrap_or(u32::MAX));
        let by_registers = of_warp.filter(|registers| *registers != 0).map(|of_warp| {
            // A warp's registers are all in one partition.
            REGISTERS / PARTITIONS / of_warp * PARTITIONS / warps
        });
        let bound = |limiter, takes, has, blocks| Bound { limiter, takes, has, blocks };
        [
            bound(Limiter::Threads, Some(warps.saturating_mul(32)), limits.threads, Some(max_warps / warps)),
            bound(Limiter::Blocks, Some(1), limits.blocks, Some(limits.blocks)),
            bound(Limiter::SharedMemory, Some(shared), limits.shared_bytes, limits.shared_bytes.checked_div(shared)),
            bound(Limiter::Registers, of_warp.map(|of| of.saturating_mul(warps)), REGISTERS, by_registers),
        ]
    }

    /// Changes that would admit one more of such blocks, for each resource that is used up.
    #[must_use]
    pub fn one_more(limits: &Limits, threads: u32, shared_bytes: u32, registers: Option<u32>) -> Vec<OneMore> {
        let bounds = Self::bounds(limits, threads, shared_bytes, registers);
        let blocks = bounds.iter().map(Bound::blocks).min().unwrap_or(0);
        let wanted = blocks.saturating_add(1);
        let at_most = |limiter| match limiter {
            Limiter::Threads => Some(limits.threads / 32 / wanted * 32),
            Limiter::Blocks => None,
            Limiter::SharedMemory => limits.shared_for(wanted),
            Limiter::Registers => {
                let of_partition = (wanted * warps_of(threads)).div_ceil(PARTITIONS);
                let of_warp = REGISTERS / PARTITIONS / of_partition / REGISTER_GRANULARITY * REGISTER_GRANULARITY;
                Some((of_warp / 32).min(MAX_REGISTERS_PER_THREAD))
            }
        };
        let used_up = bounds.iter().filter(|bound| bound.blocks() == blocks);
        let more = used_up.map(|bound| OneMore {
            limiter: bound.limiter,
            at_most: at_most(bound.limiter).filter(|most| *most > 0 || bound.limiter == Limiter::SharedMemory),
        });
        more.collect()
    }

    /// Fraction of the warps that it could hold: 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        f64::from(self.warps) / f64::from(self.max_warps)
    }
}

/// A last warp that is not full counts as one.
fn warps_of(threads: u32) -> u32 {
    threads.div_ceil(32).max(1)
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

    /// On every architecture, with blocks of many kinds: at the limits of `one_more` one more block fits, and a little above them
    /// it does not.
    #[test]
    fn one_more_block_fits_at_the_most_that_is_said_and_not_above() {
        for arch in Limits::known() {
            let limits = Limits::of(&arch).unwrap();
            for threads in [1, 32, 96, 128, 256, 384, 1024] {
                for shared in [0, 1, 1000, 16 << 10, 48 << 10, limits.shared_per_block()] {
                    for registers in [1, 16, 32, 33, 64, 128, 255] {
                        let blocks = |threads, shared, registers| {
                            Occupancy::of(&limits, threads, shared, Some(registers)).blocks
                        };
                        let now = blocks(threads, shared, registers);
                        let more = Occupancy::one_more(&limits, threads, shared, Some(registers));
                        let apply = |extra: u32| {
                            let mut block = [threads, shared, registers];
                            for OneMore { limiter, at_most } in &more {
                                let place = match limiter {
                                    Limiter::Threads => 0,
                                    Limiter::SharedMemory => 1,
                                    Limiter::Registers => 2,
                                    Limiter::Blocks => return None,
                                };
                                block[place] = (*at_most)? + extra;
                            }
                            Some(blocks(block[0], block[1], block[2]))
                        };
                        let what = format!("{arch} {threads} {shared} {registers} {more:?}");
                        assert!(!more.is_empty(), "{what}");
                        if let (Some(at), Some(above)) = (apply(0), apply(1)) {
                            assert!(at > now, "{what}");
                            // The registers of a thread are capped besides.
                            let is_capped = more.iter().any(|more| more.at_most == Some(MAX_REGISTERS_PER_THREAD));
                            assert!(above == now || is_capped, "{what}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_would_admit_one_more_block_is_said_for_each_resource_that_is_used_up() {
        use Limiter::{Blocks, Registers, SharedMemory, Threads};
        let more = |threads, shared, registers| -> Vec<(Limiter, Option<u32>)> {
            let limits = Limits::of("sm_90").unwrap();
            let more = Occupancy::one_more(&limits, threads, shared, Some(registers));
            more.into_iter().map(|more| (more.limiter, more.at_most)).collect()
        };
        // Two blocks of 8 warps with 128 registers; three are 24 warps, 6 per partition: 16384 / 6 / 32 = 85, down to 80.
        assert_eq!(more(256, 33792, 128), [(Registers, Some(80))]);
        // 228 KiB / 3 = 76 KiB, of which the system takes 1.
        assert_eq!(more(256, 100 << 10, 64), [(SharedMemory, Some(75 << 10))]);
        assert_eq!(more(32, 0, 16), [(Blocks, None)]);
        assert_eq!(more(1024, 0, 32), [(Threads, Some(672)), (Registers, Some(16))]);
        // A block that does not fit at all: the first.
        assert_eq!(more(128, 300 << 10, 32), [(SharedMemory, Some(227 << 10))]);
        assert_eq!(more(1024, 0, 128), [(Registers, Some(64))]);
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
