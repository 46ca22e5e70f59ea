//! The GPUs of this process as the ranks of one thread: what our own all-reduce is compared with.

use std::ffi::{c_int, c_void};
use std::fmt;

use common::device::{Buffer, Stream};
use common::error::{Error, Result};
use cudarc::nccl::sys::{self, ncclDataType_t as DataType, ncclRedOp_t as RedOp};

use super::library::{Functions, SUCCESS, Status, nccl_error, open};

/// A communicator of each GPU, all driven by one thread of the host.
pub struct Nccl {
    functions: &'static Functions,
    comms: Vec<sys::ncclComm_t>,
    streams: Vec<Stream>,
}

impl fmt::Debug for Nccl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nccl").field("streams", &self.streams).finish_non_exhaustive()
    }
}

impl Drop for Nccl {
    fn drop(&mut self) {
        for comm in &self.comms {
            // SAFETY: initialised once, destroyed once. A failure can't be reported here.
            let _ = unsafe { (self.functions.comm_destroy)(*comm) };
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
        let Some(first) = streams.first() else {
            return Err(Error::Invalid("NCCL takes one stream at least".to_owned()));
        };
        let functions = &open(first.device())?.functions;
        let ordinal = |stream: &Stream| {
            open(stream.device())?;
            let cuda = stream.as_cuda().map(|cuda| cuda.context().ordinal() as c_int);
            cuda.ok_or_else(|| Error::Invalid("NCCL: the stream is no GPU's".to_owned()))
        };
        let ordinals = streams.iter().map(ordinal).collect::<Result<Vec<_>>>()?;
        let mut comms = vec![std::ptr::null_mut(); streams.len()];
        // SAFETY: both lists have as many entries as there are streams.
        let status =
            unsafe { (functions.comm_init_all)(comms.as_mut_ptr(), streams.len() as c_int, ordinals.as_ptr()) };
        let nccl = Nccl { functions, comms, streams: streams.to_vec() };
        nccl.expect(first, "connecting the GPUs", status).map(|()| nccl)
    }

    /// Queues the sums of the first `len` values of all ranks' buffers, for all ranks.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the number of buffers differs from that of ranks, or if one is shorter than `len`;
    /// [`Error::WrongDevice`], [`Error::Cuda`].
    pub fn all_reduce(&self, values: &[Buffer<f32>], sums: &mut [Buffer<f32>], len: usize) -> Result<()> {
        let ranks = self.comms.len();
        let short = values.iter().chain(&*sums).any(|buffer| buffer.len() < len);
        if short || [values.len(), sums.len()] != [ranks; 2] {
            return Err(Error::Invalid(format!("NCCL: {ranks} ranks need as many buffers of {len} values")));
        }
        // SAFETY: the group is closed before this returns.
        self.expect(&self.streams[0], "all_reduce", unsafe { (self.functions.group_start)() })?;
        let queued = (0..ranks).try_for_each(|rank| self.queue_rank(rank, &values[rank], &mut sums[rank], len));
        // SAFETY: it was begun above.
        self.expect(&self.streams[0], "all_reduce", unsafe { (self.functions.group_end)() })?;
        queued
    }

    fn queue_rank(&self, rank: usize, values: &Buffer<f32>, sums: &mut Buffer<f32>, len: usize) -> Result<()> {
        let (stream, comm) = (&self.streams[rank], self.comms[rank]);
        let Some(cuda) = stream.as_cuda() else {
            return Err(Error::Invalid("NCCL: the stream is no GPU's".to_owned()));
        };
        let (queue, float, sum) = (cuda.cu_stream().cast(), DataType::ncclFloat32, RedOp::ncclSum);
        stream.with_address("all_reduce", values, |from| {
            stream.with_address_mut("all_reduce", sums, |to| {
                let (from, to) = (from as *const c_void, to as *mut c_void);
                // SAFETY: both buffers are this GPU's and have at least `len` values; communicator and stream are alive.
                let status = unsafe { (self.functions.all_reduce)(from, to, len, float, sum, comm, queue) };
                self.expect(stream, "all_reduce", status)
            })
        })??
    }

    fn expect(&self, stream: &Stream, operation: &str, status: Status) -> Result<()> {
        if status == SUCCESS {
            return Ok(());
        }
        Err(nccl_error(self.functions, stream.device(), operation, status, std::ptr::null_mut()))
    }
}
