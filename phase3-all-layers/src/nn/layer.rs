//! [`Layer`]: a loaded operation; and the constructors of those that have parameters.

use common::prelude::*;
use common::reference::Conv2dParams;

use super::{Backend, EPS, Module, Operation, Scope, Value, second};

/// An operation, or a chain of them, that a backend has made ready.
#[derive(Debug)]
pub struct Layer<B: Backend> {
    name: String,
    parts: Vec<Part<B>>,
}

#[derive(Debug)]
struct Part<B: Backend> {
    layer: B::Layer,
    takes_two: bool,
}

impl<B: Backend> Layer<B> {
    /// Loads an operation. The layer is named after the scope and the operation's kind: `layer1.0.relu`.
    ///
    /// # Errors
    /// Same as [`Backend::load`].
    pub fn new(scope: &Scope<'_, B>, operation: Operation) -> Result<Self> {
        let scope = scope.sub(operation.kind().to_lowercase());
        Layer::named(&scope, operation)
    }

    /// Loads an operation whose parameters are those of the scope. The layer has its name: `layer1.0.conv1`.
    fn named(scope: &Scope<'_, B>, operation: Operation) -> Result<Self> {
        Ok(Layer { name: scope.name().to_owned(), ..Layer::load(scope.backend(), vec![operation])? })
    }

    /// Loads consecutive operations as one layer, named after their kinds.
    ///
    /// # Errors
    /// Same as [`Backend::load`].
    pub fn load(backend: &B, operations: Vec<Operation>) -> Result<Self> {
        let name = operations.iter().map(Operation::kind).collect::<Vec<_>>().join(" + ");
        let part = |operation: Operation| {
            let takes_two = operation.takes_two();
            Ok(Part { layer: backend.load(operation)?, takes_two })
        };
        Ok(Layer { name, parts: operations.into_iter().map(part).collect::<Result<_>>()? })
    }

    /// Name for observers and errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A convolution with `weight` of this shape, \[K, C / groups, R, S\], and no bias.
    ///
    /// # Errors
    /// Same as [`Scope::weight`] and [`Backend::load`].
    pub fn conv2d(scope: &Scope<'_, B>, weight: [usize; 4], params: Conv2dParams) -> Result<Self> {
        let weight = scope.weight("weight", &weight)?;
        Layer::named(scope, Operation::Conv2d { weight, bias: None, params })
    }

    /// The same with a `bias` \[K\].
    ///
    /// # Errors
    /// Same as [`Layer::conv2d`].
    pub fn conv2d_with_bias(scope: &Scope<'_, B>, weight: [usize; 4], params: Conv2dParams) -> Result<Self> {
        let (weight, bias) = (scope.weight("weight", &weight)?, Some(scope.weight("bias", &weight[..1])?));
        Layer::named(scope, Operation::Conv2d { weight, bias, params })
    }

    /// BatchNorm with running statistics: `weight`, `bias`, `running_mean` and `running_var`.
    ///
    /// # Errors
    /// Same as [`Layer::conv2d`].
    pub fn batch_norm(scope: &Scope<'_, B>, channels: usize) -> Result<Self> {
        let part = |name| scope.weight(name, &[channels]);
        let (weight, bias) = (part("weight")?, part("bias")?);
        let (mean, variance) = (part("running_mean")?, part("running_var")?);
        Layer::named(scope, Operation::BatchNorm { weight, bias, mean, variance, eps: EPS })
    }

    /// LayerNorm over rows of this length: `weight` and `bias`.
    ///
    /// # Errors
    /// Same as [`Layer::conv2d`].
    pub fn layer_norm(scope: &Scope<'_, B>, columns: usize) -> Result<Self> {
        let (weight, bias) = (scope.weight("weight", &[columns])?, scope.weight("bias", &[columns])?);
        Layer::named(scope, Operation::LayerNorm { weight, bias, eps: EPS })
    }

    /// A linear layer: `weight` \[outputs, inputs\] and `bias`.
    ///
    /// # Errors
    /// Same as [`Layer::conv2d`].
    pub fn linear(scope: &Scope<'_, B>, inputs: usize, outputs: usize) -> Result<Self> {
        let (weight, bias) = (scope.weight("weight", &[outputs, inputs])?, scope.weight("bias", &[outputs])?);
        Layer::named(scope, Operation::Linear { weight, bias })
    }

    /// The layer on two values.
    ///
    /// # Errors
    /// Same as [`Backend::run`].
    pub fn join<'p>(&'p self, x: Value<'p, B>, with: Value<'p, B>) -> Result<Value<'p, B>> {
        self.run(x, Some(with))
    }

    pub(super) fn run<'p>(&'p self, mut x: Value<'p, B>, mut with: Option<Value<'p, B>>) -> Result<Value<'p, B>> {
        let (pass, observed) = (x.pass(), x.observed());
        for Part { layer, takes_two } in &self.parts {
            let with = if *takes_two { Some(second(with.take())?) } else { None };
            x = Value::of(pass, observed, B::run(layer, x, with)?);
        }
        x.observe_layer(&self.name);
        Ok(x)
    }
}

impl<B: Backend> Module<B> for Layer<B> {
    fn forward<'p>(&'p self, x: Value<'p, B>) -> Result<Value<'p, B>> {
        self.run(x, None)
    }
}
