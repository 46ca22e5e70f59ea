//! Tasks that `exercise.toml` describes.

use anyhow::{Context, Result, ensure};
use common::check::Tolerance;
use common::device::LaunchConfig;
use common::tensor::{ElementType, Tensor};
use serde::{Deserialize, Serialize};

use super::{Argument, Axes, Case, Output, Reference, Setup, Sizes};
use crate::arithmetic;

/// Maximum number of elements of all arrays together.
const MAX_ELEMENTS: u64 = 1 << 24;
/// Maximum number of threads of a block.
const MAX_THREADS: u64 = 1024;
/// Range of inputs for which none is given.
const RANGE: [f64; 2] = [-1.0, 1.0];

/// The launch and the arguments of a kernel, as terms of a case's sizes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Blocks along x, y and z; 1 where there is no term.
    pub grid: Vec<Term>,
    /// Threads of a block along x, y and z.
    pub block: Vec<Term>,
    /// In the order of the kernel's parameters.
    pub arguments: Vec<Parameter>,
}

/// A number, or a term as `"rows / 4"`: numbers and sizes with `+`, `-`, `*` and `/`, from left to right, without parentheses. A
/// division rounds up.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number, or a term of the case's sizes as \"rows / 4\"")]
pub enum Term {
    /// The same for all sizes.
    Number(u64),
    /// To be worked out.
    Text(String),
}

impl Term {
    /// Name of an axis of this extent: `row` for `rows`, else a letter. It is axis `at`, from the outermost on, of `of` axes.
    fn axis(&self, at: usize, of: usize) -> String {
        let is_name = |text: &str| text.len() > 1 && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        match self {
            Term::Text(text) if is_name(text) => text.strip_suffix('s').unwrap_or(text).to_owned(),
            _ if of == 1 => "element".to_owned(),
            _ => ('i'..='z').nth(at).unwrap_or('z').to_string(),
        }
    }
}

/// A parameter of the kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Parameter {
    /// A pointer to distinct values that the kernel leaves as they are.
    Input {
        /// Extents, from the outermost on.
        shape: Vec<Term>,
        /// Type of an element.
        #[serde(rename = "type", default = "default_type", with = "Type")]
        element: ElementType,
        /// Smallest and largest value; −1 and 1 if `None`.
        range: Option<[f64; 2]>,
    },
    /// A pointer to values that it writes.
    Output {
        /// Extents, from the outermost on.
        shape: Vec<Term>,
        /// Type of an element, to which the reference's values are rounded.
        #[serde(rename = "type", default = "default_type", with = "Type")]
        element: ElementType,
        /// Allowed distance from the reference's value.
        #[serde(default)]
        tolerance: f64,
        /// Smallest and largest value of those that stand there before; nothing does if `None`.
        before: Option<[f64; 2]>,
    },
    /// An `unsigned`.
    U32(Term),
    /// An `int`.
    I32(Term),
    /// A `float`.
    F32(f32),
}

/// Names of the element types.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ElementType", rename_all = "lowercase")]
enum Type {
    F32,
    F16,
    BF16,
    F8E4M3,
    I8,
    I32,
}

fn default_type() -> ElementType {
    ElementType::F32
}

impl Description {
    /// The launch at these sizes, at which all terms make sense.
    ///
    /// # Errors
    /// If one does not.
    pub(crate) fn check(&self, sizes: &Sizes) -> Result<LaunchConfig> {
        let grid = three(&self.grid, sizes).context("`grid`")?;
        let block = three(&self.block, sizes).context("`block`")?;
        let threads = block.iter().fold(1, |threads: u64, &extent| threads.saturating_mul(extent.into()));
        ensure!(threads <= MAX_THREADS, "`block`: {threads} threads; at most {MAX_THREADS} are possible");
        let mut elements = 0u64;
        for (at, parameter) in self.arguments.iter().enumerate() {
            let more = parameter.check(sizes).with_context(|| format!("argument {at}"))?;
            elements = elements.saturating_add(more);
        }
        ensure!(elements <= MAX_ELEMENTS, "the arrays have {elements} elements; at most {MAX_ELEMENTS} are possible");
        let is_output = |parameter: &Parameter| matches!(parameter, Parameter::Output { .. });
        ensure!(self.arguments.iter().any(is_output), "no argument is an output");
        Ok(LaunchConfig { grid_dim: grid.into(), block_dim: block.into(), shared_mem_bytes: 0 })
    }

    /// Makes a case.
    pub(super) fn make(&self, reference: &Reference, case: &Case<'_>) -> Result<Setup> {
        let launch = self.check(case.sizes)?;
        let args = (0..).zip(&self.arguments).map(|(index, parameter)| parameter.argument(case, index));
        let mut args = args.collect::<Result<Vec<_>>>()?;
        let at_fault = || format!("{}.cu, which gives the expected values, is at fault", reference.name);
        reference.fill(&mut args).with_context(at_fault)?;
        Ok(Setup { args, launch })
    }
}

