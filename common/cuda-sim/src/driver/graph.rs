//! Graphs: work recorded once and launched often.

use std::collections::BTreeSet;
use std::ffi::{c_char, c_int, c_uint, c_void};

use ptx_sim::DevicePtr;

use super::graph_node::{name_of, type_of};
use super::memory::allocate;
use crate::abi::{Code, DeviceId, Handle, Outcome, Pointer};
use crate::api::{exported, put, put_if_wanted, slice, text};
use crate::graph::{Graph, Node};
use crate::node::{copied, destroy, end, graph_of, handle, number, with_node};
use crate::queue::{Wanted, finish, launch_graph};
use crate::state::{context, state};
use crate::tell::{locked, refused, say};
use crate::work::Work;

/// Adds or removes dependencies, from nodes to those that come after them.
///
/// # Safety
/// `from` and `to` have `count` nodes.
unsafe fn depend(
    from: *const Handle,
    to: *const Handle,
    count: usize,
    change: impl Fn(&mut BTreeSet<usize>, usize),
) -> Outcome {
    // SAFETY: as the caller promises.
    let (from, to) = unsafe { (slice(from, count)?, slice(to, count)?) };
    from.iter().zip(to).try_for_each(|(from, to)| {
        let first = number(*from)?;
        with_node(graph_of(*to), *to, |node| {
            change(&mut node.after, first);
            Ok(())
        })
    })
}

/// A condition's place in memory, which is its handle.
fn condition(graph: Handle, default: c_uint, flags: c_uint) -> Outcome<Pointer> {
    const ASSIGN_DEFAULT: c_uint = 1;
    let state = state()?;
    let graph = state.graphs.get(graph)?;
    let place = allocate(4)?;
    state.device.fill(DevicePtr(place), 0, 4).map_err(|error| refused(&error))?;
    if flags & ASSIGN_DEFAULT != 0 {
        locked(&graph.conditions).push((place, default));
    }
    Ok(place)
}

/// Refuses what the body of a condition may not have, by `CUDA_CONDITIONAL_NODE_PARAMS` of `cuda.h`.
fn check(graph: Handle, is_body: bool) -> Outcome {
    state()?.graphs.get(graph)?.order()?.iter().try_for_each(|work| match work {
        Work::If { bodies, .. } => bodies.iter().try_for_each(|body| check(*body, true)),
        Work::Graph(child) => check(*child, is_body),
        Work::Launch { .. } | Work::Copy(_) | Work::Fill { .. } | Work::Sequence(_) => Ok(()),
        _ if is_body => {
            say(&format!("a node of the type {} in the body of a condition, where CUDA has none", name_of(work)));
            Err(Code::NOT_SUPPORTED)
        }
        _ => Ok(()),
    })
}

/// A copy of a graph that may be launched.
///
/// # Safety
/// `executable` is null or valid.
unsafe fn instantiate(executable: *mut Handle, graph: Handle, flags: u64) -> Outcome {
    const AUTO_FREE_ON_LAUNCH: u64 = 1;
    const DEVICE_LAUNCH: u64 = 4;
    context()?;
    if flags & DEVICE_LAUNCH != 0 {
        return Err(if flags & AUTO_FREE_ON_LAUNCH != 0 { Code::INVALID_VALUE } else { Code::NOT_SUPPORTED });
    }
    check(graph, false)?;
    // SAFETY: as the caller promises.
    unsafe { put(executable, copied(graph, flags)?) }
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
    let nodes = locked(&found.nodes);
    let all = nodes.iter().flat_map(|(at, node)| node.after.iter().map(move |before| (*before, *at)));
    Ok(all.map(|(from, to)| (handle(graph, from), handle(graph, to))).unzip())
}

