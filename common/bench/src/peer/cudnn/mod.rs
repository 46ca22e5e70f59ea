//! cuDNN: its convolution, by the fastest of its engines and algorithms, and its BatchNorm, to compare with.

mod algorithms;
mod engines;

use std::ffi::c_void;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cudarc::cudnn::result::{self, CudnnError};
use cudarc::cudnn::sys;
use cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut};

use self::algorithms::{Algorithm, algorithms};
use self::engines::{Plan, plans};
use super::open::{failed, int, open, view, view_mut};
use crate::timing::{Bench, Queue};
use common::device::{Buffer, Stream};
use common::error::{Error, Result};
use common::probe::Library;
use common::reference::{BatchNorm, Conv2dParams};
use common::tensor::Tensor;

const NCHW: sys::cudnnTensorFormat_t = sys::cudnnTensorFormat_t::CUDNN_TENSOR_NCHW;
const F32: sys::cudnnDataType_t = sys::cudnnDataType_t::CUDNN_DATA_FLOAT;
/// Maximum memory that an engine or algorithm may need besides the tensors, if it is free.
const MOST_WORKSPACE: u64 = 4 << 30;

/// Timing of each: by more than one run, if it is fast. `cudnnFindConvolutionForwardAlgorithmEx` runs each once, and chose
/// differently from one time to the next.
const TRIAL: Bench = Bench { warm_up: 2, repeats: 9, limit: Duration::from_millis(200), queue: Queue::Warm };

/// A handle to cuDNN that queues its work on one stream.
pub struct Cudnn {
    library: Rc<Handle>,
}

/// A convolution of one shape, by the fastest of cuDNN's engines and algorithms, and the memory that it needs.
pub struct CudnnConv2d {
    way: Way,
    workspace: Buffer<u8>,
    bias: Layout,
    output: Layout,
    /// Shapes of input, weight and output: the arguments of `launch` must have them.
    shapes: [[usize; 4]; 3],
    /// Dropped last: its handle made the others.
    library: Rc<Handle>,
}

/// A convolution of f32 in NCHW, in the library's integers.
struct Problem {
    /// Shapes of input, weight \[out_channels, C / groups, R, S\] and output.
    shapes: [[i32; 4]; 3],
    padding: [i32; 2],
    stride: [i32; 2],
    dilation: [i32; 2],
}

impl Problem {
    fn groups(&self) -> i32 {
        let [input, weight, _] = self.shapes;
        input[1] / weight[1]
    }
}

/// Method of the library for a convolution.
enum Way {
    Engine(Plan),
    Algorithm(Algorithm),
}

impl Way {
    fn name(&self) -> String {
        match self {
            Way::Engine(plan) => plan.name.clone(),
            Way::Algorithm(algorithm) => algorithm.name(),
        }
    }

    fn workspace_bytes(&self) -> usize {
        match self {
            Way::Engine(plan) => plan.workspace_bytes,
            Way::Algorithm(algorithm) => algorithm.workspace_bytes,
        }
    }

    /// # Safety
    /// Same as [`Plan::launch`].
    unsafe fn launch(
        &self,
        handle: sys::cudnnHandle_t,
        tensors: [*mut c_void; 3],
        workspace: *mut c_void,
    ) -> Result<(), CudnnError> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Way::Engine(plan) => plan.launch(handle, tensors, workspace),
                Way::Algorithm(algorithm) => algorithm.launch(handle, tensors, workspace),
            }
        }
    }
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
        if tensor.is_empty() {
            return Err(Error::Unsupported {
                what: format!("cuDNN on a tensor {:?}", tensor.shape()),
                device: self.stream.device().short_name(),
                reason: "it does not take empty tensors".to_owned(),
            });
        }
        Ok(dims)
    }
}

/// A tensor's shape and strides, destroyed on drop.
struct Layout(sys::cudnnTensorDescriptor_t);

impl Drop for Layout {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once. A failure can't be reported here.
        let _ = unsafe { result::destroy_tensor_descriptor(self.0) };
    }
}

