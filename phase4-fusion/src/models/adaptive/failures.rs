//! Deliberate failures of a format: the same networks with other numbers in them. In f32 they compute the same to the last bit,
//! since all factors are powers of two.

use common::prelude::*;
use phase3_all_layers::nn::Parameters;

/// A residual block of a ResNet, by the prefix of its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Block(pub &'static str);

impl Block {
    /// The first block of the digits' network whose second convolution has a shortcut to add.
    pub const OF_DIGITS: Block = Block("layer2.0");
    /// 4.0 times this exceeds 65504.
    pub const FACTOR: f32 = 32768.0;
    /// Eight bits: what all other weights of a layer have beside one that is so much larger.
    pub const OUTLIER: f32 = 1024.0;

    // ANCHOR: beyond
    /// Multiplies the values between the block's convolutions by `factor`, in the BatchNorm before them, and divides the weights
    /// that use them by it.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a parameter is not on the host.
    pub fn enlarged(self, parameters: &Parameters, factor: f32) -> Result<Parameters> {
        self.changed(parameters, |part, _| match part {
            "bn1.weight" | "bn1.bias" => factor,
            "conv2.weight" => 1.0 / factor,
            _ => 1.0,
        })
    }

    /// Multiplies the first filter of the block's first convolution by `factor`, which its BatchNorm undoes.
    ///
    /// # Errors
    /// Same as [`Block::enlarged`].
    pub fn with_outlier(self, parameters: &Parameters, factor: f32) -> Result<Parameters> {
        self.changed(parameters, |part, channel| match (part, channel) {
            ("conv1.weight" | "bn1.running_mean", 0) => factor,
            ("bn1.weight", 0) => 1.0 / factor,
            _ => 1.0,
        })
    }
    // ANCHOR_END: beyond

    /// Parameters multiplied by `factor` of the block's part and its first dimension.
    fn changed(self, parameters: &Parameters, factor: impl Fn(&str, usize) -> f32) -> Result<Parameters> {
        let change = |(name, value): (&str, &Tensor)| {
            let part = name.strip_prefix(self.0).and_then(|rest| rest.strip_prefix('.'));
            let each = (value.len() / value.shape().first().copied().unwrap_or(1).max(1)).max(1);
            let times = |(at, value): (usize, &f32)| part.map_or(*value, |part| value * factor(part, at / each));
            let values = value.as_slice()?.iter().enumerate().map(times).collect();
            Ok((name.to_owned(), Tensor::from_vec(value.shape(), values)?))
        };
        Ok(Parameters::new(parameters.iter().map(change).collect::<Result<Vec<_>>>()?))
    }
}
