//! The driver's explicit graphs: recorded node by node, instantiated, launched, updated.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::{CudaContext, CudaStream, DriverError, result, sys};

use super::super::handle::Handle;
use super::super::launch_config::LaunchConfig;
use super::driver::error;
use super::module::Function;
use crate::error::Result;

/// The driver's graph that grows with a capture.
#[derive(Clone)]
pub(super) struct Recording(Arc<Mutex<Built>>);

struct Built {
    graph: Graph,
    nodes: Vec<sys::CUgraphNode>,
}

// SAFETY: the driver's handles may be used from any thread that has made the context current, one thread at a time: a mutex is
// around them.
unsafe impl Send for Built {}

/// A recorded graph.
#[derive(Clone)]
pub(crate) struct Graph(Arc<Template>);

struct Template {
    graph: sys::CUgraph,
    context: Arc<CudaContext>,
}

// SAFETY: as for `Built`: graphs are changed only under its mutex, and afterwards only read, which the driver does for one call at
// a time (below).
unsafe impl Send for Template {}
// SAFETY: as above.
unsafe impl Sync for Template {}

/// The driver does not lock graphs, not even for reading ("Graph object thread safety" in its manual).
static GRAPHS: Mutex<()> = Mutex::new(());

impl Drop for Template {
    fn drop(&mut self) {
        let context = &self.context;
        context.record_err(context.bind_to_thread());
        // SAFETY: created once, destroyed once; instances of it stand on their own.
        context.record_err(unsafe { result::graph::destroy(self.graph) });
    }
}

impl Recording {
    /// An empty graph. The context is current.
    pub(super) fn new(context: &Arc<CudaContext>) -> std::result::Result<Recording, DriverError> {
        let mut graph = std::ptr::null_mut();
        // SAFETY: the context is current, and the pointer is written before the call returns.
        unsafe { sys::cuGraphCreate(&mut graph, 0).result()? };
        let graph = Graph(Arc::new(Template { graph, context: context.clone() }));
        Ok(Recording(Arc::new(Mutex::new(Built { graph, nodes: Vec::new() }))))
    }

