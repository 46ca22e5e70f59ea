//! A convolution 3 × 3 of an upsampled image and, optionally, a skip connection, with neither the upsampled image nor the
//! concatenation in memory: `fusion_04_upsample.cu`.

use bench::ladder::{Expected, positions};
use bytemuck::{Pod, Zeroable};
use common::check::Tolerance;
use common::device::TensorMapConfig;
use common::prelude::*;
use common::reference::{self, Conv2dParams, Reference};
use common::tensor::Element;

use crate::conv::{self, Size, windows};
use crate::gemm::{Activation, Epilogue, LARGEST, Later, Precision, ROW_BYTES, Scales, boxes};
use crate::nhwc::{Concatenate, Upsample};
use crate::tile::{LoadedTile, TileShape, Tiles, Work};

/// In the order in which they are tried.
const SHAPES: [TileShape; 4] = [
    TileShape::new("Large160", "_256x160"),
    TileShape::new("Square160", "_128x160"),
    TileShape::new("Square", "_128x128"),
    TileShape::new("Small", "_64x64"),
];

/// Types that the kernels multiply.
pub const PRECISIONS: [Precision; 2] = [Precision::F16, Precision::Tf32];

/// Parities of a pixel: of its row and its column.
const PARITIES: usize = 4;

/// The kernels, loaded.
#[derive(Clone, Debug)]
pub struct UpsampleConv {
    tiles: Tiles<Precision>,
}

/// `Sizes` of the kernel file.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Sizes {
    half_y: i32,
    half_x: i32,
    of_parity: i32,
    padded: i32,
    first_blocks: i32,
    blocks: i32,
}

impl UpsampleConv {
    /// The kernel file.
    pub const SOURCE: KernelSource = kernel_source!("fusion_04_upsample");

    /// Loads the kernels.
    ///
    /// # Errors
    /// Same as [`Device::kernel`]; [`Error::Unsupported`] before compute capability 9.0.
    pub fn load(device: &Device) -> Result<UpsampleConv> {
        UpsampleConv::load_from(device, &UpsampleConv::SOURCE)
    }

    /// The same from another text, such as a kernel with a mistake that a check must find.
    ///
    /// # Errors
    /// Same as [`UpsampleConv::load`].
    pub fn load_from(device: &Device, source: &KernelSource) -> Result<UpsampleConv> {
        let module = device.load(source)?;
        let name = |precision: Precision| format!("upsample_{precision}");
        Ok(UpsampleConv { tiles: Tiles::load(device, &module, &SHAPES, "F16", &PRECISIONS, name)? })
    }

    /// The same with only one of its tiles; `None` if it does not have that tile.
    pub fn with_tile(&self, name: &str) -> Option<UpsampleConv> {
        Some(UpsampleConv { tiles: self.tiles.only(name)? })
    }

