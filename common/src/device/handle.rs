//! A thing of either device.

/// A thing that lives on one device: CUDA's or the simulator's.
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

/// `$body` for whichever half a handle has; it may be of another type on each.
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
