//! The convolutions that the ladder is measured with: ResNet18's, and those of a video U-Net.

use bench::ladder::Cost;
use common::reference::Conv2dParams;

/// A square convolution without bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Images.
    pub batch: usize,
    /// Input channels.
    pub channels: usize,
    /// Output channels.
    pub out_channels: usize,
    /// Height and width of the window; half of it, rounded down, is the padding, which keeps a size at stride 1.
    pub window: usize,
    /// In both dimensions.
    pub stride: usize,
    /// Height and width of the input.
    pub size: usize,
}

/// Shape for one image.
pub const fn shape(channels: usize, out_channels: usize, window: usize, stride: usize, size: usize) -> Shape {
    Shape { batch: 1, channels, out_channels, window, stride, size }
}

/// The distinct convolutions of ResNet18: the stem, those of 3 × 3, and the shortcuts.
pub const RESNET18: [Shape; 11] = [
    shape(3, 64, 7, 2, 224),
    shape(64, 64, 3, 1, 56),
    shape(128, 128, 3, 1, 28),
    shape(256, 256, 3, 1, 14),
    shape(512, 512, 3, 1, 7),
    shape(64, 128, 3, 2, 56),
    shape(128, 256, 3, 2, 28),
    shape(256, 512, 3, 2, 14),
    shape(64, 128, 1, 2, 56),
    shape(128, 256, 1, 2, 28),
    shape(256, 512, 1, 2, 14),
];
/// Batch sizes that they are measured with.
pub const RESNET18_BATCHES: [usize; 2] = [1, 32];

/// The U-Net's convolutions of 3 × 3 where their channels stay, by its levels.
pub const U_NET: [Shape; 4] =
    [shape(320, 320, 3, 1, 64), shape(640, 640, 3, 1, 32), shape(1280, 1280, 3, 1, 16), shape(1280, 1280, 3, 1, 8)];
/// Batch size that they are measured with.
pub const U_NET_BATCH: usize = 2;

impl Shape {
    /// All shapes that are measured on a GPU.
    pub fn all() -> impl Iterator<Item = Shape> {
        let resnet18 = RESNET18_BATCHES.into_iter().flat_map(|batch| RESNET18.map(|shape| shape.images(batch)));
        resnet18.chain(U_NET.map(|shape| shape.images(U_NET_BATCH)))
    }

    /// The same for this number of images.
    pub const fn images(self, batch: usize) -> Shape {
        Shape { batch, ..self }
    }

    /// `256→512 3/2 @14 ×32`: [`NOTATION`] explains it.
    pub fn name(self) -> String {
        let Shape { batch, channels, out_channels, window, stride, size } = self;
        let stride = if stride == 1 { String::new() } else { format!("/{stride}") };
        format!("{channels}→{out_channels} {window}{stride} @{size} ×{batch}")
    }

    /// The measured shape of this name.
    pub fn from_name(name: &str) -> Option<Shape> {
        Shape::all().find(|shape| shape.name() == name)
    }

    /// Stride and padding.
    pub fn params(self) -> Conv2dParams {
        Conv2dParams::new(self.stride, self.window / 2)
    }

    /// \[N, C, H, W\].
    pub fn input(self) -> [usize; 4] {
        [self.batch, self.channels, self.size, self.size]
    }

    /// \[K, C, R, S\].
    pub fn weight(self) -> [usize; 4] {
        [self.out_channels, self.channels, self.window, self.window]
    }

    /// \[N, K, P, Q\].
    pub fn output(self) -> [usize; 4] {
        let size = (self.size + self.window / 2 * 2 - self.window) / self.stride + 1;
        [self.batch, self.out_channels, size, size]
    }

    /// Two operations per multiply-add, padding counted as any value; input, weight and output once each.
    pub fn cost(self) -> Cost {
        let values = |shape: [usize; 4]| shape.iter().product::<usize>() as f64;
        let outputs = values(self.output());
        Cost {
            flops: 2.0 * outputs * (self.channels * self.window * self.window) as f64,
            bytes: 4.0 * (values(self.input()) + values(self.weight()) + outputs),
            values: outputs,
        }
    }
}

/// Note below tables with names of shapes.
pub const NOTATION: &str =
    "C→K R/s @H ×N: a window R × R with stride s (1, if none is said) over N images of C × H × H, padding R / 2.";

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use common::Tensor;

    use super::*;

    #[test]
    fn a_shape_is_found_by_its_name_and_knows_its_output() {
        assert_eq!(Shape::all().count(), 26);
        for shape in Shape::all() {
            assert_eq!(Shape::from_name(&shape.name()), Some(shape));
            let (x, w) = (Tensor::zeros(&shape.images(1).input()), Tensor::zeros(&shape.weight()));
            let output = shape.params().output_shape(&x, &w).unwrap();
            assert_eq!(output[1..], shape.output()[1..], "{}", shape.name());
        }
        let stem = Shape::from_name("3→64 7/2 @224 ×32").unwrap();
        assert_eq!(stem.output(), [32, 64, 112, 112]);
        assert_eq!(stem.cost().flops, 2.0 * 32.0 * 64.0 * 12544.0 * 147.0);
        assert!(Shape::from_name("3→64 7/2 @224 ×33").is_none());
    }
}
