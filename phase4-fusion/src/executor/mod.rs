//! A whole network in one launch: resident blocks take tile after tile from a queue in device memory.
//!
//! **Hypothesis.** A graph of 300 small launches pays for each of them: the front end starts it, its first blocks fetch what they need
//! with nothing else to do, its last ones leave the others idle. Blocks that stay and wait for *values* instead pay for a counter.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`task`] | layers and tasks as the kernel reads them |
//! | `cut` | how a layer is cut into tasks |
//! | `lower` | from a recorded graph, the one description of a model, to layers and tasks |
//!
//! Each value has a place of its own in one arena: nothing is written twice in a pass, so a task waits for what it reads and for nothing
//! else.
//!
//! **Promised.** The result has the same bits for every number of blocks and in every order in which they happen to run: which products
//! are added up, and in which order, is fixed when the graph is lowered. A pass ends if one block runs.

mod cut;
mod lower;
pub mod task;

use std::collections::BTreeMap;

use common::prelude::*;
use phase3_all_layers::models::unet::{Config, UNet};
use phase3_all_layers::nn::Parameters;
use phase3_all_layers::nn::graph::{Graph, Recorder, Recording};

use self::task::{Kind, LAYER_WORDS, Layer, TASK_WORDS, Task, packed};

/// The kernel file.
pub const SOURCE: KernelSource = kernel_source!("executor_01_queue");

/// Counters that belong to the queue itself.
const FIRST_COUNTER: u32 = 2;
/// Multiprocessors that tiles are cut for where the device cannot tell: those of an H200.
const PROCESSORS: usize = 132;
/// Resident blocks of an SM: the kernel's registers and shared memory allow them.
const PER_PROCESSOR: usize = 2;
/// Blocks on the simulator.
const SIMULATED: usize = 2;

/// An input's or the output's place in the arena.
#[derive(Clone, Debug)]
struct Port {
    offset: usize,
    shape: Vec<usize>,
}

impl Port {
    fn range(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.shape.iter().product::<usize>()
    }
}

/// A network as layers and tasks, each task after those that it waits for.
#[derive(Clone, Debug)]
pub struct Program {
    layers: Vec<Layer>,
    tasks: Vec<Task>,
    /// Multiplications and additions of each layer.
    flops: Vec<u64>,
    parameters: Vec<f32>,
    /// Floats.
    arena: usize,
    counters: u32,
    inputs: Vec<Port>,
    output: Port,
}

/// Totals over the tasks of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Layers.
    pub layers: usize,
    /// Tasks.
    pub tasks: usize,
    /// Counters that they look at, each once at least.
    pub waits: usize,
    /// Multiplications and additions.
    pub flops: u64,
}

impl Program {
    /// Lowers a recorded graph with inputs of these shapes, cut into tiles for `processors` SMs.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with the operation that the executor does not have; [`Error::Invalid`] if weights are not on the host.
    pub fn new(graph: Graph, inputs: &[&[usize]], processors: usize) -> Result<Program> {
        lower::lower(graph, inputs, processors)
    }

    /// The tasks, in the queue's order.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The tasks, to see what happens with others.
    pub fn tasks_mut(&mut self) -> &mut [Task] {
        &mut self.tasks
    }

    /// The kind of a task.
    pub fn kind(&self, task: &Task) -> Kind {
        Kind::ALL[self.layers[task.layer as usize].operation as usize]
    }

    /// Parts of K that the tile of a task is cut into.
    pub fn parts(&self, task: &Task) -> u32 {
        self.layers[task.layer as usize].parts
    }

    /// Side of a product's tile.
    pub fn tile(&self, task: &Task) -> u32 {
        self.layers[task.layer as usize].tile
    }

    /// Bytes of the parameters, and of all values between layers.
    pub fn bytes(&self) -> [u64; 2] {
        [self.parameters.len(), self.arena].map(|floats| 4 * floats as u64)
    }

    /// By kind of task.
    pub fn shares(&self) -> BTreeMap<Kind, Share> {
        let mut shares: BTreeMap<Kind, Share> = BTreeMap::new();
        for (layer, flops) in self.layers.iter().zip(&self.flops) {
            let share = shares.entry(Kind::ALL[layer.operation as usize]).or_default();
            share.layers += 1;
            share.flops += flops;
        }
        for task in &self.tasks {
            let share = shares.entry(self.kind(task)).or_default();
            share.tasks += 1;
            share.waits += task.waits().count();
        }
        shares
    }

    // ANCHOR: critical
    /// Tasks of the longest chain in which each waits for the one before.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a task stands before one that it waits for: then blocks that take tasks in their order could wait forever.
    pub fn critical_path(&self) -> Result<usize> {
        // Of each counter: the longest chain that ends in a task that increases it, and how many of those are still to come.
        let mut longest = vec![0; self.counters as usize];
        let mut missing = vec![0; self.counters as usize];
        for task in &self.tasks {
            missing[task.signal as usize] += 1;
        }
        for (number, task) in self.tasks.iter().enumerate() {
            let waits = || task.waits().map(|counter| counter as usize);
            if let Some(counter) = waits().find(|counter| missing[*counter] > 0) {
                let message = format!("task {number} waits for counter {counter}, which a later task increases");
                return Err(Error::Invalid(message));
            }
            let chain = 1 + waits().map(|counter| longest[counter]).max().unwrap_or(0);
            let signal = task.signal as usize;
            longest[signal] = longest[signal].max(chain);
            missing[signal] -= 1;
        }
        Ok(longest.into_iter().max().unwrap_or(0))
    }
    // ANCHOR_END: critical

