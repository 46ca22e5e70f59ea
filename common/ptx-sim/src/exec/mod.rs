//! Running a kernel: blocks over the host's cores, warps of a block in turn, lanes of a warp together.
//!
//! A block is run by one host thread at a time, so its shared memory needs no locks and its order is always the same.
//! Blocks take turns too: one that has run long without ending goes to the back of the queue, so that blocks which wait
//! for each other through global memory all move, whatever the number of cores.
//!
//! | folder | contents | imports |
//! | --- | --- | --- |
//! | `state` | the state of a launch: blocks, warps, registers, memory, what is under way | nothing of the others |
//! | `watch` | what observes a launch: mistakes, counts, a trace, values | `state` |
//! | `run` | the scheduler, the executor's loop and its arms; it reports to a `watch::monitor::Monitor` | `state`, `watch::monitor` |

mod run;
mod state;
pub(crate) mod watch;

pub(crate) use run::schedule::run;
pub use state::asynchrony::Asynchrony;
pub use state::launch::EarlierWork;
pub(crate) use state::launch::{Counts, Fresh, Launch, LaunchHeap, Launches, LooseJoins, MULTIPROCESSORS, Member};
pub use watch::touched::TouchedMemory;
