//! Backends that run the layers of [`crate::nn`].
//!
//! | backend | implementation of ResNet18 |
//! | --- | --- |
//! | [`Cpu`] | 1: the CPU alone |
//! | [`RoundTrip`] | 2, phase 1: the CPU computes, and every tensor travels to the device and back first |
//! | [`ConvOnDevice`] | 3, phase 2: convolutions and BatchNorm on the device, with copies around each pair |
//! | [`Unfused`] | 4, phase 3: all layers on the device, a kernel for each, in memory that is planned once |
//!
//! [`workspace`] is that plan, [`Planned`] a network with its plan, and [`Reliable`] an autoencoder that survives a failing device.

mod cpu;
mod device;
mod halfway;
mod planned;
mod reliable;
pub mod workspace;

pub use cpu::{Cpu, OnHost};
pub use device::{Sources, Unfused};
pub use halfway::{ConvOnDevice, RoundTrip};
pub use planned::{Captured, Planned, infer};
pub use reliable::{OneStage, Reliable};

use std::sync::{Arc, Mutex, PoisonError, Weak};

use common::prelude::*;

/// Values derived from parameters that several layers share, made once for each.
#[derive(Debug)]
struct Shared<T>(Mutex<Vec<(Weak<Tensor>, Weak<T>)>>);

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Shared(Mutex::default())
    }
}

impl<T> Shared<T> {
    /// The value derived from this very tensor, if still in use; otherwise made by `make`.
    fn of(&self, parameter: &Arc<Tensor>, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        made.retain(|(_, of)| of.strong_count() > 0);
        // A weak pointer keeps the address from being used again.
        let found = made.iter().find(|(other, _)| std::ptr::eq(other.as_ptr(), Arc::as_ptr(parameter)));
        if let Some(of) = found.and_then(|(_, of)| of.upgrade()) {
            return Ok(of);
        }
        let of = Arc::new(make()?);
        made.push((Arc::downgrade(parameter), Arc::downgrade(&of)));
        Ok(of)
    }
}