    /// Bound of the error of the largest output, as a part of it, to first order: each product's weights, operand and result are rounded
    /// once, and layers keep the magnitude of their values, so that relative errors add up from product to product.
    pub fn error_bound(&self) -> f64 {
        let products = self.layers.iter().filter(|layer| layer.operation == Kind::Product as u32).count();
        3.0 * products as f64 * common::check::F32_ROUND_OFF
    }
}

/// The program of a U-Net with these parameters for latents \[N, 8, H, W\], with their timesteps \[N\] as its second input.
///
/// # Errors
/// As [`UNet::load`], [`UNet::forward`] and [`Program::new`].
pub fn unet(config: Config, parameters: &Parameters, latents: &[usize], processors: usize) -> Result<Program> {
    let network = UNet::load(&Recorder, config, parameters)?;
    let steps = &[latents.first().copied().unwrap_or(0)][..];
    let recording = Recording::new(&[latents, steps]);
    let [x, at] = recording
        .inputs()
        .collect::<Vec<_>>()
        .try_into()
        .map_err(|_| Error::Invalid("a recording of two inputs has others".to_owned()))?;
    let graph = recording.graph(&network.forward(x, at)?)?;
    Program::new(graph, &[latents, steps], processors)
}

/// Multiprocessors that a program for this device is cut for.
pub fn processors(device: &Device) -> usize {
    device.properties().multiprocessors.map_or(PROCESSORS, |count| count as usize)
}

/// A program with its memory on a device: a pass is one launch.
#[derive(Debug)]
pub struct Executor {
    kernel: Kernel,
    shared: u32,
    threads: u32,
    blocks: u32,
    count: u32,
    layers: Buffer<u32>,
    tasks: Buffer<u32>,
    parameters: Buffer<f32>,
    arena: Buffer<f32>,
    counters: Buffer<u32>,
    inputs: Vec<Port>,
    output: Port,
}

impl Executor {
    /// Loads a program, for as many blocks as the device holds at once; on the simulator a few.
    ///
    /// # Errors
    /// Errors of copies and of the kernel.
    pub fn new(stream: &Stream, program: &Program) -> Result<Executor> {
        let device = stream.device();
        let blocks = if device.is_sim() { SIMULATED } else { processors(device) * PER_PROCESSOR };
        Executor::with_blocks(stream, program, blocks)
    }

    /// [`Executor::new`] with this number of blocks, one at least. More than the device holds are no mistake: the others find an empty
    /// queue.
    ///
    /// # Errors
    /// As [`Executor::new`].
    pub fn with_blocks(stream: &Stream, program: &Program, blocks: usize) -> Result<Executor> {
        let module = stream.device().load(&SOURCE)?;
        for (name, value) in [
            ("LAYER_WORDS", LAYER_WORDS),
            ("TASK_WORDS", TASK_WORDS),
            ("LAYER_BYTES", size_of::<Layer>()),
            ("TASK_BYTES", size_of::<Task>()),
            ("FIRST_COUNTER", FIRST_COUNTER as usize),
        ] {
            module.expect_constant(name, value)?;
        }
        let count = u32::try_from(program.tasks.len())
            .map_err(|_| Error::Invalid(format!("{} tasks are too many to count", program.tasks.len())))?;
        Ok(Executor {
            kernel: module.kernel("execute")?,
            shared: module.constant("SHARED_BYTES")? as u32,
            threads: module.constant("THREADS")? as u32,
            blocks: blocks.max(1) as u32,
            count,
            layers: stream.clone_htod(&packed(&program.layers, LAYER_WORDS))?,
            tasks: stream.clone_htod(&packed(&program.tasks, TASK_WORDS))?,
            parameters: stream.clone_htod(&program.parameters)?,
            arena: stream.alloc_poisoned(program.arena)?,
            counters: stream.alloc_zeros(program.counters as usize)?,
            inputs: program.inputs.clone(),
            output: program.output.clone(),
        })
    }

    /// A pass with its copies: inputs from the host, in their planned shapes, and the result to it.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Inputs`] if there are more or fewer inputs; those of the launch.
    pub fn infer(&mut self, stream: &Stream, inputs: &[&Tensor]) -> Result<Tensor> {
        if inputs.len() != self.inputs.len() {
            let (found, planned) = (inputs.len(), self.inputs.len());
            return Err(Error::Inputs { model: "program", expected: planned, found });
        }
        for (x, port) in inputs.iter().zip(&self.inputs) {
            x.expect_shape("the executor's input", &port.shape)?;
            stream.memcpy_htod(x.as_slice()?, &mut self.arena.slice_mut(port.range()))?;
        }
        stream.poison(&mut self.arena.slice_mut(self.output.range()))?;
        self.queue(stream)?;
        Tensor::from_vec(&self.output.shape, stream.clone_dtoh(&self.arena.slice(self.output.range()))?)
    }

    /// Queues a pass over the previous inputs, with no copy: for measurements.
    ///
    /// # Errors
    /// Errors of the launch.
    pub fn queue(&mut self, stream: &Stream) -> Result<()> {
        let counters = self.counters.len() as u32;
        let config = LaunchConfig {
            grid_dim: (self.blocks, 1, 1),
            block_dim: (self.threads, 1, 1),
            shared_mem_bytes: self.shared,
        };
        let mut launch = stream.launch_builder(&self.kernel);
        launch.arg(&self.tasks).arg(&self.layers).arg(&self.count).arg(&mut self.arena).arg(&self.parameters);
        launch.arg(&mut self.counters).arg(&counters);
        // SAFETY: tasks and layers are those of a program, whose offsets lie in the arena, the parameters and the counters that were
        // made for it; the counters are zeros before and after each pass; blocks that are not on the device yet are not waited for.
        unsafe { launch.launch(config) }
    }
}
