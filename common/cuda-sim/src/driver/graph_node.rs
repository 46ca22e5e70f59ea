//! Nodes of graphs: a piece of work each, by its parameters.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use super::launch::{apply, of_node};
use super::memory::{allocate, copy_3d, keep_for_graph};
use crate::abi::{Code, Copy3d, Handle, KernelNode, LaunchAttribute, MemsetNode, Outcome, Pointer, launch_attribute};
use crate::api::{exported, put, slice};
use crate::graph::Graph;
use crate::node::{copied, end, graph_of, with_node};
use crate::state::state;
use crate::work::{Choice, Host, Work};

/// `CUgraphNodeType`
pub(crate) mod node_type {
    use std::ffi::c_int;

    pub(crate) const KERNEL: c_int = 0;
    pub(crate) const MEMCPY: c_int = 1;
    pub(crate) const MEMSET: c_int = 2;
    pub(crate) const HOST: c_int = 3;
    pub(crate) const GRAPH: c_int = 4;
    pub(crate) const EMPTY: c_int = 5;
    pub(crate) const WAIT_EVENT: c_int = 6;
    pub(crate) const EVENT_RECORD: c_int = 7;
    pub(crate) const MEM_ALLOC: c_int = 10;
    pub(crate) const MEM_FREE: c_int = 11;
    pub(crate) const CONDITIONAL: c_int = 13;
}

/// Adds a node after those that it depends on.
///
/// # Safety
/// `dependencies` are as `cuGraphAddNode` takes them; `added` is null or valid.
pub(crate) unsafe fn add(
    added: *mut Handle,
    graph: Handle,
    dependencies: *const Handle,
    count: usize,
    work: Work,
) -> Outcome {
    // SAFETY: as the caller promises.
    unsafe { put(added, crate::node::add(graph, work, slice(dependencies, count)?)?) }
}

/// Changes the work of a node in its graph.
pub(crate) fn set(node: Handle, work: Work) -> Outcome {
    set_in(graph_of(node), node, work)
}

/// Changes the work of a node in a graph that is ready to be launched.
pub(crate) fn set_in(graph: Handle, node: Handle, work: Work) -> Outcome {
    let old = with_node(graph, node, |node| {
        if type_of(&node.work) != type_of(&work) {
            return Err(Code::INVALID_VALUE);
        }
        Ok(std::mem::replace(&mut node.work, work))
    })?;
    end(&old)
}

/// The work of a node.
pub(crate) fn work(node: Handle) -> Outcome<Work> {
    with_node(graph_of(node), node, |node| Ok(node.work.clone()))
}

/// The type of a node with this work.
pub(super) fn type_of(work: &Work) -> c_int {
    match work {
        Work::Launch { .. } => node_type::KERNEL,
        Work::Copy(_) => node_type::MEMCPY,
        Work::Fill { .. } => node_type::MEMSET,
        Work::Call { .. } => node_type::HOST,
        Work::Graph(_) => node_type::GRAPH,
        Work::Sequence(works) if works.is_empty() => node_type::EMPTY,
        Work::Sequence(_) => node_type::MEMCPY,
        Work::Wait(..) => node_type::WAIT_EVENT,
        Work::Record(..) => node_type::EVENT_RECORD,
        Work::Allocate { .. } => node_type::MEM_ALLOC,
        Work::Free(_) => node_type::MEM_FREE,
        Work::If { .. } => node_type::CONDITIONAL,
    }
}

/// The name of a node with this work: its type's, and what it launches.
pub(super) fn name_of(work: &Work) -> String {
    if let Work::Launch { function, .. } = work {
        return format!("KERNEL {}", function.kernel.info().name);
    }
    let name = match type_of(work) {
        node_type::MEMCPY => "MEMCPY",
        node_type::MEMSET => "MEMSET",
        node_type::HOST => "HOST",
        node_type::GRAPH => "GRAPH",
        node_type::WAIT_EVENT => "WAIT_EVENT",
        node_type::EVENT_RECORD => "EVENT_RECORD",
        node_type::MEM_ALLOC => "MEM_ALLOC",
        node_type::MEM_FREE => "MEM_FREE",
        node_type::CONDITIONAL => "CONDITIONAL",
        _ => "EMPTY",
    };
    name.to_owned()
}

