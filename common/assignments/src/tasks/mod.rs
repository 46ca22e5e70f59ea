//! Inputs and expected outputs of each exercise's kernel.

mod axes;
mod described;
mod phase1;
mod phase2;
mod phase3;
mod phase4;
mod phase4_ptx;
mod reference;

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result, ensure};
use common::check::Tolerance;
use common::device::LaunchConfig;
use common::tensor::{ElementType, Tensor};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

pub use axes::Axes;
pub use described::{Description, Parameter, Term};
pub use reference::Reference;

/// Defines a name that NVRTC, without <math.h>, lacks.
pub(crate) const INFINITY: &str = "-DINFINITY=__int_as_float(0x7f800000)";

/// Tasks of this program, by their names in `exercise.toml`.
const TASKS: [&[(&str, Make)]; 5] = [phase1::TASKS, phase2::TASKS, phase3::TASKS, phase4::TASKS, phase4_ptx::TASKS];

/// The named sizes of a case.
pub type Sizes = BTreeMap<String, usize>;

/// Makes one case from its sizes and a seed.
pub type Make = fn(&Case<'_>) -> Result<Setup>;

/// The task of an exercise.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Task {
    /// A function of this program.
    BuiltIn(BuiltIn),
    /// Described by `exercise.toml`, and computed by `reference.cu`.
    Described {
        /// Arguments and launch.
        description: Description,
        /// The expected values.
        reference: Reference,
    },
}

/// A task of this program.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BuiltIn {
    name: String,
    make: Make,
}

impl TryFrom<String> for BuiltIn {
    type Error = String;

    fn try_from(name: String) -> Result<BuiltIn, String> {
        match TASKS.iter().copied().flatten().find(|(task, _)| *task == name) {
            Some(&(_, make)) => Ok(BuiltIn { name, make }),
            None => Err(format!("there is no task `{name}`; is this program older than its exercises?")),
        }
    }
}

impl From<BuiltIn> for String {
    fn from(task: BuiltIn) -> String {
        task.name
    }
}

/// Reads `task` of `exercise.toml`: the name of a task of this program, or a description, which is still without its reference.
pub(crate) fn named_or_described<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Task, D::Error> {
    struct NamedOrDescribed;
    impl<'de> Visitor<'de> for NamedOrDescribed {
        type Value = Task;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the name of a task, or a table `[task]`")
        }

        fn visit_str<E: de::Error>(self, name: &str) -> Result<Task, E> {
            BuiltIn::try_from(name.to_owned()).map(Task::BuiltIn).map_err(E::custom)
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Task, A::Error> {
            let description = Description::deserialize(MapAccessDeserializer::new(map))?;
            Ok(Task::Described { description, reference: Reference::default() })
        }
    }
    deserializer.deserialize_any(NamedOrDescribed)
}

/// The sizes of a case, and where its inputs come from.
pub struct Case<'a> {
    /// By name, as in `exercise.toml`.
    pub sizes: &'a Sizes,
    /// Seed of the inputs.
    pub seed: u64,
}

impl Case<'_> {
    /// The size of that name.
    ///
    /// # Errors
    /// If `exercise.toml` gives the case none.
    pub fn size(&self, name: &str) -> Result<usize> {
        self.sizes.get(name).copied().with_context(|| format!("the case has no size `{name}`"))
    }

    /// Distinct, non-zero values in (−1, 1); each `index` gives others.
    pub fn values(&self, shape: &[usize], index: u64) -> Tensor {
        // Evenly spaced values are opposites in pairs, and one alone is always the same. A part of more has neither the sum 0, which a
        // kernel gives that adds nothing, nor values that can be known.
        const MORE: usize = 1021;
        let seed = self.seed.wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let count = shape.iter().product();
        let all = Tensor::random(&[count + MORE], seed).into_vec().expect("random values are on the host");
        Tensor::from_vec(shape, all[..count].to_vec()).expect("one value for each element")
    }

    /// Values between −400 and −200, whose e^x is 0 unless a maximum is subtracted.
    fn logits(&self, shape: &[usize]) -> Result<Tensor> {
        let values = self.values(shape, 0).as_slice()?.iter().map(|x| 100.0 * x - 300.0).collect();
        Ok(Tensor::from_vec(shape, values)?)
    }
}

