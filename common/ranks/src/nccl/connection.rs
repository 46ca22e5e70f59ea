//! Values that go from GPU to GPU by NCCL.
//!
//! NCCL's calls wait for peers that may be gone: to connect, in the queue's kernels, and to end. So it connects in a thread of
//! its own, which can be left behind, and a second thread, the watchdog, watches the rest. It aborts NCCL's work if a rank has
//! failed, if NCCL reports an error, or if queued work does not end in time; then every wait for the stream ends.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use common::device::{Device, DeviceElement, DeviceSlice, DeviceSliceMut, Stream};
use common::error::{Error, RankFailureKind, Result};
use cudarc::driver::{CudaContext, CudaEvent, CudaStream};
use cudarc::nccl::sys::{self, ncclDataType_t as DataType, ncclRedOp_t as RedOp};

use super::library::{
    CUDA_ERROR, Functions, IN_PROGRESS, INTERNAL_ERROR, INVALID_USAGE, SUCCESS, Status, describe, driver_error,
    nccl_error, open,
};
use crate::call::{Call, Operation, ReduceOp};
use crate::hub::{seconds, unframed};
use crate::line::Line;
use crate::reduce::Reducible;

/// Interval of the watchdog's checks.
const LOOK: Duration = Duration::from_millis(20);

/// Time to wait for other ranks' own messages, before NCCL's messages about them count.
const PATIENCE: Duration = Duration::from_millis(500);

/// A rank's communicator.
pub(crate) struct Connection {
    shared: Arc<Shared>,
    watchdog: Option<JoinHandle<()>>,
}

struct Shared {
    functions: &'static Functions,
    line: Arc<Line>,
    device: Device,
    context: Arc<CudaContext>,
    /// Null once it has been destroyed or aborted.
    comm: AtomicPtr<sys::ncclComm>,
    /// Held while NCCL queues work.
    queueing: Mutex<()>,
    /// Stream of the last queued work, and number of queued operations.
    stream: Mutex<Option<Arc<CudaStream>>>,
    queued: AtomicU64,
    stop: AtomicBool,
}

/// A communicator, passed on from the thread that made it.
struct Made(sys::ncclComm_t);

// SAFETY: NCCL's communicators may be used from any thread, by one at a time.
unsafe impl Send for Made {}