/// Stores the edges of a graph, as many as the caller has room for, and their number.
///
/// # Safety
/// As for [`put_all`], with both lists.
unsafe fn put_edges(graph: Handle, from: *mut Handle, to: *mut Handle, count: *mut usize) -> Outcome {
    let (sources, targets) = edges(graph)?;
    // SAFETY: as the caller promises; both lists have the same room.
    unsafe {
        let room = count.as_ref().copied().ok_or(Code::INVALID_VALUE)?;
        put_all(from, count, &sources)?;
        put(count, room)?;
        put_all(to, count, &targets)
    }
}

/// The nodes that a node comes after.
fn before(node: Handle) -> Outcome<Vec<Handle>> {
    let (from, to) = edges(graph_of(node))?;
    Ok(from.into_iter().zip(to).filter(|(_, to)| *to == node).map(|(from, _)| from).collect())
}

/// The nodes that come after a node.
fn after(node: Handle) -> Outcome<Vec<Handle>> {
    let (from, to) = edges(graph_of(node))?;
    Ok(from.into_iter().zip(to).filter(|(from, _)| *from == node).map(|(_, to)| to).collect())
}

/// A graph in the language of Graphviz.
fn dot(graph: Handle) -> Outcome<String> {
    let found = state()?.graphs.get(graph)?;
    let mut text = "digraph dot {\n".to_owned();
    for (at, node) in locked(&found.nodes).iter() {
        text += &format!("  node{at} [label=\"{at}: {}\"];\n", name_of(&node.work));
        node.after.iter().for_each(|before| text += &format!("  node{before} -> node{at};\n"));
    }
    Ok(text + "}\n")
}

/// The nodes of a graph for which a condition holds.
fn nodes(graph: Handle, wanted: impl Fn(&Node) -> bool) -> Outcome<Vec<Handle>> {
    let found = state()?.graphs.get(graph)?;
    let nodes = locked(&found.nodes);
    Ok(nodes.iter().filter(|(_, node)| wanted(node)).map(|(at, _)| handle(graph, *at)).collect())
}

/// `CUgraphExecUpdateResultInfo`.
#[repr(C)]
pub(crate) struct UpdateResult {
    result: c_int,
    error_node: Handle,
    error_from: Handle,
}

/// Gives the nodes of an executable graph the work of another graph of the same shape: how the functions of the API say what came of
/// it, and their result.
fn update(executable: Handle, graph: Handle) -> Outcome<(c_int, Outcome)> {
    const SUCCESS: c_int = 0;
    const TOPOLOGY_CHANGED: c_int = 2;
    let state = state()?;
    let (target, source) = (state.graphs.get(executable)?, state.graphs.get(graph)?);
    source.order()?;
    let shape = |graph: &Graph| {
        let nodes = locked(&graph.nodes);
        let place = |node: &usize| nodes.range(..node).count();
        let each = nodes.values().map(|node| (type_of(&node.work), node.after.iter().map(place).collect::<Vec<_>>()));
        each.collect::<Vec<_>>()
    };
    if shape(&target) != shape(&source) {
        return Ok((TOPOLOGY_CHANGED, Err(Code::GRAPH_EXEC_UPDATE_FAILURE)));
    }
    let copy = copied(graph, 0)?;
    let new: Vec<Node> = std::mem::take(&mut *locked(&state.graphs.get(copy)?.nodes)).into_values().collect();
    destroy(copy)?;
    let mut old = locked(&target.nodes);
    let done = old.values_mut().zip(new).try_for_each(|(old, new)| end(&std::mem::replace(&mut old.work, new.work)));
    Ok((SUCCESS, done))
}

