//! Graphs: work recorded once and launched often.
//!
//! A node is named by its graph and its number there. A graph that is made ready to be launched keeps the numbers, so the node of
//! either names the node of both.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::{Arc, Mutex};

use super::launch::of_node;
use super::memory::copy_3d;
use crate::abi::{Code, Copy3d, Handle, KernelNode, MemsetNode, Outcome};
use crate::api::{exported, put, put_if_wanted, slice};
use crate::queue::submit;
use crate::state::{Graph, Node, context, locked, state};
use crate::work::{Host, Work};

/// `CUgraphNodeType`
mod node_type {
    use std::ffi::c_int;

    pub(super) const KERNEL: c_int = 0;
    pub(super) const MEMCPY: c_int = 1;
    pub(super) const MEMSET: c_int = 2;
    pub(super) const HOST: c_int = 3;
    pub(super) const GRAPH: c_int = 4;
    pub(super) const EMPTY: c_int = 5;
}

impl Graph {
    /// Adds work after all that is there.
    pub(crate) fn record(&self, work: Work) {
        let mut nodes = locked(&self.0);
        let after = nodes.len().checked_sub(1).into_iter().collect();
        nodes.push(Node { work, after, enabled: true });
    }

    /// All work, in an order that the dependencies allow; `None` if they form a circle.
    fn order(&self) -> Option<Vec<Work>> {
        let nodes = locked(&self.0);
        let (mut done, mut works) = (vec![false; nodes.len()], Vec::with_capacity(nodes.len()));
        while done.contains(&false) {
            let before = done.iter().filter(|done| **done).count();
            for (at, node) in nodes.iter().enumerate() {
                if !done[at] && node.after.iter().all(|other| done[*other]) {
                    done[at] = true;
                    works.extend(node.enabled.then(|| node.work.clone()));
                }
            }
            if done.iter().filter(|done| **done).count() == before {
                return None;
            }
        }
        Some(works)
    }
}

/// Handle of a node: its graph's, with the node's number in the upper half.
fn handle(graph: Handle, at: usize) -> Handle {
    graph | (at + 1) << 32
}

/// The graph of a node, and its number.
fn place(node: Handle) -> Outcome<(Arc<Graph>, usize)> {
    let graph = state()?.graphs.get(node & 0xffff_ffff)?;
    let at = number(&graph, node)?;
    Ok((graph, at))
}

/// The number of a node, of a graph or of the one that it was made of.
fn number(graph: &Graph, node: Handle) -> Outcome<usize> {
    let at = (node >> 32).checked_sub(1).ok_or(Code::INVALID_HANDLE)?;
    if at < locked(&graph.0).len() { Ok(at) } else { Err(Code::INVALID_HANDLE) }
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
    let dependencies = unsafe { slice(dependencies, count)? };
    let after = dependencies.iter().map(|node| place(*node).map(|(_, at)| at)).collect::<Outcome<_>>()?;
    let found = state()?.graphs.get(graph)?;
    let mut nodes = locked(&found.0);
    nodes.push(Node { work, after, enabled: true });
    // SAFETY: as the caller promises.
    unsafe { put(added, handle(graph, nodes.len() - 1)) }
}

/// Changes the work of a node in its graph.
pub(crate) fn set(node: Handle, work: Work) -> Outcome {
    set_in(node & 0xffff_ffff, node, work)
}

/// Changes the work of a node in a graph that is ready to be launched.
pub(crate) fn set_in(graph: Handle, node: Handle, work: Work) -> Outcome {
    let graph = state()?.graphs.get(graph)?;
    let at = number(&graph, node)?;
    let old = &mut locked(&graph.0)[at].work;
    if type_of(old) != type_of(&work) {
        return Err(Code::INVALID_VALUE);
    }
    *old = work;
    Ok(())
}

