//! One pass of a model on several devices at once: each computes a part of every large product (tensor parallelism).
//!
//! [`split`] rewrites a recorded graph for one rank; [`Ranks`] plans each rank's graph as any other and runs all plans together:
//!
//! ```text
//!          rank 0                        rank 1
//! x  ──▶  qkv: heads 0–3                qkv: heads 4–7          every rank has all of x
//!         attention                     attention               no rank needs another's heads
//!         proj: its terms + bias + x    proj: its terms
//!              └────────── all-reduce ──────────┘               each has the sum again
//! ```
//!
//! On GPUs each rank's pass, with its part of every all-reduce, is one graph; a pass is as many launches as there are ranks. The
//! simulator runs the ranks' launches in turns, and each all-reduce as one joint launch.

mod measured;
mod ranks;
mod split;
mod sum;

pub use self::ranks::{Ranks, Sums};
pub use measured::{Measured, measure};
pub use split::{Pair, pairs, split};
pub use sum::{MOST_RANKS, SHARES, SUM, Sum};