exported! {
    fn cuGraphCreate(graph: *mut Handle, _flags: c_uint) {
        context()?;
        // SAFETY: a place of the caller's.
        unsafe { put(graph, state()?.graphs.add(Graph::default())) }
    }

    fn cuGraphDestroy(graph: Handle) {
        destroy(graph)
    }

    fn cuGraphClone(clone: *mut Handle, graph: Handle) {
        // SAFETY: a place of the caller's.
        unsafe { put(clone, copied(graph, 0)?) }
    }

    fn cuGraphNodeFindInClone(found: *mut Handle, node: Handle, clone: Handle) {
        with_node(clone, node, |_| Ok(()))?;
        // SAFETY: a place of the caller's.
        unsafe { put(found, handle(clone, number(node)?)) }
    }

    fn cuGraphGetId(graph: Handle, id: *mut c_uint) {
        state()?.graphs.get(graph)?;
        // SAFETY: a place of the caller's.
        unsafe { put(id, graph as c_uint) }
    }

    fn cuGraphExecGetId(executable: Handle, id: *mut c_uint) {
        state()?.graphs.get(executable)?;
        // SAFETY: a place of the caller's.
        unsafe { put(id, executable as c_uint) }
    }

    fn cuGraphNodeGetContainingGraph(node: Handle, graph: *mut Handle) {
        with_node(graph_of(node), node, |_| Ok(()))?;
        // SAFETY: a place of the caller's.
        unsafe { put(graph, graph_of(node)) }
    }

    fn cuGraphNodeGetLocalId(node: Handle, id: *mut c_uint) {
        // SAFETY: a place of the caller's.
        unsafe { put(id, number(node)? as c_uint) }
    }

    fn cuGraphNodeGetToolsId(node: Handle, id: *mut u64) {
        with_node(graph_of(node), node, |_| Ok(()))?;
        // SAFETY: a place of the caller's.
        unsafe { put(id, node as u64) }
    }

    fn cuGraphDestroyNode(node: Handle) {
        let graph = state()?.graphs.get(graph_of(node))?;
        let at = number(node)?;
        let removed = {
            let mut nodes = locked(&graph.nodes);
            nodes.values_mut().for_each(|other| { other.after.remove(&at); });
            nodes.remove(&at).ok_or(Code::INVALID_VALUE)?
        };
        end(&removed.work)
    }

    fn cuGraphConditionalHandleCreate(
        condition: *mut Pointer,
        graph: Handle,
        _context: Handle,
        default: c_uint,
        flags: c_uint,
    ) {
        // SAFETY: a place of the caller's.
        unsafe { put(condition, self::condition(graph, default, flags)?) }
    }

    fn cuGraphExecGetFlags(executable: Handle, flags: *mut u64) {
        // SAFETY: a place of the caller's.
        unsafe { put(flags, state()?.graphs.get(executable)?.flags) }
    }

    fn cuGraphAddDependencies(_graph: Handle, from: *const Handle, to: *const Handle, count: usize) {
        // SAFETY: as the caller promises.
        unsafe { depend(from, to, count, |after, node| { after.insert(node); }) }
    }

    fn cuGraphAddDependencies_v2(
        _graph: Handle,
        from: *const Handle,
        to: *const Handle,
        _edges: *const c_void,
        count: usize,
    ) {
        // SAFETY: as the caller promises.
        unsafe { depend(from, to, count, |after, node| { after.insert(node); }) }
    }

    fn cuGraphRemoveDependencies(_graph: Handle, from: *const Handle, to: *const Handle, count: usize) {
        // SAFETY: as the caller promises.
        unsafe { depend(from, to, count, |after, node| { after.remove(&node); }) }
    }

    fn cuGraphRemoveDependencies_v2(
        _graph: Handle,
        from: *const Handle,
        to: *const Handle,
        _edges: *const c_void,
        count: usize,
    ) {
        // SAFETY: as the caller promises.
        unsafe { depend(from, to, count, |after, node| { after.remove(&node); }) }
    }

    fn cuGraphGetNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) {
        // SAFETY: as the caller promises.
        unsafe { put_all(nodes, count, &self::nodes(graph, |_| true)?) }
    }

    fn cuGraphGetRootNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) {
        // SAFETY: as the caller promises.
        unsafe { put_all(nodes, count, &self::nodes(graph, |node| node.after.is_empty())?) }
    }

    fn cuGraphGetEdges_v2(graph: Handle, from: *mut Handle, to: *mut Handle, _edges: *mut c_void, count: *mut usize) {
        // SAFETY: as the caller promises.
        unsafe { put_edges(graph, from, to, count) }
    }

    fn cuGraphGetEdges(graph: Handle, from: *mut Handle, to: *mut Handle, count: *mut usize) {
        // SAFETY: as the caller promises.
        unsafe { put_edges(graph, from, to, count) }
    }

    fn cuGraphNodeGetDependencies_v2(node: Handle, nodes: *mut Handle, _edges: *mut c_void, count: *mut usize) {
        // SAFETY: as the caller promises.
        unsafe { put_all(nodes, count, &before(node)?) }
    }

    fn cuGraphNodeGetDependencies(node: Handle, nodes: *mut Handle, count: *mut usize) {
        // SAFETY: as the caller promises.
        unsafe { put_all(nodes, count, &before(node)?) }
    }

    fn cuGraphNodeGetDependentNodes_v2(node: Handle, nodes: *mut Handle, _edges: *mut c_void, count: *mut usize) {
        // SAFETY: as the caller promises.
        unsafe { put_all(nodes, count, &after(node)?) }
    }

    fn cuGraphNodeGetDependentNodes(node: Handle, nodes: *mut Handle, count: *mut usize) {
        // SAFETY: as the caller promises.
        unsafe { put_all(nodes, count, &after(node)?) }
    }

    fn cuGraphDebugDotPrint(graph: Handle, path: *const c_char, _flags: c_uint) {
        // SAFETY: the caller's string.
        std::fs::write(unsafe { text(path)? }, dot(graph)?).map_err(|_| Code::OPERATING_SYSTEM)
    }

    fn cuGraphInstantiateWithFlags(executable: *mut Handle, graph: Handle, flags: u64) {
        // SAFETY: as the caller promises.
        unsafe { instantiate(executable, graph, flags) }
    }

    fn cuGraphInstantiateWithParams(executable: *mut Handle, graph: Handle, params: *mut Instantiation) {
        // SAFETY: as the caller promises.
        unsafe {
            let params = params.as_mut().ok_or(Code::INVALID_VALUE)?;
            (params.error_node, params.result) = (0, 0);
            instantiate(executable, graph, params.flags)
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
            instantiate(executable, graph, 0)
        }
    }

    fn cuGraphExecDestroy(executable: Handle) {
        finish(Wanted::All)?;
        destroy(executable)
    }

    fn cuGraphExecUpdate_v2(executable: Handle, graph: Handle, info: *mut UpdateResult) {
        let (result, done) = update(executable, graph)?;
        // SAFETY: null or a place of the caller's.
        unsafe { put_if_wanted(info, UpdateResult { result, error_node: 0, error_from: 0 }) };
        done
    }

    fn cuGraphExecUpdate(executable: Handle, graph: Handle, error_node: *mut Handle, result: *mut c_int) {
        let (result_code, done) = update(executable, graph)?;
        // SAFETY: null or places of the caller's.
        unsafe {
            put_if_wanted(error_node, 0);
            put_if_wanted(result, result_code);
        }
        done
    }

    // Memory of graphs in use and reserved, now and at most: the same here, as it stays for the next launch.
    fn cuDeviceGetGraphMemAttribute(device: DeviceId, _attribute: c_int, value: *mut u64) {
        let state = state()?;
        state.primary(device)?;
        let bytes = |pointer: &Pointer| state.device.allocation(DevicePtr(*pointer)).map_or(0, |(_, bytes)| bytes);
        // SAFETY: a place of the caller's.
        unsafe { put(value, locked(&state.graph_memory).iter().map(bytes).sum()) }
    }

    fn cuDeviceSetGraphMemAttribute(device: DeviceId, _attribute: c_int, _value: *mut u64) {
        state()?.primary(device).map(|_| ())
    }

    fn cuDeviceGraphMemTrim(device: DeviceId) {
        state()?.primary(device).map(|_| ())
    }

    fn cuGraphUpload(executable: Handle, _stream: Handle) {
        state()?.graphs.get(executable).map(|_| ())
    }

    fn cuGraphLaunch(executable: Handle, stream: Handle) {
        launch_graph(executable, stream)
    }
}
