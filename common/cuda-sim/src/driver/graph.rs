//! Graphs: work recorded once and launched often.
//!
//! A node is named by the position of its work. Nodes are done in the order in which they were added; dependencies that would need
//! another order are refused.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::{Arc, Mutex};

use super::launch::of_node;
use super::memory::planes;
use crate::abi::{Code, Copy3d, Handle, KernelNode, MemsetNode, Outcome};
use crate::api::{exported, put, put_if_wanted, slice};
use crate::queue::submit;
use crate::state::{Graph, context, locked, state};
use crate::work::Work;

/// `CUgraphNodeType`.
const KERNEL: c_int = 0;
const MEMCPY: c_int = 1;
const MEMSET: c_int = 2;
const HOST: c_int = 3;

/// Handle of a node: its graph's, with the node's number in the upper half.
fn node(graph: Handle, at: usize) -> Handle {
    graph | (at + 1) << 32
}

/// The graph of a node, and its position.
fn place(node: Handle) -> Outcome<(Arc<Graph>, usize)> {
    let graph = state()?.graphs.get(node & 0xffff_ffff)?;
    let at = (node >> 32).checked_sub(1).ok_or(Code::INVALID_HANDLE)?;
    if at < locked(&graph.0).len() { Ok((graph, at)) } else { Err(Code::INVALID_HANDLE) }
}

/// Adds a node after those that it depends on.
///
/// # Safety
/// `dependencies` are as `cuGraphAddNode` takes them; `added` is null or valid.
unsafe fn add(added: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize, work: Work) -> Outcome {
    // SAFETY: as the caller promises.
    for dependency in unsafe { slice(dependencies, count)? } {
        place(*dependency)?;
    }
    let found = state()?.graphs.get(graph)?;
    let mut nodes = locked(&found.0);
    nodes.push(work);
    // SAFETY: as the caller promises.
    unsafe { put(added, node(graph, nodes.len() - 1)) }
}

/// # Safety
/// `from` and `to` have `count` nodes.
unsafe fn depend(from: *const Handle, to: *const Handle, count: usize) -> Outcome {
    // SAFETY: as the caller promises.
    let (from, to) = unsafe { (slice(from, count)?, slice(to, count)?) };
    from.iter().zip(to).try_for_each(|(from, to)| {
        let ((_, first), (_, second)) = (place(*from)?, place(*to)?);
        if first < second { Ok(()) } else { Err(Code::NOT_SUPPORTED) }
    })
}

/// A copy of a graph, ready to be launched.
///
/// # Safety
/// `executable` is null or valid.
unsafe fn instantiate(executable: *mut Handle, graph: Handle) -> Outcome {
    context()?;
    let state = state()?;
    let nodes = locked(&state.graphs.get(graph)?.0).clone();
    // SAFETY: as the caller promises.
    unsafe { put(executable, state.graphs.add(Graph(Mutex::new(nodes)))) }
}

/// `CUgraphExecUpdateResultInfo`.
#[repr(C)]
pub(crate) struct UpdateResult {
    result: c_int,
    error_node: Handle,
    error_from: Handle,
}