    /// The names of its tiles in the kernel file.
    pub fn tiles(&self) -> impl Iterator<Item = &'static str> {
        self.tiles.names()
    }

    /// Queues y = activation(scale · (alpha · joined ∗ w) + shift + residual), where `joined` has the channels of `small` \[N, C1, H / 2,
    /// W / 2\], each pixel four times, then those of `skip` \[N, C2, H, W\]. `w` is \[K, C1 + C2, 3, 3\] and `y` \[N, K, H, W\], with
    /// stride 1 and padding 1; all in NHWC and of one type, f16 or f32 (multiplied as tf32), on the stream's device. The epilogue is
    /// that of [`conv::Conv::launch`].
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not match; [`Error::Unsupported`] with the reason if the kernels do not support this
    /// type or number of channels; [`Error::ElementType`], [`Error::MemoryFormat`], [`Error::Invalid`] if a tensor is on the
    /// host, [`Error::WrongDevice`].
    pub fn launch(
        &self,
        stream: &Stream,
        small: &Tensor,
        skip: Option<&Tensor>,
        w: &Tensor,
        epilogue: &Epilogue<'_>,
        y: &mut Tensor,
    ) -> Result<()> {
        const WHAT: &str = "a convolution of an upsampled image";
        let ([n, first, half_y, half_x], [k, channels, ..]) = (small.dims4()?, w.dims4()?);
        let second = skip.map_or(Ok(0), |skip| Ok::<_, Error>(skip.dims4()?[1]))?;
        if let Some(skip) = skip {
            skip.expect_shape("the skip connection", &[n, second, 2 * half_y, 2 * half_x])?;
        }
        w.expect_shape(WHAT, &[k, first + second, 3, 3])?;
        let output = [n, k, 2 * half_y, 2 * half_x];
        y.expect_shape("the convolution's y", &output)?;
        for (what, tensor) in [("conv's scale", epilogue.scale), ("conv's shift", epilogue.shift)] {
            tensor.map_or(Ok(()), |tensor| tensor.expect_shape(what, &[k]))?;
        }
        epilogue.residual.map_or(Ok(()), |tensor| tensor.expect_shape("conv's residual", &output))?;
        let refuse = |reason: String| Error::Unsupported {
            what: format!("{WHAT} of {}, {first} + {second} → {k} channels", small.element_type()),
            device: stream.device().short_name(),
            reason,
        };
        if epilogue.blocks.is_some() {
            return Err(refuse(Scales::FOR_PRODUCTS.to_owned()));
        }
        if epilogue.adds_later() {
            return Err(refuse(Later::FOR_CONVOLUTIONS.to_owned()));
        }
        let precision = PRECISIONS.into_iter().find(|precision| precision.input() == small.element_type());
        let precision = precision.ok_or_else(|| refuse("it has kernels for f16 and f32 alone".to_owned()))?;
        let along_k = ROW_BYTES / precision.input().size();
        if !first.is_multiple_of(along_k) || !second.is_multiple_of(along_k) || channels == 0 {
            return Err(refuse(format!("a step takes {along_k} channels of one image, so each must have a multiple")));
        }
        if !k.is_multiple_of(2) {
            return Err(refuse("two channels are stored at a time, so K must be even".to_owned()));
        }
        let of_parity = n * half_y * half_x;
        // Tiles of 256 rows at most are filled up.
        if [PARITIES * (of_parity + 256), 9 * channels, k].into_iter().max() > Some(LARGEST) {
            return Err(refuse(format!("the kernels count to {LARGEST}")));
        }
        if of_parity == 0 || k == 0 {
            return Ok(());
        }
        // Whole tiles for each parity: as many rows as the tile that is chosen for them fills.
        let work = |height: usize| Work {
            rows: PARITIES * of_parity.next_multiple_of(height),
            columns: k,
            steps: 9 * channels / along_k,
            gathered: true,
        };
        let tile = self.tiles.choose(&work(1), precision).ok_or_else(|| refuse("there is no tile".to_owned()))?;
        let work = work(tile.geometry.tile[0]);
        let blocks = self.tiles.grid(tile, &work).ok_or_else(|| refuse("it has too many tiles to count".to_owned()))?;
        let sizes = Sizes {
            half_y: half_y as i32,
            half_x: half_x as i32,
            of_parity: of_parity as i32,
            padded: (work.rows / PARITIES) as i32,
            first_blocks: (first / along_k) as i32,
            blocks: (channels / along_k) as i32,
        };
        let call = Call { stream, small, skip, w, epilogue, sizes, work, along_k };
        match precision {
            Precision::Tf32 => call.launch::<f32>(tile, precision, blocks, y),
            _ => call.launch::<half::f16>(tile, precision, blocks, y),
        }
    }
}

/// Inputs of a launch.
struct Call<'a> {
    stream: &'a Stream,
    small: &'a Tensor,
    skip: Option<&'a Tensor>,
    w: &'a Tensor,
    epilogue: &'a Epilogue<'a>,
    sizes: Sizes,
    work: Work,
    along_k: usize,
}

