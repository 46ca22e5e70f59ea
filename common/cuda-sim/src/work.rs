//! Pieces of work that a stream queues: launches, copies, fills, calls of the host; or records, while it is captured.

use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use ptx_sim::{Arg, Kernel, LaunchConfig};

use crate::abi::{Copy3d, CopySide, Handle, Pointer};

/// First address of device memory: beyond all that a process can map on x86-64 and on 64-bit ARM, so that an address says whose it is.
pub(crate) const FIRST_ADDRESS: u64 = 1 << 48;

/// Memory of the host that a program gave us the address of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Host(pub(crate) *mut u8);

// SAFETY: the program promises, by the API's contract, that the memory is valid until the work is done.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

/// One side of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Address on the device.
    Device(Pointer),
    /// Address on the host.
    Host(Host),
}

impl Place {
    pub(crate) fn host(address: *const c_void) -> Self {
        Self::Host(Host(address.cast_mut().cast()))
    }

    /// The side that an address of the unified space belongs to.
    pub(crate) fn of(address: Pointer) -> Self {
        if address >= FIRST_ADDRESS { Self::Device(address) } else { Self::host(address as *const c_void) }
    }

    /// The place `bytes` bytes further on.
    pub(crate) fn offset(self, bytes: usize) -> Self {
        match self {
            Self::Device(address) => Self::Device(address.wrapping_add(bytes as u64)),
            Self::Host(Host(address)) => Self::Host(Host(address.wrapping_add(bytes))),
        }
    }
}

/// `CUgraphConditionalNodeType`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The first graph if the value is not 0, the second, if there is one, if it is.
    If,
    /// The first graph as long as the value is not 0.
    While,
    /// The graph of that number.
    Switch,
}

/// `CUevent`.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) context: Handle,
    /// When it was recorded last; `None` until the stream has come to it.
    pub(crate) recorded: Mutex<Option<Instant>>,
    /// Number of its last recording among the work of all streams.
    pub(crate) item: Mutex<Option<u64>>,
    /// Place in the capture that it was recorded in last, if it was one: a stream that waits for it takes part.
    pub(crate) capture: Mutex<Option<Captured>>,
    pub(crate) times: bool,
}

/// One piece of work.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// A launch of a kernel.
    Launch { function: Arc<Function>, config: LaunchConfig, params: Arc<Params> },
    /// A copy of rows.
    Copy(Copy3d),
    /// A fill of rows with a value of 1, 2 or 4 bytes.
    Fill { target: Pointer, value: u32, element_bytes: usize, width: usize, rows: usize, pitch: usize },
    /// A call of a function of the program.
    Call { function: unsafe extern "C" fn(*mut c_void), data: Host },
    /// The end of an allocation.
    Free(Pointer),
    /// Memory of a graph, which is there as long as the graph.
    Allocate { pointer: Pointer, bytes: usize },
    /// The recording of an event, with its handle.
    Record(Handle, Arc<Event>),
    /// The wait for an event, with its handle.
    Wait(Handle, Arc<Event>),
    /// Other work, in order, or nothing.
    Sequence(Vec<Work>),
    /// A graph in a graph.
    Graph(Handle),
    /// Graphs of which a value in memory of the device chooses.
    If { condition: Pointer, choice: Choice, bodies: Arc<[Handle]> },
}

impl Work {
    /// A copy of one run of bytes.
    pub(crate) fn copy(to: Place, from: Place, bytes: usize) -> Self {
        Self::Copy(Copy3d::rows(CopySide::rows(to, 0), CopySide::rows(from, 0), bytes, 1))
    }
}

/// Values of a kernel's parameters, and the address of each, as `cuLaunchKernel` takes them.
#[derive(Debug)]
pub(crate) struct Params {
    values: Vec<Box<[u8]>>,
    addresses: Vec<Host>,
}

impl Params {
    pub(crate) fn new(values: Vec<Box<[u8]>>) -> Self {
        let addresses = values.iter().map(|value| Host(value.as_ptr().cast_mut())).collect();
        Self { values, addresses }
    }

    pub(crate) fn args(&self) -> Vec<Arg> {
        self.values.iter().map(|value| Arg::from_bytes(value)).collect()
    }

    /// The list of addresses, which is there as long as this.
    pub(crate) fn addresses(&self) -> *const *const c_void {
        self.addresses.as_ptr().cast()
    }
}

/// `CUfunction` and `CUkernel`.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) kernel: Kernel,
    /// Its name, for the program.
    pub(crate) name: CString,
    pub(crate) module: Handle,
    /// Maximum number of registers per thread, if the program set one when it loaded the module.
    pub(crate) max_registers: Option<u32>,
    /// Maximum dynamic shared memory of a launch, if the program asked for more than 48 KiB.
    pub(crate) dynamic_shared: AtomicI32,
    pub(crate) carveout: AtomicI32,
    /// Whether a cluster may have 16 blocks instead of 8.
    pub(crate) non_portable_cluster: AtomicBool,
    /// Launch that `cuLaunchGrid` makes.
    pub(crate) next: Mutex<Next>,
}

/// A launch by the functions from before CUDA 4, as far as it is set.
#[derive(Debug)]
pub(crate) struct Next {
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) params: Vec<u8>,
}

impl Default for Next {
    fn default() -> Self {
        Self { block: [1; 3], shared_bytes: 0, params: Vec::new() }
    }
}

/// The recording of work as a graph, in all streams that take part.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    pub(crate) graph: Handle,
    pub(crate) ended: AtomicBool,
}

/// A stream's or an event's part in a capture: what it records next comes after these nodes.
#[derive(Clone, Debug)]
pub(crate) struct Captured {
    pub(crate) capture: Arc<Capture>,
    pub(crate) after: Vec<Handle>,
}

impl Captured {
    pub(crate) fn is_going_on(&self) -> bool {
        !self.capture.ended.load(Ordering::Relaxed)
    }
}