exported! {
    fn cuGraphCreate(graph: *mut Handle, _flags: c_uint) {
        context()?;
        // SAFETY: a place of the caller's.
        unsafe { put(graph, state()?.graphs.add(Graph::default())) }
    }

    fn cuGraphDestroy(graph: Handle) {
        state()?.graphs.remove(graph).map(|_| ())
    }

    fn cuGraphAddKernelNode_v2(
        added: *mut Handle,
        graph: Handle,
        dependencies: *const Handle,
        count: usize,
        params: *const KernelNode,
    ) {
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
        unsafe {
            let mut planes = planes(params.as_ref().ok_or(Code::INVALID_VALUE)?)?;
            match (planes.pop(), planes.is_empty()) {
                (Some(plane), true) => add(added, graph, dependencies, count, plane),
                _ => Err(Code::NOT_SUPPORTED),
            }
        }
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
        unsafe {
            let node = params.as_ref().ok_or(Code::INVALID_VALUE)?;
            let work = Work::Fill {
                target: node.target,
                value: node.value,
                element_bytes: node.element_bytes as usize,
                width: node.width,
                rows: node.height,
                pitch: node.pitch,
            };
            if !matches!(node.element_bytes, 1 | 2 | 4) {
                return Err(Code::INVALID_VALUE);
            }
            add(added, graph, dependencies, count, work)
        }
    }

    fn cuGraphAddDependencies(_graph: Handle, from: *const Handle, to: *const Handle, count: usize) {
        // SAFETY: as the caller promises.
        unsafe { depend(from, to, count) }
    }

    fn cuGraphAddDependencies_v2(
        _graph: Handle,
        from: *const Handle,
        to: *const Handle,
        _edges: *const c_void,
        count: usize,
    ) {
        // SAFETY: as the caller promises.
        unsafe { depend(from, to, count) }
    }

    fn cuGraphGetNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) {
        let found = locked(&state()?.graphs.get(graph)?.0).len();
        // SAFETY: the caller's array has as many places as `count` says.
        unsafe {
            if !nodes.is_null() {
                let room = *count.as_ref().ok_or(Code::INVALID_VALUE)?;
                (0..found.min(room)).try_for_each(|at| put(nodes.add(at), node(graph, at)))?;
            }
            put(count, found)
        }
    }

    fn cuGraphNodeGetType(node: Handle, kind: *mut c_int) {
        let (graph, at) = place(node)?;
        let found = match &locked(&graph.0)[at] {
            Work::Launch { .. } => KERNEL,
            Work::Copy { .. } => MEMCPY,
            Work::Fill { .. } => MEMSET,
            Work::Call { .. } => HOST,
        };
        // SAFETY: a place of the caller's.
        unsafe { put(kind, found) }
    }

    fn cuGraphInstantiateWithFlags(executable: *mut Handle, graph: Handle, _flags: u64) {
        // SAFETY: as the caller promises.
        unsafe { instantiate(executable, graph) }
    }

    fn cuGraphInstantiate_v2(
        executable: *mut Handle,
        graph: Handle,
        error_node: *mut Handle,
        _log: *mut c_void,
        _log_bytes: usize,
    ) {
        // SAFETY: as the caller promises.
        unsafe {
            put_if_wanted(error_node, 0);
            instantiate(executable, graph)
        }
    }

    fn cuGraphExecDestroy(executable: Handle) {
        state()?.graphs.remove(executable).map(|_| ())
    }

    fn cuGraphExecUpdate_v2(executable: Handle, graph: Handle, info: *mut UpdateResult) {
        let state = state()?;
        let nodes = locked(&state.graphs.get(graph)?.0).clone();
        let target = state.graphs.get(executable)?;
        let mut old = locked(&target.0);
        let alike = |(old, new): (&Work, &Work)| std::mem::discriminant(old) == std::mem::discriminant(new);
        // CU_GRAPH_EXEC_UPDATE_SUCCESS and CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED.
        let result = if nodes.len() == old.len() && old.iter().zip(&nodes).all(alike) { 0 } else { 2 };
        // SAFETY: null or a place of the caller's.
        unsafe { put_if_wanted(info, UpdateResult { result, error_node: 0, error_from: 0 }) };
        if result != 0 {
            return Err(Code::GRAPH_EXEC_UPDATE_FAILURE);
        }
        *old = nodes;
        Ok(())
    }

    fn cuGraphUpload(executable: Handle, _stream: Handle) {
        state()?.graphs.get(executable).map(|_| ())
    }

    fn cuGraphLaunch(executable: Handle, stream: Handle) {
        let nodes = locked(&state()?.graphs.get(executable)?.0).clone();
        nodes.into_iter().try_for_each(|work| submit(stream, work))
    }
}
