//! cuDNN: its convolution, with the algorithm it finds fastest, and its BatchNorm, to compare with.

use std::ffi::c_void;
use std::rc::Rc;
use std::sync::Arc;

use cudarc::cudnn::result::{self, CudnnError};
use cudarc::cudnn::sys;
use cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut};

use super::open::{failed, int, open, view, view_mut};
use crate::device::{Buffer, Stream};
use crate::error::{Error, Result};
use crate::probe::Library;
use crate::reference::{BatchNorm, Conv2dParams};
use crate::tensor::Tensor;

const NCHW: sys::cudnnTensorFormat_t = sys::cudnnTensorFormat_t::CUDNN_TENSOR_NCHW;
const F32: sys::cudnnDataType_t = sys::cudnnDataType_t::CUDNN_DATA_FLOAT;
/// Only multiply-adds in f32: no tensor cores, so no TF32.
const MATH: sys::cudnnMathType_t = sys::cudnnMathType_t::CUDNN_FMA_MATH;

/// cuDNN may try algorithms that need up to this much memory besides the tensors, if it is free.
const MOST_WORKSPACE: u64 = 4 << 30;

/// A handle to cuDNN that queues its work on one stream.
pub struct Cudnn {
    library: Rc<Handle>,
}

/// A convolution of one shape, with the algorithm that cuDNN found fastest, and the memory that it needs.
pub struct CudnnConv2d {
    library: Rc<Handle>,
    input: Layout,
    weight: Filter,
    bias: Layout,
    convolution: Convolution,
    output: Layout,
    algorithm: sys::cudnnConvolutionFwdAlgo_t,
    workspace: Buffer<u8>,
    /// Shapes of input, weight and output: the arguments of `launch` must have them.
    shapes: [[usize; 4]; 3],
}

struct Handle {
    raw: sys::cudnnHandle_t,
    cuda: Arc<CudaStream>,
    stream: Stream,
}

impl Drop for Handle {
    fn drop(&mut self) {
        let context = self.cuda.context();
        context.record_err(context.bind_to_thread());
        // SAFETY: created once, destroyed once. A failure can't be reported here.
        let _ = unsafe { result::destroy_handle(self.raw) };
    }
}

impl Handle {
    fn fail(&self, error: CudnnError) -> Error {
        failed(Library::Cudnn, &self.stream, error)
    }

    fn int(&self, size: usize) -> Result<i32> {
        int(Library::Cudnn, &self.stream, size)
    }

    fn dims(&self, tensor: &Tensor) -> Result<[i32; 4]> {
        let mut dims = [0; 4];
        for (dim, size) in dims.iter_mut().zip(tensor.dims4()?) {
            *dim = self.int(size)?;
        }
        match tensor.is_empty() {
            false => Ok(dims),
            true => Err(Error::Unsupported {
                what: format!("cuDNN on a tensor {:?}", tensor.shape()),
                device: self.stream.device().short_name(),
                reason: "it does not take empty tensors".to_owned(),
            }),
        }
    }
}

/// A cuDNN descriptor, destroyed on drop.
macro_rules! descriptor {
    ($name:ident, $raw:ty, $create:path, $destroy:path) => {
        struct $name($raw);

        impl $name {
            fn new() -> Result<$name, CudnnError> {
                Ok($name($create()?))
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: created once, destroyed once. A failure can't be reported here.
                let _ = unsafe { $destroy(self.0) };
            }
        }
    };
}

descriptor!(Layout, sys::cudnnTensorDescriptor_t, result::create_tensor_descriptor, result::destroy_tensor_descriptor);
descriptor!(Filter, sys::cudnnFilterDescriptor_t, result::create_filter_descriptor, result::destroy_filter_descriptor);
descriptor!(
    Convolution,
    sys::cudnnConvolutionDescriptor_t,
    result::create_convolution_descriptor,
    result::destroy_convolution_descriptor
);

impl Layout {
    /// Of f32 in NCHW.
    fn nchw(dims: [i32; 4]) -> Result<Layout, CudnnError> {
        let layout = Layout::new()?;
        // SAFETY: the descriptor was just created.
        unsafe { result::set_tensor4d_descriptor(layout.0, NCHW, F32, dims) }?;
        Ok(layout)
    }
}

