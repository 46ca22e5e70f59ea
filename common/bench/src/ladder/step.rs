//! Common parts of the steps of all ladders.

use common::compile::KernelSource;
use common::device::Device;
use common::error::Result;

/// Parameters of the host code of a ladder's steps beside the kernel file, and the loading of their kernels.
pub trait Method: Clone {
    /// A step on a device.
    type Loaded;

    /// Loads the kernels of a step with this method.
    ///
    /// # Errors
    /// Errors of [`Device::kernel`]; [`common::Error::Unsupported`] if the step needs another GPU.
    fn load(step: &Step<Self>, device: &Device) -> Result<Self::Loaded>;
}

/// A step of a ladder: a kernel file, and in `M` the parameters of its host code.
#[derive(Clone, Debug)]
pub struct Step<M> {
    /// Position in the ladder, from 1.
    pub number: u32,
    /// Name in messages.
    pub name: &'static str,
    /// New idea of the step, in a few words.
    pub idea: &'static str,
    /// The kernel file.
    pub source: KernelSource,
    /// Host code that launches it.
    pub method: M,
}

impl<M: Method> Step<M> {
    /// Loads the kernels.
    ///
    /// # Errors
    /// Errors of [`Method::load`].
    pub fn load(&self, device: &Device) -> Result<M::Loaded> {
        M::load(self, device)
    }
}

impl<M: Clone> Step<M> {
    /// Number and name, as in a table: `7 no conflicts`.
    pub fn title(&self) -> String {
        format!("{} {}", self.number, self.name)
    }

    /// The same host code for another text, such as a kernel with a bug that a check must find.
    pub fn with_source(&self, source: KernelSource) -> Step<M> {
        Step { source, ..self.clone() }
    }
}
