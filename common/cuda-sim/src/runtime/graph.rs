//! Graphs.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::execution::Dim3;
use super::memory::{Params3d, copy_3d, from_symbol, run, to_symbol};
use super::registration::{kernel, symbol_of};
use super::{outcome, runtime, same_as_driver};
use crate::abi::{Code, Handle, KernelNode, MemsetNode, Outcome, Pointer};
use crate::api::put;
use crate::driver::graph::*;
use crate::driver::graph_node::*;
use crate::driver::launch::of_node;
use crate::driver::user_object::*;
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
unsafe fn work_of_runtime(params: *mut NodeParams) -> Outcome<Work> {
    // SAFETY: as the caller promises.
    unsafe { work_of(params, |params| launch_work(params.cast()), |params| copy_3d(params.cast())) }
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

    fn cudaGraphAddNode(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        _edges: *const c_void,
        count: usize,
        params: *mut NodeParams,
    ) also cudaGraphAddNode_v2 {
        // SAFETY: as the caller promises.
        unsafe { add(added, graph, dependencies, count, work_of_runtime(params)?) }
    }

    fn cudaGraphNodeSetParams(node: Handle, params: *mut NodeParams) {
        // SAFETY: as the caller promises.
        set(node, unsafe { work_of_runtime(params)? })
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

    fn cudaGraphExecNodeSetParams(executable: Handle, node: Handle, params: *mut NodeParams) {
        // SAFETY: as the caller promises.
        set_in(executable, node, unsafe { work_of_runtime(params)? })
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

    fn cudaGraphMemcpyNodeSetParamsToSymbol(
        node: Handle,
        symbol: *const c_void,
        from: Pointer,
        bytes: usize,
        offset: usize,
        kind: c_int,
    ) {
        set(node, to_symbol(symbol, from, bytes, offset, kind)?)
    }

    fn cudaGraphMemcpyNodeSetParamsFromSymbol(
        node: Handle,
        to: Pointer,
        symbol: *const c_void,
        bytes: usize,
        offset: usize,
        kind: c_int,
    ) {
        set(node, from_symbol(to, symbol, bytes, offset, kind)?)
    }

    fn cudaGraphKernelNodeGetParams(node: Handle, params: *mut KernelParams) {
        let KernelNode { function, grid, block, shared_bytes, params: values, extra, .. } = launch_params(node)?;
        let address = symbol_of(function)?;
        let (grid, block) = (grid.into(), block.into());
        // SAFETY: a place of the caller's.
        unsafe { put(params, KernelParams { address, grid, block, shared_bytes, params: values, extra }) }
    }

    fn cudaGraphMemcpyNodeGetParams(node: Handle, params: *mut Params3d) {
        // SAFETY: a place of the caller's.
        unsafe { put(params, Params3d::of(&copy_params(node)?)?) }
    }

    fn cudaGraphConditionalHandleCreate(condition: *mut Pointer, graph: Handle, default: c_uint, flags: c_uint) {
        // SAFETY: as the caller promises.
        outcome(unsafe { cuGraphConditionalHandleCreate(condition, graph, 0, default, flags) })
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
    fn cudaGraphDestroyNode(node: Handle) = cuGraphDestroyNode;
    fn cudaGraphAddEventRecordNode(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        event: Handle,
    ) = cuGraphAddEventRecordNode;
    fn cudaGraphAddEventWaitNode(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        event: Handle,
    ) = cuGraphAddEventWaitNode;
    fn cudaGraphAddMemAllocNode(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        params: *mut AllocationParams,
    ) = cuGraphAddMemAllocNode;
    fn cudaGraphAddMemFreeNode(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        pointer: Pointer,
    ) = cuGraphAddMemFreeNode;
    fn cudaGraphKernelNodeGetAttribute(node: Handle, id: c_int, value: *mut [u32; 16]) = cuGraphKernelNodeGetAttribute;
    fn cudaGraphKernelNodeSetAttribute(node: Handle, id: c_int, value: *const [u32; 16]) =
        cuGraphKernelNodeSetAttribute;
    fn cudaGraphKernelNodeCopyAttributes(to: Handle, from: Handle) = cuGraphKernelNodeCopyAttributes;
    fn cudaGraphMemsetNodeGetParams(node: Handle, params: *mut MemsetNode) = cuGraphMemsetNodeGetParams;
    fn cudaGraphHostNodeGetParams(node: Handle, params: *mut HostNode) = cuGraphHostNodeGetParams;
    fn cudaGraphChildGraphNodeGetGraph(node: Handle, graph: *mut Handle) = cuGraphChildGraphNodeGetGraph;
    fn cudaGraphMemAllocNodeGetParams(node: Handle, params: *mut AllocationParams) = cuGraphMemAllocNodeGetParams;
    fn cudaGraphMemFreeNodeGetParams(node: Handle, pointer: *mut Pointer) = cuGraphMemFreeNodeGetParams;
    fn cudaGraphEventRecordNodeGetEvent(node: Handle, event: *mut Handle) = cuGraphEventRecordNodeGetEvent;
    fn cudaGraphEventWaitNodeGetEvent(node: Handle, event: *mut Handle) = cuGraphEventWaitNodeGetEvent;
    fn cudaGraphEventRecordNodeSetEvent(node: Handle, event: Handle) = cuGraphEventRecordNodeSetEvent;
    fn cudaGraphEventWaitNodeSetEvent(node: Handle, event: Handle) = cuGraphEventWaitNodeSetEvent;
    fn cudaGraphExecEventRecordNodeSetEvent(executable: Handle, node: Handle, event: Handle) =
        cuGraphExecEventRecordNodeSetEvent;
    fn cudaGraphExecEventWaitNodeSetEvent(executable: Handle, node: Handle, event: Handle) =
        cuGraphExecEventWaitNodeSetEvent;
    fn cudaGraphExecGetFlags(executable: Handle, flags: *mut u64) = cuGraphExecGetFlags;
    fn cudaUserObjectCreate(
        object: *mut Handle,
        data: *mut c_void,
        destroy: unsafe extern "C" fn(*mut c_void),
        references: c_uint,
        flags: c_uint,
    ) = cuUserObjectCreate;
    fn cudaUserObjectRetain(object: Handle, count: c_uint) = cuUserObjectRetain;
    fn cudaUserObjectRelease(object: Handle, count: c_uint) = cuUserObjectRelease;
    fn cudaGraphRetainUserObject(graph: Handle, object: Handle, count: c_uint, flags: c_uint) =
        cuGraphRetainUserObject;
    fn cudaGraphReleaseUserObject(graph: Handle, object: Handle, count: c_uint) = cuGraphReleaseUserObject;
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
    fn cudaGraphDebugDotPrint(graph: Handle, path: *const c_char, flags: c_uint) = cuGraphDebugDotPrint;
    fn cudaGraphExecDestroy(executable: Handle) = cuGraphExecDestroy;
    fn cudaGraphExecUpdate(executable: Handle, graph: Handle, info: *mut UpdateResult) = cuGraphExecUpdate_v2;
    fn cudaGraphUpload(executable: Handle, stream: Handle) also cudaGraphUpload_ptsz = cuGraphUpload;
    fn cudaGraphLaunch(executable: Handle, stream: Handle) also cudaGraphLaunch_ptsz = cuGraphLaunch;
}

// Layouts that programs rely on, by `driver_types.h` on a 64-bit machine.
const _: () = assert!(size_of::<KernelParams>() == 56);