impl Filter {
    /// \[out_channels, C / groups, R, S\].
    fn kcrs(dims: [i32; 4]) -> Result<Filter, CudnnError> {
        let filter = Filter::new()?;
        // SAFETY: the descriptor was just created.
        unsafe { result::set_filter4d_descriptor(filter.0, F32, NCHW, dims) }?;
        Ok(filter)
    }
}

impl Convolution {
    fn geometry(padding: [i32; 2], stride: [i32; 2], dilation: [i32; 2], groups: i32) -> Result<Self, CudnnError> {
        let convolution = Convolution::new()?;
        let mode = sys::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION;
        let ([pad_y, pad_x], [stride_y, stride_x], [dilation_y, dilation_x]) = (padding, stride, dilation);
        // SAFETY: the descriptor was just created.
        unsafe {
            result::set_convolution2d_descriptor(
                convolution.0,
                pad_y,
                pad_x,
                stride_y,
                stride_x,
                dilation_y,
                dilation_x,
                mode,
                F32,
            )?;
            result::set_convolution_group_count(convolution.0, groups)?;
            result::set_convolution_math_type(convolution.0, MATH)?;
        }
        Ok(convolution)
    }
}

fn pointer(scalar: &f32) -> *const c_void {
    std::ptr::from_ref(scalar).cast()
}

impl Cudnn {
    /// Opens the library for work on `stream`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if it is not installed, with the command that installs it, and on the simulator; [`Error::Cuda`]
    /// if it fails to start.
    pub fn open(stream: &Stream) -> Result<Cudnn> {
        // cuDNN looks for cuBLAS by name, and would not find the one in a wheel.
        let _ = Library::Cublas.open();
        let cuda = open(Library::Cudnn, stream, sys::is_culib_present)?.clone();
        let fail = |error| failed(Library::Cudnn, stream, error);
        let raw = result::create_handle().map_err(fail)?;
        let library = Handle { raw, cuda, stream: stream.clone() };
        // SAFETY: handle and stream are alive; both types are the driver's stream.
        unsafe { result::set_stream(raw, library.cuda.cu_stream().cast()) }.map_err(fail)?;
        Ok(Cudnn { library: Rc::new(library) })
    }

    /// Lets cuDNN run all of its algorithms for this shape, with the values given, and keeps the fastest; `output` is
    /// overwritten. Only algorithms that multiply and add in f32 take part.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not fit one another, [`Error::Unsupported`] for shapes that cuDNN does not take,
    /// [`Error::Invalid`] if a tensor is on the host, [`Error::WrongDevice`], [`Error::OutOfMemory`], [`Error::Cuda`].
    pub fn conv2d(
        &self,
        input: &Tensor,
        weight: &Tensor,
        params: Conv2dParams,
        output: &mut Tensor,
    ) -> Result<CudnnConv2d> {
        output.expect_shape("cuDNN's output", &params.output_shape(input, weight)?)?;
        let library = &*self.library;
        let pair = |[y, x]: [usize; 2]| Ok::<_, Error>([library.int(y)?, library.int(x)?]);
        let (padding, stride, dilation) = (pair(params.padding)?, pair(params.stride)?, pair(params.dilation)?);
        let groups = library.int(params.groups)?;
        let (x, w, y) = (library.dims(input)?, library.dims(weight)?, library.dims(output)?);
        let fail = |error| library.fail(error);
        let mut plan = CudnnConv2d {
            input: Layout::nchw(x).map_err(fail)?,
            weight: Filter::kcrs(w).map_err(fail)?,
            bias: Layout::nchw([1, y[1], 1, 1]).map_err(fail)?,
            convolution: Convolution::geometry(padding, stride, dilation, groups).map_err(fail)?,
            output: Layout::nchw(y).map_err(fail)?,
            algorithm: sys::cudnnConvolutionFwdAlgo_t::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
            workspace: library.stream.alloc_uninit(0)?,
            shapes: [input.dims4()?, weight.dims4()?, output.dims4()?],
            library: self.library.clone(),
        };
        plan.tune(input, weight, output)?;
        Ok(plan)
    }

