//! Launches a kernel with the arguments of a test case, and reads back its output.

use common::device::Module;
use common::prelude::*;

use instruction_cases::{ArgSpec, Case, POISON};

/// The buffers that a kernel may change, in order.
pub(crate) type Outputs = Vec<Vec<u8>>;

/// Blocks, threads of a block, bytes of dynamic shared memory.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
}

impl Shape {
    pub(crate) fn of(case: &Case) -> Shape {
        Shape { grid: case.grid, block: case.block, shared: case.shared }
    }
}

/// A case's parameter on the device.
enum Argument {
    Value(Vec<u8>),
    Buffer { buffer: Buffer<u8>, read_back: bool },
}

/// Launches a kernel and reads its `inout` and `out` buffers.
///
/// # Errors
/// The device's error, as text.
pub(crate) fn launch(device: &Device, module: &Module, name: &str, shape: Shape, args: &[ArgSpec]) -> Result<Outputs> {
    let stream = device.stream();
    let kernel = module.kernel(name)?;
    let mut arguments = Vec::new();
    for spec in args {
        let (contents, read_back) = match spec {
            ArgSpec::Value(bytes) => {
                arguments.push(Argument::Value(bytes.clone()));
                continue;
            }
            ArgSpec::In(bytes) => (bytes.clone(), false),
            ArgSpec::InOut(bytes) => (bytes.clone(), true),
            ArgSpec::Out(length) => (vec![POISON; *length], true),
        };
        arguments.push(Argument::Buffer { buffer: stream.clone_htod(&contents)?, read_back });
    }
    let mut launch = stream.launch_builder(&kernel);
    for argument in &mut arguments {
        match argument {
            Argument::Value(bytes) => launch.arg_bytes(bytes),
            Argument::Buffer { buffer, .. } => launch.arg(buffer),
        };
    }
    let Shape { grid, block, shared } = shape;
    let config = LaunchConfig { grid_dim: grid.into(), block_dim: block.into(), shared_mem_bytes: shared };
    // SAFETY: cases and programs keep inside the buffers that they ask for; the simulator, which watches each access, runs them clean.
    unsafe { launch.launch(config)? };
    stream.synchronize()?;
    let read = |argument: &Argument| match argument {
        Argument::Buffer { buffer, read_back: true } => Some(stream.clone_dtoh(buffer)),
        _ => None,
    };
    arguments.iter().filter_map(read).collect()
}
