//! What the steps of all ladders have in common.

use common::compile::KernelSource;
use common::device::Device;
use common::error::Result;

/// What the host side of a ladder's steps needs to know beside the kernel file, and how it loads them.
pub trait Method: Clone {
    /// A step on a device.
    type Loaded;

    /// Loads the kernels of a step with this method.
    ///
    /// # Errors
    /// As [`Device::kernel`]; [`common::Error::Unsupported`] if the step needs another GPU.
    fn load(step: &Step<Self>, device: &Device) -> Result<Self::Loaded>;
}

/// A step of a ladder: a kernel file, and in `M` what its host side needs to know beside it.
#[derive(Clone, Debug)]
pub struct Step<M> {
    /// Its place in the ladder, from 1.
    pub number: u32,
    /// What messages call it.
    pub name: &'static str,
    /// What is new in it, in a few words.
    pub idea: &'static str,
    /// The kernel file.
    pub source: KernelSource,
    /// What launches it.
    pub method: M,
}

impl<M: Method> Step<M> {
    /// Loads the kernels.
    ///
    /// # Errors
    /// As [`Method::load`].
    pub fn load(&self, device: &Device) -> Result<M::Loaded> {
        M::load(self, device)
    }
}

impl<M: Clone> Step<M> {
    /// Its place in the ladder, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// What messages call it.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Number and name, as in a table: `7 no conflicts`.
    pub fn title(&self) -> String {
        format!("{} {}", self.number, self.name)
    }

    /// What is new in it, in a few words.
    pub fn idea(&self) -> &'static str {
        self.idea
    }

    /// The kernel file.
    pub fn source(&self) -> &KernelSource {
        &self.source
    }

    /// The same host side for another text, such as a kernel with a mistake that a check must find.
    pub fn with_source(&self, source: KernelSource) -> Step<M> {
        Step { source, ..self.clone() }
    }
}
