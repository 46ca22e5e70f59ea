//! The gradients of y = relu(x·Wᵀ + bias) on tensor cores, in tf32.
//!
//! wgmma reads tf32 only along K, from both operands. dx = g·W runs along the outputs, so W is needed as \[in, out\]; dW = gᵀ·x
//! runs along the batch, so g and x are needed as \[out, batch\] and \[in, batch\]. The kernel that applies the mask writes g in
//! both layouts, as it has each tile in shared memory anyway; W and x take a pass each.

use common::prelude::*;
use phase2_conv_bn::linear::backward::{Gradients, Pass};
use phase2_conv_bn::linear::written::{Mask, MaskedGradient};

use crate::gemm::{Epilogue, Layout, Tuned};

/// The kernels, loaded.
#[derive(Clone, Debug)]
pub struct Backward {
    mask: Mask,
    product: Tuned,
}

/// Intermediate results between the kernels.
#[derive(Debug)]
pub struct Workspace {
    masked: MaskedGradient,
    /// \[in, batch\].
    x: Tensor,
    /// \[in, out\].
    weight: Tensor,
}

impl Backward {
    /// Launches of a pass: mask, sums of parts, two transpositions, two products.
    pub const LAUNCHES: usize = 6;

    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Tuned::load`].
    pub fn load(device: &Device) -> Result<Backward> {
        Ok(Backward { mask: Mask::load(device)?, product: Tuned::load(device)? })
    }

    /// Memory for a layer of this batch, inputs and outputs.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn workspace(&self, device: &Device, [batch, inputs, outputs]: [usize; 3]) -> Result<Workspace> {
        Ok(Workspace {
            masked: self.mask.place(device, [batch, outputs], true)?,
            x: Tensor::empty_on(device, &[inputs, batch])?,
            weight: Tensor::empty_on(device, &[inputs, outputs])?,
        })
    }

    /// Bytes that a pass has to move: each launch reads its inputs and writes its outputs once.
    pub fn bytes([batch, inputs, outputs]: [usize; 3]) -> u64 {
        let (y, x, weight) = (batch * outputs, batch * inputs, inputs * outputs);
        let (mask, transpositions) = (4 * y, 2 * x + 2 * weight);
        let products = (y + weight + x) + (y + x + weight);
        4 * (mask + transpositions + products + outputs) as u64
    }

    /// Queues all three gradients, all f32 on the stream's device; nothing is allocated.
    ///
    /// # Errors
    /// Same as [`Mask::launch`] and [`crate::gemm::Gemm::launch`]: batch, in and out must be multiples of 4.
    pub fn launch(
        &self,
        stream: &Stream,
        pass: Pass<'_>,
        workspace: &mut Workspace,
        gradients: Gradients<'_>,
    ) -> Result<()> {
        let Pass { dy, y, x, weight } = pass;
        let Gradients { dx, dweight, dbias } = gradients;
        let Workspace { masked, x: x_turned, weight: weight_turned } = workspace;
        self.mask.launch(stream, dy, y, masked, dbias)?;
        self.mask.transpose(stream, weight, weight_turned)?;
        self.mask.transpose(stream, x, x_turned)?;
        let plain = Epilogue::default();
        self.product.launch(stream, &masked.g, weight_turned, Layout::Transposed, &plain, dx)?;
        let turned = masked.transposed.as_ref();
        let turned = turned.ok_or_else(|| Error::Invalid("there is no place for g's transpose".to_owned()))?;
        self.product.launch(stream, turned, x_turned, Layout::Transposed, &plain, dweight)
    }
}
