//! Graphs.

use std::ffi::{c_int, c_uint, c_void};

use super::execution::Dim3;
use super::memory::{Params3d, copy_3d, from_symbol, run, to_symbol};
use super::registration::kernel;
use super::{runtime, same_as_driver};
use crate::abi::{Code, Handle, KernelNode, MemsetNode, Outcome, Pointer};
use crate::driver::graph::*;
use crate::driver::launch::of_node;
use crate::driver::memory::allocate_for_graph;
use crate::work::Work;

/// `cudaKernelNodeParams`
#[derive(Clone, Copy)]
#[repr(C)]
struct KernelParams {
    address: *const c_void,
    grid: Dim3,
    block: Dim3,
    shared_bytes: c_uint,
    params: *const *const c_void,
    extra: *const *const c_void,
}

/// `cudaGraphNodeParams`: a `cudaGraphNodeType`, and the parameters of such a node.
#[repr(C)]
struct NodeParams {
    node_type: c_int,
    reserved: [c_int; 3],
    params: [u64; 30],
}

/// `cudaMemAllocNodeParams`
#[repr(C)]
struct AllocationParams {
    pool: [u64; 11],
    access: *const c_void,
    access_count: usize,
    bytes: usize,
    pointer: Pointer,
}

/// The work of a node that launches.
///
/// # Safety
/// `params` is null or valid.
unsafe fn launch_work(params: *const KernelParams) -> Outcome<Work> {
    // SAFETY: as the caller promises.
    let node = *unsafe { params.as_ref() }.ok_or(Code::INVALID_VALUE)?;
    let node = KernelNode {
        function: kernel(node.address)?,
        grid: node.grid.into(),
        block: node.block.into(),
        shared_bytes: node.shared_bytes,
        params: node.params,
        extra: node.extra,
        kernel: 0,
        context: 0,
    };
    // SAFETY: as the caller promises.
    unsafe { of_node(&raw const node) }
}

/// The work of a node of any type.
///
/// # Safety
/// `params` is null or valid.
unsafe fn work_of(params: *const NodeParams) -> Outcome<Work> {
    // SAFETY: as the caller promises, and by its type.
    unsafe {
        let node = params.as_ref().ok_or(Code::INVALID_VALUE)?;
        let params = node.params.as_ptr();
        match node.node_type {
            0 => launch_work(params.cast()),
            // Flags come before the copy.
            1 => copy_3d(params.add(2).cast()),
            2 => fill_work(params.cast()),
            3 => call_work(params.cast()),
            4 => graph_work(params.cast::<Handle>().read()),
            5 => Ok(Work::Sequence(Vec::new())),
            _ => Err(Code::NOT_SUPPORTED),
        }
    }
}