impl Call<'_> {
    fn launch<T: Element>(
        &self,
        tile: &LoadedTile<Precision>,
        precision: Precision,
        blocks: usize,
        y: &mut Tensor,
    ) -> Result<()> {
        const FORMAT: MemoryFormat = MemoryFormat::Nhwc;
        let Call { stream, epilogue, work, along_k, .. } = *self;
        let [rows, columns] = tile.geometry.tile;
        let depth = work.steps * along_k;
        // The small image under a window of 3 × 3; the skip connection at every second pixel, for both parities under one of 4 × 4.
        let maps = |image, window, stride| windows_of::<T>(image, window, stride, [along_k, rows]);
        let small = stream.tensor_map(self.small.buffer_of::<T>(FORMAT)?, &maps(self.small, 3, 1)?)?;
        let (other, config) = match self.skip {
            Some(skip) => (skip, maps(skip, 4, 2)?),
            None => (self.small, maps(self.small, 3, 1)?), // of which nothing is read
        };
        let skip = stream.tensor_map(other.buffer_of::<T>(FORMAT)?, &config)?;
        let w = self.w.buffer_of::<T>(FORMAT)?;
        let w = stream.tensor_map(w, &boxes(T::TYPE, [work.columns, depth], [columns, along_k]))?;
        let scale = epilogue.scale.map(Tensor::buffer).transpose()?;
        let shift = epilogue.shift.map(Tensor::buffer).transpose()?;
        let residual = epilogue.residual.map(|tensor| tensor.buffer_of::<T>(FORMAT)).transpose()?;
        let [m, n, k] = [work.rows, work.columns, depth].map(|size| size as i32); // up to LARGEST
        let activation = epilogue.activation_number();
        let mut launch = stream.launch_builder(tile.kernel(precision)?);
        launch.arg(&small).arg(&skip).arg(&w).arg(y.buffer_of_mut::<T>(FORMAT)?);
        launch.arg(scale).arg(shift).arg(residual).arg(&m).arg(&n).arg(&k).arg(&epilogue.alpha).arg(&activation);
        launch.arg_bytes(bytemuck::bytes_of(&self.sizes)).dependent();
        let config = LaunchConfig {
            grid_dim: (blocks as u32, 1, 1), // or Error::LaunchConfig
            block_dim: (tile.geometry.threads, 1, 1),
            shared_mem_bytes: tile.geometry.shared_bytes,
        };
        // SAFETY: the kernel writes y [N, H, W, K] and reads both images, w, scale and shift [K] and the residual [N, H, W, K] alone,
        // whose shapes and types were compared; the grid's blocks share out the tiles.
        unsafe { launch.launch(config) }
    }
}

/// An image under a window with padding 1: `channels` of each of `pixels`.
fn windows_of<T: Element>(
    image: &Tensor,
    window: usize,
    stride: usize,
    [channels, pixels]: [usize; 2],
) -> Result<TensorMapConfig> {
    let layer = Size { input: image.dims4()?, filter: [0, 0, window, window], output: [0; 4], stride, padding: 1 };
    Ok(windows(&layer, T::TYPE, channels, pixels))
}

/// A convolution of random images, on the host, and its expected result.
#[derive(Debug)]
pub struct UpsampleProblem {
    small: Tensor,
    skip: Option<Tensor>,
    w: Tensor,
    shift: Tensor,
    expected: Expected,
    output: [usize; 4],
    precision: Precision,
}

/// Number of outputs compared where all would take too long.
const SAMPLE: usize = 1 << 12;

impl UpsampleProblem {
    /// `images` of \[`first`, `height` / 2, `width` / 2\] and, unless `second` is 0, of \[`second`, `height`, `width`\], to `outputs`
    /// channels; with a shift and ReLU.
    ///
    /// # Errors
    /// None: the shapes fit.
    pub fn seeded(
        [images, height, width]: [usize; 3],
        [first, second, outputs]: [usize; 3],
        precision: Precision,
    ) -> Result<UpsampleProblem> {
        let params = Conv2dParams::new(1, 1);
        let rounded = |shape: &[usize], seed: u64| {
            Tensor::random(shape, seed).to_type(precision.input())?.to_type(ElementType::F32)
        };
        let small = rounded(&[images, first, height / 2, width / 2], 1)?;
        let skip = (second > 0).then(|| rounded(&[images, second, height, width], 2)).transpose()?;
        let (w, shift) = (rounded(&[outputs, first + second, 3, 3], 3)?, Tensor::random(&[outputs], 4));
        let (of_small, of_skip) = (small.as_slice()?, skip.as_ref().map(Tensor::as_slice).transpose()?);
        let joined = Tensor::from_fn(&[images, first + second, height, width], |at| match *at {
            [n, c, y, x] if c < first => of_small[((n * first + c) * (height / 2) + y / 2) * (width / 2) + x / 2],
            [n, c, y, x] => of_skip.map_or(0.0, |skip| skip[((n * second + c - first) * height + y) * width + x]),
            _ => 0.0,
        });
        let (plane, len) = (height * width, images * outputs * height * width);
        let all = len * 9 * (first + second) <= 1 << 26;
        // Positions in NHWC, as the kernels write them.
        let places: Vec<usize> = if all { (0..len).collect() } else { positions(len, SAMPLE, 5) };
        let in_planes = |at: usize| {
            let (pixel, channel) = (at / outputs, at % outputs);
            (pixel / plane * outputs + channel) * plane + pixel % plane
        };
        let indices: Vec<usize> = places.iter().map(|&at| in_planes(at)).collect();
        let sums = reference::conv2d_at(&joined, &w, None, params, &indices)?;
        let shifts = shift.as_slice()?;
        let values = sums.values.iter().zip(&places);
        let values = values.map(|(sum, at)| (sum + f64::from(shifts[at % outputs])).max(0.0)).collect();
        // Of tf32 13 bits are cut off from both factors; sums lose up to 2⁻²² of their magnitude for each four products; f16 rounds.
        let magnitude = sums.magnitude + 1.0;
        let terms = 9.0 * (first + second) as f64;
        let (inputs, result) = match precision {
            Precision::Tf32 => (2.0 * 2f64.powi(-10), 2f64.powi(-24)),
            _ => (0.0, 2f64.powi(-11)),
        };
        let lost = magnitude * (inputs + (terms / 4.0 + 4.0) * 2f64.powi(-22));
        let tolerance = Tolerance::new(lost * (1.0 + result) + 2f64.powi(-25), result);
        let reference = Reference { values, terms: 0, magnitude: 0.0 };
        let expected = if all { Expected::all(reference) } else { Expected::sample(len, places, reference)? };
        let stored = |tensor: &Tensor| tensor.to_type(precision.input())?.to_format(MemoryFormat::Nhwc);
        Ok(UpsampleProblem {
            small: stored(&small)?,
            skip: skip.as_ref().map(stored).transpose()?,
            w: stored(&w)?,
            shift,
            expected: expected.within(tolerance),
            output: [images, outputs, height, width],
            precision,
        })
    }

