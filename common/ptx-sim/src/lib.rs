//! A simulated CUDA device: it runs PTX, the assembly that CUDA compilers produce, on the CPU.
//!
//! The kernels are the real ones, instruction by instruction: 32 lanes per warp, divergence and reconvergence, shared
//! memory, barriers, shuffles, atomics, tensor-core products. Silent errors on a GPU, such as an index past the end or a
//! barrier that some threads never reach, become a [`Fault`] that names the line of CUDA source, the block and the thread.
//!
//! ```
//! use ptx_sim::{Arg, Device, LaunchConfig, Module};
//!
//! let ptx = r"
//!     .version 8.0
//!     .target sm_80
//!     .address_size 64
//!     .visible .entry twice(.param .u64 data) {
//!         .reg .b32 %r<3>;
//!         .reg .b64 %rd<4>;
//!         ld.param.u64 %rd1, [data];
//!         mov.u32 %r1, %tid.x;
//!         mul.wide.u32 %rd2, %r1, 4;
//!         add.s64 %rd3, %rd1, %rd2;
//!         ld.global.u32 %r2, [%rd3];
//!         add.u32 %r2, %r2, %r2;
//!         st.global.u32 [%rd3], %r2;
//!         ret;
//!     }";
//! let device = Device::new(Default::default());
//! let module = device.load(&Module::from_ptx(ptx, "twice.ptx")?)?;
//! let data = device.alloc(8, "data")?;
//! device.write(data, &[1, 0, 0, 0, 21, 0, 0, 0])?;
//! let config = LaunchConfig { block: [2, 1, 1], ..Default::default() };
//! module.kernel("twice")?.launch(&config, &[Arg::from(data)])?;
//! let mut bytes = [0; 8];
//! device.read(data, &mut bytes)?;
//! assert_eq!(bytes, [2, 0, 0, 0, 42, 0, 0, 0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # From text to results
//! | module | what it does |
//! | --- | --- |
//! | `text` | the PTX in a file as it is found |
//! | `lex`, `parse`, `ast` | PTX text to a tree, names unresolved |
//! | `lower` | names to rows, opcodes to operations, branches to the places where lanes meet again |
//! | `ir` | the operations, one per instruction, with the facts about them; its documentation is their specification |
//! | `scalar`, `matrix` | what one lane computes, and what a warp's matrix instructions compute |
//! | `limits` | what a load and a launch may take of the host |
//! | `memory` | allocations that know their bounds, of the host and of kernels |
//! | `texture` | texture and surface objects, and what a coordinate of one reads |
//! | `tensor_map` | tensors as bulk copies see them: boxes, swizzling |
//! | `hardware`, `lanes` | how hardware moves memory; values and masks of 32 lanes |
//! | `exec` | blocks on host threads, warps in turn, lanes together |
//! | `profile`, `occupancy` | what a launch asked of the hardware, by line; how many blocks an SM holds |
//! | [`ptxas`] | registers and spills of a kernel, from the compiler where it is installed |
//! | `trace`, `picture` | what a block did, step by step, and drawings of it |
//! | `watch` | values of registers and memory while a kernel runs: a small debugger |
//! | `fault`, `error`, `report` | what can go wrong, as values and as text |
//!
//! An instruction is added as the README says (`common/ptx-sim/README.md`).
//!
//! # Limits
//! Instructions that the simulator does not know are listed when a kernel is requested ([`LoadError::Unsupported`]). Times
//! are not simulated: a launch has counts ([`LaunchReport`]), not milliseconds. Approximate functions (`ex2.approx`,
//! `sin.approx` …) are within the error that PTX documents, not bit-equal to hardware; everything else is.

mod ast;
mod device;
mod error;
mod exec;
mod fault;
mod hardware;
mod ir;
mod lanes;
mod lex;
mod limits;
mod lower;
mod matrix;
mod memory;
mod module;
mod names;
pub mod occupancy;
mod parse;
mod picture;
mod profile;
pub mod ptxas;
mod report;
pub mod scalar;
mod span;
mod support;
mod tensor_map;
mod text;
mod texture;
mod trace;
mod watch;

pub use device::{
    Arg, DEFAULT_BUDGET, DEFAULT_STACK, Device, DeviceConfig, Kernel, LaunchConfig, LaunchError, LaunchReport, Leak,
    LoadedModule, MAX_BLOCK, MAX_GRID, MAX_SHARED, MAX_THREADS, Observation, Observe,
};
pub use error::{LoadError, Unsupported, UnsupportedForm};
pub use exec::{Asynchrony, EarlierWork, TouchedMemory};
pub use fault::{Fault, FaultKind, OtherAccess};
pub use ir::{Class, KernelInfo, ParamInfo};
pub use limits::{LoadLimits, parse_size};
pub use lower::{Fidelity, FidelityRule};
pub use memory::{DevicePtr, HEAP_BYTES, MemoryError, MemoryInfo};
pub use module::Module;
pub use names::{demangled, kernel_name};
pub use occupancy::{Limiter, Limits, Occupancy};
pub use picture::{Pick, PictureError};
pub use profile::{Counters, Issued, LineProfile, Profile};
pub use support::{refused_forms, supported_mnemonics};
pub use tensor_map::{
    Interleave, OutsideFill, Swizzle, TENSOR_MAP_BYTES, TensorElement, TensorMap, TensorMapDescriptor, TensorMapError,
    TensorWindow,
};
pub use texture::{
    AddressMode, ChannelKind, Extent, Filter, ObjectError, ObjectHandle, Sampling, SurfaceDescriptor, TexelFormat,
    TextureDescriptor,
};
pub use trace::{
    AccessKind, AsyncEvent, AsyncStep, Grouped, MemoryAccess, Phase, RegisterWrite, Release, Site, Space, Step,
    StepEvent, Touch, Trace, TraceRequest, TracedRegister, Variable,
};
pub use watch::{WatchPoint, WatchRequest, WatchSink, WatchThreads, Watched};
