//! A stand-in for NCCL in a program built without CUDA: a type without values, and the reason why.

use std::convert::Infallible;

use common::device::{Buffer, Stream};
use common::error::{Error, Result};

/// NCCL, in a program built without it.
#[derive(Debug)]
pub struct Nccl(Infallible);

impl Nccl {
    /// Always fails.
    ///
    /// # Errors
    /// [`Error::Unsupported`], or [`Error::Invalid`] without a stream.
    pub fn open(streams: &[Stream]) -> Result<Nccl> {
        let stream = streams.first().ok_or_else(|| Error::Invalid("NCCL takes one stream at least".to_owned()))?;
        Err(Error::Unsupported {
            what: "NCCL".to_owned(),
            device: stream.device().short_name(),
            reason: "this program was built without the `cuda` feature".to_owned(),
        })
    }

    /// Never called: there is no value of this type.
    ///
    /// # Errors
    /// None.
    pub fn all_reduce(&self, _: &[Buffer<f32>], _: &mut [Buffer<f32>], _: usize) -> Result<()> {
        match self.0 {}
    }
}