    /// Queues (x − mean) / √(variance + eps) · weight + bias, with one value of each parameter per channel.
    ///
    /// # Errors
    /// As [`Cudnn::conv2d`].
    pub fn batch_norm(&self, input: &Tensor, norm: &BatchNorm<'_>, output: &mut Tensor) -> Result<()> {
        let library = &*self.library;
        let dims = library.dims(input)?;
        output.expect_shape("cuDNN's output", input.shape())?;
        for part in [norm.weight, norm.bias, norm.mean, norm.variance] {
            part.expect_shape("cuDNN's batch norm", &input.shape()[1..2])?;
        }
        let layout = Layout::nchw(dims).map_err(|error| library.fail(error))?;
        let channels = Layout::nchw([1, dims[1], 1, 1]).map_err(|error| library.fail(error))?;
        let (stream, cuda) = (&library.stream, &library.cuda);
        let (x, mut y) = (view(input, stream)?, view_mut(output, stream)?);
        let parts = [norm.weight, norm.bias, norm.mean, norm.variance];
        let [weight, bias, mean, variance] = parts.map(|part| view(part, stream));
        let (weight, bias, mean, variance) = (weight?, bias?, mean?, variance?);
        let (x, _x) = x.device_ptr(cuda);
        let (weight, _weight) = weight.device_ptr(cuda);
        let (bias, _bias) = bias.device_ptr(cuda);
        let (mean, _mean) = mean.device_ptr(cuda);
        let (variance, _variance) = variance.device_ptr(cuda);
        let (y, _y) = y.device_ptr_mut(cuda);
        // SAFETY: the descriptors hold the tensors' shapes, and the guards keep the memory until the work is queued.
        unsafe {
            sys::cudnnBatchNormalizationForwardInference(
                library.raw,
                sys::cudnnBatchNormMode_t::CUDNN_BATCHNORM_SPATIAL,
                pointer(&1.0),
                pointer(&0.0),
                layout.0,
                x as *const c_void,
                layout.0,
                y as *mut c_void,
                channels.0,
                weight as *const c_void,
                bias as *const c_void,
                mean as *const c_void,
                variance as *const c_void,
                norm.eps.into(),
            )
        }
        .result()
        .map_err(|error| library.fail(error))
    }
}

impl CudnnConv2d {
    /// The algorithm's name in cuDNN: `IMPLICIT_PRECOMP_GEMM`.
    pub fn algorithm(&self) -> String {
        let name = format!("{:?}", self.algorithm);
        name.strip_prefix("CUDNN_CONVOLUTION_FWD_ALGO_").unwrap_or(&name).to_owned()
    }

    /// Device memory that the algorithm needs besides the tensors.
    pub fn workspace_bytes(&self) -> usize {
        self.workspace.len()
    }

