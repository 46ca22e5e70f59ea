//! Recording of a graph during its capture: nodes, their order, and the resources they use.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::buffer::Lease;
use super::kernel::Kernel;
use crate::error::{Error, Result};

/// Name of waiting for an event, in messages.
pub(crate) const WAIT: &str = "waiting for an event";

/// Operation of a graph's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphOperation {
    /// Launches a kernel.
    Kernel,
    /// Sets bytes of a buffer to one value.
    Fill,
    /// Copies inside the device.
    Copy,
}

/// A node of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphNode {
    /// Operation.
    pub operation: GraphOperation,
    /// The kernel's name, or `fill` or `copy`.
    pub name: String,
    /// The nodes that must have ended before it begins, as positions in [`Graph::nodes`](super::Graph::nodes). All are smaller
    /// than its own.
    pub after: Vec<usize>,
}

/// A graph being captured.
#[derive(Default)]
struct Capture {
    recording: Mutex<Recording>,
}

#[derive(Default)]
pub(super) struct Recording {
    pub(super) nodes: Vec<GraphNode>,
    pub(super) memory: Vec<Arc<Lease>>,
    pub(super) kernels: Vec<Kernel>,
    ended: bool,
}

/// One of the streams of a capture: the nodes that its next node waits for.
#[derive(Clone)]
pub(crate) struct Branch {
    capture: Arc<Capture>,
    tail: Arc<Mutex<Vec<usize>>>,
}

/// A point in a capture, marked by an event.
pub(crate) struct Point {
    capture: Arc<Capture>,
    nodes: Vec<usize>,
}

/// Resources that a recorded operation uses.
pub(crate) struct Uses<'a> {
    pub operation: GraphOperation,
    pub name: &'a str,
    pub memory: Vec<Arc<Lease>>,
    pub kernel: Option<&'a Kernel>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves nothing half done here.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Branch {
    pub(super) fn origin() -> Branch {
        Branch { capture: Arc::default(), tail: Arc::default() }
    }

    /// Another stream of the capture, which begins at this one's current position.
    pub(crate) fn fork(&self) -> Branch {
        Branch { capture: self.capture.clone(), tail: Arc::new(Mutex::new(self.after())) }
    }

    /// The nodes that the next one waits for.
    pub(crate) fn after(&self) -> Vec<usize> {
        lock(&self.tail).clone()
    }

    pub(crate) fn is(&self, other: &Branch) -> bool {
        Arc::ptr_eq(&self.tail, &other.tail)
    }

    /// Adds the node that `record` makes for the device.
    pub(crate) fn add(&self, uses: Uses<'_>, record: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut recording = lock(&self.capture.recording);
        if recording.ended {
            return Err(Error::Capture {
                operation: "queueing on a stream of a capture",
                reason: "the capture has ended, and its streams with it".to_owned(),
            });
        }
        record()?;
        let node = recording.nodes.len();
        let mut tail = lock(&self.tail);
        let after = std::mem::replace(&mut *tail, vec![node]);
        recording.nodes.push(GraphNode { operation: uses.operation, name: uses.name.to_owned(), after });
        recording.memory.extend(uses.memory);
        recording.kernels.extend(uses.kernel.cloned());
        Ok(())
    }

    pub(crate) fn point(&self) -> Point {
        Point { capture: self.capture.clone(), nodes: self.after() }
    }

    /// Lets the next node also wait for those before `point`.
    pub(crate) fn wait(&self, point: &Point) -> Result<()> {
        if !Arc::ptr_eq(&self.capture, &point.capture) {
            return Err(Error::Capture {
                operation: WAIT,
                reason: "the event was recorded in another capture".to_owned(),
            });
        }
        let mut tail = lock(&self.tail);
        let all: BTreeSet<usize> = tail.iter().chain(&point.nodes).copied().collect();
        *tail = all.into_iter().collect();
        Ok(())
    }

    /// Ends the capture.
    pub(super) fn end(&self) -> Recording {
        let mut recording = lock(&self.capture.recording);
        let whole = std::mem::take(&mut *recording);
        recording.ended = true;
        whole
    }
}
