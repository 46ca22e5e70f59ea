//! The signal of [`super::copies`] in four stages: a barrier of all threads, or barriers that count bytes.

use bench::ladder::Step;
use common::prelude::*;

use super::copies::{blocks, cost, problem};
use super::{Pair, Size, Version};

/// The pair.
pub const PAIR: Pair = Pair {
    name: "stages",
    question: "What does a barrier that counts bytes save over one that all threads reach?",
    versions: &[CP_ASYNC, MBARRIER],
    telling: &["LDGSTS", "BAR", "DEPBAR", "UBLKCP", "SYNCS"],
    problem,
    cost,
    simulated: Size::Values(1 << 16),
    measured: &[Size::Values(1 << 26)],
};

/// `cp.async` and a barrier of the block.
pub const CP_ASYNC: Step<Version> = Step {
    number: 1,
    name: "cp.async",
    idea: "every thread copies, every thread waits for all",
    source: kernel_source!("ptx_09_stages_cp_async"),
    method: Version { kernel: "smooth", threads: |size| blocks(size) * 256, block: 256 },
};

/// `cp.async.bulk` and mbarriers.
pub const MBARRIER: Step<Version> = Step {
    number: 2,
    name: "PTX, mbarrier",
    idea: "one lane copies tiles, warps wait for bytes",
    source: kernel_source!("ptx_09_stages_mbarrier"),
    method: Version { kernel: "smooth", threads: |size| blocks(size) * 288, block: 288 },
};
