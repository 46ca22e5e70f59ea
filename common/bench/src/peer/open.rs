//! Opens a library for cudarc, and passes our tensors to it.

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut};

use common::device::Stream;
use common::error::{Error, Result};
use common::probe::Library;
use common::tensor::Tensor;

/// The stream's CUDA side, once the library is open and its functions can be called.
///
/// `is_present` is cudarc's check for it: cudarc looks a library up by name when its first function is called, finds the one
/// opened here, and would panic without it.
pub(super) fn open(library: Library, stream: &Stream, is_present: unsafe fn() -> bool) -> Result<&Arc<CudaStream>> {
    let refused = |reason: String| Error::Unsupported {
        what: library.name().to_owned(),
        device: stream.device().short_name(),
        reason,
    };
    let cuda = stream.as_cuda().ok_or_else(|| refused("it runs on NVIDIA GPUs only".to_owned()))?;
    let missing = |tried: String| refused(format!("{tried}; install it with: {}", library.remedy()));
    library.open().map_err(missing)?;
    // SAFETY: only opens NVIDIA's libraries, one of which is already open.
    if !unsafe { is_present() } {
        return Err(missing("it is installed, but not under a name that cudarc knows".to_owned()));
    }
    cuda.context().bind_to_thread().map_err(|error| failed(library, stream, error))?;
    Ok(cuda)
}

/// The error for a status that a library returned.
pub(super) fn failed(library: Library, stream: &Stream, status: impl std::fmt::Debug) -> Error {
    Error::Cuda {
        operation: library.name().to_owned(),
        device: stream.device().short_name(),
        code: None,
        message: format!("{status:?}"),
    }
}

/// A size in the libraries' integer type.
pub(super) fn int(library: Library, stream: &Stream, size: usize) -> Result<i32> {
    i32::try_from(size).map_err(|_| Error::Unsupported {
        what: format!("{} of a size of {size}", library.name()),
        device: stream.device().short_name(),
        reason: format!("it counts in 32 bits, up to {}", i32::MAX),
    })
}

/// The values of a tensor on the stream's device.
pub(super) fn view<'a>(tensor: &'a Tensor, stream: &Stream) -> Result<CudaView<'a, f32>> {
    let buffer = tensor.buffer()?;
    stream.expect_own("a library call", buffer)?;
    // SAFETY: the buffer was allocated for `len` values of f32, for which every bit pattern is valid.
    let view = buffer.as_cuda().and_then(|bytes| unsafe { bytes.transmute(tensor.len()) });
    view.ok_or_else(|| Error::Invalid(format!("{buffer:?} is not in the memory of a GPU")))
}

/// [`view`], for writing.
pub(super) fn view_mut<'a>(tensor: &'a mut Tensor, stream: &Stream) -> Result<CudaViewMut<'a, f32>> {
    let len = tensor.len();
    let buffer = tensor.buffer_mut()?;
    stream.expect_own("a library call", &*buffer)?;
    // SAFETY: as in `view`.
    let view = buffer.as_cuda_mut().and_then(|bytes| unsafe { bytes.transmute_mut(len) });
    view.ok_or_else(|| Error::Invalid("the tensor is not in the memory of a GPU".to_owned()))
}