    fn tune(&mut self, input: &Tensor, weight: &Tensor, output: &mut Tensor) -> Result<()> {
        const ALGORITHMS: usize = sys::cudnnConvolutionFwdAlgo_t::CUDNN_CONVOLUTION_FWD_ALGO_COUNT as usize;
        let library = self.library.clone();
        let (stream, cuda) = (&library.stream, &library.cuda);
        let free = stream.device().memory().free;
        let mut scratch: Buffer<u8> = stream.alloc_uninit(MOST_WORKSPACE.min(free / 2) as usize)?;
        // SAFETY: all fields are numbers or enumerations that include 0, so zero bytes are valid.
        let mut results: [sys::cudnnConvolutionFwdAlgoPerf_t; ALGORITHMS] = unsafe { std::mem::zeroed() };
        let mut count = 0;
        {
            let scratch_bytes = scratch.len();
            let (x, w, mut y) = (view(input, stream)?, view(weight, stream)?, view_mut(output, stream)?);
            let (x, _x) = x.device_ptr(cuda);
            let (w, _w) = w.device_ptr(cuda);
            let (y, _y) = y.device_ptr_mut(cuda);
            let scratch = scratch.as_cuda_mut().ok_or_else(|| Error::Invalid("a GPU's buffer is not".to_owned()))?;
            let (scratch, _scratch) = scratch.device_ptr_mut(cuda);
            // SAFETY: the descriptors hold the tensors' shapes, the array holds as many results as stated, and the guards keep
            // the memory.
            unsafe {
                sys::cudnnFindConvolutionForwardAlgorithmEx(
                    library.raw,
                    self.input.0,
                    x as *const c_void,
                    self.weight.0,
                    w as *const c_void,
                    self.convolution.0,
                    self.output.0,
                    y as *mut c_void,
                    ALGORITHMS as i32,
                    &mut count,
                    results.as_mut_ptr(),
                    scratch as *mut c_void,
                    scratch_bytes,
                )
            }
            .result()
            .map_err(|error| library.fail(error))?;
        }
        // It tries its default math too, which is TF32. The results are sorted by time.
        let fastest = results
            .iter()
            .take(count.max(0) as usize)
            .find(|result| result.status.result().is_ok() && result.mathType == MATH)
            .ok_or_else(|| Error::Unsupported {
                what: "cuDNN's convolution of this shape in f32".to_owned(),
                device: stream.device().short_name(),
                reason: "none of its algorithms takes it".to_owned(),
            })?;
        self.algorithm = fastest.algo;
        // Freed immediately, so that the new one fits.
        drop(scratch);
        self.workspace = stream.alloc_uninit(fastest.memory)?;
        Ok(())
    }

    /// Queues the convolution of `input` \[N, C, H, W\] with `weight` \[K, C / groups, R, S\] into `output`, and then, in a second
    /// kernel, the addition of `bias` \[K\].
    ///
    /// # Errors
    /// [`Error::Shape`] if a shape differs from the tuned one, [`Error::Invalid`] if a tensor is on the host,
    /// [`Error::WrongDevice`], [`Error::Cuda`].
    pub fn launch(
        &mut self,
        input: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
        output: &mut Tensor,
    ) -> Result<()> {
        let [x, w, y] = self.shapes;
        input.expect_shape("cuDNN's input", &x)?;
        weight.expect_shape("cuDNN's weight", &w)?;
        output.expect_shape("cuDNN's output", &y)?;
        if let Some(bias) = bias {
            bias.expect_shape("cuDNN's bias", &y[1..2])?;
        }
        let library = self.library.clone();
        let (stream, cuda) = (&library.stream, &library.cuda);
        let workspace_bytes = self.workspace.len();
        let (x, w, mut y) = (view(input, stream)?, view(weight, stream)?, view_mut(output, stream)?);
        let bias = bias.map(|bias| view(bias, stream)).transpose()?;
        let (x, _x) = x.device_ptr(cuda);
        let (w, _w) = w.device_ptr(cuda);
        let (y, _y) = y.device_ptr_mut(cuda);
        let workspace = self.workspace.as_cuda_mut();
        let workspace = workspace.ok_or_else(|| Error::Invalid("a GPU's buffer is not".to_owned()))?;
        let (workspace, _workspace) = workspace.device_ptr_mut(cuda);
        // SAFETY: the descriptors hold the tensors' shapes, the workspace is as large as the algorithm requires, and the guards
        // keep the memory until the work is queued.
        unsafe {
            sys::cudnnConvolutionForward(
                library.raw,
                pointer(&1.0),
                self.input.0,
                x as *const c_void,
                self.weight.0,
                w as *const c_void,
                self.convolution.0,
                self.algorithm,
                workspace as *mut c_void,
                workspace_bytes,
                pointer(&0.0),
                self.output.0,
                y as *mut c_void,
            )
        }
        .result()
        .map_err(|error| library.fail(error))?;
        if let Some(bias) = &bias {
            let (bias, _bias) = bias.device_ptr(cuda);
            // SAFETY: as above; one value per channel.
            unsafe {
                sys::cudnnAddTensor(
                    library.raw,
                    pointer(&1.0),
                    self.bias.0,
                    bias as *const c_void,
                    pointer(&1.0),
                    self.output.0,
                    y as *mut c_void,
                )
            }
            .result()
            .map_err(|error| library.fail(error))?;
        }
        Ok(())
    }
}
