//! The convolution by cuDNN's older calls: `cudnnConvolutionForward`, with each of its algorithms.
//!
//! The library runs them by its [engines](super::engines) too, but with knobs that it does not recommend: 3→64 7/2 @224 ×32 took
//! 0.47 ms by the fastest engine on an H200, and 0.37 ms by an algorithm.

use std::ffi::c_void;
use std::rc::Rc;

use cudarc::cudnn::result::{self, CudnnError};
use cudarc::cudnn::sys::{self, cudnnConvolutionFwdAlgo_t as ForwardAlgorithm};

use super::{F32, Layout, NCHW, Problem, pointer};

/// Only multiply-adds in f32: no tensor cores, so no TF32.
const MATH: sys::cudnnMathType_t = sys::cudnnMathType_t::CUDNN_FMA_MATH;

/// All algorithms that the library has a name for.
const ALGORITHMS: [ForwardAlgorithm; 8] = [
    ForwardAlgorithm::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
    ForwardAlgorithm::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
    ForwardAlgorithm::CUDNN_CONVOLUTION_FWD_ALGO_GEMM,
    ForwardAlgorithm::CUDNN_CONVOLUTION_FWD_ALGO_DIRECT,
    ForwardAlgorithm::CUDNN_CONVOLUTION_FWD_ALGO_FFT,
    ForwardAlgorithm::CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING,
    ForwardAlgorithm::CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD,
    ForwardAlgorithm::CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED,
];

/// A convolution by one algorithm, ready to run.
pub(super) struct Algorithm {
    algorithm: ForwardAlgorithm,
    convolution: Rc<Convolution>,
    /// Bytes of device memory that it needs besides the tensors.
    pub workspace_bytes: usize,
}

/// The algorithms that support the convolution.
pub(super) fn algorithms(handle: sys::cudnnHandle_t, problem: &Problem) -> Result<Vec<Algorithm>, CudnnError> {
    let convolution = Rc::new(Convolution::of(problem)?);
    let if_taken = |algorithm| {
        let Convolution { input, weight, geometry, output } = &*convolution;
        let mut workspace_bytes = 0;
        // SAFETY: handle and descriptors are alive.
        let asked = unsafe {
            sys::cudnnGetConvolutionForwardWorkspaceSize(
                handle,
                input.0,
                weight.0,
                geometry.0,
                output.0,
                algorithm,
                &mut workspace_bytes,
            )
        };
        asked.result().ok()?;
        Some(Algorithm { algorithm, convolution: convolution.clone(), workspace_bytes })
    };
    Ok(ALGORITHMS.into_iter().filter_map(if_taken).collect())
}

impl Algorithm {
    /// `IMPLICIT_PRECOMP_GEMM`.
    pub(super) fn name(&self) -> String {
        let name = format!("{:?}", self.algorithm);
        name.strip_prefix("CUDNN_CONVOLUTION_FWD_ALGO_").unwrap_or(&name).to_owned()
    }

    /// Queues the convolution on the handle's stream.
    ///
    /// # Safety
    /// Same as [`Plan::launch`](super::engines::Plan::launch).
    pub(super) unsafe fn launch(
        &self,
        handle: sys::cudnnHandle_t,
        [x, w, y]: [*mut c_void; 3],
        workspace: *mut c_void,
    ) -> Result<(), CudnnError> {
        let Convolution { input, weight, geometry, output } = &*self.convolution;
        // SAFETY: handle and descriptors are alive; the addresses are the caller's promise.
        unsafe {
            sys::cudnnConvolutionForward(
                handle,
                pointer(&1.0),
                input.0,
                x,
                weight.0,
                w,
                geometry.0,
                self.algorithm,
                workspace,
                self.workspace_bytes,
                pointer(&0.0),
                output.0,
                y,
            )
        }
        .result()
    }
}

/// The older calls' descriptors.
struct Convolution {
    input: Layout,
    weight: Filter,
    geometry: Geometry,
    output: Layout,
}

impl Convolution {
    fn of(problem: &Problem) -> Result<Convolution, CudnnError> {
        let [input, weight, output] = problem.shapes;
        Ok(Convolution {
            input: Layout::nchw(input)?,
            weight: Filter::kcrs(weight)?,
            geometry: Geometry::of(problem)?,
            output: Layout::nchw(output)?,
        })
    }
}

/// Destroyed on drop.
struct Filter(sys::cudnnFilterDescriptor_t);

impl Filter {
    /// \[out_channels, C / groups, R, S\].
    fn kcrs(dims: [i32; 4]) -> Result<Filter, CudnnError> {
        let filter = Filter(result::create_filter_descriptor()?);
        // SAFETY: the descriptor was just created.
        unsafe { result::set_filter4d_descriptor(filter.0, F32, NCHW, dims) }?;
        Ok(filter)
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once. A failure can't be reported here.
        let _ = unsafe { result::destroy_filter_descriptor(self.0) };
    }
}

/// Padding, stride, dilation and groups, destroyed on drop.
struct Geometry(sys::cudnnConvolutionDescriptor_t);

impl Geometry {
    fn of(problem: &Problem) -> Result<Geometry, CudnnError> {
        let geometry = Geometry(result::create_convolution_descriptor()?);
        let mode = sys::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION;
        let ([pad_y, pad_x], [stride_y, stride_x]) = (problem.padding, problem.stride);
        let [dilation_y, dilation_x] = problem.dilation;
        // SAFETY: the descriptor was just created.
        unsafe {
            result::set_convolution2d_descriptor(
                geometry.0, pad_y, pad_x, stride_y, stride_x, dilation_y, dilation_x, mode, F32,
            )?;
            result::set_convolution_group_count(geometry.0, problem.groups())?;
            result::set_convolution_math_type(geometry.0, MATH)?;
        }
        Ok(geometry)
    }
}

impl Drop for Geometry {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once. A failure can't be reported here.
        let _ = unsafe { result::destroy_convolution_descriptor(self.0) };
    }
}