runtime! {
    fn cudaGraphAddKernelNode(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        params: *const KernelParams,
    ) {
        // SAFETY: as the caller promises.
        unsafe { add(added, graph, dependencies, count, launch_work(params)?) }
    }

    fn cudaGraphAddMemcpyNode(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        params: *const Params3d,
    ) {
        // SAFETY: as the caller promises.
        unsafe { add(added, graph, dependencies, count, copy_3d(params)?) }
    }

    fn cudaGraphAddMemcpyNode1D(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        to: Pointer,
        from: Pointer,
        bytes: usize,
        kind: c_int,
    ) {
        // SAFETY: as the caller promises.
        unsafe { add(added, graph, dependencies, count, run(to, from, bytes, kind)?) }
    }

    fn cudaGraphAddMemcpyNodeToSymbol(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        symbol: *const c_void,
        from: Pointer,
        bytes: usize,
        offset: usize,
        kind: c_int,
    ) {
        // SAFETY: as the caller promises.
        unsafe { add(added, graph, dependencies, count, to_symbol(symbol, from, bytes, offset, kind)?) }
    }

    fn cudaGraphAddMemcpyNodeFromSymbol(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        to: Pointer,
        symbol: *const c_void,
        bytes: usize,
        offset: usize,
        kind: c_int,
    ) {
        // SAFETY: as the caller promises.
        unsafe { add(added, graph, dependencies, count, from_symbol(to, symbol, bytes, offset, kind)?) }
    }

    fn cudaGraphAddMemsetNode(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        params: *const MemsetNode,
    ) {
        // SAFETY: as the caller promises.
        unsafe { add(added, graph, dependencies, count, fill_work(params)?) }
    }

    fn cudaGraphAddMemAllocNode(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        params: *mut AllocationParams,
    ) {
        // SAFETY: as the caller promises.
        unsafe {
            let params = params.as_mut().ok_or(Code::INVALID_VALUE)?;
            params.pointer = allocate_for_graph(params.bytes)?;
            add(added, graph, dependencies, count, Work::Sequence(Vec::new()))
        }
    }

    fn cudaGraphAddMemFreeNode(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        _pointer: Pointer,
    ) {
        // SAFETY: as the caller promises.
        unsafe { add(added, graph, dependencies, count, Work::Sequence(Vec::new())) }
    }

    fn cudaGraphAddNode(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        _edges: *const c_void,
        count: usize,
        params: *const NodeParams,
    ) also cudaGraphAddNode_v2 {
        // SAFETY: as the caller promises.
        unsafe { add(added, graph, dependencies, count, work_of(params)?) }
    }

    fn cudaGraphNodeSetParams(node: Handle, params: *const NodeParams) {
        // SAFETY: as the caller promises.
        set(node, unsafe { work_of(params)? })
    }

    fn cudaGraphKernelNodeSetParams(node: Handle, params: *const KernelParams) {
        // SAFETY: as the caller promises.
        set(node, unsafe { launch_work(params)? })
    }

    fn cudaGraphMemcpyNodeSetParams(node: Handle, params: *const Params3d) {
        // SAFETY: as the caller promises.
        set(node, unsafe { copy_3d(params)? })
    }

    fn cudaGraphMemcpyNodeSetParams1D(node: Handle, to: Pointer, from: Pointer, bytes: usize, kind: c_int) {
        set(node, run(to, from, bytes, kind)?)
    }

    fn cudaGraphExecNodeSetParams(executable: Handle, node: Handle, params: *const NodeParams) {
        // SAFETY: as the caller promises.
        set_in(executable, node, unsafe { work_of(params)? })
    }

    fn cudaGraphExecKernelNodeSetParams(executable: Handle, node: Handle, params: *const KernelParams) {
        // SAFETY: as the caller promises.
        set_in(executable, node, unsafe { launch_work(params)? })
    }

    fn cudaGraphExecMemcpyNodeSetParams(executable: Handle, node: Handle, params: *const Params3d) {
        // SAFETY: as the caller promises.
        set_in(executable, node, unsafe { copy_3d(params)? })
    }

    fn cudaGraphExecMemcpyNodeSetParams1D(
        executable: Handle,
        node: Handle,
        to: Pointer,
        from: Pointer,
        bytes: usize,
        kind: c_int,
    ) {
        set_in(executable, node, run(to, from, bytes, kind)?)
    }

    fn cudaGraphExecMemcpyNodeSetParamsToSymbol(
        executable: Handle,
        node: Handle,
        symbol: *const c_void,
        from: Pointer,
        bytes: usize,
        offset: usize,
        kind: c_int,
    ) {
        set_in(executable, node, to_symbol(symbol, from, bytes, offset, kind)?)
    }

    fn cudaGraphExecMemcpyNodeSetParamsFromSymbol(
        executable: Handle,
        node: Handle,
        to: Pointer,
        symbol: *const c_void,
        bytes: usize,
        offset: usize,
        kind: c_int,
    ) {
        set_in(executable, node, from_symbol(to, symbol, bytes, offset, kind)?)
    }

    fn cudaGraphExecMemsetNodeSetParams(executable: Handle, node: Handle, params: *const MemsetNode) {
        // SAFETY: as the caller promises.
        set_in(executable, node, unsafe { fill_work(params)? })
    }
}

