//! Nodes of graphs by their handles, and the order in which they are done.
//!
//! A node is named by its graph and its number there. A graph that is made ready to be launched keeps the numbers, so the node of
//! either names the node of both.

use std::collections::BTreeSet;
use std::sync::Mutex;

use crate::abi::{Code, Handle, Outcome};
use crate::graph::{Graph, Node};
use crate::state::state;
use crate::tell::locked;
use crate::work::Work;

impl Graph {
    /// All work, in an order that the dependencies allow; an error if they form a circle.
    pub(crate) fn order(&self) -> Outcome<Vec<Work>> {
        let nodes = locked(&self.nodes);
        let (mut done, mut works) = (BTreeSet::new(), Vec::with_capacity(nodes.len()));
        while done.len() < nodes.len() {
            let before = done.len();
            for (at, node) in nodes.iter() {
                if !done.contains(at) && node.after.is_subset(&done) {
                    done.insert(*at);
                    works.extend(node.enabled.then(|| node.work.clone()));
                }
            }
            if done.len() == before {
                return Err(Code::INVALID_VALUE);
            }
        }
        Ok(works)
    }
}

/// Handle of a node: its graph's, with the node's number in the upper half.
pub(crate) fn handle(graph: Handle, at: usize) -> Handle {
    graph | (at + 1) << 32
}

/// The graph of a node.
pub(crate) fn graph_of(node: Handle) -> Handle {
    node & 0xffff_ffff
}

/// Does something with a node of a graph, which it may have from the graph that it was made of.
pub(crate) fn with_node<T>(graph: Handle, node: Handle, body: impl FnOnce(&mut Node) -> Outcome<T>) -> Outcome<T> {
    let graph = state()?.graphs.get(graph)?;
    let mut nodes = locked(&graph.nodes);
    body(nodes.get_mut(&number(node)?).ok_or(Code::INVALID_HANDLE)?)
}

/// The number of a node.
pub(crate) fn number(node: Handle) -> Outcome<usize> {
    (node >> 32).checked_sub(1).ok_or(Code::INVALID_HANDLE)
}

/// Adds a node after others.
pub(crate) fn add(graph: Handle, work: Work, after: &[Handle]) -> Outcome<Handle> {
    let after = after.iter().map(|node| number(*node)).collect::<Outcome<BTreeSet<_>>>()?;
    let found = state()?.graphs.get(graph)?;
    let mut nodes = locked(&found.nodes);
    if !after.iter().all(|node| nodes.contains_key(node)) {
        return Err(Code::INVALID_VALUE);
    }
    let at = nodes.last_key_value().map_or(0, |(last, _)| last + 1);
    nodes.insert(at, Node { work, after, enabled: true });
    Ok(handle(graph, at))
}

/// A copy of a graph that has no circles, with copies of the graphs in it.
pub(crate) fn copied(graph: Handle, flags: u64) -> Outcome<Handle> {
    let graph = state()?.graphs.get(graph)?;
    graph.order()?;
    let mut nodes = locked(&graph.nodes).clone();
    for node in nodes.values_mut() {
        match &mut node.work {
            Work::Graph(child) => *child = copied(*child, 0)?,
            Work::If { bodies, .. } => *bodies = bodies.iter().map(|body| copied(*body, 0)).collect::<Outcome<_>>()?,
            _ => {}
        }
    }
    Ok(state()?.graphs.add(Graph {
        nodes: Mutex::new(nodes),
        objects: Mutex::new(locked(&graph.objects).clone()),
        conditions: Mutex::new(locked(&graph.conditions).clone()),
        flags,
    }))
}

/// Destroys a graph and the graphs in it.
pub(crate) fn destroy(graph: Handle) -> Outcome {
    let graph = state()?.graphs.remove(graph)?;
    locked(&graph.nodes).values().try_for_each(|node| end(&node.work))
}

/// Destroys the graphs of work that is no longer wanted.
pub(crate) fn end(work: &Work) -> Outcome {
    match work {
        Work::Graph(child) => destroy(*child),
        Work::If { bodies, .. } => bodies.iter().try_for_each(|body| destroy(*body)),
        _ => Ok(()),
    }
}
