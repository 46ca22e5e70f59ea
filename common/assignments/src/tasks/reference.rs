//! Expected values of a described task: one thread of the simulator computes them in f64.

use anyhow::{Result, anyhow, ensure};
use common::device::{Buffer, Device, LaunchConfig, SimOptions};
use common::prelude::{Error, KernelSource};
use common::tensor::{Element, ElementType, F8E4M3};
use half::{bf16, f16};
use serde::{Deserialize, Serialize};

use super::{Argument, declarations};

/// Maximum instructions of a launch: some seconds.
const BUDGET: u64 = 30_000_000;
/// Device memory: more than [`super::described`] allows arrays.
const MEMORY: u64 = 256 << 20;

/// The text of `reference.cu`: one kernel `reference`, with the exercise's parameters. Arrays are `double *` there, inputs
/// `const double *`; numbers are what they are.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Reference {
    /// Path of the file without `.cu`.
    pub name: String,
    /// The file's text.
    pub text: String,
}

/// An argument of the reference.
enum Given {
    Array(Buffer<f64>),
    Number([u8; 4]),
}

impl Reference {
    /// Runs the reference, and fills the outputs' expected values.
    ///
    /// # Errors
    /// If it is at fault, or NVRTC is absent.
    pub(super) fn fill(&self, args: &mut [Argument]) -> Result<()> {
        for array in declarations(&self.text, "reference").filter(|parameter| parameter.contains('*')) {
            ensure!(
                array.contains("double"),
                "`{array}`: arrays are `double *` there, whatever they are in the exercise"
            );
        }
        let options = SimOptions { memory: MEMORY, workers: 1, budget: Some(BUDGET), ..SimOptions::default() };
        let device = Device::sim_with(options);
        let stream = device.stream();
        let text = format!("{}\n// nvrtc: {}\n", self.text, super::INFINITY);
        let kernel = device.load(&KernelSource::from_text(&*self.name, text))?.kernel("reference")?;
        let mut given = Vec::new();
        for argument in &*args {
            given.push(match argument {
                Argument::Input(values) => Given::Array(stream.clone_htod(&values.to_f64()?)?),
                Argument::Output(output) => Given::Array(match &output.before {
                    Some(values) => stream.clone_htod(&values.to_f64()?)?,
                    None => stream.alloc_poisoned(output.axes.count())?,
                }),
                Argument::U32(value) => Given::Number(value.to_ne_bytes()),
                Argument::I32(value) => Given::Number(value.to_ne_bytes()),
                Argument::F32(value) => Given::Number(value.to_ne_bytes()),
            });
        }
        let mut launch = stream.launch_builder(&kernel);
        for one in &mut given {
            match one {
                Given::Array(buffer) => launch.arg(buffer),
                Given::Number(bytes) => launch.arg_bytes(bytes),
            };
        }
        // SAFETY: the simulator stops every access outside a buffer.
        unsafe { launch.launch(LaunchConfig::linear(1, 1)) }.map_err(|error| match error {
            Error::Findings { rendered, .. } | Error::Fault { rendered, .. } => anyhow!(rendered),
            error => error.into(),
        })?;
        for (at, (argument, given)) in args.iter_mut().zip(&given).enumerate() {
            if let (Argument::Output(output), Given::Array(buffer)) = (argument, given) {
                let values = stream.clone_dtoh(buffer)?;
                let missing = values.iter().position(|value| value.is_nan());
                ensure!(missing.is_none(), "it leaves no number in element {} of argument {at}", missing.unwrap_or(0));
                output.expected = values.into_iter().map(|value| rounded(output.element, value)).collect();
            }
        }
        Ok(())
    }
}

/// The nearest value of a type.
fn rounded(element: ElementType, x: f64) -> f64 {
    fn to<T: Element>(x: f64) -> f64 {
        T::from_f64(x).to_f64()
    }
    match element {
        ElementType::F32 => to::<f32>(x),
        ElementType::F16 => to::<f16>(x),
        ElementType::BF16 => to::<bf16>(x),
        ElementType::F8E4M3 => to::<F8E4M3>(x),
        ElementType::I8 => to::<i8>(x),
        ElementType::I32 => to::<i32>(x),
    }
}
