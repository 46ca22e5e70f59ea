//! [`Value`]: a tensor that flows between layers.

use std::borrow::{Borrow, BorrowMut};
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use common::prelude::*;

use super::Backend;

/// Called with the name of a block or of a layer, and its output.
pub type Observer<'p> = &'p (dyn Fn(&str, &Tensor) + Sync);

/// An observer, and the outputs that it sees.
#[derive(Clone, Copy)]
pub(super) struct Observed<'p> {
    observer: Observer<'p>,
    by: Grain,
}

/// Outputs that an observer sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// The output of each block that a model names.
    Block,
    /// The output of every layer, by its [`super::Layer::name`], in the order in which they run.
    Layer,
}

/// A tensor on its way through a network, in a forward pass of a backend.
///
/// It is moved into the layer that needs it last, which ends its life; earlier layers get a clone, which costs next to nothing.
/// So the moves in a model's code state how long each result is needed, and an operation may work in place where nothing else
/// holds the value.
pub struct Value<'p, B: Backend> {
    home: Home<'p, B::Output>,
    pass: &'p B::Pass,
    observed: Option<Observed<'p>>,
}

enum Home<'p, T> {
    /// An input of the network, which belongs to the caller.
    Given(&'p Tensor),
    /// The result of a layer.
    Result(Rc<T>),
}

impl<'p, B: Backend> Value<'p, B> {
    /// An input of a network.
    pub fn given(pass: &'p B::Pass, tensor: &'p Tensor) -> Self {
        Value { home: Home::Given(tensor), pass, observed: None }
    }

    /// A result.
    pub fn result(pass: &'p B::Pass, result: B::Output) -> Self {
        Value { home: Home::Result(Rc::new(result)), pass, observed: None }
    }

    /// Another input of the network, in the pass of this value and with the same observer.
    #[must_use]
    pub fn beside(&self, tensor: &'p Tensor) -> Self {
        Value { observed: self.observed, ..Value::given(self.pass, tensor) }
    }

    /// The same value; `observer` sees the outputs from here on.
    #[must_use]
    pub fn observed_by(self, by: Grain, observer: Observer<'p>) -> Self {
        Value { observed: Some(Observed { observer, by }), ..self }
    }

    /// A result in the pass of this value, with the same observer.
    #[must_use]
    pub fn next(&self, result: B::Output) -> Self {
        Value::of(self.pass, self.observed, result)
    }

    pub(super) fn of(pass: &'p B::Pass, observed: Option<Observed<'p>>, result: B::Output) -> Self {
        Value { observed, ..Value::result(pass, result) }
    }

    /// The pass.
    pub fn pass(&self) -> &'p B::Pass {
        self.pass
    }

    pub(super) fn observed(&self) -> Option<Observed<'p>> {
        self.observed
    }

    /// The backend's result; `None` if it is an input.
    pub fn as_result(&self) -> Option<&B::Output> {
        match &self.home {
            Home::Given(_) => None,
            Home::Result(result) => Some(result),
        }
    }

    /// Reports this to the observer of blocks, if there is one, as the output of the block of this name.
    pub fn observe(&self, name: &str) {
        self.tell(Grain::Block, name);
    }

    /// Reports this to the observer of layers, if there is one, as the output of the layer of this name.
    pub(super) fn observe_layer(&self, name: &str) {
        self.tell(Grain::Layer, name);
    }

    fn tell(&self, grain: Grain, name: &str) {
        if let Some(Observed { observer, by }) = self.observed
            && by == grain
        {
            observer(name, self);
        }
    }

    /// Its memory for writing: a copy if the value is an input or is needed again.
    ///
    /// # Errors
    /// Same as [`Backend::copy`].
    pub fn own(self) -> Result<B::Output> {
        match self.home {
            Home::Given(tensor) => B::copy(self.pass, tensor),
            Home::Result(result) => Rc::try_unwrap(result).or_else(|shared| B::copy(self.pass, (*shared).borrow())),
        }
    }

    /// The same values in another shape, without a copy unless the value is an input or is needed again.
    ///
    /// # Errors
    /// [`Error::Shape`] if the number of values differs; same as [`Backend::copy`].
    pub fn reshape(self, shape: &[usize]) -> Result<Self> {
        if self.shape() == shape {
            return Ok(self);
        }
        // Before the tensor is taken out of its place.
        Tensor::shape_only_of(self.shape(), self.element_type(), self.format())?.reshape(shape)?;
        let (pass, observed) = (self.pass, self.observed);
        let mut result = self.own()?;
        let tensor: &mut Tensor = result.borrow_mut();
        *tensor = std::mem::replace(tensor, Tensor::shape_only(&[0])).reshape(shape)?;
        Ok(Value::of(pass, observed, result))
    }
}

impl<B: Backend> Clone for Value<'_, B> {
    fn clone(&self) -> Self {
        let home = match &self.home {
            Home::Given(tensor) => Home::Given(tensor),
            Home::Result(result) => Home::Result(result.clone()),
        };
        Value { home, ..*self }
    }
}

impl<B: Backend> Deref for Value<'_, B> {
    type Target = Tensor;

    fn deref(&self) -> &Tensor {
        match &self.home {
            Home::Given(tensor) => tensor,
            Home::Result(result) => (**result).borrow(),
        }
    }
}

impl<B: Backend> fmt::Debug for Value<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Value").field(&self.shape()).finish()
    }
}
