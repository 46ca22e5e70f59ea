//! Step 9: how does a wrong launch show itself?
//!
//! **Hypothesis.** Most wrong launches can be detected before anything runs, since the kernel's parameters and the device's
//! limits are known. An error that only shows while the kernel runs is different: a GPU reports it late, at the next
//! synchronisation, without a line, and by then the context is lost with all its memory.
//!
//! **Change.** One deliberate mistake per row.
//!
//! **Look at** what each message names: the limit and the value, the parameters, the file and line. The two mistakes inside a
//! kernel always run on their own simulator, even if there is a GPU: the first would destroy this program's context, the second
//! would never end.

use bench::table::{ColumnSpec, Table, TableBuilder, wrap};
use common::compile::KernelSource;
use common::prelude::*;

use crate::{step01_device_query::binary, step04_vector_add, step06_launch_overhead};

/// `kernels/05_mistakes.cu`.
pub const SOURCE: KernelSource = kernel_source!("05_mistakes");

/// A mistake and its error.
#[derive(Debug)]
pub struct Observed {
    /// The mistake.
    pub mistake: &'static str,
    /// The device on which it was made.
    pub device: String,
    /// The error message.
    pub error: Error,
}

/// Name of a mistake, and a function that makes it once.
type Mistake = (&'static str, fn(&Device) -> Result<()>);

/// Mistakes that do no harm on any device.
const ANYWHERE: [Mistake; 8] = [
    ("too many threads in a block", |device| {
        launch_empty(device, LaunchConfig { grid_dim: (1, 1, 1), block_dim: (2048, 1, 1), shared_mem_bytes: 0 })
    }),
    ("a grid without blocks", |device| {
        launch_empty(device, LaunchConfig { grid_dim: (0, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 })
    }),
    ("more shared memory than a block can have", |device| {
        launch_empty(device, LaunchConfig { grid_dim: (1, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 1 << 20 })
    }),
    ("one argument too few", |device| {
        let (stream, kernel, mut buffer) = off_by_one(device)?;
        // SAFETY: rejected before anything runs.
        unsafe { stream.launch_builder(&kernel).arg(&mut buffer).launch(LaunchConfig::for_threads(8)) }
    }),
    ("an argument of the wrong size: u64 for unsigned", |device| {
        let (stream, kernel, mut buffer) = off_by_one(device)?;
        // SAFETY: rejected before anything runs.
        unsafe { stream.launch_builder(&kernel).arg(&mut buffer).arg(&8u64).launch(LaunchConfig::for_threads(8)) }
    }),
    ("a buffer of another device", |device| {
        let (stream, kernel, _) = off_by_one(device)?;
        let mut elsewhere = Device::sim().stream().alloc_zeros::<f32>(8)?;
        // SAFETY: rejected before anything runs.
        unsafe { stream.launch_builder(&kernel).arg(&mut elsewhere).arg(&8u32).launch(LaunchConfig::for_threads(8)) }
    }),
    ("a copy between different lengths", |device| {
        let mut buffer = device.stream().alloc_zeros::<f32>(8)?;
        device.stream().memcpy_htod(&[1.0f32; 9], &mut buffer)
    }),
    ("a kernel that is not in the file", |device| device.kernel(&step04_vector_add::SOURCE, "vector_sub").map(drop)),
];

/// Mistakes inside a kernel, for a simulator.
const INSIDE: [Mistake; 2] = [
    ("a kernel that writes past the end", |sim| {
        let (stream, kernel, mut buffer) = off_by_one(sim)?;
        // SAFETY: the simulator stops the stray write.
        unsafe { stream.launch_builder(&kernel).arg(&mut buffer).arg(&8u32).launch(LaunchConfig::for_threads(8)) }
    }),
    ("a kernel that never ends", |sim| {
        let stream = sim.stream();
        let kernel = sim.kernel(&SOURCE, "endless")?;
        let flag = stream.alloc_zeros::<u32>(1)?;
        // SAFETY: the kernel reads the one flag, and the simulator stops it: nobody is left to write it.
        unsafe { stream.launch_builder(&kernel).arg(&flag).launch(LaunchConfig::linear(1, 1)) }
    }),
];

/// Mistakes in the source, for the compiler.
const IN_SOURCE: Mistake = ("a kernel that is not CUDA C", |device| {
    // ANCHOR: syntax_error
    let source =
        KernelSource::from_text("broken", "extern \"C\" __global__ void broken(float *x) {\n    x[0] = 1.0f\n}\n");
    device.load(&source).map(drop)
    // ANCHOR_END: syntax_error
});

fn launch_empty(device: &Device, config: LaunchConfig) -> Result<()> {
    let kernel = device.kernel(&step06_launch_overhead::SOURCE, "empty")?;
    // SAFETY: the kernel touches no memory.
    unsafe { device.stream().launch_builder(&kernel).launch(config) }
}

/// The kernel `off_by_one`, and eight floats for it.
fn off_by_one(device: &Device) -> Result<(Stream, Kernel, Buffer<f32>)> {
    let stream = device.stream();
    let buffer = stream.alloc_zeros(8)?;
    Ok((stream, device.kernel(&SOURCE, "off_by_one")?, buffer))
}

/// Makes every mistake.
///
/// # Errors
/// [`Error::Invalid`] if one of them went undetected.
pub fn observe(device: &Device) -> Result<Vec<Observed>> {
    let sim = Device::sim();
    let here = ANYWHERE.iter().chain([&IN_SOURCE]).map(|mistake| (device, mistake));
    let simulated = INSIDE.iter().map(|mistake| (&sim, mistake));
    here.chain(simulated)
        .map(|(device, &(mistake, make))| match make(device) {
            Err(error) => Ok(Observed { mistake, device: device.short_name(), error }),
            Ok(()) => Err(Error::Invalid(format!("{mistake}: no error was reported"))),
        })
        .collect()
}

/// The error message of each mistake.
///
/// # Errors
/// Same as [`observe`].
pub fn run(device: &Device) -> Result<Vec<Table>> {
    const MISTAKE: ColumnSpec = ColumnSpec::text("mistake", "mistake");
    const ON: ColumnSpec = ColumnSpec::text("on", "on");
    const SAYS: ColumnSpec = ColumnSpec::text("what it says", "what it says");
    let mut table = TableBuilder::on(device, "errors", &[MISTAKE, ON, SAYS]);
    for Observed { mistake, device, error } in observe(device)? {
        let row = table.row().set(MISTAKE, wrap(mistake, 18)).set(ON, device);
        row.set(SAYS, wrap(&error.to_string(), 66)).complete();
    }
    table.note("The last two always run on a simulator: on a GPU the first would destroy the context, and the second would never return.");
    let shared = binary(device.properties().shared_per_block_optin.into());
    table.note(format!(
        "A block here may have {} threads and {shared}B of shared memory.",
        device.properties().max_threads_per_block
    ));
    Ok(vec![table.finish()])
}