impl Connection {
    /// Connects this rank's GPU with those of all others, which do the same.
    pub(crate) fn connect(line: &Arc<Line>, device: &Device) -> Result<Connection> {
        let Some(cuda) = device.as_cuda() else {
            return Err(Error::Invalid(format!("NCCL cannot use {}", device.short_name())));
        };
        let (functions, context) = (&open(device)?.functions, cuda.context().clone());
        let fail = |what: &str, status: Status| nccl_error(functions, device, what, status, std::ptr::null_mut());
        context.bind_to_thread().map_err(|error| driver_error(device, "connecting the GPUs", error))?;
        // Rank 0's identifier, on all ranks, with everyone's GPU.
        let mut id = sys::ncclUniqueId { internal: [0; 128] };
        if line.rank() == 0 {
            // SAFETY: writes one identifier.
            match unsafe { (functions.get_unique_id)(&mut id) } {
                SUCCESS => {}
                status => return Err(fail("making an identifier", status)),
            }
        }
        let uuid = context.uuid().map(|uuid| uuid.bytes.map(|byte| byte as u8)).unwrap_or_default();
        let mut note = id.internal.map(|byte| byte as u8).to_vec();
        note.extend(uuid);
        let all = line.call(Call::plain(Operation::Share), note).map_err(Error::Ranks)?;
        let all = unframed(&all, line.size()).filter(|all| all.iter().all(|note| note.len() == 128 + uuid.len()));
        let all = all.ok_or_else(|| Error::Invalid("rank 0 sent something else than NCCL's identifier".to_owned()))?;
        if uuid != [0; 16]
            && let Some(other) = (0..line.size()).find(|rank| *rank != line.rank() && all[*rank][128..] == uuid)
        {
            let rule = "each needs its own (LOCAL_RANK says which, and CUDA_VISIBLE_DEVICES what a process sees)";
            return Err(Error::Invalid(format!("ranks {} and {other} have the same GPU: {rule}", line.rank())));
        }
        id.internal.iter_mut().zip(&all[0]).for_each(|(to, from)| *to = *from as _);

        let (rank, size) = (line.rank() as c_int, line.size() as c_int);
        let (sender, made) = channel();
        let of_thread = context.clone();
        thread::spawn(move || {
            let mut comm = std::ptr::null_mut();
            let status = match of_thread.bind_to_thread() {
                // SAFETY: the context is current, and the pointer is written before the call returns.
                Ok(()) => unsafe { (functions.comm_init_rank)(&mut comm, size, id, rank) },
                Err(_) => CUDA_ERROR,
            };
            // Whoever waited may have given up.
            let _ = sender.send((Made(comm), status));
        });
        let begin = Instant::now();
        let comm = loop {
            match made.recv_timeout(LOOK) {
                Ok((Made(comm), SUCCESS)) => break comm,
                Ok((_, status)) => {
                    // If it is another rank's fault, that rank says it better.
                    thread::sleep(PATIENCE);
                    return Err(line.failure().map_or_else(|| fail("connecting the GPUs", status), Error::Ranks));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(fail("connecting the GPUs", INTERNAL_ERROR));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(failure) = line.failure() {
                return Err(Error::Ranks(failure));
            }
            if begin.elapsed() > line.timeout() {
                let time = seconds(line.timeout());
                return Err(Error::Cuda {
                    operation: "NCCL: connecting the GPUs".to_owned(),
                    device: device.short_name(),
                    code: None,
                    message: format!("it did not end within {time}; NCCL_DEBUG=INFO says what it waits for"),
                });
            }
        };
        let shared = Arc::new(Shared {
            functions,
            line: line.clone(),
            device: device.clone(),
            context,
            comm: AtomicPtr::new(comm),
            queueing: Mutex::default(),
            stream: Mutex::default(),
            queued: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let watchdog = thread::spawn({
            let shared = shared.clone();
            move || shared.watch()
        });
        Ok(Connection { shared, watchdog: Some(watchdog) })
    }

    pub(crate) fn all_reduce<T: Reducible>(
        &self,
        stream: &Stream,
        call: Call,
        op: ReduceOp,
        values: &mut impl DeviceSliceMut<T>,
    ) -> Result<()> {
        let (count, kind) = (values.len(), data_type::<T>());
        stream.with_address_mut("all_reduce", values, |at| {
            // SAFETY: `count` values lie at the address, in memory of the stream's device that stays until it is reached.
            self.shared.queue(stream, call, |nccl, comm, queue| unsafe {
                (nccl.all_reduce)(at as *const c_void, at as *mut c_void, count, kind, red_op(op), comm, queue)
            })
        })?
    }

    pub(crate) fn all_gather<T: DeviceElement>(
        &self,
        stream: &Stream,
        call: Call,
        own: &impl DeviceSlice<T>,
        all: &mut impl DeviceSliceMut<T>,
    ) -> Result<()> {
        let bytes = own.len() * size_of::<T>();
        stream.with_address("all_gather", own, |from| {
            stream.with_address_mut("all_gather", all, |to| {
                // SAFETY: `bytes` lie at the one address and room for those of all ranks at the other, as in `all_reduce`.
                self.shared.queue(stream, call, |nccl, comm, queue| unsafe {
                    (nccl.all_gather)(from as *const c_void, to as *mut c_void, bytes, BYTE, comm, queue)
                })
            })
        })??
    }

    pub(crate) fn reduce_scatter<T: Reducible>(
        &self,
        stream: &Stream,
        call: Call,
        op: ReduceOp,
        all: &impl DeviceSlice<T>,
        own: &mut impl DeviceSliceMut<T>,
    ) -> Result<()> {
        let (count, kind) = (own.len(), data_type::<T>());
        stream.with_address("reduce_scatter", all, |from| {
            stream.with_address_mut("reduce_scatter", own, |to| {
                // SAFETY: `count` values of each rank lie at the one address and room for them at the other, as in `all_reduce`.
                self.shared.queue(stream, call, |nccl, comm, queue| unsafe {
                    (nccl.reduce_scatter)(
                        from as *const c_void,
                        to as *mut c_void,
                        count,
                        kind,
                        red_op(op),
                        comm,
                        queue,
                    )
                })
            })
        })??
    }

    pub(crate) fn broadcast<T: DeviceElement>(
        &self,
        stream: &Stream,
        call: Call,
        root: u32,
        values: &mut impl DeviceSliceMut<T>,
    ) -> Result<()> {
        let bytes = values.len() * size_of::<T>();
        stream.with_address_mut("broadcast", values, |at| {
            // SAFETY: as in `all_reduce`.
            self.shared.queue(stream, call, |nccl, comm, queue| unsafe {
                (nccl.broadcast)(at as *const c_void, at as *mut c_void, bytes, BYTE, root as c_int, comm, queue)
            })
        })?
    }

    pub(crate) fn send<T: DeviceElement>(
        &self,
        stream: &Stream,
        call: Call,
        to: u32,
        values: &impl DeviceSlice<T>,
    ) -> Result<()> {
        let bytes = values.len() * size_of::<T>();
        stream.with_address("send", values, |at| {
            // SAFETY: as in `all_reduce`.
            self.shared.queue(stream, call, |nccl, comm, queue| unsafe {
                (nccl.send)(at as *const c_void, bytes, BYTE, to as c_int, comm, queue)
            })
        })?
    }

    pub(crate) fn recv<T: DeviceElement>(
        &self,
        stream: &Stream,
        call: Call,
        from: u32,
        values: &mut impl DeviceSliceMut<T>,
    ) -> Result<()> {
        let bytes = values.len() * size_of::<T>();
        stream.with_address_mut("recv", values, |at| {
            // SAFETY: as in `all_reduce`.
            self.shared.queue(stream, call, |nccl, comm, queue| unsafe {
                (nccl.recv)(at as *mut c_void, bytes, BYTE, from as c_int, comm, queue)
            })
        })?
    }

    pub(crate) fn exchange<T: DeviceElement>(
        &self,
        stream: &Stream,
        call: Call,
        (to, sent): (u32, &impl DeviceSlice<T>),
        (from, received): (u32, &mut impl DeviceSliceMut<T>),
    ) -> Result<()> {
        let bytes = [sent.len() * size_of::<T>(), received.len() * size_of::<T>()];
        stream.with_address("exchange", sent, |source| {
            stream.with_address_mut("exchange", received, |target| {
                // SAFETY: as in `all_reduce`; the group is closed before this returns.
                self.shared.queue(stream, call, |nccl, comm, queue| unsafe {
                    let begun = (nccl.group_start)();
                    let sent = (nccl.send)(source as *const c_void, bytes[0], BYTE, to as c_int, comm, queue);
                    let received = (nccl.recv)(target as *mut c_void, bytes[1], BYTE, from as c_int, comm, queue);
                    let ended = (nccl.group_end)();
                    let all = [begun, sent, received, ended];
                    all.into_iter().find(|status| *status != SUCCESS).unwrap_or(SUCCESS)
                })
            })
        })??
    }

    /// Waits for the stream as long as nothing has failed.
    pub(crate) fn synchronize(&self, stream: &Stream) -> Result<()> {
        match stream.as_cuda() {
            Some(cuda) => self.wait_for(cuda),
            None => stream.synchronize(),
        }
    }

    /// Waits for the last queued work, which the others may not have queued: `ncclCommDestroy` would wait for it without a limit.
    pub(crate) fn settle(&self) -> Result<()> {
        let last = self.shared.stream.lock().unwrap_or_else(PoisonError::into_inner).clone();
        last.map_or(Ok(()), |stream| self.wait_for(&stream))
    }

    fn wait_for(&self, cuda: &CudaStream) -> Result<()> {
        let failed = |error| driver_error(&self.shared.device, "waiting for the stream", error);
        cuda.context().bind_to_thread().map_err(failed)?;
        let mark = cuda.record_event(None).map_err(failed)?;
        let begin = Instant::now();
        loop {
            let is_complete = mark.try_is_complete().map_err(failed)?;
            // Asked after the mark: an aborted stream completes too.
            if let Some(failure) = self.shared.line.failure() {
                return Err(Error::Ranks(failure));
            }
            if is_complete {
                return Ok(());
            }
            // What is short is not made longer.
            if begin.elapsed() > Duration::from_millis(2) {
                thread::sleep(Duration::from_micros(50))
            } else {
                thread::yield_now()
            }
        }
    }

    /// Ends the communicator, together with all others.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.stop_watching();
        let comm = self.shared.comm.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if comm.is_null() {
            return Ok(());
        }
        let device = &self.shared.device;
        self.shared.context.bind_to_thread().map_err(|error| driver_error(device, "parting", error))?;
        // SAFETY: nobody else has it, and nobody will.
        match unsafe { (self.shared.functions.comm_destroy)(comm) } {
            SUCCESS | IN_PROGRESS => Ok(()),
            status => Err(nccl_error(self.shared.functions, device, "parting", status, std::ptr::null_mut())),
        }
    }

    fn stop_watching(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(watchdog) = self.watchdog.take() {
            let _ = watchdog.join();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.stop_watching();
        // If something went wrong; else `finish` has taken it.
        self.shared.abort();
    }
}

impl Shared {
    /// Lets NCCL queue work, which the other ranks are told, and the watchdog waits for.
    fn queue(
        &self,
        stream: &Stream,
        call: Call,
        work: impl FnOnce(&Functions, sys::ncclComm_t, sys::cudaStream_t) -> Status,
    ) -> Result<()> {
        if let Some(failure) = self.line.failure() {
            return Err(Error::Ranks(failure));
        }
        let Some(cuda) = stream.as_cuda() else {
            return Err(Error::Invalid(format!("{call}: the stream is no GPU's")));
        };
        let what = call.to_string();
        self.line.note(call);
        self.context.bind_to_thread().map_err(|error| driver_error(&self.device, &what, error))?;
        let status = {
            let _queueing = self.queueing.lock().unwrap_or_else(PoisonError::into_inner);
            *self.stream.lock().unwrap_or_else(PoisonError::into_inner) = Some(cuda.clone());
            // Before the work: queueing may wait for peers, too.
            self.queued.fetch_add(1, Ordering::Release);
            let comm = self.comm.load(Ordering::Acquire);
            if comm.is_null() { INVALID_USAGE } else { work(self.functions, comm, cuda.cu_stream().cast()) }
        };
        match status {
            SUCCESS | IN_PROGRESS => Ok(()),
            status => {
                thread::sleep(PATIENCE);
                let comm = self.comm.load(Ordering::Acquire);
                Err(self
                    .line
                    .failure()
                    .map_or_else(|| nccl_error(self.functions, &self.device, &what, status, comm), Error::Ranks))
            }
        }
    }

    /// The watchdog's work.
    fn watch(&self) {
        let _ = self.context.bind_to_thread();
        let mut seen = 0;
        let mut waits: Option<(CudaEvent, Instant)> = None;
        // A call that has not come back from NCCL, by its number.
        let mut inside: Option<(u64, Instant)> = None;
        while !self.stop.load(Ordering::Acquire) {
            thread::sleep(LOOK);
            if self.line.failure().is_some() {
                return self.abort();
            }
            if let Some(reason) = self.error_behind() {
                thread::sleep(PATIENCE);
                if self.line.failure().is_none() {
                    let (rank, size) = (self.line.rank(), self.line.size());
                    self.line
                        .fail(RankFailureKind::Failed, format!("rank {rank} of {size} failed: NCCL reports {reason}"));
                }
                return self.abort();
            }
            let queued = self.queued.load(Ordering::Acquire);
            let is_queueing = self.queueing.try_lock().is_err();
            inside = inside.filter(|(call, _)| is_queueing && *call == queued);
            inside = inside.or_else(|| is_queueing.then(|| (queued, Instant::now())));
            if inside.is_some_and(|(_, since)| since.elapsed() > self.line.timeout()) {
                self.late();
                return self.abort();
            }
            match &waits {
                Some((mark, _)) if mark.try_is_complete().unwrap_or(true) => waits = None,
                Some((_, since)) if since.elapsed() > self.line.timeout() => {
                    self.late();
                    return self.abort();
                }
                Some(_) => {}
                None if queued != seen => {
                    // While NCCL still queues, a mark would lie before its work: then another one is made later.
                    seen = if is_queueing { seen } else { queued };
                    let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    waits = stream.and_then(|stream| Some((stream.record_event(None).ok()?, Instant::now())));
                }
                None => {}
            }
        }
    }

    /// Reports that queued work does not end, and waits until the rank at fault is known.
    fn late(&self) {
        self.line.late();
        let begin = Instant::now();
        while self.line.failure().is_none() && begin.elapsed() < 2 * PATIENCE {
            thread::sleep(Duration::from_millis(5));
        }
        if self.line.failure().is_none() {
            let (rank, time) = (self.line.rank(), seconds(self.line.timeout()));
            self.line.fail(RankFailureKind::Late, format!("what rank {rank} queued did not end within {time}"));
        }
    }

    /// Error that NCCL has found since it queued its work.
    fn error_behind(&self) -> Option<String> {
        let comm = self.comm.load(Ordering::Acquire);
        if comm.is_null() {
            return None;
        }
        let mut status = SUCCESS;
        // SAFETY: only this thread takes the communicator away.
        let asked = unsafe { (self.functions.comm_get_async_error)(comm, &mut status) };
        match (asked, status) {
            (SUCCESS, SUCCESS | IN_PROGRESS) => None,
            (SUCCESS, status) | (status, _) => Some(describe(self.functions, status, comm)),
        }
    }

    /// Ends NCCL's work, even if a stream is in the middle of it.
    fn abort(&self) {
        // A call that queues ends by itself, unless it waits for a rank that is gone: then only this ends it.
        let begin = Instant::now();
        let mut queueing = self.queueing.try_lock();
        while queueing.is_err() && begin.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
            queueing = self.queueing.try_lock();
        }
        let comm = self.comm.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if !comm.is_null() && self.context.bind_to_thread().is_ok() {
            // SAFETY: it was taken out, so it is aborted once; NCCL allows this while another thread waits in a call.
            let _ = unsafe { (self.functions.comm_abort)(comm) };
        }
    }
}

const BYTE: DataType = DataType::ncclUint8;

fn data_type<T: Reducible>() -> DataType {
    match T::NAME {
        "f32" => DataType::ncclFloat32,
        "f64" => DataType::ncclFloat64,
        "f16" => DataType::ncclFloat16,
        "bf16" => DataType::ncclBfloat16,
        "i8" => DataType::ncclInt8,
        "u8" => DataType::ncclUint8,
        "i32" => DataType::ncclInt32,
        "u32" => DataType::ncclUint32,
        "i64" => DataType::ncclInt64,
        _ => DataType::ncclUint64,
    }
}

fn red_op(op: ReduceOp) -> RedOp {
    match op {
        ReduceOp::Sum => RedOp::ncclSum,
        ReduceOp::Min => RedOp::ncclMin,
        ReduceOp::Max => RedOp::ncclMax,
    }
}
