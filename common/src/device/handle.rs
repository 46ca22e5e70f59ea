//! A thing of either device, and the one place where the devices of two things are compared.
//!
//! Memory, kernels, events and streams are [`Handle`]s: each is CUDA's or the simulator's. [`resolve`] gives a thing in the type of a
//! queue's side.

use super::DeviceId;
use crate::error::{Error, Result};

/// An object of one device: CUDA's or the simulator's.
#[derive(Clone, Copy)]
pub(crate) enum Handle<C, S> {
    /// Without the `cuda` feature, `C` is a type without values.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code))]
    Cuda(C),
    Sim(S),
}

impl<C, S> Handle<C, S> {
    pub(crate) fn as_ref(&self) -> Handle<&C, &S> {
        match self {
            Handle::Cuda(cuda) => Handle::Cuda(cuda),
            Handle::Sim(sim) => Handle::Sim(sim),
        }
    }

    pub(crate) fn as_mut(&mut self) -> Handle<&mut C, &mut S> {
        match self {
            Handle::Cuda(cuda) => Handle::Cuda(cuda),
            Handle::Sim(sim) => Handle::Sim(sim),
        }
    }
}

/// Expands to `$body` for either half of a handle, which may have different types.
macro_rules! on_either {
    ($handle:expr, $half:ident => $body:expr) => {
        match $handle {
            #[cfg(feature = "cuda")]
            $crate::device::handle::Handle::Cuda($half) => $body,
            #[cfg(not(feature = "cuda"))]
            $crate::device::handle::Handle::Cuda(never) => match *never {},
            $crate::device::handle::Handle::Sim($half) => $body,
        }
    };
}
pub(crate) use on_either;

/// The queue of one device, as one of the two sides of a [`Handle`].
pub(crate) trait Side {
    /// This device's half of the types of a [`Handle`].
    type Half<C, S>;

    fn half<C, S>(handle: Handle<C, S>) -> Option<Self::Half<C, S>>;

    fn device_id(&self) -> DeviceId;

    /// Whether events of that device can be waited for and its memory may be reached: it is another device of the same
    /// host.
    fn is_neighbour(&self, device: DeviceId) -> bool;
}

/// `handle`, which belongs to `owner`, in the type of `queue`.
pub(crate) fn resolve<Q: Side, C, S>(
    queue: &Q,
    operation: &'static str,
    what: &'static str,
    owner: DeviceId,
    handle: Handle<C, S>,
) -> Result<Q::Half<C, S>> {
    match Q::half(handle) {
        Some(half) if owner == queue.device_id() => Ok(half),
        _ => Err(wrong_device(operation, what, queue.device_id(), owner)),
    }
}

/// [`resolve`], which also takes an object of another device of the same host.
pub(crate) fn resolve_neighbour<Q: Side, C, S>(
    queue: &Q,
    operation: &'static str,
    what: &'static str,
    owner: DeviceId,
    handle: Handle<C, S>,
) -> Result<Q::Half<C, S>> {
    match Q::half(handle) {
        Some(half) if owner == queue.device_id() || queue.is_neighbour(owner) => Ok(half),
        _ => Err(wrong_device(operation, what, queue.device_id(), owner)),
    }
}

pub(crate) fn wrong_device(operation: &'static str, what: &'static str, expected: DeviceId, found: DeviceId) -> Error {
    // All simulators have the same name.
    let (expected, found) = (expected.to_string(), found.to_string());
    let found = if found == expected { "another simulator".to_owned() } else { found };
    Error::WrongDevice { operation, what, expected, found }
}
