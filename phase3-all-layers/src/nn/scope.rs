//! [`Scope`]: where a constructor finds its parameters, by name.

use std::cell::RefCell;
use std::fmt::Display;
use std::sync::Arc;

use common::prelude::*;

use super::graph::Recorder;
use super::{Backend, Parameters};

/// A part of a model's names, such as `layer1.0`, and the backend that loads the parameters under them.
#[derive(Clone, Debug)]
pub struct Scope<'a, B> {
    backend: &'a B,
    source: Source<'a>,
    name: String,
}

/// Names and shapes, in the order in which a constructor requests them.
type Shapes = Vec<(String, Vec<usize>)>;

#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    Parameters(&'a Parameters),
    /// There are no tensors: requests are recorded.
    Asked(&'a RefCell<Shapes>),
}

impl<'a, B: Backend> Scope<'a, B> {
    /// All of a model's names.
    pub fn new(backend: &'a B, parameters: &'a Parameters) -> Self {
        Scope { backend, source: Source::Parameters(parameters), name: String::new() }
    }

    /// The part of this name or number.
    #[must_use]
    pub fn sub(&self, part: impl Display) -> Self {
        let name = if self.name.is_empty() { part.to_string() } else { format!("{}.{part}", self.name) };
        Scope { name, ..*self }
    }

    /// Name of this part, from the model's root.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Backend that loads layers.
    pub fn backend(&self) -> &'a B {
        self.backend
    }

    /// The parameter of this name.
    ///
    /// # Errors
    /// Same as [`Parameters::get`].
    pub fn weight(&self, name: &str, shape: &[usize]) -> Result<Arc<Tensor>> {
        let name = self.sub(name).name;
        match self.source {
            Source::Parameters(parameters) => Ok(parameters.get(&name, shape)?.clone()),
            Source::Asked(asked) => {
                let mut asked = asked.borrow_mut();
                // Layers may share a parameter.
                if asked.iter().all(|(other, _)| *other != name) {
                    asked.push((name, shape.to_vec()));
                }
                Ok(Arc::new(Tensor::shape_only(shape)))
            }
        }
    }
}

/// Name and shape of every parameter that a constructor requests, in order.
pub fn shapes<M>(construct: impl FnOnce(&Scope<'_, Recorder>) -> Result<M>) -> Vec<(String, Vec<usize>)> {
    let asked = RefCell::default();
    // Nothing is loaded, and nothing can be missing: a constructor that fails does so for every backend.
    let _ = construct(&Scope { backend: &Recorder, source: Source::Asked(&asked), name: String::new() });
    asked.into_inner()
}
