//! Launches of kernels on a stream.

use super::arguments::{Arguments, KernelArg, Slot};
use super::backend::Backend;
use super::buffer::{Buffer, DeviceSlice, DeviceSliceMut};
use super::element::DeviceElement;
use super::handle::on_either;
use super::kernel::Kernel;
use super::launch_config::LaunchConfig;
use super::recording::{GraphOperation, Uses};
use super::stream::Stream;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;

impl Stream {
    /// Starts the argument list of a launch; see [`LaunchArgs`].
    pub fn launch_builder<'a>(&'a self, kernel: &'a Kernel) -> LaunchArgs<'a> {
        LaunchArgs::new(self, kernel)
    }
}

/// Arguments of one launch, started by [`Stream::launch_builder`].
pub struct LaunchArgs<'a> {
    pub(super) stream: &'a Stream,
    pub(super) arguments: Arguments<'a>,
}

impl<'a> LaunchArgs<'a> {
    fn new(stream: &'a Stream, kernel: &'a Kernel) -> LaunchArgs<'a> {
        LaunchArgs { stream, arguments: Arguments::new(kernel) }
    }

    /// Appends an argument, in the order of the kernel's parameters.
    pub fn arg(&mut self, argument: impl KernelArg<'a>) -> &mut Self {
        argument.push(&mut self.arguments);
        self
    }

    /// Appends a scalar or struct by the bytes of its value, for callers that learn its type at run time.
    pub fn arg_bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.arguments.push_bytes(bytes);
        self
    }

    /// Appends the buffer of argument `index` (from 0) once more: a kernel that reads one and writes the other then works in
    /// place.
    ///
    /// # Panics
    /// If there is no such argument yet, or it is not a buffer.
    pub fn arg_again(&mut self, index: usize) -> &mut Self {
        let buffer = matches!(self.arguments.slots.get(index), Some(Slot::Read(_) | Slot::Write(_)));
        assert!(buffer, "argument {index} is not a buffer given before");
        self.arguments.slots.push(Slot::Again(index));
        self
    }

    /// Appends a buffer that may belong to another device of the same host, for reading: the kernel reaches it over the link. Only
    /// events ([`Stream::wait`]) and the kernel's own waits order the launch with work on that device, and the buffer has to stay
    /// until the launch has ended.
    pub fn peer<T: DeviceElement>(&mut self, buffer: &'a Buffer<T>) -> &mut Self {
        self.arguments.slots.push(Slot::Peer(buffer.region()));
        self
    }

    /// [`LaunchArgs::peer`], for writing.
    pub fn peer_mut<T: DeviceElement>(&mut self, buffer: &'a mut Buffer<T>) -> &mut Self {
        self.arguments.slots.push(Slot::PeerMut(buffer.region_mut()));
        self
    }

    /// Lets the launch begin while the previous one on the stream still runs (programmatic dependent launch), on GPUs from
    /// compute capability 9.0; others and the simulator run one after the other. The kernel must execute `griddepcontrol.wait`
    /// before it reads or writes anything that an earlier launch reads or writes. The previous launch lets this one begin with
    /// `griddepcontrol.launch_dependents`; without that, this one waits for its end.
    pub fn dependent(&mut self) -> &mut Self {
        self.arguments.dependent = true;
        self
    }

    /// Queues the launch. The number and sizes of the arguments, the devices of kernel and buffers, and the geometry are
    /// checked against kernel and device before anything runs.
    ///
    /// On a GPU the launch only begins here: errors inside the kernel surface at the next synchronisation. On the simulator
    /// it has run when this returns.
    ///
    /// # Safety
    /// Sizes are checked, meanings are not. The kernel must write only through arguments passed as `&mut`, and stay inside its
    /// buffers, for this geometry and these scalars; if it is [`LaunchArgs::dependent`], it must wait as described there. A
    /// GPU does not check: a stray access may reach any allocation of the process, including pinned host memory. (The
    /// simulator reports it and harms nothing.)
    ///
    /// # Errors
    /// [`Error::Arguments`], [`Error::LaunchConfig`], [`Error::WrongDevice`]; [`Error::Fault`] from the simulator; the
    /// driver's errors of earlier work.
    pub unsafe fn launch(&mut self, config: LaunchConfig) -> Result<()> {
        let (stream, kernel) = (self.stream, self.arguments.kernel);
        on_either!(&stream.queue, queue => {
            let function = kernel.on(queue)?;
            self.check(&config)?;
            let memory = if stream.branch().is_some() { self.arguments.leases() } else { Vec::new() };
            let uses =
                || Uses { operation: GraphOperation::Kernel, name: kernel.name(), memory, kernel: Some(kernel) };
            // SAFETY: number and sizes of the arguments and the geometry were checked; the rest is the caller's promise.
            stream.perform(uses, || unsafe { queue.launch(function, &mut self.arguments, &config) })
        })
    }

    /// Checks arguments and geometry against kernel and device.
    pub(super) fn check(&self, config: &LaunchConfig) -> Result<()> {
        self.arguments.check(config, self.stream.device().properties())
    }
}
