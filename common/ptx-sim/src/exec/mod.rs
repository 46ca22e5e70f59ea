//! Running a kernel: blocks over the host's cores, warps of a block in turn, lanes of a warp together.
//!
//! A block is run by one host thread at a time, so its shared memory needs no locks and its order is always the same.
//! Blocks take turns too: one that has run long without ending goes to the back of the queue, so that blocks which wait
//! for each other through global memory all move, whatever the number of cores.
//!
//! | files | what they hold |
//! | --- | --- |
//! | `launch`, `cluster`, `block`, `warp`, `rows`, `registers`, `local`, `barrier`, `copies`, `transfers`, `shadow` | the state of a launch, data first |
//! | `problem`, `place` | what an access does, and what is wrong with one |
//! | `schedule`, `interpret` | blocks over cores and warps in turn; the executor's loop |
//! | `arithmetic`, `together`, `shuffle`, `matrix`, `wgmma`, `control`, `calls` | arms of the loop that are not memory |
//! | `check`, `elements`, `vector`, `load_store`, `atomic`, `async_copy`, `bulk`, `tensor`, `mbarrier` | arms of the loop that are |
//! | `builtin`, `printf`, `malloc` | functions that the device brings with it |
//! | `asynchrony` | when pending copies are made |
//! | `monitor`, `scene`, `watch` | what a launch reports while it runs, to: |
//! | `sanitise`, `in_flight`, `wgmma_checks`, `profiler`, `tracer`, `flights`, `debugger`, `written` | … mistakes, counts, a trace, values |

mod address;
mod arithmetic;
mod async_copy;
mod asynchrony;
mod atomic;
mod barrier;
mod block;
mod builtin;
mod bulk;
mod calls;
mod check;
mod clock;
mod cluster;
mod context;
mod control;
mod copies;
pub(crate) mod debugger;
mod elements;
mod flights;
mod handover;
mod in_flight;
mod interpret;
mod launch;
mod lines;
mod load_store;
mod local;
mod malloc;
mod matrix;
mod mbarrier;
mod monitor;
mod place;
mod printf;
mod problem;
pub(crate) mod profiler;
mod registers;
mod rows;
pub(crate) mod sanitise;
mod scene;
mod schedule;
mod shadow;
mod shuffle;
mod stack;
mod tensor;
mod texture;
mod together;
mod touched;
mod touches;
pub(crate) mod tracer;
mod transfers;
mod undefined;
mod vector;
mod warp;
mod watch;
mod wgmma;
mod wgmma_checks;
mod written;

pub use asynchrony::Asynchrony;
pub use launch::EarlierWork;
pub(crate) use launch::{Counts, Launch, LaunchHeap, MAX_BEGUN, Member};
pub(crate) use monitor::Plain;
pub(crate) use schedule::run;
pub use touched::TouchedMemory;
pub(crate) use watch::Watch;
