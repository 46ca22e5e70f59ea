//! Descriptions of networks: layers, the scopes that name their parameters, and the values that flow between them.
//!
//! A model (see [`crate::models`]) is written once: a constructor that asks a [`Scope`] for its layers, and a `forward` that
//! passes a [`Value`] from one to the next. What runs it is a [`Backend`] (see [`crate::backends`]): the CPU, a device, or something
//! of both. From that one description follow
//!
//! | what | how |
//! | --- | --- |
//! | names and shapes of the parameters | [`shapes`] runs the constructor in a scope without tensors |
//! | a network that is ready to run | the same constructor, in a scope over [`Parameters`], has a backend load each [`Operation`] |
//! | a forward pass | [`Module::forward`], over the values of that backend |
//! | the plan of a device's memory | the same, over shapes alone: where a value is moved to last, its life ends |
//! | the list of all operations | the same, over the backend [`graph::Recorder`], which writes down what it is asked for |
//!
//! # Rewrites
//! A faster version of a model is not another description of it. [`graph::Graph::record`] turns any module into a list of operations,
//! each with its parameters, on which a rewrite works: fold a BatchNorm into the convolution that it follows, gather operations that
//! one kernel can do into a chain, change element types and memory formats. A graph can be printed, before and after; loaded on any
//! backend, it is a [`Module`] again, which runs the parts of a chain one after the other, so that each rewrite can be checked on the
//! CPU; `tests/it/graph.rs` does all of that with ResNet. One executor, [`schedule::Schedule`], runs what is left: such a module, and the
//! plans of phase 4, which have one kernel for a chain.
//!
//! # To add a layer
//! 1. Its variant in [`Operation`], with its kind, and a constructor on [`Layer`] if it has parameters.
//! 2. What it does in [`crate::backends::Cpu`] and in [`crate::backends::Unfused`].
//!
//! The halfway backends, graphs and chains take every operation that those two take.

pub mod graph;
mod layer;
mod operation;
pub mod parameters;
pub mod schedule;
mod scope;
mod value;

pub use layer::Layer;
pub(crate) use operation::needs_others;
pub use operation::{Operation, second};
pub use parameters::Parameters;
pub use scope::{Scope, shapes};
pub use value::{Grain, Observer, Value};

use std::borrow::BorrowMut;
use std::fmt::Debug;

use common::prelude::*;

/// Added to the variances of BatchNorm and LayerNorm by every model here.
pub const EPS: f32 = 1e-5;

/// Computes one value from another: a single layer or a whole network. Its parameters and kernels are already loaded.
pub trait Module<B: Backend>: Debug {
    /// Runs it on `x`, or queues it.
    ///
    /// # Errors
    /// [`Error::Shape`] if `x` does not fit; errors of the backend.
    fn forward<'p>(&'p self, x: Value<'p, B>) -> Result<Value<'p, B>>;
}

/// Runs layers.
pub trait Backend: Debug + Sized + 'static {
    /// A loaded operation: with kernels, and with its parameters where and in the form that the kernels need.
    type Layer: Debug + Send + Sync;
    /// State of a forward pass besides layers and values, such as a queue to launch kernels on.
    type Pass;
    /// A result: a tensor, and the action at the end of its life.
    type Output: BorrowMut<Tensor>;

    /// Loads an operation.
    ///
    /// # Errors
    /// Errors of copies and kernels.
    fn load(&self, operation: Operation) -> Result<Self::Layer>;

    /// Runs `layer` on `x`, or queues it; `with` is the second operand of those operations that have one. An operation that works in
    /// place takes the memory of `x` by [`Value::own`].
    ///
    /// # Errors
    /// [`Error::Shape`] if the operands do not fit the layer or one another; errors of the backend.
    fn run(layer: &Self::Layer, x: Value<'_, Self>, with: Option<Value<'_, Self>>) -> Result<Self::Output>;

    /// Another tensor with the values of `x`: for an operation that works in place on a value that is needed again.
    ///
    /// # Errors
    /// Errors of the backend.
    fn copy(pass: &Self::Pass, x: &Tensor) -> Result<Self::Output>;
}
