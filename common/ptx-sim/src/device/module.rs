//! Modules whose variables live on a device.

use std::sync::Arc;

use super::{Device, Inner, Kernel};
use crate::error::LoadError;
use crate::ir::{ConstantValue, Global, KernelInfo, Relocation};
use crate::limits::Use;
use crate::memory::{DevicePtr, MemoryError, Placement, Role};
use crate::module::Module;

impl Device {
    /// Puts a module's variables into the device's memory.
    ///
    /// # Errors
    /// [`LoadError::Memory`] if they do not fit.
    pub fn load(&self, module: &Module) -> Result<LoadedModule, LoadError> {
        self.load_beside(module, None)
    }

    /// Loads a module that has the managed variables of another, if it has been loaded before.
    fn load_beside(&self, module: &Module, first: Option<&Arc<Loaded>>) -> Result<LoadedModule, LoadError> {
        let program = module.program();
        let memory = &self.inner.memory;
        let bytes = module.bytes();
        if !memory.ledger().take(Use::Modules, bytes) {
            let source = MemoryError::Limit { message: memory.ledger().message(Use::Modules, bytes) };
            return Err(LoadError::Memory { file: module.name().to_owned(), source });
        }
        let mut loaded = Loaded {
            device: Arc::clone(&self.inner),
            module: module.clone(),
            globals: Vec::with_capacity(program.globals.len()),
            first: first.cloned(),
        };
        for (at, global) in program.globals.iter().enumerate() {
            if let Some(first) = first.filter(|_| global.managed) {
                loaded.globals.push(first.globals[at]);
                continue;
            }
            let role = if global.constant { Role::Constant } else { Role::Variable };
            let place = if global.managed { Placement::Shared } else { Placement::Device };
            let allocation = memory
                .alloc(global.bytes, &global.name, role, place)
                .map_err(|source| LoadError::Memory { file: module.name().to_owned(), source })?;
            global.init.iter().for_each(|(offset, bytes)| allocation.write(*offset, bytes));
            allocation.mark(0, global.bytes, true); // what has no initial value begins at zero
            loaded.globals.push(allocation.base);
        }
        for (global, base) in loaded.own() {
            for Relocation { at, bytes, byte, value } in &global.relocations {
                let value = match value {
                    ConstantValue::Bits(bits) => *bits,
                    ConstantValue::Global(index, offset) => {
                        loaded.globals[*index as usize].wrapping_add(*offset as u64)
                    }
                    ConstantValue::Shared(..) => 0,
                };
                let value = value >> (8 * byte);
                let pointer = DevicePtr(base + at);
                let target = memory.range(pointer, u64::from(*bytes));
                if let Ok((allocation, offset)) = target {
                    allocation.write(offset, &value.to_le_bytes()[..usize::from(*bytes).min(8)]);
                }
            }
        }
        Ok(LoadedModule { loaded: Arc::new(loaded) })
    }
}

#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) device: Arc<Inner>,
    pub(super) module: Module,
    /// Address of each module variable.
    pub(super) globals: Vec<u64>,
    /// The module whose managed variables are this one's too.
    first: Option<Arc<Loaded>>,
}

impl Loaded {
    /// The variables that are this one's alone, with their addresses.
    fn own(&self) -> impl Iterator<Item = (&Global, u64)> {
        let all = self.module.program().globals.iter().zip(self.globals.iter().copied());
        all.filter(|(global, _)| self.first.is_none() || !global.managed)
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.device.memory.ledger().give(Use::Modules, self.module.bytes());
        for (_, base) in self.own() {
            // A failure here would mean that the address is not ours, which cannot be helped while dropping.
            let _ = self.device.memory.free(DevicePtr(base));
        }
    }
}

/// A module whose variables live on a device. They are freed with its last clone.
#[derive(Clone, Debug)]
pub struct LoadedModule {
    loaded: Arc<Loaded>,
}

impl LoadedModule {
    /// Puts the module's variables into memory again, as for another GPU: managed ones are the same for all.
    ///
    /// # Errors
    /// Same as [`Device::load`].
    pub fn again(&self) -> Result<Self, LoadError> {
        let first = self.loaded.first.as_ref().unwrap_or(&self.loaded);
        Device { inner: Arc::clone(&self.loaded.device) }.load_beside(&self.loaded.module, Some(first))
    }

    /// The kernels, in order of the file.
    pub fn kernels(&self) -> impl Iterator<Item = &KernelInfo> {
        self.loaded.module.kernels()
    }

    /// The kernel of that name.
    ///
    /// # Errors
    /// [`LoadError::UnknownKernel`], which lists the known kernels; [`LoadError::Unresolved`] if it calls functions that have no
    /// body; [`LoadError::Unsupported`] if the kernel or a function
    /// that it calls has instructions that the simulator does not know: all of them are listed.
    pub fn kernel(&self, name: &str) -> Result<Kernel, LoadError> {
        let module = &self.loaded.module;
        let Some(index) = module.parts().iter().position(|part| part.info.name == name) else {
            return Err(LoadError::UnknownKernel {
                kernel: name.to_owned(),
                file: module.name().to_owned(),
                known: module.kernels().map(|kernel| kernel.name.clone()).collect(),
            });
        };
        let info = &module.parts()[index].info;
        let (kernel, file) = (name.to_owned(), module.name().to_owned());
        if !info.unresolved.is_empty() {
            return Err(LoadError::Unresolved { kernel, file, functions: info.unresolved.to_vec() });
        }
        if !info.unsupported.is_empty() {
            return Err(LoadError::Unsupported { kernel, file, items: info.unsupported.to_vec() });
        }
        Ok(Kernel { loaded: Arc::clone(&self.loaded), index })
    }

    /// Address and size in bytes of a `__device__` or `__constant__` variable, by its name in the PTX.
    #[must_use]
    pub fn global(&self, name: &str) -> Option<(DevicePtr, u64)> {
        let globals = &self.loaded.module.program().globals;
        let index = globals.iter().position(|global| global.name == name)?;
        Some((DevicePtr(self.loaded.globals[index]), globals[index].bytes))
    }

    /// The names of all `__device__` and `__constant__` variables.
    pub fn globals(&self) -> impl Iterator<Item = &str> {
        self.loaded.module.program().globals.iter().map(|global| global.name.as_str())
    }
}
