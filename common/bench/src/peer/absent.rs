//! Stand-ins for the libraries in a program built without CUDA: types without values, and the reason why.

use std::convert::Infallible;

use common::device::Stream;
use common::error::{Error, Result};
use common::reference::{BatchNorm, Conv2dParams};
use common::tensor::Tensor;

/// cuBLAS, in a program built without it.
#[derive(Debug)]
pub struct Cublas(Infallible);

/// cuBLAS and cuBLASLt, in a program built without them.
pub struct TensorBlas(Infallible);

/// One of cuBLASLt's algorithms, in a program built without it.
pub struct Suggestion<'l>(Infallible, std::marker::PhantomData<&'l ()>);

/// cuDNN, in a program built without it.
pub struct Cudnn(Infallible);

/// A convolution by cuDNN, in a program built without it.
pub struct CudnnConv2d(Infallible);

fn absent(what: &str, stream: &Stream) -> Error {
    Error::Unsupported {
        what: what.to_owned(),
        device: stream.device().short_name(),
        reason: "this program was built without the `cuda` feature".to_owned(),
    }
}

impl Cublas {
    /// Always fails.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn open(stream: &Stream) -> Result<Cublas> {
        Err(absent("cuBLAS", stream))
    }

    /// Never called: there is no value of this type.
    ///
    /// # Errors
    /// None.
    pub fn gemm(&self, _: &Tensor, _: &Tensor, _: bool, _: f32, _: f32, _: &mut Tensor) -> Result<()> {
        match self.0 {}
    }
}

impl TensorBlas {
    /// Always fails.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn open(stream: &Stream) -> Result<TensorBlas> {
        Err(absent("cuBLAS", stream))
    }

    /// Never called: there is no value of this type.
    #[must_use]
    pub fn in_f32(self) -> TensorBlas {
        match self.0 {}
    }

    /// Never called: there is no value of this type.
    ///
    /// # Errors
    /// None.
    pub fn gemm(&self, _: &Tensor, _: &Tensor, _: bool, _: &mut Tensor) -> Result<()> {
        match self.0 {}
    }

    /// Never called: there is no value of this type.
    ///
    /// # Errors
    /// None.
    pub fn suggestions(&self, _: &Tensor, _: &Tensor, _: bool, _: &Tensor) -> Result<Vec<Suggestion<'_>>> {
        match self.0 {}
    }

    /// Never called: there is no value of this type.
    ///
    /// # Errors
    /// None.
    pub fn suggestions_with_bias(&self, _: &Tensor, _: &Tensor, _: bool, _: &Tensor) -> Result<Vec<Suggestion<'_>>> {
        match self.0 {}
    }
}

impl Suggestion<'_> {
    /// Never called: there is no value of this type.
    ///
    /// # Errors
    /// None.
    pub fn launch(&self, _: &Tensor, _: &Tensor, _: &mut Tensor) -> Result<()> {
        match self.0 {}
    }

    /// Never called: there is no value of this type.
    ///
    /// # Errors
    /// None.
    pub fn launch_with_bias(&self, _: &Tensor, _: &Tensor, _: &Tensor, _: &mut Tensor) -> Result<()> {
        match self.0 {}
    }
}

impl Cudnn {
    /// Always fails.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn open(stream: &Stream) -> Result<Cudnn> {
        Err(absent("cuDNN", stream))
    }

    /// Never called: there is no value of this type.
    ///
    /// # Errors
    /// None.
    pub fn conv2d(&self, _: &Tensor, _: &Tensor, _: Conv2dParams, _: &mut Tensor) -> Result<CudnnConv2d> {
        match self.0 {}
    }

    /// Never called: there is no value of this type.
    ///
    /// # Errors
    /// None.
    pub fn batch_norm(&self, _: &Tensor, _: &BatchNorm<'_>, _: &mut Tensor) -> Result<()> {
        match self.0 {}
    }
}

impl CudnnConv2d {
    /// Never called: there is no value of this type.
    pub fn implementation(&self) -> String {
        match self.0 {}
    }

    /// Never called: there is no value of this type.
    pub fn workspace_bytes(&self) -> usize {
        match self.0 {}
    }

    /// Never called: there is no value of this type.
    ///
    /// # Errors
    /// None.
    pub fn launch(&mut self, _: &Tensor, _: &Tensor, _: Option<&Tensor>, _: &mut Tensor) -> Result<()> {
        match self.0 {}
    }
}