/// One launch.
pub struct Setup {
    /// In the order of the kernel's parameters.
    pub args: Vec<Argument>,
    /// The geometry.
    pub launch: LaunchConfig,
}

/// An argument of the kernel.
pub enum Argument {
    /// A pointer to values on the device that the kernel leaves as they are.
    Input(Tensor),
    /// A pointer to values that it writes.
    Output(Output),
    /// An `unsigned`.
    U32(u32),
    /// An `int`.
    I32(i32),
    /// A `float`.
    F32(f32),
}

/// A kernel's output.
pub struct Output {
    /// Initial contents; NaN, or −1 in integers, everywhere if `None`.
    pub before: Option<Tensor>,
    /// The type of a value.
    pub element: ElementType,
    /// The names and extents of the axes.
    pub axes: Axes,
    /// The reference's values.
    pub expected: Vec<f64>,
    /// Tolerance of a value.
    pub tolerance: Tolerance,
}

impl Argument {
    /// An output of f32, poisoned before.
    pub fn written(axes: impl Into<Axes>, expected: Vec<f64>, tolerance: Tolerance) -> Argument {
        Argument::written_as(ElementType::F32, axes, expected, tolerance)
    }

    /// An output of another type, poisoned before.
    pub fn written_as(
        element: ElementType,
        axes: impl Into<Axes>,
        expected: Vec<f64>,
        tolerance: Tolerance,
    ) -> Argument {
        Argument::Output(Output { before: None, element, axes: axes.into(), expected, tolerance })
    }

    /// Values that the kernel reads and changes.
    pub fn updated(axes: impl Into<Axes>, before: Tensor, expected: Vec<f64>, tolerance: Tolerance) -> Argument {
        let element = before.element_type();
        Argument::Output(Output { before: Some(before), element, axes: axes.into(), expected, tolerance })
    }

    /// A count, as `unsigned`.
    pub fn count(n: usize) -> Argument {
        Argument::U32(n as u32)
    }
}

/// A grid of `blocks` along x, y and z.
fn grid(blocks: [usize; 3], threads: [u32; 3]) -> LaunchConfig {
    let [x, y, z] = blocks.map(|n| n.max(1) as u32);
    LaunchConfig { grid_dim: (x, y, z), block_dim: threads.into(), shared_mem_bytes: 0 }
}

/// Declarations of a kernel's parameters, as they stand in the text: `const float *x`; fewer if that is unusual.
pub(crate) fn declarations<'a>(source: &'a str, kernel: &str) -> impl Iterator<Item = &'a str> {
    let list = source.split_once(&format!("{kernel}(")).and_then(|(_, rest)| rest.split_once(')'));
    list.into_iter().flat_map(|(list, _)| list.split(',')).map(str::trim)
}

/// Makes a case and validates it.
pub(crate) fn make(task: &Task, case: &Case<'_>) -> Result<Setup> {
    let BuiltIn { name, make } = match task {
        Task::BuiltIn(task) => task,
        Task::Described { description, reference } => return description.make(reference, case),
    };
    let setup = make(case)?;
    for argument in &setup.args {
        if let Argument::Output(output) = argument {
            let (count, values) = (output.axes.count(), output.expected.len());
            ensure!(
                count == values,
                "task `{name}`: {values} values are expected in the shape {:?}",
                output.axes.shape()
            );
        }
    }
    Ok(setup)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_distinct_and_neither_they_nor_their_sum_can_be_known() {
        let sizes = Sizes::default();
        for count in [1, 2, 512, 1000] {
            let of = |seed| Case { sizes: &sizes, seed }.values(&[count], 0).into_vec().unwrap();
            let mut values = of(1);
            let sum: f32 = values.iter().sum();
            assert!(sum.abs() > 1e-3 && values[0] != of(2)[0], "{count}: {sum}");
            values.sort_by(f32::total_cmp);
            assert!(values.windows(2).all(|pair| pair[0] < pair[1]) && !values.contains(&0.0), "{count}");
        }
    }
}
