//! Graphs: work that is recorded once and then queued as a whole, with one call, any number of times.
//!
//! [`Stream::capture`] passes its closure a stream that records. The work that the closure queues there becomes a [`Graph`]:
//! nodes, and the earlier nodes that each one waits for. [`Graph::instantiate`] prepares it for the device, and
//! [`GraphExec::launch`] queues all of it. The addresses, scalars and geometries are those of the capture, the contents of the
//! buffers those of the moment: new input in the same buffer gives new output. A graph keeps the memory and the kernels that it
//! uses, even if their owners are dropped.
//!
//! On a GPU the nodes are those of CUDA's explicit graphs (`cuGraphAddKernelNode` …). So a capture disturbs no other thread,
//! as a stream in the driver's capture mode can.

use std::fmt;
use std::sync::Arc;

use super::backend::Backend;
use super::buffer::Lease;
use super::handle::{Handle, on_either, resolve, wrong_device};
use super::kernel::Kernel;
use super::recording::{Branch, GraphNode, GraphOperation, Recording, Uses};
use super::stream::Stream;
use super::{Device, cuda, sim};
use crate::error::{Error, Result};

pub(crate) type GraphHandle = Handle<cuda::Graph, sim::Graph>;
pub(crate) type ExecHandle = Handle<cuda::GraphExec, sim::GraphExec>;

/// Resources that a graph keeps alive.
#[derive(Default)]
struct Kept {
    _memory: Vec<Arc<Lease>>,
    _kernels: Vec<Kernel>,
}

/// Recorded work, as [`Stream::capture`] returns it.
pub struct Graph {
    device: Device,
    nodes: Vec<GraphNode>,
    template: GraphHandle,
    // After the template: it goes last.
    kept: Arc<Kept>,
}

/// A graph ready to be launched.
pub struct GraphExec {
    device: Device,
    nodes: Vec<GraphNode>,
    exec: ExecHandle,
    // After `exec`, which waits for its launches when it goes.
    kept: Arc<Kept>,
}

impl Graph {
    /// Its nodes, in the order in which they were queued.
    pub fn nodes(&self) -> &[GraphNode] {
        &self.nodes
    }

    /// Number of nodes that launch a kernel.
    pub fn kernels(&self) -> usize {
        self.nodes.iter().filter(|node| node.operation == GraphOperation::Kernel).count()
    }

    /// Number of nodes on the longest path: the number of all nodes for one stream, fewer with [`Stream::fork`].
    pub fn depth(&self) -> usize {
        let mut depths: Vec<usize> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            depths.push(1 + node.after.iter().map(|&before| depths[before]).max().unwrap_or(0));
        }
        depths.into_iter().max().unwrap_or(0)
    }

    /// Prepares it for launches. Waits for all work on the device, so that the memory that it uses exists.
    ///
    /// # Errors
    /// Errors of the driver, or of earlier work.
    pub fn instantiate(&self) -> Result<GraphExec> {
        self.device.synchronize()?;
        let exec: ExecHandle = on_either!(&self.template, template => template.instantiate()?);
        Ok(GraphExec { device: self.device.clone(), nodes: self.nodes.clone(), exec, kept: self.kept.clone() })
    }
}

impl GraphExec {
    /// The nodes that a launch runs.
    pub fn nodes(&self) -> &[GraphNode] {
        &self.nodes
    }

    /// Queues all of it on `stream`: it begins when the work before it there has ended, and later work there begins when all
    /// of it has ended.
    ///
    /// Work on *other* streams is ordered with it only by events ([`Stream::wait`], [`Stream::join`]): cudarc, which orders the
    /// uses of a buffer by plain launches and copies, does not see into a graph. The simulator's sanitiser reports missing ones.
    ///
    /// # Errors
    /// [`Error::WrongDevice`]; [`Error::Capture`] if the stream is itself recording; from the simulator those of the operations in
    /// it; the driver's errors of earlier work.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        const OPERATION: &str = "launching a graph";
        stream.refuse_in_capture(OPERATION, "launch the two graphs one after the other")?;
        on_either!(&stream.queue, queue => {
            let exec = resolve(queue, OPERATION, "graph", self.device.id(), self.exec.as_ref())?;
            queue.launch_graph(exec)
        })
    }

    /// Replaces later launches by those of `graph`, which has the same nodes in the same order, but may have other buffers, scalars
    /// or geometries: much cheaper than [`Graph::instantiate`].
    ///
    /// # Errors
    /// [`Error::WrongDevice`]; [`Error::Invalid`] with the first node that differs; errors of the driver.
    pub fn update(&mut self, graph: &Graph) -> Result<()> {
        const OPERATION: &str = "updating a graph";
        same_topology(&self.nodes, &graph.nodes)?;
        let (own, other) = (self.device.id(), graph.device.id());
        if own != other {
            return Err(wrong_device(OPERATION, "graph", own, other));
        }
        self.device.synchronize()?;
        match (&mut self.exec, &graph.template) {
            #[cfg(feature = "cuda")]
            (Handle::Cuda(exec), Handle::Cuda(template)) => exec.update(template)?,
            (Handle::Sim(exec), Handle::Sim(template)) => exec.update(template),
            _ => return Err(wrong_device(OPERATION, "graph", own, other)),
        }
        self.nodes.clone_from(&graph.nodes);
        // Nothing that the memory was kept for is still running: the device was waited for.
        self.kept = graph.kept.clone();
        Ok(())
    }
}

