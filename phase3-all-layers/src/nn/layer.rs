//! [`Layer`]: an operation, loaded; and the constructors of those that have parameters.

use common::prelude::*;
use common::reference::Conv2dParams;

use super::{Backend, EPS, Module, Operation, Scope, Value, second};

/// An operation, or a chain of them, that a backend has made ready.
#[derive(Debug)]
pub struct Layer<B: Backend> {
    parts: Vec<Part<B>>,
}

#[derive(Debug)]
struct Part<B: Backend> {
    layer: B::Layer,
    takes_two: bool,
}

impl<B: Backend> Layer<B> {
    /// Makes an operation ready.
    ///
    /// # Errors
    /// As [`Backend::load`].
    pub fn new(scope: &Scope<'_, B>, operation: Operation) -> Result<Self> {
        Layer::load(scope.backend(), vec![operation])
    }

    /// Makes operations ready that follow each other.
    ///
    /// # Errors
    /// As [`Backend::load_chain`].
    pub fn load(backend: &B, operations: Vec<Operation>) -> Result<Self> {
        if operations.len() > 1
            && let Some(layer) = backend.load_chain(&operations)?
        {
            let takes_two = operations.iter().any(Operation::takes_two);
            return Ok(Layer { parts: vec![Part { layer, takes_two }] });
        }
        let part = |operation: Operation| {
            let takes_two = operation.takes_two();
            Ok(Part { layer: backend.load(operation)?, takes_two })
        };
        Ok(Layer { parts: operations.into_iter().map(part).collect::<Result<_>>()? })
    }

    /// A convolution with `weight` of this shape, \[K, C / groups, R, S\], and no bias.
    ///
    /// # Errors
    /// As [`Scope::weight`] and [`Backend::load`].
    pub fn conv2d(scope: &Scope<'_, B>, weight: [usize; 4], params: Conv2dParams) -> Result<Self> {
        let weight = scope.weight("weight", &weight)?;
        Layer::new(scope, Operation::Conv2d { weight, bias: None, params })
    }

    /// The same with a `bias` \[K\].
    ///
    /// # Errors
    /// As [`Layer::conv2d`].
    pub fn conv2d_with_bias(scope: &Scope<'_, B>, weight: [usize; 4], params: Conv2dParams) -> Result<Self> {
        let (weight, bias) = (scope.weight("weight", &weight)?, Some(scope.weight("bias", &weight[..1])?));
        Layer::new(scope, Operation::Conv2d { weight, bias, params })
    }

    /// BatchNorm with running statistics: `weight`, `bias`, `running_mean` and `running_var`.
    ///
    /// # Errors
    /// As [`Layer::conv2d`].
    pub fn batch_norm(scope: &Scope<'_, B>, channels: usize) -> Result<Self> {
        let part = |name| scope.weight(name, &[channels]);
        let (weight, bias) = (part("weight")?, part("bias")?);
        let (mean, variance) = (part("running_mean")?, part("running_var")?);
        Layer::new(scope, Operation::BatchNorm { weight, bias, mean, variance, eps: EPS })
    }

    /// LayerNorm over rows of this length: `weight` and `bias`.
    ///
    /// # Errors
    /// As [`Layer::conv2d`].
    pub fn layer_norm(scope: &Scope<'_, B>, columns: usize) -> Result<Self> {
        let (weight, bias) = (scope.weight("weight", &[columns])?, scope.weight("bias", &[columns])?);
        Layer::new(scope, Operation::LayerNorm { weight, bias, eps: EPS })
    }

    /// A linear layer: `weight` \[outputs, inputs\] and `bias`.
    ///
    /// # Errors
    /// As [`Layer::conv2d`].
    pub fn linear(scope: &Scope<'_, B>, inputs: usize, outputs: usize) -> Result<Self> {
        let (weight, bias) = (scope.weight("weight", &[outputs, inputs])?, scope.weight("bias", &[outputs])?);
        Layer::new(scope, Operation::Linear { weight, bias })
    }

    /// The layer on two values.
    ///
    /// # Errors
    /// As [`Backend::run`].
    pub fn join<'p>(&'p self, x: Value<'p, B>, with: Value<'p, B>) -> Result<Value<'p, B>> {
        self.run(x, Some(with))
    }

    pub(super) fn run<'p>(&'p self, mut x: Value<'p, B>, mut with: Option<Value<'p, B>>) -> Result<Value<'p, B>> {
        let (pass, observer) = (x.pass(), x.observer());
        for Part { layer, takes_two } in &self.parts {
            let with = if *takes_two { Some(second(with.take())?) } else { None };
            x = Value::of(pass, observer, B::run(layer, x, with)?);
        }
        Ok(x)
    }
}

impl<B: Backend> Module<B> for Layer<B> {
    fn forward<'p>(&'p self, x: Value<'p, B>) -> Result<Value<'p, B>> {
        self.run(x, None)
    }
}