fn type_of(work: &Work) -> c_int {
    match work {
        Work::Launch { .. } => node_type::KERNEL,
        Work::Copy { .. } => node_type::MEMCPY,
        Work::Fill { .. } => node_type::MEMSET,
        Work::Call { .. } => node_type::HOST,
        Work::Sequence(works) if works.is_empty() => node_type::EMPTY,
        Work::Sequence(_) | Work::Free(_) | Work::Record(_) => node_type::GRAPH,
    }
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
    Ok(Work::Sequence(state()?.graphs.get(graph)?.order().ok_or(Code::INVALID_VALUE)?))
}

/// Adds or removes dependencies, from nodes to those that come after them.
///
/// # Safety
/// `from` and `to` have `count` nodes.
unsafe fn depend(
    from: *const Handle,
    to: *const Handle,
    count: usize,
    change: impl Fn(&mut Vec<usize>, usize),
) -> Outcome {
    // SAFETY: as the caller promises.
    let (from, to) = unsafe { (slice(from, count)?, slice(to, count)?) };
    from.iter().zip(to).try_for_each(|(from, to)| {
        let ((_, first), (graph, second)) = (place(*from)?, place(*to)?);
        change(&mut locked(&graph.0)[second].after, first);
        Ok(())
    })
}

/// A copy of a graph, which may be launched if it has no circles.
///
/// # Safety
/// `copied` is null or valid.
unsafe fn copy(copied: *mut Handle, graph: Handle) -> Outcome {
    context()?;
    let state = state()?;
    let graph = state.graphs.get(graph)?;
    graph.order().ok_or(Code::INVALID_VALUE)?;
    let nodes = locked(&graph.0).clone();
    // SAFETY: as the caller promises.
    unsafe { put(copied, state.graphs.add(Graph(Mutex::new(nodes)))) }
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`: what has an effect is what is written.
#[repr(C)]
pub(crate) struct Instantiation {
    flags: u64,
    upload_stream: Handle,
    error_node: Handle,
    result: c_int,
}

/// Stores as many values as the caller has room for, and their number.
///
/// # Safety
/// `count` is null or valid, and the other pointer is null or has as many places as `count` says.
unsafe fn put_all(places: *mut Handle, count: *mut usize, values: &[Handle]) -> Outcome {
    // SAFETY: as the caller promises.
    unsafe {
        if !places.is_null() {
            let room = *count.as_ref().ok_or(Code::INVALID_VALUE)?;
            values.iter().take(room).enumerate().try_for_each(|(at, value)| put(places.add(at), *value))?;
        }
        put(count, values.len())
    }
}

/// The edges of a graph.
fn edges(graph: Handle) -> Outcome<(Vec<Handle>, Vec<Handle>)> {
    let found = state()?.graphs.get(graph)?;
    let nodes = locked(&found.0);
    let all = nodes.iter().enumerate().flat_map(|(at, node)| node.after.iter().map(move |before| (*before, at)));
    Ok(all.map(|(from, to)| (handle(graph, from), handle(graph, to))).unzip())
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

    fn cuGraphClone(clone: *mut Handle, graph: Handle) {
        // SAFETY: as the caller promises.
        unsafe { copy(clone, graph) }
    }

    fn cuGraphNodeFindInClone(found: *mut Handle, node: Handle, clone: Handle) {
        let at = number(&*state()?.graphs.get(clone)?, node)?;
        // SAFETY: a place of the caller's.
        unsafe { put(found, handle(clone, at)) }
    }

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
        let graph = state()?.graphs.get(executable)?;
        let at = number(&graph, node)?;
        locked(&graph.0)[at].enabled = enabled != 0;
        Ok(())
    }

    fn cuGraphNodeGetEnabled(executable: Handle, node: Handle, enabled: *mut c_uint) {
        let graph = state()?.graphs.get(executable)?;
        let at = number(&graph, node)?;
        // SAFETY: a place of the caller's.
        unsafe { put(enabled, locked(&graph.0)[at].enabled.into()) }
    }

    fn cuGraphAddDependencies(_graph: Handle, from: *const Handle, to: *const Handle, count: usize) {
        // SAFETY: as the caller promises.
        unsafe { depend(from, to, count, |after, node| after.push(node)) }
    }

    fn cuGraphAddDependencies_v2(
        _graph: Handle,
        from: *const Handle,
        to: *const Handle,
        _edges: *const c_void,
        count: usize,
    ) {
        // SAFETY: as the caller promises.
        unsafe { depend(from, to, count, |after, node| after.push(node)) }
    }

    fn cuGraphRemoveDependencies_v2(
        _graph: Handle,
        from: *const Handle,
        to: *const Handle,
        _edges: *const c_void,
        count: usize,
    ) {
        // SAFETY: as the caller promises.
        unsafe { depend(from, to, count, |after, node| after.retain(|known| *known != node)) }
    }

    fn cuGraphGetNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) {
        let found = locked(&state()?.graphs.get(graph)?.0).len();
        let all: Vec<Handle> = (0..found).map(|at| handle(graph, at)).collect();
        // SAFETY: as the caller promises.
        unsafe { put_all(nodes, count, &all) }
    }

    fn cuGraphGetRootNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) {
        let found = state()?.graphs.get(graph)?;
        let roots: Vec<Handle> = {
            let nodes = locked(&found.0);
            let roots = nodes.iter().enumerate().filter(|(_, node)| node.after.is_empty());
            roots.map(|(at, _)| handle(graph, at)).collect()
        };
        // SAFETY: as the caller promises.
        unsafe { put_all(nodes, count, &roots) }
    }

    fn cuGraphGetEdges_v2(graph: Handle, from: *mut Handle, to: *mut Handle, _edges: *mut c_void, count: *mut usize) {
        let (sources, targets) = edges(graph)?;
        // SAFETY: as the caller promises; both lists have the same room.
        unsafe {
            let room = count.as_ref().copied().ok_or(Code::INVALID_VALUE)?;
            put_all(from, count, &sources)?;
            put(count, room)?;
            put_all(to, count, &targets)
        }
    }

    fn cuGraphNodeGetDependencies_v2(node: Handle, nodes: *mut Handle, _edges: *mut c_void, count: *mut usize) {
        let (from, to) = edges(node & 0xffff_ffff)?;
        let found: Vec<Handle> = from.into_iter().zip(to).filter(|(_, to)| *to == node).map(|(from, _)| from).collect();
        // SAFETY: as the caller promises.
        unsafe { put_all(nodes, count, &found) }
    }

    fn cuGraphNodeGetDependentNodes_v2(node: Handle, nodes: *mut Handle, _edges: *mut c_void, count: *mut usize) {
        let (from, to) = edges(node & 0xffff_ffff)?;
        let found: Vec<Handle> = from.into_iter().zip(to).filter(|(from, _)| *from == node).map(|(_, to)| to).collect();
        // SAFETY: as the caller promises.
        unsafe { put_all(nodes, count, &found) }
    }

    fn cuGraphNodeGetType(node: Handle, kind: *mut c_int) {
        let (graph, at) = place(node)?;
        let found = type_of(&locked(&graph.0)[at].work);
        // SAFETY: a place of the caller's.
        unsafe { put(kind, found) }
    }

    fn cuGraphInstantiateWithFlags(executable: *mut Handle, graph: Handle, _flags: u64) {
        // SAFETY: as the caller promises.
        unsafe { copy(executable, graph) }
    }

    fn cuGraphInstantiateWithParams(executable: *mut Handle, graph: Handle, params: *mut Instantiation) {
        // SAFETY: as the caller promises.
        unsafe {
            let params = params.as_mut().ok_or(Code::INVALID_VALUE)?;
            (params.error_node, params.result) = (0, 0);
            copy(executable, graph)
        }
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
            copy(executable, graph)
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
        let alike = |(old, new): (&Node, &Node)| type_of(&old.work) == type_of(&new.work) && old.after == new.after;
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
        let works = state()?.graphs.get(executable)?.order().ok_or(Code::INVALID_VALUE)?;
        works.into_iter().try_for_each(|work| submit(stream, work))
    }
}
