//! The operations between ranks, on device memory.

use std::any::type_name;
use std::sync::Arc;

use super::Transport;
use super::call::{Call, End, Operation, ReduceOp};
use super::hub::unframed;
use super::line::Line;
use super::reduce::Reducible;
use super::wire::MAX_PAYLOAD;
use common::device::{Device, DeviceElement, DeviceSlice, DeviceSliceMut, Stream};
use common::error::{Error, Result};

#[cfg(feature = "cuda")]
use super::nccl::{self, Connection};

/// One rank's part in the work of all. Every rank calls the same operations in the same order, with the same number of values
/// of the same type; transfers concern only their two ends.
///
/// Operations are part of a stream's work, in its order. With NCCL they are only queued when a call returns: wait with
/// [`Communicator::synchronize`], which also ends when another rank has failed. [`Stream::synchronize`] and copies to the host
/// end as well, but only the next call here gives the reason.
pub struct Communicator {
    device: Device,
    way: Way,
    /// Dropped after `way`, which uses it.
    line: Arc<Line>,
}

/// Path of the values, once it is decided.
enum Way {
    Host,
    #[cfg(feature = "cuda")]
    Nccl(Connection),
}

/// Path of this device's values, with all settings that must be the same on every rank.
pub(super) fn describe(device: &Device, transport: Transport) -> Result<String> {
    let nccl = || -> Result<String> {
        #[cfg(feature = "cuda")]
        return nccl::version(device).map(|version| format!("NCCL {version}"));
        #[cfg(not(feature = "cuda"))]
        Err(Error::Unsupported {
            what: "NCCL".to_owned(),
            device: device.short_name(),
            reason: "this program was built without the `cuda` feature".to_owned(),
        })
    };
    let host = || "copies through the host".to_owned();
    match transport {
        Transport::Host => Ok(host()),
        Transport::Nccl => nccl(),
        Transport::Auto => Ok(nccl().unwrap_or_else(|_| host())),
    }
}

impl Communicator {
    /// Waits for all ranks, and connects their devices.
    pub(super) fn form(line: Arc<Line>, device: &Device, transport: Transport) -> Result<Communicator> {
        let described = describe(device, transport)?;
        let barrier = line.call(Call::plain(Operation::Barrier), Vec::new()).map_err(Error::Ranks)?;
        drop(barrier);
        let way = match described.starts_with("NCCL") {
            #[cfg(feature = "cuda")]
            true => Way::Nccl(Connection::connect(&line, device)?),
            _ => Way::Host,
        };
        Ok(Communicator { device: device.clone(), way, line })
    }

    /// This rank, from 0.
    pub fn rank(&self) -> usize {
        self.line.rank()
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.line.size()
    }

    /// The rank's device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// True if values go from GPU to GPU by NCCL, false if they go through the host.
    pub fn is_nccl(&self) -> bool {
        !matches!(self.way, Way::Host)
    }

    /// Combines the values of all ranks, on every rank, in place of its own.
    ///
    /// # Errors
    /// [`Error::Ranks`] if the ranks do not agree or one failed, [`Error::WrongDevice`], or errors of the device.
    pub fn all_reduce<T: Reducible>(
        &self,
        stream: &Stream,
        op: ReduceOp,
        values: &mut impl DeviceSliceMut<T>,
    ) -> Result<()> {
        let call = call::<T>(Operation::AllReduce(op), values.len());
        self.check(stream, &call, 1)?;
        match &self.way {
            Way::Host => {
                let answer = self.ask(call, to_bytes(stream, &*values)?)?;
                to_device(stream, &answer, values)
            }
            #[cfg(feature = "cuda")]
            Way::Nccl(nccl) => nccl.all_reduce(stream, call, op, values),
        }
    }

    /// Concatenates the values of all ranks, in the ranks' order: `all` has [`Communicator::size`] times as many as `own`.
    ///
    /// # Errors
    /// [`Error::Shape`] for other lengths; errors of [`Communicator::all_reduce`].
    pub fn all_gather<T: DeviceElement>(
        &self,
        stream: &Stream,
        own: &impl DeviceSlice<T>,
        all: &mut impl DeviceSliceMut<T>,
    ) -> Result<()> {
        let call = call::<T>(Operation::AllGather, own.len());
        self.check(stream, &call, self.size())?;
        self.check_parts("all_gather", own.len(), all.len())?;
        match &self.way {
            Way::Host => {
                let answer = self.ask(call, to_bytes(stream, own)?)?;
                to_device(stream, &answer, all)
            }
            #[cfg(feature = "cuda")]
            Way::Nccl(nccl) => nccl.all_gather(stream, call, own, all),
        }
    }