impl Parameter {
    /// Number of elements of the array; 0 if it is none.
    fn check(&self, sizes: &Sizes) -> Result<u64> {
        let (shape, range) = match self {
            Parameter::Input { shape, element, range } => {
                // Between −1 and 1, all would be 0.
                ensure!(range.is_some() || !is_integer(*element), "inputs of {element} need a `range`");
                (shape, range)
            }
            Parameter::Output { shape, tolerance, before, .. } => {
                ensure!(*tolerance >= 0.0 && tolerance.is_finite(), "`tolerance` is a number from 0 on");
                (shape, before)
            }
            Parameter::U32(term) => {
                return u32::try_from(term.value(sizes)?).ok().context("more than u32 holds").map(|_| 0);
            }
            Parameter::I32(term) => {
                return i32::try_from(term.value(sizes)?).ok().context("more than i32 holds").map(|_| 0);
            }
            Parameter::F32(value) => {
                ensure!(value.is_finite(), "an f32 is finite");
                return Ok(0);
            }
        };
        let [from, to] = range.unwrap_or(RANGE);
        let is_f32 = |x: f64| (x as f32).is_finite();
        ensure!(
            from <= to && is_f32(from) && is_f32(to),
            "a range is two numbers, and the first is not above the other"
        );
        let mut elements = 1u64;
        for term in shape {
            elements = elements.saturating_mul(term.positive(sizes)?);
        }
        Ok(elements)
    }

    /// The argument, without expected values. It was checked.
    fn argument(&self, case: &Case<'_>, index: u64) -> Result<Argument> {
        let number = |term: &Term| term.value(case.sizes);
        let extents = |shape: &[Term]| shape.iter().map(|term| Ok(number(term)? as usize)).collect::<Result<Vec<_>>>();
        Ok(match self {
            Parameter::Input { shape, element, range } => {
                Argument::Input(values(case, &extents(shape)?, *element, range.unwrap_or(RANGE), index)?)
            }
            Parameter::Output { shape, element, tolerance, before } => {
                let axes: Axes =
                    (0..).zip(shape).map(|(at, term)| term.axis(at, shape.len())).zip(extents(shape)?).collect();
                let element = *element;
                let before = before.map(|range| values(case, &axes.shape(), element, range, index)).transpose()?;
                let tolerance = Tolerance::absolute(*tolerance);
                Argument::Output(Output { before, element, axes, expected: Vec::new(), tolerance })
            }
            Parameter::U32(term) => Argument::U32(number(term)? as u32),
            Parameter::I32(term) => Argument::I32(number(term)? as i32),
            Parameter::F32(value) => Argument::F32(*value),
        })
    }
}

impl Term {
    fn value(&self, sizes: &Sizes) -> Result<u64> {
        match self {
            Term::Number(value) => Ok(*value),
            Term::Text(term) => {
                let size = |name: &str| sizes.get(name).map(|&size| size as u64);
                arithmetic::value(term, size, |a, b| (b > 0).then(|| a.div_ceil(b)))
            }
        }
    }

    fn positive(&self, sizes: &Sizes) -> Result<u64> {
        let value = self.value(sizes)?;
        let text = match self {
            Term::Number(value) => value.to_string(),
            Term::Text(term) => term.clone(),
        };
        ensure!(value > 0, "`{text}` is 0");
        Ok(value)
    }
}

/// Extents along x, y and z.
fn three(terms: &[Term], sizes: &Sizes) -> Result<[u32; 3]> {
    ensure!((1..=3).contains(&terms.len()), "one to three numbers are expected, and there are {}", terms.len());
    let mut extents = [1; 3];
    for (term, extent) in terms.iter().zip(&mut extents) {
        *extent = u32::try_from(term.positive(sizes)?).ok().context("more than u32 holds")?;
    }
    Ok(extents)
}

fn is_integer(element: ElementType) -> bool {
    matches!(element, ElementType::I8 | ElementType::I32)
}

/// Values of a range: in f32 they are distinct.
fn values(case: &Case<'_>, shape: &[usize], element: ElementType, [from, to]: [f64; 2], index: u64) -> Result<Tensor> {
    // So that the first and the last integer occur as often as others.
    let beyond = if is_integer(element) { 0.5 } else { 0.0 };
    let (low, high) = (from - beyond, to + beyond);
    let placed = |x: &f32| ((low + (f64::from(*x) + 1.0) / 2.0 * (high - low)).clamp(from, to)) as f32;
    Ok(Tensor::from_vec(shape, case.values(shape, index).as_slice()?.iter().map(placed).collect())?.to_type(element)?)
}
