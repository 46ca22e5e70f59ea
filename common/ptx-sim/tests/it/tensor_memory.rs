//! Launches of the kernels of `kernels/tcgen05.cu`, in blocks of 128 threads: one, or a cluster.

use ptx_sim::{Arg, Asynchrony, Device, DeviceConfig, Fault, LaunchConfig, LaunchError, Module};

pub(crate) const PTX: &str = include_str!("../kernels/tcgen05.ptx");
const CU: &str = include_str!("../kernels/tcgen05.cu");

/// A parameter of a kernel.
pub(crate) enum Param<'a> {
    In(&'a [u8]),
    /// Words.
    Out(usize),
    Int(u32),
    Layout([u32; 3]),
}
use Param::*;

/// How a kernel is run.
pub(crate) struct Run {
    /// Blocks of a cooperative launch.
    pub(crate) blocks: Option<u32>,
    pub(crate) cluster: Option<u32>,
    pub(crate) strict: bool,
    pub(crate) sanitize: bool,
    pub(crate) asynchrony: Asynchrony,
}

pub(crate) const RUN: Run =
    Run { blocks: None, cluster: None, strict: true, sanitize: true, asynchrony: Asynchrony::Late };

/// Launches a kernel, and returns the words of its output.
pub(crate) fn launch(kernel: &str, run: &Run, params: &[Param]) -> Result<Vec<u32>, Vec<Fault>> {
    let device = Device::new(DeviceConfig { sanitize: run.sanitize, strict: run.strict, ..Default::default() });
    let module = device.load(&Module::from_ptx(PTX, "tcgen05.ptx").unwrap()).unwrap();
    let mut found = None;
    let args: Vec<Arg> = params
        .iter()
        .map(|param| match param {
            In(bytes) => {
                let pointer = device.alloc(bytes.len() as u64, "operand").unwrap();
                device.write(pointer, bytes).unwrap();
                pointer.into()
            }
            Out(words) => {
                let out = device.alloc(*words as u64 * 4, "out").unwrap();
                found = Some((out, *words));
                out.into()
            }
            Int(value) => Arg::from(*value),
            Layout(words) => Arg::from_bytes(&words.map(u32::to_le_bytes).concat()),
        })
        .collect();
    let config = LaunchConfig {
        grid: [run.blocks.or(run.cluster).unwrap_or(1), 1, 1],
        cooperative: run.blocks.is_some(),
        cluster: run.cluster.map(|blocks| [blocks, 1, 1]),
        block: [128, 1, 1],
        asynchrony: run.asynchrony,
        budget: Some(50_000_000),
        ..Default::default()
    };
    match module.kernel(kernel).unwrap().launch(&config, &args) {
        Ok(_) => {
            let (out, words) = found.unwrap();
            let mut bytes = vec![0; words * 4];
            device.read(out, &mut bytes).unwrap();
            Ok(bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect())
        }
        Err(LaunchError::Findings(findings)) => Err(findings),
        Err(LaunchError::Fault(fault)) => Err(vec![*fault]),
        Err(other) => panic!("{kernel}: {other}"),
    }
}

/// Faults, as people see them.
pub(crate) fn drawn(faults: &[Fault]) -> String {
    faults.iter().map(|fault| crate::unbroken(&fault.render(Some(CU), false)) + "\n").collect()
}

/// Number of a mistake that a kernel can make, which is a constant of an enum.
pub(crate) fn mistake(name: &str) -> u32 {
    let number = |text: &str| {
        let (_, constants) = text.split_once('{')?;
        constants.split_once('}')?.0.split(',').position(|constant| constant.trim() == name)
    };
    CU.split("\nenum ").skip(1).find_map(number).unwrap_or_else(|| panic!("no mistake is called {name}")) as u32
}

/// The line of the source that a fault names.
pub(crate) fn line(fault: &Fault) -> &'static str {
    fault.line.map_or("", |line| CU.lines().nth(line as usize - 1).unwrap().trim())
}
