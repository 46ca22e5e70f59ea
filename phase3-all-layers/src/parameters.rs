//! A model's tensors by name, as a state dict of PyTorch's has them.

use std::collections::BTreeMap;

use common::prelude::*;

/// Tensors on the host, by name.
#[derive(Debug, Default)]
pub struct Parameters(BTreeMap<String, Tensor>);

impl Parameters {
    /// Made of pairs of name and tensor.
    pub fn new(tensors: impl IntoIterator<Item = (String, Tensor)>) -> Parameters {
        Parameters(tensors.into_iter().collect())
    }

    /// The tensor of this name.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is none, [`Error::Shape`] if it has another shape.
    pub fn get(&self, name: &str, shape: &[usize]) -> Result<&Tensor> {
        let tensor = self.0.get(name).ok_or_else(|| Error::Invalid(format!("the parameters have no `{name}`")))?;
        tensor.expect_shape(name, shape)?;
        Ok(tensor)
    }

    /// Names and tensors, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.0.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }
}
