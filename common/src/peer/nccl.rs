//! NCCL's all-reduce over the GPUs of this process, to compare with.

use std::sync::Arc;

use cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut};
use cudarc::nccl::{result, sys};

use super::open::{failed, int, open};
use crate::device::{Buffer, Stream};
use crate::error::{Error, Result};
use crate::probe::Library;

/// A communicator of each GPU, all driven by one thread of the host.
#[derive(Debug)]
pub struct Nccl {
    comms: Vec<sys::ncclComm_t>,
    cuda: Vec<Arc<CudaStream>>,
    streams: Vec<Stream>,
}

impl Drop for Nccl {
    fn drop(&mut self) {
        for comm in &self.comms {
            // SAFETY: initialised once, destroyed once. A failure can't be reported here.
            let _ = unsafe { result::comm_destroy(*comm) };
        }
    }
}

impl Nccl {
    /// Opens the library for work on a stream of each GPU, by rank.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if it is not installed, with the command that installs it, and on the simulator; [`Error::Cuda`]
    /// if it fails to start.
    pub fn open(streams: &[Stream]) -> Result<Nccl> {
        let opened = |stream: &Stream| open(Library::Nccl, stream, sys::is_culib_present).cloned();
        let cuda = streams.iter().map(opened).collect::<Result<Vec<_>>>()?;
        let Some(first) = streams.first() else {
            return Err(Error::Invalid("NCCL takes one stream at least".to_owned()));
        };
        let count = int(Library::Nccl, first, streams.len())?;
        let ordinal = |stream: &Arc<CudaStream>| int(Library::Nccl, first, stream.context().ordinal());
        let ordinals = cuda.iter().map(ordinal).collect::<Result<Vec<_>>>()?;
        let mut comms = vec![std::ptr::null_mut(); streams.len()];
        // SAFETY: both lists have `count` entries.
        unsafe { result::comm_init_all(comms.as_mut_ptr(), count, ordinals.as_ptr()) }
            .map_err(|error| failed(Library::Nccl, first, error.0))?;
        Ok(Nccl { comms, cuda, streams: streams.to_vec() })
    }

    /// Queues the sums of the first `len` values of all ranks' buffers, for all ranks.
    ///
    /// # Errors
    /// [`Error::Invalid`] for other numbers of buffers than of ranks, or shorter ones than `len`; [`Error::WrongDevice`],
    /// [`Error::Cuda`].
    pub fn all_reduce(&self, values: &[Buffer<f32>], sums: &mut [Buffer<f32>], len: usize) -> Result<()> {
        let ranks = self.comms.len();
        let short = values.iter().chain(&*sums).any(|buffer| buffer.len() < len);
        if short || [values.len(), sums.len()] != [ranks; 2] {
            return Err(Error::Invalid(format!("NCCL: {ranks} ranks need as many buffers of {len} values")));
        }
        let fail = |error: result::NcclError| failed(Library::Nccl, &self.streams[0], error.0);
        result::group_start().map_err(fail)?;
        let queued = (0..ranks).try_for_each(|rank| self.queue_rank(rank, &values[rank], &mut sums[rank], len));
        result::group_end().map_err(fail)?;
        queued
    }

    fn queue_rank(&self, rank: usize, values: &Buffer<f32>, sums: &mut Buffer<f32>, len: usize) -> Result<()> {
        let (stream, cuda) = (&self.streams[rank], &self.cuda[rank]);
        stream.expect_own("a library call", values)?;
        stream.expect_own("a library call", &*sums)?;
        let (Some(from), Some(to)) = (values.as_cuda(), sums.as_cuda_mut()) else {
            return Err(Error::Invalid(format!("{values:?} is not in the memory of a GPU")));
        };
        let ((from, _read), (to, _written)) = (from.device_ptr(cuda), to.device_ptr_mut(cuda));
        let (float, sum) = (sys::ncclDataType_t::ncclFloat32, sys::ncclRedOp_t::ncclSum);
        // SAFETY: both buffers are this GPU's and have at least `len` values; communicator and stream are alive.
        unsafe { result::all_reduce(from as _, to as _, len, float, sum, self.comms[rank], cuda.cu_stream() as _) }
            .map(drop)
            .map_err(|error| failed(Library::Nccl, stream, error.0))
    }
}