/// The work of a node that fills.
///
/// # Safety
/// `params` is null or valid.
pub(crate) unsafe fn fill_work(params: *const MemsetNode) -> Outcome<Work> {
    // SAFETY: as the caller promises.
    let node = unsafe { params.as_ref() }.ok_or(Code::INVALID_VALUE)?;
    if !matches!(node.element_bytes, 1 | 2 | 4) {
        return Err(Code::INVALID_VALUE);
    }
    Ok(Work::Fill {
        target: node.target,
        value: node.value,
        element_bytes: node.element_bytes as usize,
        width: node.width,
        rows: node.height,
        pitch: node.pitch,
    })
}

/// `CUDA_HOST_NODE_PARAMS`
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct HostNode {
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    data: *mut c_void,
}

/// The work of a node that calls the host.
///
/// # Safety
/// `params` is null or valid.
pub(crate) unsafe fn call_work(params: *const HostNode) -> Outcome<Work> {
    // SAFETY: as the caller promises.
    let HostNode { function, data } = *unsafe { params.as_ref() }.ok_or(Code::INVALID_VALUE)?;
    Ok(Work::Call { function: function.ok_or(Code::INVALID_VALUE)?, data: Host(data.cast()) })
}

/// The work of a node that is a graph: the graph as it is now.
pub(crate) fn graph_work(graph: Handle) -> Outcome<Work> {
    Ok(Work::Graph(copied(graph, 0)?))
}

/// The work of a node that records an event.
fn record_work(event: Handle) -> Outcome<Work> {
    Ok(Work::Record(event, state()?.events.get(event)?))
}

/// The work of a node that waits for an event.
fn wait_work(event: Handle) -> Outcome<Work> {
    Ok(Work::Wait(event, state()?.events.get(event)?))
}

