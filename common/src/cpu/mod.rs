//! Carefully optimised layers on the CPU, for a fair comparison with the GPU: all cores, vector units, data that stays in
//! caches.
//!
//! | layer | here | the naive baseline, in [`crate::reference`] |
//! | --- | --- | --- |
//! | matrix product | tiles of [`matrixmultiply`], packed for its vector kernels, on every core | three loops |
//! | convolution | im2col, one panel at a time, then the product (Chellapilla, Puri and Simard, 2006) | seven loops |
//! | BatchNorm | one scale and one shift per channel | the formula |
//! | ReLU, linear layer | composed of the layers above | one loop, four loops |
//! | max pooling | across rows first, then along each row | one loop |
//! | LayerNorm, softmax, transposition, attention | rows and panels that stay in caches | |
//!
//! `matrixmultiply` is the product that `ndarray` uses: pure Rust, kernels for AVX-512, AVX2, NEON and others chosen at run
//! time. Work is spread over the threads of the rayon pool that calls it.

mod elementwise;
mod sequence;

pub use elementwise::{
    add_channel_in_place, add_in_place, add_noise, concatenate, diffusion_step, gelu_in_place, silu_in_place, silu_sum,
    timestep_embedding, upsample_nearest,
};
pub use sequence::{attention, layer_norm, row_norm, softmax_in_place, transpose};

use std::cell::RefCell;

use rayon::prelude::*;

use crate::Tensor;
use crate::error::{Error, Result};
use crate::parallel;
use crate::reference::{BatchNorm, Conv2dParams, MaxPool2d, linear_size};

/// Threads for times worth keeping: each stays on a core of its own, if the system allows it, so that repeated runs do not differ
/// by their cores.
pub fn pinned_threads() -> rayon::ThreadPoolBuilder {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    rayon::ThreadPoolBuilder::new().start_handler(move |thread| {
        if let Some(core) = cores.get(thread % cores.len().max(1)) {
            core_affinity::set_for_current(*core);
        }
    })
}

/// A pool of one thread, on the first core, for plain loops.
///
/// # Errors
/// [`Error::Invalid`] if the system cannot start a thread.
pub fn one_pinned_thread() -> Result<rayon::ThreadPool> {
    let pool = pinned_threads().num_threads(1).build();
    pool.map_err(|error| Error::Invalid(format!("no thread for the CPU's part: {error}")))
}

/// Values per task if there is little work for each: 64 KB fit in a core's cache.
const PART: usize = 1 << 14;

/// A matrix in memory: its first element and its strides.
#[derive(Clone, Copy)]
struct Matrix<P> {
    first: P,
    row: usize,
    column: usize,
}

// SAFETY: used for reading memory that lives as long as the tasks do.
unsafe impl Send for Matrix<*const f32> {}
// SAFETY: as above.
unsafe impl Sync for Matrix<*const f32> {}
// SAFETY: used for writing memory that lives as long as the tasks do, each element by one task.
unsafe impl Send for Matrix<*mut f32> {}
// SAFETY: as above.
unsafe impl Sync for Matrix<*mut f32> {}

impl Matrix<*const f32> {
    /// The part that begins at this row and column.
    fn part_at(self, row: usize, column: usize) -> Self {
        Matrix { first: self.first.wrapping_add(row * self.row + column * self.column), ..self }
    }
}

impl Matrix<*mut f32> {
    /// The part that begins at this row and column.
    fn part_at(self, row: usize, column: usize) -> Self {
        Matrix { first: self.first.wrapping_add(row * self.row + column * self.column), ..self }
    }
}