impl Layout {
    /// Layout of f32 in NCHW.
    fn nchw(dims: [i32; 4]) -> Result<Layout, CudnnError> {
        let layout = Layout(result::create_tensor_descriptor()?);
        // SAFETY: the descriptor was just created.
        unsafe { result::set_tensor4d_descriptor(layout.0, NCHW, F32, dims) }?;
        Ok(layout)
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

    /// Times cuDNN's engines and algorithms for `input` \[N, C, H, W\] and `weight` \[K, C / groups, R, S\], with the values given,
    /// and keeps the fastest; `output` is overwritten. Only those that multiply and add in f32, and need at most 4 GiB beside the
    /// tensors, take part. That is dozens of launches, and waits for them.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not fit one another, [`Error::Unsupported`] for shapes that cuDNN does not
    /// support, [`Error::Invalid`] if a tensor is on the host, [`Error::WrongDevice`], [`Error::OutOfMemory`],
    /// [`Error::Cuda`].
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
        let dims = [library.dims(input)?, library.dims(weight)?, library.dims(output)?];
        let problem = Problem {
            shapes: dims,
            padding: pair(params.padding)?,
            stride: pair(params.stride)?,
            dilation: pair(params.dilation)?,
        };
        // Refused here, so that below only cuDNN itself fails.
        view(input, &library.stream)?;
        view(weight, &library.stream)?;
        view_mut(output, &library.stream)?;
        let fail = |error| library.fail(error);
        let most = MOST_WORKSPACE.min(library.stream.device().memory().free / 2) as usize;
        let mut best: Option<(f64, CudnnConv2d)> = None;
        let engines = plans(library.raw, &problem).map_err(fail)?.into_iter().map(Way::Engine);
        let algorithms = algorithms(library.raw, &problem).map_err(fail)?.into_iter().map(Way::Algorithm);
        for way in engines.chain(algorithms).filter(|way| way.workspace_bytes() <= most) {
            let workspace = match library.stream.alloc_uninit(way.workspace_bytes()) {
                Err(Error::OutOfMemory { .. }) => continue,
                workspace => workspace?,
            };
            let mut trial = CudnnConv2d {
                workspace,
                way,
                bias: Layout::nchw([1, dims[2][1], 1, 1]).map_err(fail)?,
                output: Layout::nchw(dims[2]).map_err(fail)?,
                shapes: [input.dims4()?, weight.dims4()?, output.dims4()?],
                library: self.library.clone(),
            };
            let timing = match TRIAL.measure(&library.stream, || trial.launch(input, weight, None, output)) {
                // It may find out only when it runs that it can't. What the GPU itself could not do shows here.
                Err(Error::Cuda { code: None, .. }) => {
                    library.stream.synchronize()?;
                    continue;
                }
                timing => timing?,
            };
            let ms = timing.median_ms().unwrap_or(f64::INFINITY);
            if best.as_ref().is_none_or(|(least, _)| ms < *least) {
                best = Some((ms, trial));
            }
        }
        best.map(|(_, conv)| conv).ok_or_else(|| Error::Unsupported {
            what: "cuDNN's convolution of this shape in f32".to_owned(),
            device: library.stream.device().short_name(),
            reason: "none of its engines and algorithms takes it".to_owned(),
        })
    }

    /// Queues (x − mean) / √(variance + eps) · weight + bias, with one value of each parameter per channel.
    ///
    /// # Errors
    /// Same as [`Cudnn::conv2d`].
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
    /// cuDNN's name for it: an engine's number, with its method if cuDNN reports that (`engine 34, Winograd 4×4`), or an algorithm's
    /// name (`IMPLICIT_PRECOMP_GEMM`).
    pub fn implementation(&self) -> String {
        self.way.name()
    }

    /// Bytes of device memory that it needs besides the tensors.
    pub fn workspace_bytes(&self) -> usize {
        self.workspace.len()
    }

    /// Queues the convolution of `input` \[N, C, H, W\] with `weight` \[K, C / groups, R, S\] into `output`, and then, in a second
    /// kernel, the addition of `bias` \[K\].
    ///
    /// # Errors
    /// [`Error::Shape`] if a shape differs from those it was made for, [`Error::Invalid`] if a tensor is on the host,
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
        let (x, w, mut y) = (view(input, stream)?, view(weight, stream)?, view_mut(output, stream)?);
        let bias = bias.map(|bias| view(bias, stream)).transpose()?;
        let (x, _x) = x.device_ptr(cuda);
        let (w, _w) = w.device_ptr(cuda);
        let (y, _y) = y.device_ptr_mut(cuda);
        let workspace = self.workspace.as_cuda_mut();
        let workspace = workspace.ok_or_else(|| Error::Invalid("a GPU's buffer is not".to_owned()))?;
        let (workspace, _workspace) = workspace.device_ptr_mut(cuda);
        let tensors = [x as *mut c_void, w as *mut c_void, y as *mut c_void];
        // SAFETY: the tensors have the shapes that it was made for, the workspace is as large as it asks for, and the guards keep the
        // memory until the work is queued.
        unsafe { self.way.launch(library.raw, tensors, workspace as *mut c_void) }
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