    /// Reduces the values of all ranks, and gives each rank its part: the first to rank 0. `all` has [`Communicator::size`] times
    /// as many as `own`.
    ///
    /// # Errors
    /// [`Error::Shape`] for other lengths; errors of [`Communicator::all_reduce`].
    pub fn reduce_scatter<T: Reducible>(
        &self,
        stream: &Stream,
        op: ReduceOp,
        all: &impl DeviceSlice<T>,
        own: &mut impl DeviceSliceMut<T>,
    ) -> Result<()> {
        let call = call::<T>(Operation::ReduceScatter(op), own.len());
        self.check(stream, &call, 1)?; // the call's own count has all parts
        self.check_parts("reduce_scatter", own.len(), all.len())?;
        match &self.way {
            Way::Host => {
                let answer = self.ask(call, to_bytes(stream, all)?)?;
                to_device(stream, &answer, own)
            }
            #[cfg(feature = "cuda")]
            Way::Nccl(nccl) => nccl.reduce_scatter(stream, call, op, all, own),
        }
    }

    /// Copies the values of rank `root` to every rank.
    ///
    /// # Errors
    /// Errors of [`Communicator::all_reduce`]; [`Error::Invalid`] if there is no such rank.
    pub fn broadcast<T: DeviceElement>(
        &self,
        stream: &Stream,
        root: usize,
        values: &mut impl DeviceSliceMut<T>,
    ) -> Result<()> {
        let root = self.peer(root)?;
        let call = call::<T>(Operation::Broadcast { root }, values.len());
        self.check(stream, &call, 1)?;
        match &self.way {
            Way::Host => {
                let sends = root as usize == self.rank();
                let bytes = if sends { to_bytes(stream, &*values)? } else { Vec::new() };
                let answer = self.ask(call, bytes)?;
                if sends { Ok(()) } else { to_device(stream, &answer, values) }
            }
            #[cfg(feature = "cuda")]
            Way::Nccl(nccl) => nccl.broadcast(stream, call, root, values),
        }
    }

    /// Sends values to rank `to`, which receives them; waits until it does. Two ranks that send to one another before either
    /// receives wait for ever, and get an error: [`Communicator::exchange`] does both at once.
    ///
    /// # Errors
    /// Same as [`Communicator::broadcast`].
    pub fn send<T: DeviceElement>(&self, stream: &Stream, to: usize, values: &impl DeviceSlice<T>) -> Result<()> {
        let to = self.other(to, "sends to")?;
        let call = transfer::<T>(Some((to, values.len())), None);
        self.check(stream, &call, 1)?;
        match &self.way {
            Way::Host => self.ask(call, to_bytes(stream, values)?).map(drop),
            #[cfg(feature = "cuda")]
            Way::Nccl(nccl) => nccl.send(stream, call, to, values),
        }
    }

    /// Receives the values that rank `from` sends: the number that it sends.
    ///
    /// # Errors
    /// Same as [`Communicator::broadcast`].
    pub fn recv<T: DeviceElement>(
        &self,
        stream: &Stream,
        from: usize,
        values: &mut impl DeviceSliceMut<T>,
    ) -> Result<()> {
        let from = self.other(from, "receives from")?;
        let call = transfer::<T>(None, Some((from, values.len())));
        self.check(stream, &call, 1)?;
        match &self.way {
            Way::Host => {
                let answer = self.ask(call, Vec::new())?;
                to_device(stream, &answer, values)
            }
            #[cfg(feature = "cuda")]
            Way::Nccl(nccl) => nccl.recv(stream, call, from, values),
        }
    }

    /// Sends to one rank and receives from another, or the same, at once: the step of a ring.
    ///
    /// # Errors
    /// Same as [`Communicator::broadcast`].
    pub fn exchange<T: DeviceElement>(
        &self,
        stream: &Stream,
        to: usize,
        sent: &impl DeviceSlice<T>,
        from: usize,
        received: &mut impl DeviceSliceMut<T>,
    ) -> Result<()> {
        let (to, from) = (self.other(to, "sends to")?, self.other(from, "receives from")?);
        let call = transfer::<T>(Some((to, sent.len())), Some((from, received.len())));
        self.check(stream, &call, 1)?;
        match &self.way {
            Way::Host => {
                let answer = self.ask(call, to_bytes(stream, sent)?)?;
                to_device(stream, &answer, received)
            }
            #[cfg(feature = "cuda")]
            Way::Nccl(nccl) => nccl.exchange(stream, call, (to, sent), (from, received)),
        }
    }

    /// Waits until all work of the stream is done, or until a rank has failed.
    ///
    /// # Errors
    /// [`Error::Ranks`] if a rank failed or did not take part in time; errors of the stream's work.
    pub fn synchronize(&self, stream: &Stream) -> Result<()> {
        match &self.way {
            Way::Host => stream.synchronize(),
            #[cfg(feature = "cuda")]
            Way::Nccl(nccl) => nccl.synchronize(stream),
        }
    }

