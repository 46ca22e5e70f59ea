//! A chain of tiny kernels, and the ways to get from one to the next: launches, a graph, launches that overlap, one kernel.
//!
//! **Hypothesis.** A step that moves 64 KiB takes less time than its launch. So what counts is who starts the next one: the host, call
//! by call; the GPU's front end, from a graph; the launch before, which lets the next one's blocks take their places before it has
//! ended; or nobody, if one kernel stays and its blocks wait for each other.
//!
//! **Look at** the time per step. Each step reverses the array and adds one, so it needs values of all blocks of the step before.

use common::prelude::*;

/// `kernels/streams_01_chain.cu`.
pub const CHAIN: KernelSource = kernel_source!("streams_01_chain");

/// `kernels/streams_02_dependent.cu`.
pub const DEPENDENT: KernelSource = kernel_source!("streams_02_dependent");

/// Threads of a block.
const BLOCK: u32 = 256;

/// Number of blocks of a launch: every GPU from compute capability 7.5 holds this many at once, as the persistent kernel needs.
/// On the simulator a few show the same.
fn blocks(device: &Device) -> usize {
    if device.is_sim() { 4 } else { 64 }
}

/// A way to run the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One launch per step.
    Launches,
    /// One launch per step, each of which may begin before the previous one has ended.
    Dependent,
    /// One launch of a graph of them.
    Graph,
    /// One launch of a graph of dependent ones.
    DependentGraph,
    /// One launch of a kernel whose blocks wait for each other.
    Persistent,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 5] = [Way::Launches, Way::Dependent, Way::Graph, Way::DependentGraph, Way::Persistent];

    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Way::Launches => "launches",
            Way::Dependent => "dependent",
            Way::Graph => "graph",
            Way::DependentGraph => "dependent graph",
            Way::Persistent => "persistent kernel",
        }
    }

    /// Calls of the host for a chain of `steps`.
    pub fn calls(self, steps: usize) -> usize {
        match self {
            Way::Launches | Way::Dependent => steps,
            Way::Graph | Way::DependentGraph | Way::Persistent => 1,
        }
    }
}

/// A chain that is ready to run in one way, any number of times: each run adds `steps` to every value.
#[derive(Debug)]
pub struct Chain {
    steps: usize,
    kernel: Kernel,
    dependent: bool,
    graph: Option<GraphExec>,
    /// Blocks of the persistent kernel that have arrived at a meeting.
    arrived: Option<Buffer<u32>>,
    even: Buffer<u32>,
    odd: Buffer<u32>,
}

impl Chain {
    /// A chain of `steps`, an even number, over the values 0, 1, 2 ….
    ///
    /// # Errors
    /// [`Error::Invalid`] for an odd number; [`Error::Unsupported`] for dependent launches on a GPU before compute capability
    /// 9.0; same as [`Device::kernel`] and [`Stream::capture`].
    pub fn new(stream: &Stream, way: Way, steps: usize) -> Result<Chain> {
        if !steps.is_multiple_of(2) {
            return Err(Error::Invalid(format!("a chain of {steps} steps ends in the other buffer: it must be even")));
        }
        let device = stream.device();
        let dependent = matches!(way, Way::Dependent | Way::DependentGraph);
        let kernel = match way {
            Way::Launches | Way::Graph => device.kernel(&CHAIN, "reverse_add_one")?,
            Way::Dependent | Way::DependentGraph => device.kernel(&DEPENDENT, "reverse_add_one")?,
            Way::Persistent => device.kernel(&CHAIN, "reverse_steps")?,
        };
        let values: Vec<u32> = (0..blocks(device) as u32 * BLOCK).collect();
        let (even, odd) = (stream.clone_htod(&values)?, stream.alloc_poisoned(values.len())?);
        let arrived = if way == Way::Persistent { Some(stream.alloc_zeros(1)?) } else { None };
        let mut chain = Chain { steps, kernel, dependent, graph: None, arrived, even, odd };
        if matches!(way, Way::Graph | Way::DependentGraph) {
            // ANCHOR: graph
            let graph = stream.capture(|stream| chain.queue(stream))?; // records, runs nothing
            chain.graph = Some(graph.instantiate()?);
            // ANCHOR_END: graph
        }
        Ok(chain)
    }

    /// Queues the chain once.
    ///
    /// # Errors
    /// Errors of the launches.
    pub fn queue(&mut self, stream: &Stream) -> Result<()> {
        if let Some(graph) = &self.graph {
            return graph.launch(stream);
        }
        let n = self.even.len() as u32;
        let config = LaunchConfig::linear(n, BLOCK);
        if let Some(arrived) = &mut self.arrived {
            let mut launch = stream.launch_builder(&self.kernel);
            let steps = self.steps as u32;
            launch.arg(&mut self.even).arg(&mut self.odd).arg(&n).arg(&steps).arg(arrived);
            // SAFETY: both buffers have n values, which the kernel compares its index with, and its blocks are few enough to be on
            // the device together.
            return unsafe { launch.launch(config) };
        }
        // ANCHOR: launches
        for step in 0..self.steps {
            let (from, to) = if step % 2 == 0 { (&self.even, &mut self.odd) } else { (&self.odd, &mut self.even) };
            let mut launch = stream.launch_builder(&self.kernel);
            launch.arg(from).arg(to).arg(&n);
            if self.dependent {
                launch.dependent();
            }
            // SAFETY: both buffers have n values, which the kernel compares its index with; a dependent one waits before it reads.
            unsafe { launch.launch(config)? };
        }
        // ANCHOR_END: launches
        Ok(())
    }

    /// Fails unless the values are those after `runs` runs since the start.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the first wrong value; errors of the device.
    pub fn check(&self, stream: &Stream, runs: usize) -> Result<()> {
        let added = (runs * self.steps) as u32;
        // Each run reverses an even number of times.
        for (i, value) in stream.clone_dtoh(&self.even)?.into_iter().enumerate() {
            let expected = i as u32 + added;
            if value != expected {
                return Err(Error::Invalid(format!("chain: value {i} is {value}, expected {expected}")));
            }
        }
        Ok(())
    }
}