/// C = A·B on this thread.
///
/// # Safety
/// A \[m, k\] and B \[k, n\] must be in memory that is not written meanwhile, C \[m, n\] in memory that nothing else uses.
unsafe fn product([m, n, k]: [usize; 3], a: Matrix<*const f32>, b: Matrix<*const f32>, c: Matrix<*mut f32>) {
    let [ra, ca, rb, cb, rc, cc] = [a.row, a.column, b.row, b.column, c.row, c.column].map(|stride| stride as isize);
    // SAFETY: the caller's promise. With beta 0 C is not read.
    unsafe { matrixmultiply::sgemm(m, k, n, 1.0, a.first, ra, ca, b.first, rb, cb, 0.0, c.first, rc, cc) }
}

/// C = A·B with A \[M, K\], B \[K, N\] or, `transposed`, \[N, K\], C \[M, N\], all row-major.
///
/// # Errors
/// [`Error::Shape`] if a slice's length does not match M, N, K.
pub fn gemm(a: &[f32], b: &[f32], m: usize, n: usize, k: usize, transposed: bool) -> Result<Vec<f32>> {
    if Some(a.len()) != m.checked_mul(k) || Some(b.len()) != k.checked_mul(n) {
        let detail =
            format!("A has {} values and B has {}, which does not match M = {m}, N = {n}, K = {k}", a.len(), b.len());
        return Err(Error::shape("gemm on the CPU", detail));
    }
    let mut c = vec![0.0f32; m * n];
    let (row, column) = if transposed { (1, k) } else { (n, 1) };
    let a = Matrix { first: a.as_ptr(), row: k, column: 1 };
    let b = Matrix { first: b.as_ptr(), row, column };
    let of_c = Matrix { first: c.as_mut_ptr(), row: n, column: 1 };
    // Tiles small enough that each thread gets a few, but large enough that packing their operands does not matter.
    let (mut rows, mut columns) = (m, n);
    let wanted = 4 * rayon::current_num_threads();
    while m.div_ceil(rows.max(1)) * n.div_ceil(columns.max(1)) < wanted && rows.max(columns) > 128 {
        if rows > columns { rows = rows.div_ceil(2) } else { columns = columns.div_ceil(2) }
    }
    let across = n.div_ceil(columns.max(1));
    (0..m.div_ceil(rows.max(1)) * across).into_par_iter().for_each(|tile| {
        let (row, column) = (tile / across * rows, tile % across * columns);
        let size = [rows.min(m - row), columns.min(n - column), k];
        // SAFETY: the tile lies inside all three, whose lengths were compared, and no two tiles of C overlap.
        unsafe { product(size, a.part_at(row, 0), b.part_at(0, column), of_c.part_at(row, column)) };
    });
    Ok(c)
}