    /// Waits until the stream is empty, on every rank.
    ///
    /// # Errors
    /// Same as [`Communicator::synchronize`].
    pub fn barrier(&self, stream: &Stream) -> Result<()> {
        self.synchronize(stream)?;
        self.ask(Call::plain(Operation::Barrier), Vec::new()).map(drop)
    }

    /// Exchanges bytes of every rank, through the host: for results and notes, not for tensors.
    ///
    /// # Errors
    /// [`Error::Ranks`]; [`Error::Invalid`] for more bytes than a message can carry.
    pub fn share(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        if bytes.len() > MAX_PAYLOAD / self.size() {
            return Err(Error::Invalid(format!("{} bytes are too many to share", bytes.len())));
        }
        let all = self.ask(Call::plain(Operation::Share), bytes.to_vec())?;
        unframed(&all, self.size())
            .ok_or_else(|| Error::Invalid("rank 0 sent something else than shared bytes".to_owned()))
    }

    /// Waits for all ranks to be done.
    pub(super) fn finish(self) -> Result<()> {
        let Communicator { way, line, .. } = self;
        #[cfg(feature = "cuda")]
        if let Way::Nccl(nccl) = &way {
            nccl.settle()?;
        }
        line.call(Call::plain(Operation::Finish), Vec::new()).map_err(Error::Ranks)?;
        match way {
            Way::Host => Ok(()),
            #[cfg(feature = "cuda")]
            Way::Nccl(nccl) => nccl.finish(),
        }
    }

    fn ask(&self, call: Call, bytes: Vec<u8>) -> Result<Arc<Vec<u8>>> {
        self.line.call(call, bytes).map_err(Error::Ranks)
    }

    /// The largest message of a call is `parts` times that of one rank.
    fn check(&self, stream: &Stream, call: &Call, parts: usize) -> Result<()> {
        if *stream.device() != self.device {
            let (expected, found) = (self.device.short_name(), stream.device().short_name());
            let found = if expected == found { "another device".to_owned() } else { found };
            return Err(Error::Invalid(format!(
                "{call}: the stream is one of {found}, but the rank works on {expected}"
            )));
        }
        let bytes = call.bytes_of(self.rank(), self.size()).and_then(|bytes| bytes.checked_mul(parts as u64));
        if !self.is_nccl() && bytes.is_none_or(|bytes| bytes > MAX_PAYLOAD as u64) {
            return Err(Error::Unsupported {
                what: call.to_string(),
                device: self.device.short_name(),
                reason: format!("without NCCL the ranks exchange at most {} MiB at once", MAX_PAYLOAD >> 20),
            });
        }
        Ok(())
    }

    fn check_parts(&self, operation: &str, own: usize, all: usize) -> Result<()> {
        if own.checked_mul(self.size()) == Some(all) {
            return Ok(());
        }
        let detail = format!("{} ranks with {own} values each make no array of {all}", self.size());
        Err(Error::shape(operation, detail))
    }

    fn peer(&self, rank: usize) -> Result<u32> {
        if rank < self.size() {
            return Ok(rank as u32);
        }
        Err(Error::Invalid(format!("there is no rank {rank}: there are {}", self.size())))
    }

    fn other(&self, rank: usize, verb: &str) -> Result<u32> {
        if rank == self.rank() {
            return Err(Error::Invalid(format!("rank {rank} {verb} itself: copy inside the device instead")));
        }
        self.peer(rank)
    }
}

impl std::fmt::Debug for Communicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Communicator(rank {} of {} on {})", self.rank(), self.size(), self.device.short_name())
    }
}

fn call<T: DeviceElement>(operation: Operation, count: usize) -> Call {
    let element = type_name::<T>().rsplit("::").next().unwrap_or_default().to_owned();
    Call { operation, element, size: size_of::<T>() as u32, count: count as u64 }
}

fn transfer<T: DeviceElement>(to: Option<(u32, usize)>, from: Option<(u32, usize)>) -> Call {
    let end = |(peer, count)| End { peer, count: count as u64 };
    call::<T>(Operation::Transfer { to: to.map(end), from: from.map(end) }, 0)
}

fn to_bytes<T: DeviceElement>(stream: &Stream, values: &impl DeviceSlice<T>) -> Result<Vec<u8>> {
    Ok(bytemuck::cast_slice(&stream.clone_dtoh(values)?).to_vec())
}

fn to_device<T: DeviceElement>(stream: &Stream, bytes: &[u8], values: &mut impl DeviceSliceMut<T>) -> Result<()> {
    if bytes.len() != values.len() * size_of::<T>() {
        return Err(Error::Invalid(format!("rank 0 sent {} bytes for {} values", bytes.len(), values.len())));
    }
    stream.memcpy_htod(&bytemuck::pod_collect_to_vec::<u8, T>(bytes), values)
}