/// Fails unless the nodes have the same kinds of operations in the same order.
fn same_topology(old: &[GraphNode], new: &[GraphNode]) -> Result<()> {
    if old.len() != new.len() {
        let detail = format!("a graph of {} cannot be updated to one of {}", nodes(old.len()), nodes(new.len()));
        return Err(Error::Invalid(detail));
    }
    for (i, (old, new)) in old.iter().zip(new).enumerate() {
        if (old.operation, &old.after) != (new.operation, &new.after) {
            return Err(Error::Invalid(format!(
                "a graph cannot be updated to one of another structure: node {i} is `{}` after {:?}, and would be `{}` after {:?}",
                old.name, old.after, new.name, new.after
            )));
        }
    }
    Ok(())
}

fn nodes(n: usize) -> String {
    format!("{n} node{}", if n == 1 { "" } else { "s" })
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({} on {})", nodes(self.nodes.len()), self.device.short_name())
    }
}

impl fmt::Debug for GraphExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GraphExec({} on {})", nodes(self.nodes.len()), self.device.short_name())
    }
}

/// Fails unless all nodes are among those before `tail`: waiting for the origin waits for all.
fn expect_joined(nodes: &[GraphNode], tail: Vec<usize>) -> Result<()> {
    let mut joined = vec![false; nodes.len()];
    let mut open = tail;
    while let Some(node) = open.pop() {
        if !std::mem::replace(&mut joined[node], true) {
            open.extend(&nodes[node].after);
        }
    }
    match joined.iter().position(|joined| !joined) {
        None => Ok(()),
        Some(loose) => Err(Error::Capture {
            operation: "ending the capture",
            reason: format!(
                "node {loose} (`{}`) is on a forked stream that was not joined: call `join` on the first stream",
                nodes[loose].name
            ),
        }),
    }
}

impl Stream {
    /// Records the work that `work` queues on its stream, and runs none of it. Launches, fills and copies inside the device can be
    /// recorded, and [`Stream::fork`], [`Stream::wait`] and [`Stream::join`] between the capture's own streams. Everything else in
    /// `work`, such as loading a kernel, happens at once. Other streams are not recorded.
    ///
    /// The promise of [`super::LaunchArgs::launch`] covers every later launch of the graph, also with later contents of the buffers.
    ///
    /// # Errors
    /// Errors of `work`; [`Error::Capture`] if a forked stream was not joined, if this stream is itself one of a capture, and
    /// from inside `work` for operations that a graph cannot hold: allocation, copies to and from the host, synchronisation,
    /// library calls; [`Error::Unsupported`] if the driver is too old.
    pub fn capture(&self, work: impl FnOnce(&Stream) -> Result<()>) -> Result<Graph> {
        self.refuse_in_capture("capturing another graph", "a graph is captured from the start to the end")?;
        let branch = Branch::origin();
        let queue = match &self.queue {
            #[cfg(feature = "cuda")]
            Handle::Cuda(queue) => Handle::Cuda(queue.recording(branch.clone())?),
            #[cfg(not(feature = "cuda"))]
            Handle::Cuda(never) => match *never {},
            Handle::Sim(queue) => Handle::Sim(queue.recording(branch.clone())),
        };
        let stream = Stream::new(self.device(), queue);
        let done = work(&stream);
        let Recording { nodes, memory, kernels, .. } = branch.end();
        done?;
        expect_joined(&nodes, branch.after())?;
        let template: GraphHandle = on_either!(&stream.queue, queue => queue.recorded(&nodes)?);
        let kept = Arc::new(Kept { _memory: memory, _kernels: kernels });
        Ok(Graph { device: self.device().clone(), nodes, template, kept })
    }

    /// A new stream that begins when all work that this one has now is done. In a capture it is another stream of that capture, and
    /// has to be joined before the end.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn fork(&self) -> Result<Stream> {
        match self.branch() {
            Some(branch) => {
                let queue = match &self.queue {
                    #[cfg(feature = "cuda")]
                    Handle::Cuda(queue) => Handle::Cuda(queue.on_branch(branch.fork())),
                    #[cfg(not(feature = "cuda"))]
                    Handle::Cuda(never) => match *never {},
                    Handle::Sim(queue) => Handle::Sim(queue.on_branch(branch.fork())),
                };
                Ok(Stream::new(self.device(), queue))
            }
            None => {
                let stream = self.device().new_stream()?;
                stream.join(self)?;
                Ok(stream)
            }
        }
    }

    /// The capture that it belongs to.
    pub(crate) fn branch(&self) -> Option<&Branch> {
        on_either!(&self.queue, queue => queue.branch())
    }

    /// Fails on a stream of a capture.
    pub(crate) fn refuse_in_capture(&self, operation: &'static str, reason: &str) -> Result<()> {
        match self.branch() {
            None => Ok(()),
            Some(_) => Err(Error::Capture { operation, reason: reason.to_owned() }),
        }
    }

    /// Queues by `work`, and in a capture records what it `uses`.
    pub(crate) fn perform<'a>(&self, uses: impl FnOnce() -> Uses<'a>, work: impl FnOnce() -> Result<()>) -> Result<()> {
        match self.branch() {
            None => work(),
            Some(branch) => branch.add(uses(), work),
        }
    }
}