/// relu(x·Wᵀ + bias) with x \[batch, in\], W \[out, in\], bias \[out\].
///
/// # Errors
/// [`Error::Shape`] if the shapes do not fit one another, [`Error::Invalid`] if a tensor is on a device.
pub fn linear_relu(x: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor> {
    linear_then(x, weight, bias, clip)
}

/// x·Wᵀ + bias with x \[batch, in\], W \[out, in\], bias \[out\].
///
/// # Errors
/// Same as [`linear_relu`].
pub fn linear(x: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor> {
    linear_then(x, weight, bias, |value| value)
}

fn linear_then(x: &Tensor, weight: &Tensor, bias: &Tensor, then: impl Fn(f32) -> f32 + Sync) -> Result<Tensor> {
    let [batch, inputs, outputs] = linear_size(x, weight)?;
    bias.expect_shape("linear's bias", &[outputs])?;
    let bias = bias.as_slice()?;
    let mut y = gemm(x.as_slice()?, weight.as_slice()?, batch, outputs, inputs, true)?;
    parallel::change_chunks(&mut y, outputs, &|_, row| {
        row.iter_mut().zip(bias).for_each(|(value, bias)| *value = then(*value + bias));
    });
    Tensor::from_vec(&[batch, outputs], y)
}

/// The convolution of [`crate::reference::conv2d`].
///
/// # Errors
/// Same as there.
pub fn conv2d(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>, params: Conv2dParams) -> Result<Tensor> {
    let shape = params.output_shape(input, weight)?;
    let [images, _, height, width] = input.dims4()?;
    let [out_channels, in_group, window_y, window_x] = weight.dims4()?;
    if let Some(bias) = bias {
        bias.expect_shape("conv2d's bias", &[out_channels])?;
    }
    let (values, weights, bias) = (input.as_slice()?, weight.as_slice()?, bias.map(Tensor::as_slice).transpose()?);
    let (plane, pixels) = (height * width, shape[2] * shape[3]);
    let (out_group, depth) = (out_channels / params.groups, in_group * window_y * window_x);
    let len = shape.iter().product();
    if len == 0 {
        return Tensor::from_vec(&shape, Vec::new());
    }
    let groups = images * params.groups;
    // The window of a 1×1 convolution without stride and padding is the pixel itself: the columns are the input.
    let as_it_is = [window_y, window_x] == [1, 1] && params.stride == [1, 1] && params.padding == [0, 0];
    let window = Window { size: [height, width], window: [window_y, window_x], out_width: shape[3], params };
    let split = Split::new(groups, out_group, pixels, [in_group, window_y * window_x]);
    let [panels, parts] = [pixels.div_ceil(split.panel), in_group.div_ceil(split.channels).max(1)];
    // The destination of the sums: the output, or, if sums are split into parts, one part after another. Not cleared first,
    // which a single thread would have to do before all others start.
    let mut sums = Vec::<f32>::with_capacity(parts * len);
    let out = Matrix { first: sums.as_mut_ptr(), row: pixels, column: 1 };
    (0..groups * panels * parts).into_par_iter().for_each(|task| {
        let (of, panel, part) = (task / parts / panels, task / parts % panels, task % parts);
        let (first, channel) = (panel * split.panel, part * split.channels);
        let (count, channels) = (split.panel.min(pixels - first), split.channels.min(in_group - channel));
        let size = [out_group, count, channels * window_y * window_x];
        let row = of % params.groups * out_group;
        let a = Matrix { first: weights.as_ptr(), row: depth, column: 1 }.part_at(row, channel * window_y * window_x);
        let c = out.part_at((part * groups + of) * out_group, first);
        let input = &values[(of * in_group + channel) * plane..][..channels * plane];
        let multiply = |b| {
            // SAFETY: A is the weights of this group and these channels; B is `count` columns of as many rows as A has columns; C
            // is those columns of this group's rows of one part of the sums, which belong to this task alone.
            unsafe { product(size, a, b, c) }
        };
        if as_it_is {
            return multiply(Matrix { first: input.as_ptr(), row: plane, column: 1 }.part_at(0, first));
        }
        COLUMNS.with_borrow_mut(|columns| {
            columns.resize(columns.len().max(size[1] * size[2]), 0.0);
            window.columns(input, first, count, &mut columns[..size[1] * size[2]]);
            multiply(Matrix { first: columns.as_ptr(), row: count, column: 1 });
        });
    });
    // SAFETY: the tasks have written every panel of every row of every part.
    unsafe { sums.set_len(parts * len) };
    let (output, others) = sums.split_at_mut(len);
    if parts > 1 || bias.is_some() {
        output.par_chunks_mut(pixels).with_min_len(PART.div_ceil(parts * pixels)).enumerate().for_each(
            |(row, values)| {
                for part in others.chunks_exact(len) {
                    values.iter_mut().zip(&part[row * pixels..]).for_each(|(sum, value)| *sum += value);
                }
                if let Some(bias) = bias {
                    values.iter_mut().for_each(|value| *value += bias[row % out_channels]);
                }
            },
        );
    }
    sums.truncate(len);
    // A result must not keep the memory of its parts alive.
    sums.shrink_to_fit();
    Tensor::from_vec(&shape, sums)
}

thread_local! {
    /// The columns of this thread's current task; the memory is reused for the next one.
    static COLUMNS: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Split of a convolution into tasks: by its shape alone, so that the order of sums does not depend on the number of
/// threads.
struct Split {
    /// Pixels per task.
    panel: usize,
    /// Input channels per task: the task computes their share of the sums.
    channels: usize,
}

impl Split {
    /// For `groups` groups with the given output channels and pixels, each output a sum over [channels, values of a window].
    fn new(groups: usize, outputs: usize, pixels: usize, [channels, window]: [usize; 2]) -> Split {
        // A task with this many multiplications takes about 50 µs, long compared with the cost of scheduling it.
        const ENOUGH: usize = 1 << 22;
        // A few tasks for each thread of a large host.
        const TASKS: usize = 64;
        // Columns of at most a megabyte, which stay in a core's cache until they are multiplied.
        let panel = ((1 << 18) / (channels * window).max(1)).clamp(64, 1024);
        // Whole tiles of the product's kernels, whose widths divide 16.
        let even = |panel: usize| pixels.div_ceil(pixels.div_ceil(panel)).next_multiple_of(16);
        let mut split = Split { panel: even(panel), channels: channels.max(1) };
        let tasks = |split: &Split| groups * pixels.div_ceil(split.panel) * channels.div_ceil(split.channels);
        while tasks(&split) < TASKS && outputs * split.panel.min(pixels) * split.channels * window > ENOUGH {
            // Few pixels per task reread many weights, few channels rewrite many sums: tasks are kept square.
            if split.panel > 16 && (split.panel > split.channels * window || split.channels == 1) {
                split.panel = even(split.panel / 2);
            } else if split.channels > 1 {
                split.channels = split.channels.div_ceil(2);
            } else {
                break;
            }
        }
        split
    }
}

/// The source of a convolution's columns.
struct Window {
    /// Size of the image.
    size: [usize; 2],
    window: [usize; 2],
    out_width: usize,
    params: Conv2dParams,
}

impl Window {
    /// Writes the windows of the outputs [first, first + count) of a plane, with zeros outside the image, to columns \[channels
    /// · R · S, count\].
    fn columns(&self, channels: &[f32], first: usize, count: usize, columns: &mut [f32]) {
        let ([height, width], [window_y, window_x]) = (self.size, self.window);
        let Conv2dParams { stride, padding, dilation, .. } = self.params;
        for (row, values) in columns.chunks_exact_mut(count).enumerate() {
            let (channel, r, s) = (row / (window_y * window_x), row / window_x % window_y, row % window_x);
            let image = &channels[channel * height * width..][..height * width];
            // Outputs x whose column x·stride + s·dilation − padding is in [0, width).
            let offset = s * dilation[1];
            let begin = padding[1].saturating_sub(offset).div_ceil(stride[1]);
            let end = (width + padding[1]).saturating_sub(offset).div_ceil(stride[1]);
            // One run of outputs within a row of the output after another.
            let (mut y, mut x) = (first / self.out_width, first % self.out_width);
            let mut rest = values;
            while !rest.is_empty() {
                let (run, after) = rest.split_at_mut((self.out_width - x).min(rest.len()));
                let from_row = (y * stride[0] + r * dilation[0]).checked_sub(padding[0]).filter(|&row| row < height);
                let (begin, end) = (begin.clamp(x, x + run.len()), end.clamp(x, x + run.len()));
                if let Some(from_row) = from_row.filter(|_| begin < end) {
                    let line = &image[from_row * width..][..width];
                    let line = &line[begin * stride[1] + offset - padding[1]..];
                    run[..begin - x].fill(0.0);
                    let inside = &mut run[begin - x..end - x];
                    match stride[1] {
                        1 => inside.copy_from_slice(&line[..inside.len()]),
                        step => inside.iter_mut().zip(line.iter().step_by(step)).for_each(|(to, from)| *to = *from),
                    }
                    run[end - x..].fill(0.0);
                } else {
                    run.fill(0.0);
                }
                (rest, y, x) = (after, y + 1, 0);
            }
        }
    }
}

/// The normalisation of [`crate::reference::batch_norm`], with one multiplication and one addition per value.
///
/// # Errors
/// Same as there.
pub fn batch_norm(input: &Tensor, norm: &BatchNorm<'_>) -> Result<Tensor> {
    let (folded, plane) = folded(input, norm)?;
    let mut output = vec![0.0f32; input.len()];
    let planes = output.par_chunks_mut(plane).zip(input.as_slice()?.par_chunks(plane)).enumerate();
    planes.with_min_len(PART.div_ceil(plane)).for_each(|(i, (to, from))| {
        let [scale, shift] = folded[i % folded.len()];
        to.iter_mut().zip(from).for_each(|(to, from)| *to = from * scale + shift);
    });
    Tensor::from_vec(input.shape(), output)
}

/// [`batch_norm`] in place, for the same reason as [`relu_in_place`].
///
/// # Errors
/// Same as there.
pub fn batch_norm_in_place(x: &mut Tensor, norm: &BatchNorm<'_>) -> Result<()> {
    let (folded, plane) = folded(x, norm)?;
    x.as_mut_slice()?.par_chunks_mut(plane).with_min_len(PART.div_ceil(plane)).enumerate().for_each(|(i, plane)| {
        let [scale, shift] = folded[i % folded.len()];
        plane.iter_mut().for_each(|value| *value = *value * scale + shift);
    });
    Ok(())
}

/// The factor and the summand of a normalisation for each channel, and the number of values in a channel's plane, at least 1.
fn folded(x: &Tensor, norm: &BatchNorm<'_>) -> Result<(Vec<[f32; 2]>, usize)> {
    let [_, _, height, width] = x.dims4()?;
    let fold = |[weight, bias, mean, variance]: [f32; 4]| {
        let scale = weight / (variance + norm.eps).sqrt();
        [scale, bias - mean * scale]
    };
    Ok((norm.channels(x)?.into_iter().map(fold).collect(), (height * width).max(1)))
}

/// max(x, 0) over the values of `x`; NaN stays NaN. In place, since moving the values is all the work: a result in new memory
/// would cost more, because the system clears each page on its first write.
///
/// # Errors
/// [`Error::Invalid`] if the tensor is on a device.
pub fn relu_in_place(x: &mut Tensor) -> Result<()> {
    elementwise::change(x, clip)
}

/// [`crate::reference::max_pool2d`]: across rows first, for the vector units, then along each row.
///
/// # Errors
/// Same as there.
pub fn max_pool2d(input: &Tensor, pool: MaxPool2d) -> Result<Tensor> {
    let shape = pool.output_shape(input)?;
    let [_, _, height, width] = input.dims4()?;
    let larger = |most: f32, value: f32| if value > most || value.is_nan() { value } else { most };
    let mut output = vec![0.0f32; shape.iter().product()];
    let planes = input.as_slice()?.par_chunks((height * width).max(1));
    output.par_chunks_mut(shape[2] * shape[3]).zip(planes).for_each_init(Vec::new, |most, (to, from)| {
        for (row, to) in to.chunks_exact_mut(shape[3]).enumerate() {
            most.clear();
            most.resize(width, f32::NEG_INFINITY);
            for row in pool.span(row, height) {
                let row = &from[row * width..][..width];
                most.iter_mut().zip(row).for_each(|(most, value)| *most = larger(*most, *value));
            }
            for (column, to) in to.iter_mut().enumerate() {
                *to = most[pool.span(column, width)].iter().copied().fold(f32::NEG_INFINITY, larger);
            }
        }
    });
    Tensor::from_vec(&shape, output)
}

fn clip(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Tolerance, assert_close};
    use crate::reference;

    #[test]
    fn products_of_every_size_match_the_reference() {
        for [m, n, k] in
            [[1, 1, 1], [3, 5, 7], [200, 300, 70], [1, 1000, 33], [500, 2, 9], [0, 3, 2], [2, 0, 3], [4, 3, 0]]
        {
            let (a, b) = (Tensor::random(&[m, k], 1), Tensor::random(&[k, n], 2));
            let (a, b) = (a.as_slice().unwrap(), b.as_slice().unwrap());
            for transposed in [false, true] {
                let expected = reference::Gemm { transposed, ..reference::Gemm::new(a, b, m, n, k) }.all().unwrap();
                let c = gemm(a, b, m, n, k, transposed).unwrap();
                assert_close(&c, &expected.values, expected.tolerance());
            }
        }
        let error = gemm(&[1.0; 4], &[1.0; 4], 2, 2, 3, false).unwrap_err().to_string();
        assert_eq!(error, "gemm on the CPU: A has 4 values and B has 4, which does not match M = 2, N = 2, K = 3");
    }

    #[test]
    fn linear_matches_the_reference() {
        for [batch, inputs, outputs] in [[1, 1, 1], [33, 70, 150], [2, 3, 0], [0, 3, 2], [3, 0, 2]] {
            let (x, weight) = (Tensor::random(&[batch, inputs], 1), Tensor::random(&[outputs, inputs], 2));
            let bias = Tensor::random(&[outputs], 3);
            let expected = reference::linear_relu(&x, &weight, &bias).unwrap();
            for y in [linear_relu(&x, &weight, &bias), reference::linear_relu_f32(&x, &weight, &bias)] {
                let y = y.unwrap();
                assert_eq!(y.shape(), [batch, outputs]);
                assert_close(y.as_slice().unwrap(), &expected.values, expected.tolerance());
            }
            let product =
                reference::Gemm::new(x.as_slice().unwrap(), weight.as_slice().unwrap(), batch, outputs, inputs);
            let bias_of = Some(bias.as_slice().unwrap());
            let expected = reference::Gemm { transposed: true, bias: bias_of, ..product }.all().unwrap();
            let y = linear(&x, &weight, &bias).unwrap();
            assert_close(y.as_slice().unwrap(), &expected.values, expected.tolerance());
        }
    }

    #[test]
    fn convolutions_of_every_kind_match_the_reference() {
        let new = Conv2dParams::new;
        let cases = [
            ([1, 1, 1, 1], [1, 1, 1, 1], new(1, 0)),
            ([2, 5, 7, 6], [3, 5, 1, 1], new(1, 0)),
            ([2, 5, 7, 6], [3, 5, 1, 1], new(2, 0)),
            ([2, 5, 7, 6], [3, 5, 1, 1], new(1, 1)),
            ([1, 3, 31, 29], [5, 3, 7, 7], new(2, 3)),
            // More than one panel.
            ([2, 4, 40, 37], [6, 4, 3, 3], new(1, 1)),
            ([1, 1, 3, 3], [2, 1, 2, 2], new(1, 4)),
            ([1, 2, 2, 3], [2, 2, 5, 5], new(1, 2)),
            ([1, 2, 11, 11], [2, 2, 2, 2], new(5, 1)),
            (
                [2, 6, 9, 12],
                [4, 3, 3, 2],
                Conv2dParams { stride: [2, 1], padding: [1, 2], dilation: [1, 2], groups: 2 },
            ),
            ([1, 3, 15, 14], [4, 3, 3, 3], Conv2dParams { dilation: [2, 3], stride: [1, 2], ..new(1, 4) }),
            ([2, 7, 8, 9], [7, 1, 3, 3], Conv2dParams { groups: 7, ..new(1, 1) }),
            // Few pixels and many channels: several tasks share a sum.
            ([1, 131, 7, 7], [130, 131, 3, 3], new(1, 1)),
            ([2, 401, 5, 7], [530, 401, 1, 1], new(1, 0)),
            ([1, 130, 15, 12], [400, 65, 3, 3], Conv2dParams { groups: 2, ..new(2, 1) }),
            // One channel, and more work than one task should have.
            ([1, 1, 40, 40], [256, 1, 8, 8], new(1, 0)),
            ([1, 1, 7, 7], [6000, 1, 7, 7], new(1, 3)),
            ([1, 0, 4, 4], [128, 0, 3, 3], new(1, 1)),
            ([0, 3, 8, 8], [4, 3, 3, 3], new(1, 1)),
            ([2, 3, 8, 8], [0, 3, 3, 3], new(1, 1)),
            ([2, 0, 4, 4], [3, 0, 3, 3], new(1, 1)),
        ];
        for (seed, (input, weight, params)) in (1..).zip(cases) {
            let (x, w) = (Tensor::random(&input, seed), Tensor::random(&weight, seed + 100));
            let b = Tensor::random(&weight[..1], seed + 200);
            for bias in [None, Some(&b)] {
                let expected = reference::conv2d(&x, &w, bias, params).unwrap();
                let y = conv2d(&x, &w, bias, params).unwrap();
                assert_eq!(y.shape(), params.output_shape(&x, &w).unwrap());
                assert_close(y.as_slice().unwrap(), &expected.values, expected.tolerance());
            }
        }
    }

    #[test]
    fn max_pooling_matches_the_reference_and_keeps_nan() {
        for (shape, window, stride, padding) in
            [([2, 3, 9, 7], 3, 2, 1), ([1, 1, 1, 1], 1, 1, 0), ([1, 2, 8, 11], 2, 3, 0), ([0, 3, 4, 4], 3, 1, 1)]
        {
            let pool = MaxPool2d { window, stride, padding };
            let mut x = Tensor::random(&shape, 1);
            if let Some(value) = x.as_mut_slice().unwrap().get_mut(5) {
                *value = f32::NAN;
            }
            let (y, expected) = (max_pool2d(&x, pool).unwrap(), reference::max_pool2d(&x, pool).unwrap());
            assert_eq!(y.shape(), expected.shape());
            let bits = |y: &Tensor| y.as_slice().unwrap().iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&y), bits(&expected));
        }
        let pool = MaxPool2d { window: 5, stride: 1, padding: 0 };
        assert!(max_pool2d(&Tensor::random(&[1, 1, 3, 3], 1), pool).is_err());
    }

    #[test]
    fn batch_norm_and_relu_match_the_reference() {
        for shape in [[2, 3, 5, 7], [1, 1, 1, 1], [3, 5, 64, 65], [0, 3, 4, 4], [2, 3, 0, 4]] {
            let x = Tensor::random(&shape, 1);
            let part = |seed| Tensor::random(&shape[1..2], seed);
            let variance = Tensor::from_fn(&shape[1..2], |i| 0.5 + i[0] as f32);
            let (weight, bias, mean) = (part(2), part(3), part(4));
            let norm = BatchNorm { weight: &weight, bias: &bias, mean: &mean, variance: &variance, eps: 1e-5 };
            let expected = reference::batch_norm(&x, &norm).unwrap();
            let y = batch_norm(&x, &norm).unwrap();
            assert_close(y.as_slice().unwrap(), &expected.values, expected.tolerance());
            let mut in_place = x.to_host().unwrap();
            batch_norm_in_place(&mut in_place, &norm).unwrap();
            assert_eq!(in_place.as_slice().unwrap(), y.as_slice().unwrap());
            let expected = reference::relu(&x).unwrap();
            let mut y = x.to_host().unwrap();
            relu_in_place(&mut y).unwrap();
            assert_close(y.as_slice().unwrap(), &expected.values, Tolerance::exact());
        }
        let mut nan = Tensor::from_vec(&[2], vec![f32::NAN, -1.0]).unwrap();
        relu_in_place(&mut nan).unwrap();
        let nan = nan.into_vec().unwrap();
        assert!(nan[0].is_nan() && nan[1] == 0.0);
    }
}