/// The event of a node that records or waits for it.
///
/// # Safety
/// `event` is null or valid.
unsafe fn event_of(node: Handle, event: *mut Handle) -> Outcome {
    match work(node)? {
        // SAFETY: as the caller promises.
        Work::Record(handle, _) | Work::Wait(handle, _) => unsafe { put(event, handle) },
        _ => Err(Code::INVALID_VALUE),
    }
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS` and `cudaMemAllocNodeParams`
#[repr(C)]
pub(crate) struct AllocationParams {
    pool: [u64; 11],
    access: *const c_void,
    access_count: usize,
    bytes: usize,
    pointer: Pointer,
}

/// The work of a node that allocates; its address is stored.
///
/// # Safety
/// `params` is null or valid.
unsafe fn allocate_work(params: *mut AllocationParams) -> Outcome<Work> {
    // SAFETY: as the caller promises.
    let params = unsafe { params.as_mut() }.ok_or(Code::INVALID_VALUE)?;
    params.pointer = allocate(params.bytes)?;
    keep_for_graph(params.pointer)?;
    Ok(Work::Allocate { pointer: params.pointer, bytes: params.bytes })
}

/// `CUDA_CONDITIONAL_NODE_PARAMS` and `cudaConditionalNodeParams`, as far as they are the same.
#[repr(C)]
struct ConditionalParams {
    condition: Pointer,
    choice: c_int,
    size: c_uint,
    bodies: *const Handle,
}

/// The work of a conditional node; its graphs, which are empty, are stored.
///
/// # Safety
/// `params` is null or valid.
unsafe fn conditional_work(params: *mut ConditionalParams) -> Outcome<Work> {
    // SAFETY: as the caller promises.
    let params = unsafe { params.as_mut() }.ok_or(Code::INVALID_VALUE)?;
    let choice = match (params.choice, params.size) {
        (0, 1 | 2) => Choice::If,
        (1, 1) => Choice::While,
        (2, 1..) => Choice::Switch,
        _ => return Err(Code::INVALID_VALUE),
    };
    let state = state()?;
    let bodies: Arc<[Handle]> = (0..params.size).map(|_| state.graphs.add(Graph::default())).collect();
    params.bodies = bodies.as_ptr();
    Ok(Work::If { condition: params.condition, choice, bodies })
}

/// `CUgraphNodeParams` and `cudaGraphNodeParams`: a type of nodes, and the parameters of such a node.
#[repr(C)]
pub(crate) struct NodeParams {
    pub(crate) node_type: c_int,
    reserved: [c_int; 3],
    pub(crate) params: [u64; 30],
}

/// The work of a node of any type. The APIs differ in launches and copies.
///
/// # Safety
/// `params` is null or valid.
pub(crate) unsafe fn work_of(
    params: *mut NodeParams,
    launch: impl FnOnce(*const u64) -> Outcome<Work>,
    copy: impl FnOnce(*const u64) -> Outcome<Work>,
) -> Outcome<Work> {
    // SAFETY: as the caller promises, and by its type.
    unsafe {
        let node = params.as_mut().ok_or(Code::INVALID_VALUE)?;
        let params = node.params.as_mut_ptr();
        match node.node_type {
            node_type::KERNEL => launch(params),
            // Flags, and a context in the driver API, come before the copy.
            node_type::MEMCPY => copy(params.add(2)),
            node_type::MEMSET => fill_work(params.cast()),
            node_type::HOST => call_work(params.cast()),
            node_type::GRAPH => graph_work(params.cast::<Handle>().read()),
            node_type::EMPTY => Ok(Work::Sequence(Vec::new())),
            node_type::WAIT_EVENT => wait_work(params.cast::<Handle>().read()),
            node_type::EVENT_RECORD => record_work(params.cast::<Handle>().read()),
            node_type::MEM_ALLOC => allocate_work(params.cast()),
            node_type::MEM_FREE => Ok(Work::Free(params.read())),
            node_type::CONDITIONAL => conditional_work(params.cast()),
            _ => Err(Code::NOT_SUPPORTED),
        }
    }
}

/// [`work_of`] for parameters of the driver API.
///
/// # Safety
/// `params` is null or valid.
unsafe fn work_of_driver(params: *mut NodeParams) -> Outcome<Work> {
    // SAFETY: as the caller promises.
    unsafe { work_of(params, |params| of_node(params.cast()), |params| copy_3d(params.cast())) }
}

/// Parameters of a node that launches, without kernel and context, which the first version does not have.
pub(crate) fn launch_params(node: Handle) -> Outcome<KernelNode> {
    let Work::Launch { function, config, params } = work(node)? else { return Err(Code::INVALID_VALUE) };
    Ok(KernelNode {
        function: super::module::function(function.module, &function.kernel.info().name)?,
        grid: config.grid,
        block: config.block,
        shared_bytes: config.shared_bytes,
        params: params.addresses(),
        extra: std::ptr::null(),
        kernel: 0,
        context: 0,
    })
}

/// Parameters of a node that copies.
pub(crate) fn copy_params(node: Handle) -> Outcome<Copy3d> {
    if let Work::Copy(copy) = work(node)? { Ok(copy) } else { Err(Code::INVALID_VALUE) }
}

exported! {
    fn cuGraphAddKernelNode_v2(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        params: *const KernelNode,
    ) also cuGraphAddKernelNode {
        // SAFETY: as the caller promises.
        unsafe { add(added, graph, dependencies, count, of_node(params)?) }
    }

    fn cuGraphAddMemcpyNode(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        params: *const Copy3d,
        _context: Handle,
    ) {
        // SAFETY: as the caller promises.
        unsafe { add(added, graph, dependencies, count, copy_3d(params)?) }
    }

    fn cuGraphAddMemsetNode(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        params: *const MemsetNode,
        _context: Handle,
    ) {
        // SAFETY: as the caller promises.
        unsafe { add(added, graph, dependencies, count, fill_work(params)?) }
    }

    fn cuGraphAddHostNode(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        params: *const HostNode,
    ) {
        // SAFETY: as the caller promises.
        unsafe { add(added, graph, dependencies, count, call_work(params)?) }
    }

    fn cuGraphAddEmptyNode(added: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize) {
        // SAFETY: as the caller promises.
        unsafe { add(added, graph, dependencies, count, Work::Sequence(Vec::new())) }
    }

    fn cuGraphAddChildGraphNode(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        child: Handle,
    ) {
        // SAFETY: as the caller promises.
        unsafe { add(added, graph, dependencies, count, graph_work(child)?) }
    }

    fn cuGraphAddEventRecordNode(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        event: Handle,
    ) {
        // SAFETY: as the caller promises.
        unsafe { add(added, graph, dependencies, count, record_work(event)?) }
    }

    fn cuGraphAddEventWaitNode(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        event: Handle,
    ) {
        // SAFETY: as the caller promises.
        unsafe { add(added, graph, dependencies, count, wait_work(event)?) }
    }

    fn cuGraphAddMemAllocNode(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        params: *mut AllocationParams,
    ) {
        // SAFETY: as the caller promises.
        unsafe { add(added, graph, dependencies, count, allocate_work(params)?) }
    }

    fn cuGraphAddMemFreeNode(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        pointer: Pointer,
    ) {
        // SAFETY: as the caller promises.
        unsafe { add(added, graph, dependencies, count, Work::Free(pointer)) }
    }

    fn cuGraphAddNode_v2(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        _edges: *const c_void,
        count: usize,
        params: *mut NodeParams,
    ) {
        // SAFETY: as the caller promises.
        unsafe { add(added, graph, dependencies, count, work_of_driver(params)?) }
    }

    fn cuGraphNodeSetParams(node: Handle, params: *mut NodeParams) {
        // SAFETY: as the caller promises.
        set(node, unsafe { work_of_driver(params)? })
    }

    fn cuGraphExecNodeSetParams(executable: Handle, node: Handle, params: *mut NodeParams) {
        // SAFETY: as the caller promises.
        set_in(executable, node, unsafe { work_of_driver(params)? })
    }

    fn cuGraphKernelNodeGetParams(node: Handle, params: *mut [u64; 7]) {
        let all = launch_params(node)?;
        // SAFETY: a place of the caller's, for what the versions have in common.
        unsafe { put(params, (&raw const all).cast::<[u64; 7]>().read()) }
    }

    fn cuGraphKernelNodeGetParams_v2(node: Handle, params: *mut KernelNode) {
        // SAFETY: a place of the caller's.
        unsafe { put(params, launch_params(node)?) }
    }

    fn cuGraphKernelNodeGetAttribute(node: Handle, id: c_int, value: *mut [u32; 16]) {
        let Work::Launch { config, .. } = work(node)? else { return Err(Code::INVALID_VALUE) };
        let mut found = [0; 16];
        match id {
            launch_attribute::COOPERATIVE => found[0] = config.cooperative.into(),
            launch_attribute::CLUSTER_DIMENSION => found[..3].copy_from_slice(&config.cluster.unwrap_or_default()),
            _ => {}
        }
        // SAFETY: a place of the caller's.
        unsafe { put(value, found) }
    }

    fn cuGraphKernelNodeSetAttribute(node: Handle, id: c_int, value: *const [u32; 16]) {
        // SAFETY: as the caller promises.
        let value = *unsafe { value.as_ref() }.ok_or(Code::INVALID_VALUE)?;
        with_node(graph_of(node), node, |node| {
            let Work::Launch { config, .. } = &mut node.work else { return Err(Code::INVALID_VALUE) };
            apply(&[LaunchAttribute { id, pad: [0; 4], value }], config);
            Ok(())
        })
    }

    fn cuGraphKernelNodeCopyAttributes(to: Handle, from: Handle) {
        let Work::Launch { config: source, .. } = work(from)? else { return Err(Code::INVALID_VALUE) };
        with_node(graph_of(to), to, |node| {
            let Work::Launch { config, .. } = &mut node.work else { return Err(Code::INVALID_VALUE) };
            (config.cooperative, config.cluster) = (source.cooperative, source.cluster);
            Ok(())
        })
    }

    fn cuGraphMemcpyNodeGetParams(node: Handle, params: *mut Copy3d) {
        // SAFETY: a place of the caller's.
        unsafe { put(params, copy_params(node)?) }
    }

    fn cuGraphMemsetNodeGetParams(node: Handle, params: *mut MemsetNode) {
        let Work::Fill { target, value, element_bytes, width, rows, pitch } = work(node)? else {
            return Err(Code::INVALID_VALUE);
        };
        let element_bytes = element_bytes as c_uint;
        // SAFETY: a place of the caller's.
        unsafe { put(params, MemsetNode { target, pitch, value, element_bytes, width, height: rows }) }
    }

    fn cuGraphHostNodeGetParams(node: Handle, params: *mut HostNode) {
        let Work::Call { function, data } = work(node)? else { return Err(Code::INVALID_VALUE) };
        // SAFETY: a place of the caller's.
        unsafe { put(params, HostNode { function: Some(function), data: data.0.cast() }) }
    }

    fn cuGraphChildGraphNodeGetGraph(node: Handle, graph: *mut Handle) {
        let Work::Graph(child) = work(node)? else { return Err(Code::INVALID_VALUE) };
        // SAFETY: a place of the caller's.
        unsafe { put(graph, child) }
    }

    fn cuGraphMemAllocNodeGetParams(node: Handle, params: *mut AllocationParams) {
        let Work::Allocate { pointer, bytes } = work(node)? else { return Err(Code::INVALID_VALUE) };
        // Pinned memory of device 0.
        let pool = [1, 1 << 32, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        // SAFETY: a place of the caller's.
        unsafe { put(params, AllocationParams { pool, access: std::ptr::null(), access_count: 0, bytes, pointer }) }
    }

    fn cuGraphMemFreeNodeGetParams(node: Handle, pointer: *mut Pointer) {
        let Work::Free(freed) = work(node)? else { return Err(Code::INVALID_VALUE) };
        // SAFETY: a place of the caller's.
        unsafe { put(pointer, freed) }
    }

    fn cuGraphEventRecordNodeGetEvent(node: Handle, event: *mut Handle) {
        // SAFETY: a place of the caller's.
        unsafe { event_of(node, event) }
    }

    fn cuGraphEventWaitNodeGetEvent(node: Handle, event: *mut Handle) {
        // SAFETY: a place of the caller's.
        unsafe { event_of(node, event) }
    }

    fn cuGraphEventRecordNodeSetEvent(node: Handle, event: Handle) {
        set(node, record_work(event)?)
    }

    fn cuGraphEventWaitNodeSetEvent(node: Handle, event: Handle) {
        set(node, wait_work(event)?)
    }

    fn cuGraphExecEventRecordNodeSetEvent(executable: Handle, node: Handle, event: Handle) {
        set_in(executable, node, record_work(event)?)
    }

    fn cuGraphExecEventWaitNodeSetEvent(executable: Handle, node: Handle, event: Handle) {
        set_in(executable, node, wait_work(event)?)
    }

    fn cuGraphKernelNodeSetParams_v2(node: Handle, params: *const KernelNode) also cuGraphKernelNodeSetParams {
        // SAFETY: as the caller promises.
        set(node, unsafe { of_node(params)? })
    }

    fn cuGraphMemcpyNodeSetParams(node: Handle, params: *const Copy3d) {
        // SAFETY: as the caller promises.
        set(node, unsafe { copy_3d(params)? })
    }

    fn cuGraphMemsetNodeSetParams(node: Handle, params: *const MemsetNode) {
        // SAFETY: as the caller promises.
        set(node, unsafe { fill_work(params)? })
    }

    fn cuGraphHostNodeSetParams(node: Handle, params: *const HostNode) {
        // SAFETY: as the caller promises.
        set(node, unsafe { call_work(params)? })
    }

    fn cuGraphExecKernelNodeSetParams_v2(executable: Handle, node: Handle, params: *const KernelNode) also cuGraphExecKernelNodeSetParams {
        // SAFETY: as the caller promises.
        set_in(executable, node, unsafe { of_node(params)? })
    }

    fn cuGraphExecMemcpyNodeSetParams(executable: Handle, node: Handle, params: *const Copy3d, _context: Handle) {
        // SAFETY: as the caller promises.
        set_in(executable, node, unsafe { copy_3d(params)? })
    }

    fn cuGraphExecMemsetNodeSetParams(executable: Handle, node: Handle, params: *const MemsetNode, _context: Handle) {
        // SAFETY: as the caller promises.
        set_in(executable, node, unsafe { fill_work(params)? })
    }

    fn cuGraphExecHostNodeSetParams(executable: Handle, node: Handle, params: *const HostNode) {
        // SAFETY: as the caller promises.
        set_in(executable, node, unsafe { call_work(params)? })
    }

    fn cuGraphExecChildGraphNodeSetParams(executable: Handle, node: Handle, child: Handle) {
        set_in(executable, node, graph_work(child)?)
    }

    fn cuGraphNodeSetEnabled(executable: Handle, node: Handle, enabled: c_uint) {
        with_node(executable, node, |node| {
            node.enabled = enabled != 0;
            Ok(())
        })
    }

    fn cuGraphNodeGetEnabled(executable: Handle, node: Handle, enabled: *mut c_uint) {
        // SAFETY: a place of the caller's.
        unsafe { put(enabled, with_node(executable, node, |node| Ok(node.enabled))?.into()) }
    }

    fn cuGraphNodeGetType(node: Handle, kind: *mut c_int) {
        // SAFETY: a place of the caller's.
        unsafe { put(kind, type_of(&work(node)?)) }
    }

    fn cuGraphAddNode(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        params: *mut NodeParams,
    ) {
        // SAFETY: as the caller promises.
        unsafe { add(added, graph, dependencies, count, work_of_driver(params)?) }
    }
}

// Layouts that programs rely on, by `cuda.h` on a 64-bit machine.
const _: () = assert!(size_of::<NodeParams>() == 256 && size_of::<AllocationParams>() == 120);