    /// Expected y.
    pub fn expected(&self) -> &Expected {
        &self.expected
    }

    /// Poisoned memory for y.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn output(&self, device: &Device) -> Result<Tensor> {
        let mut y = Tensor::empty_of(device, &self.output, self.precision.input(), MemoryFormat::Nhwc)?;
        y.poison(&device.stream())?;
        Ok(y)
    }

    /// The operands on a device.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn to_device(&self, device: &Device) -> Result<UpsampleOperands> {
        let [images, _, height, width] = self.output;
        let (first, channels) = (self.small.shape()[1], self.w.shape()[1]);
        let empty = |shape: &[usize]| Tensor::empty_of(device, shape, self.precision.input(), MemoryFormat::Nhwc);
        Ok(UpsampleOperands {
            small: self.small.to_device(device)?,
            skip: self.skip.as_ref().map(|skip| skip.to_device(device)).transpose()?,
            w: self.w.to_device(device)?,
            shift: self.shift.to_device(device)?,
            enlarge: Upsample::load(device, 2)?,
            join: Concatenate::load(device, [first, channels - first])?,
            large: empty(&[images, first, height, width])?,
            joined: empty(&[images, channels, height, width])?,
        })
    }
}

/// The operands of both ways on a device.
#[derive(Debug)]
pub struct UpsampleOperands {
    small: Tensor,
    skip: Option<Tensor>,
    w: Tensor,
    shift: Tensor,
    enlarge: Upsample,
    join: Concatenate,
    /// The upsampled image, which only the separate version has.
    large: Tensor,
    /// The upsampled image and the skip connection.
    joined: Tensor,
}

impl UpsampleOperands {
    fn epilogue(shift: &Tensor) -> Epilogue<'_> {
        Epilogue { shift: Some(shift), activation: Activation::Relu, ..Epilogue::default() }
    }

    /// Queues one launch.
    ///
    /// # Errors
    /// Same as [`UpsampleConv::launch`].
    pub fn fused(&self, stream: &Stream, kernels: &UpsampleConv, y: &mut Tensor) -> Result<()> {
        let epilogue = UpsampleOperands::epilogue(&self.shift);
        kernels.launch(stream, &self.small, self.skip.as_ref(), &self.w, &epilogue, y)
    }

    /// Queues two launches, or three with a skip connection.
    ///
    /// # Errors
    /// Same as [`Upsample::launch`] and [`conv::Conv::launch`].
    pub fn separate(&mut self, stream: &Stream, conv: &conv::Tuned, y: &mut Tensor) -> Result<()> {
        self.enlarge.launch(stream, &self.small, &mut self.large)?;
        let x = match &self.skip {
            Some(skip) => {
                self.join.launch(stream, &self.large, skip, &mut self.joined)?;
                &self.joined
            }
            None => &self.large,
        };
        let epilogue = UpsampleOperands::epilogue(&self.shift);
        conv.launch(stream, x, &self.w, Conv2dParams::new(1, 1), &epilogue, y)
    }
}
