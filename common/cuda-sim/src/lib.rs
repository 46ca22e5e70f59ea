//! The CUDA driver API and runtime API over [`ptx_sim`]: a library that programs load as `libcuda.so.1` and as `libcudart.so.13`, on a
//! machine without a GPU.
//!
//! ```console
//! cargo run -p cuda-sim -- --sanitize ./program arguments
//! ```
//!
//! | module | what it does |
//! | --- | --- |
//! | [`options`] | what the launcher tells the library, through the environment |
//! | [`log`] | findings and profiles, as the library writes them and the launcher reads them |
//! | `abi` | numbers and structures of `cuda.h` |
//! | `api` | the frame around each function: result codes, panics, the table of names |
//! | `image` | PTX in what programs load: text, fat binaries, links |
//! | `state` | the devices of this process, and the handles that programs hold |
//! | `array` | arrays, textures and surfaces |
//! | `virtual_memory` | reserved addresses, and the memory that is mapped there |
//! | `copy` | where the sides of copies lie: memory of host and devices, arrays |
//! | `graph` | graphs of work, and captures that record it |
//! | `work` | what a stream queues: launches, copies, fills, calls of the host |
//! | `queue` | when that work is done, or recorded |
//! | `driver` | the driver API's functions, by the chapters of its manual |
//! | `runtime` | the runtime API's functions over those, by the chapters of its manual |
//! | `ocelot` | gpuocelot's function, under which tinygrad mocks GPUs |
//!
//! Work is done when it is queued, in the order in which it is queued: one of the orders that CUDA allows. With `--late` it is done as
//! late as CUDA allows. Device memory has
//! addresses that the host never maps, so a pointer of the wrong side is an error here as it is there; memory that both sides use has
//! one address for both.

// Each function's contract is the manual's: valid pointers where it asks for them.
#![allow(clippy::missing_safety_doc)]

mod abi;
mod api;
mod array;
mod copy;
mod driver;
mod graph;
mod handles;
mod image;
pub mod log;
mod node;
mod ocelot;
pub mod options;
mod queue;
mod runtime;
mod state;
mod tell;
mod virtual_memory;
mod work;
