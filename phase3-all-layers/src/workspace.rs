//! Where activations live between layers.

use std::collections::HashMap;

use common::prelude::*;

/// Tensors on a device that are free to be used again. A forward pass takes one for each result and gives it back when the last
/// layer that reads it is queued; what is queued later on the same stream runs later. The second pass of the same shapes finds all
/// that it needs.
#[derive(Debug)]
pub struct Workspace {
    device: Device,
    free: HashMap<Vec<usize>, Vec<Tensor>>,
    bytes: usize,
}

impl Workspace {
    /// An empty one.
    pub fn new(device: &Device) -> Workspace {
        Workspace { device: device.clone(), free: HashMap::new(), bytes: 0 }
    }

    /// A tensor of this shape. What it holds is anything: NaN, or a result of before.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or what the driver reports.
    pub fn take(&mut self, shape: &[usize]) -> Result<Tensor> {
        if let Some(tensor) = self.free.get_mut(shape).and_then(Vec::pop) {
            return Ok(tensor);
        }
        let tensor = Tensor::empty_on(&self.device, shape)?;
        self.bytes += tensor.len() * size_of::<f32>();
        Ok(tensor)
    }

    /// Takes a tensor back that nothing queued from now on will read.
    pub fn give(&mut self, tensor: Tensor) {
        self.free.entry(tensor.shape().to_vec()).or_default().push(tensor);
    }

    /// All that was allocated so far, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