    /// The graph, if it has this number of nodes.
    pub(super) fn graph(&self, nodes: usize) -> Option<Graph> {
        let built = self.lock();
        (built.nodes.len() == nodes).then(|| built.graph.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Built> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the node that `make` makes, which waits for those at the places `after`.
    pub(super) fn add(
        &self,
        after: &[usize],
        make: impl FnOnce(&Adding<'_>) -> std::result::Result<sys::CUgraphNode, DriverError>,
    ) -> std::result::Result<(), DriverError> {
        let mut built = self.lock();
        let after: Vec<_> = after.iter().map(|&node| built.nodes[node]).collect();
        let node = make(&Adding { graph: &built.graph.0, after: &after })?;
        built.nodes.push(node);
        Ok(())
    }
}

/// A graph to which a node is being added.
pub(super) struct Adding<'a> {
    graph: &'a Template,
    /// Nodes that it waits for.
    after: &'a [sys::CUgraphNode],
}

impl Adding<'_> {
    pub(super) fn fill(
        &self,
        to: sys::CUdeviceptr,
        value: u8,
        bytes: usize,
    ) -> std::result::Result<sys::CUgraphNode, DriverError> {
        // A pitch is only looked at where there is more than one row.
        let params = sys::CUDA_MEMSET_NODE_PARAMS {
            dst: to,
            pitch: 0,
            value: value.into(),
            elementSize: 1,
            width: bytes,
            height: 1,
        };
        let (after, context) = (self.after, self.graph.context.cu_ctx());
        let mut node = std::ptr::null_mut();
        // SAFETY: the nodes belong to this graph, and the bytes to an allocation that the graph will keep.
        unsafe {
            sys::cuGraphAddMemsetNode(&mut node, self.graph.graph, after.as_ptr(), after.len(), &params, context)
                .result()?;
        }
        Ok(node)
    }

    pub(super) fn copy(
        &self,
        from: sys::CUdeviceptr,
        to: sys::CUdeviceptr,
        bytes: usize,
    ) -> std::result::Result<sys::CUgraphNode, DriverError> {
        // SAFETY: zeros are a value of all of its fields, which are numbers, null pointers and, until they are set below, enums of
        // the driver: these have no value 0, and so `MaybeUninit` holds them until then.
        let params = unsafe {
            let mut params = std::mem::MaybeUninit::<sys::CUDA_MEMCPY3D>::zeroed();
            let fields = params.as_mut_ptr();
            (&raw mut (*fields).srcMemoryType).write(sys::CUmemorytype::CU_MEMORYTYPE_DEVICE);
            (&raw mut (*fields).srcDevice).write(from);
            (&raw mut (*fields).dstMemoryType).write(sys::CUmemorytype::CU_MEMORYTYPE_DEVICE);
            (&raw mut (*fields).dstDevice).write(to);
            (&raw mut (*fields).WidthInBytes).write(bytes);
            (&raw mut (*fields).Height).write(1);
            (&raw mut (*fields).Depth).write(1);
            params.assume_init()
        };
        let (after, context) = (self.after, self.graph.context.cu_ctx());
        let mut node = std::ptr::null_mut();
        // SAFETY: the nodes belong to this graph, and the bytes to allocations that the graph will keep.
        unsafe {
            sys::cuGraphAddMemcpyNode(&mut node, self.graph.graph, after.as_ptr(), after.len(), &params, context)
                .result()?;
        }
        Ok(node)
    }

    /// `params` has one pointer per parameter, to a value of its size; the driver copies the values. `dependent`: the node may begin
    /// before the one before it has ended, if that is a single kernel.
    pub(super) fn launch(
        &self,
        function: &Function,
        config: &LaunchConfig,
        params: &mut [*mut c_void],
        dependent: bool,
    ) -> std::result::Result<sys::CUgraphNode, DriverError> {
        let LaunchConfig { grid_dim, block_dim, shared_mem_bytes } = *config;
        let params = sys::CUDA_KERNEL_NODE_PARAMS {
            func: function.function,
            gridDimX: grid_dim.0,
            gridDimY: grid_dim.1,
            gridDimZ: grid_dim.2,
            blockDimX: block_dim.0,
            blockDimY: block_dim.1,
            blockDimZ: block_dim.2,
            sharedMemBytes: shared_mem_bytes,
            kernelParams: params.as_mut_ptr(),
            extra: std::ptr::null_mut(),
            kern: std::ptr::null_mut(),
            ctx: std::ptr::null_mut(),
        };
        let mut node = std::ptr::null_mut();
        let add = |node: &mut sys::CUgraphNode, after: &[sys::CUgraphNode]| {
            // SAFETY: the nodes belong to this graph; the function is loaded, and the graph will keep it and its buffers; the values
            // of the parameters are alive.
            unsafe {
                sys::cuGraphAddKernelNode_v2(node, self.graph.graph, after.as_ptr(), after.len(), &params).result()
            }
        };
        let &[before] = self.after else {
            add(&mut node, self.after)?;
            return Ok(node);
        };
        if !(dependent && is_kernel(before)?) {
            add(&mut node, self.after)?;
            return Ok(node);
        }
        add(&mut node, &[])?;
        let edge = sys::CUgraphEdgeData {
            from_port: sys::CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC as u8,
            to_port: 0,
            type_: sys::CUgraphDependencyType::CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC as u8,
            reserved: [0; 5],
        };
        // SAFETY: both nodes belong to this graph, and all three lists have one entry.
        unsafe { sys::cuGraphAddDependencies_v2(self.graph.graph, &before, &node, &edge, 1).result()? };
        Ok(node)
    }
}

fn is_kernel(node: sys::CUgraphNode) -> std::result::Result<bool, DriverError> {
    let mut kind = std::mem::MaybeUninit::<sys::CUgraphNodeType>::uninit();
    // SAFETY: the node belongs to a graph that is alive; its type is written if the call succeeds.
    unsafe {
        sys::cuGraphNodeGetType(node, kind.as_mut_ptr()).result()?;
        Ok(kind.assume_init() == sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL)
    }
}

impl Graph {
    pub(crate) fn instantiate<S>(&self) -> Result<Handle<GraphExec, S>> {
        let context = &self.0.context;
        let instantiate = || {
            context.bind_to_thread()?;
            let _alone = GRAPHS.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the graph is alive.
            unsafe { result::graph::instantiate(self.0.graph, sys::CUgraphInstantiate_flags(0)) }
        };
        let exec = instantiate().map_err(|e| error("instantiating a graph", context, e))?;
        Ok(Handle::Cuda(GraphExec { exec, context: context.clone(), streams: Mutex::default() }))
    }
}

/// A graph to be launched.
pub(crate) struct GraphExec {
    exec: sys::CUgraphExec,
    context: Arc<CudaContext>,
    /// Streams on which it was launched; their lock is also that of `exec`.
    streams: Mutex<Vec<Arc<CudaStream>>>,
}

// SAFETY: as for `Built`: `exec` is used under the lock of `streams`, or by its only owner.
unsafe impl Send for GraphExec {}
// SAFETY: as above.
unsafe impl Sync for GraphExec {}

impl GraphExec {
    pub(super) fn launch_on(&self, stream: &Arc<CudaStream>) -> Result<()> {
        let launch = || {
            stream.context().bind_to_thread()?;
            let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            if !streams.contains(stream) {
                streams.push(stream.clone());
            }
            // SAFETY: both are alive. What the graph uses stays until this is dropped, which waits for the stream.
            unsafe { result::graph::launch(self.exec, stream.cu_stream()) }
        };
        launch().map_err(|e| error("launching a graph", stream.context(), e))
    }

    pub(crate) fn update(&mut self, graph: &Graph) -> Result<()> {
        let update = || {
            self.context.bind_to_thread()?;
            let _alone = GRAPHS.lock().unwrap_or_else(PoisonError::into_inner);
            let mut told = std::mem::MaybeUninit::<sys::CUgraphExecUpdateResultInfo>::zeroed();
            // SAFETY: both are alive; what the call tells beyond its status is not read.
            unsafe { sys::cuGraphExecUpdate_v2(self.exec, graph.0.graph, told.as_mut_ptr()).result() }
        };
        update().map_err(|e| error("updating a graph", &self.context, e))
    }
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        let context = &self.context;
        context.record_err(context.bind_to_thread());
        for stream in self.streams.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            context.record_err(stream.synchronize());
        }
        // SAFETY: instantiated once, destroyed once, and none of its launches is under way.
        context.record_err(unsafe { result::graph::exec_destroy(self.exec) });
    }
}