same_as_driver! {
    fn cudaGraphCreate(graph: *mut Handle, flags: c_uint) = cuGraphCreate;
    fn cudaGraphDestroy(graph: Handle) = cuGraphDestroy;
    fn cudaGraphClone(clone: *mut Handle, graph: Handle) = cuGraphClone;
    fn cudaGraphNodeFindInClone(found: *mut Handle, node: Handle, clone: Handle) = cuGraphNodeFindInClone;
    fn cudaGraphAddHostNode(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        params: *const HostNode,
    ) = cuGraphAddHostNode;
    fn cudaGraphAddEmptyNode(added: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize) =
        cuGraphAddEmptyNode;
    fn cudaGraphAddChildGraphNode(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        child: Handle,
    ) = cuGraphAddChildGraphNode;
    fn cudaGraphMemsetNodeSetParams(node: Handle, params: *const MemsetNode) = cuGraphMemsetNodeSetParams;
    fn cudaGraphHostNodeSetParams(node: Handle, params: *const HostNode) = cuGraphHostNodeSetParams;
    fn cudaGraphExecHostNodeSetParams(executable: Handle, node: Handle, params: *const HostNode) =
        cuGraphExecHostNodeSetParams;
    fn cudaGraphExecChildGraphNodeSetParams(executable: Handle, node: Handle, child: Handle) =
        cuGraphExecChildGraphNodeSetParams;
    fn cudaGraphNodeSetEnabled(executable: Handle, node: Handle, enabled: c_uint) = cuGraphNodeSetEnabled;
    fn cudaGraphNodeGetEnabled(executable: Handle, node: Handle, enabled: *mut c_uint) = cuGraphNodeGetEnabled;
    fn cudaGraphAddDependencies(
        graph: Handle,
        from: *const Handle,
        to: *const Handle,
        edges: *const c_void,
        count: usize,
    ) also cudaGraphAddDependencies_v2 = cuGraphAddDependencies_v2;
    fn cudaGraphRemoveDependencies(
        graph: Handle,
        from: *const Handle,
        to: *const Handle,
        edges: *const c_void,
        count: usize,
    ) also cudaGraphRemoveDependencies_v2 = cuGraphRemoveDependencies_v2;
    fn cudaGraphGetNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) = cuGraphGetNodes;
    fn cudaGraphGetRootNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) = cuGraphGetRootNodes;
    fn cudaGraphGetEdges(graph: Handle, from: *mut Handle, to: *mut Handle, edges: *mut c_void, count: *mut usize)
        also cudaGraphGetEdges_v2 =
        cuGraphGetEdges_v2;
    fn cudaGraphNodeGetDependencies(node: Handle, nodes: *mut Handle, edges: *mut c_void, count: *mut usize)
        also cudaGraphNodeGetDependencies_v2 =
        cuGraphNodeGetDependencies_v2;
    fn cudaGraphNodeGetDependentNodes(node: Handle, nodes: *mut Handle, edges: *mut c_void, count: *mut usize)
        also cudaGraphNodeGetDependentNodes_v2 =
        cuGraphNodeGetDependentNodes_v2;
    fn cudaGraphNodeGetType(node: Handle, kind: *mut c_int) = cuGraphNodeGetType;
    fn cudaGraphInstantiate(executable: *mut Handle, graph: Handle, flags: u64) also cudaGraphInstantiateWithFlags =
        cuGraphInstantiateWithFlags;
    fn cudaGraphInstantiateWithParams(executable: *mut Handle, graph: Handle, params: *mut Instantiation) also
        cudaGraphInstantiateWithParams_ptsz = cuGraphInstantiateWithParams;
    fn cudaGraphExecDestroy(executable: Handle) = cuGraphExecDestroy;
    fn cudaGraphExecUpdate(executable: Handle, graph: Handle, info: *mut UpdateResult) = cuGraphExecUpdate_v2;
    fn cudaGraphUpload(executable: Handle, stream: Handle) also cudaGraphUpload_ptsz = cuGraphUpload;
    fn cudaGraphLaunch(executable: Handle, stream: Handle) also cudaGraphLaunch_ptsz = cuGraphLaunch;
}

// Layouts that programs rely on, by `driver_types.h` on a 64-bit machine.
const _: () = assert!(size_of::<KernelParams>() == 56 && size_of::<NodeParams>() == 256);
const _: () = assert!(size_of::<AllocationParams>() == 120);
