//! The device as a program sees it: memory, modules, launches.

mod launch;
mod module;

use std::sync::{Arc, Mutex, PoisonError};

use crate::exec::Launches;
use crate::fault::Fault;
use crate::limits::Ledger;
use crate::memory::{
    Allocation, DevicePtr, Memory, MemoryError, MemoryInfo, Origin, Placement, Role, UndefinedRead, plural,
};
use crate::texture::{
    Extent, Object, ObjectError, ObjectHandle, ObjectKind, Objects, Sampling, Slot, SurfaceDescriptor, TexelFormat,
    TextureDescriptor,
};

pub use launch::{
    Arg, DEFAULT_BUDGET, Kernel, LaunchConfig, LaunchError, LaunchReport, MAX_BLOCK, MAX_GRID, MAX_SHARED, MAX_THREADS,
    Observation, Observe,
};
pub use module::LoadedModule;

/// Properties of a simulated device.
#[derive(Clone, Debug)]
pub struct DeviceConfig {
    /// Bytes of memory. Host memory is taken as allocations are touched.
    pub total_memory: u64,
    /// Host threads that run blocks; 0 stands for all cores.
    pub workers: usize,
    /// Sanitises every launch: [`Kernel::launch`] fails with [`LaunchError::Findings`] if the kernel read unwritten memory,
    /// raced, or broke another rule. Such a launch has one worker and is several times slower.
    pub sanitize: bool,
    /// Sanitises to the letter of the PTX memory model: also reports what works on today's GPUs without being guaranteed. See the
    /// README, "The sanitiser".
    pub strict: bool,
    /// Maximum bytes of host memory for the whole device: modules, buffers, registers and local memory of running blocks, the
    /// sanitiser's state, traces. Beyond, an allocation fails with [`MemoryError::Limit`] and a launch ends with a fault of kind
    /// [`crate::FaultKind::MemoryLimit`]. `None`: no limit.
    pub memory_limit: Option<u64>,
    /// Bytes of each thread's stack that recursive calls may take, as `cudaLimitStackSize` sets them: more is a fault of kind
    /// [`crate::FaultKind::StackOverflow`]. `None`: the driver's default ([`DEFAULT_STACK`]), which only a device that sanitises
    /// enforces. Frames of a kernel without recursion always fit.
    pub stack: Option<u32>,
    /// Address of the first allocation, a multiple of 256; the next ones lie above it. A host that mixes its own addresses with the
    /// device's, as CUDA's unified address space does, names one that it never maps.
    pub first_address: u64,
}

/// Bytes of a thread's stack unless the host asks for more (`cudaDeviceGetLimit`, `cudaLimitStackSize`).
pub const DEFAULT_STACK: u32 = 1024;

impl Default for DeviceConfig {
    fn default() -> Self {
        Self {
            total_memory: 8 << 30,
            workers: 0,
            sanitize: false,
            strict: false,
            memory_limit: None,
            stack: None,
            first_address: 0x7f00_0000_0000,
        }
    }
}

/// A simulated CUDA device. Share it in an [`Arc`].
#[derive(Debug)]
pub struct Device {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    memory: Memory,
    workers: usize,
    stack: Option<u32>,
    /// As [`DeviceConfig::strict`].
    strict: bool,
    output: Mutex<String>,
    started: std::time::Instant,
    /// Textures and surfaces.
    objects: Mutex<Arc<Objects>>,
    launches: Launches,
}

impl Device {
    /// A device with empty memory.
    #[must_use]
    pub fn new(config: DeviceConfig) -> Self {
        let workers = match config.workers {
            0 => rayon::current_num_threads(),
            workers => workers,
        };
        let inner = Inner {
            memory: Memory::new(
                config.total_memory,
                config.first_address,
                config.sanitize || config.strict,
                Arc::new(Ledger::new(config.memory_limit)),
            ),
            workers,
            stack: config.stack,
            strict: config.strict,
            output: Mutex::new(String::new()),
            started: std::time::Instant::now(),
            objects: Mutex::default(),
            launches: Launches::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Allocates zeroed memory, aligned to 256 bytes. `label` names it in diagnostics. To a sanitiser the zeros do not
    /// count: on a GPU anything may be there.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] if the device is full.
    pub fn alloc(&self, bytes: u64, label: &str) -> Result<DevicePtr, MemoryError> {
        self.inner.alloc(bytes, label, Placement::Device)
    }

    /// Allocates zeroed memory that lies at the same address for the host, as CUDA's managed and pinned memory does. The host may
    /// read and write it through that address whenever no kernel does. What the host writes is not seen here, so a sanitiser takes
    /// all of it as written.
    ///
    /// # Errors
    /// Same as [`Self::alloc`].
    pub fn alloc_shared(&self, bytes: u64, label: &str) -> Result<DevicePtr, MemoryError> {
        self.inner.alloc(bytes, label, Placement::Shared)
    }

    /// Makes memory of the host memory of the device as well, at the same address, as `cudaHostRegister` does. Otherwise like
    /// [`Self::alloc_shared`]. Returns its start: `memory`, or the multiple of 16 below it. [`Self::free`] of that ends this, and leaves
    /// the memory to its owner.
    ///
    /// # Errors
    /// Same as [`Self::alloc`].
    ///
    /// # Safety
    /// From that start on, all bytes that kernels and copies access are valid for reads and writes until [`Self::free`], and no
    /// launch is using them then.
    pub unsafe fn adopt(&self, memory: *mut u8, bytes: u64, label: &str) -> Result<DevicePtr, MemoryError> {
        // Accesses of kernels are aligned by their addresses.
        let before = memory as u64 % 16;
        let start = memory.wrapping_sub(before as usize);
        self.inner.alloc(bytes + before, label, Placement::Host(start))
    }

    /// Reserves addresses for [`Self::map`], as `cuMemAddressReserve` does: there is no memory yet, and no allocation gets them.
    /// `align` is a power of two.
    #[must_use]
    pub fn reserve(&self, bytes: u64, align: u64) -> DevicePtr {
        self.inner.memory.reserve(bytes, align)
    }

    /// Shows the first `bytes` bytes of the allocation at `source` at reserved addresses too, until [`Self::free`] of their start. They stay
    /// as long as they are shown, even if the allocation is freed. To a sanitiser they are written.
    ///
    /// # Errors
    /// If `source` is not the start of a live allocation of at least `bytes` bytes, or the addresses are taken.
    pub fn map(&self, at: DevicePtr, bytes: u64, source: DevicePtr, label: &str) -> Result<(), MemoryError> {
        self.inner.memory.map(at, bytes, source, label)
    }

    /// Frees an allocation. Its address is never given out again, so that a late access is recognised; unless the host chose it.
    ///
    /// # Errors
    /// If `pointer` is not the start of a live allocation.
    pub fn free(&self, pointer: DevicePtr) -> Result<(), MemoryError> {
        self.inner.memory.free(pointer)
    }

    /// Start and bytes of the live allocation that an address is in; `None` if there is none.
    #[must_use]
    pub fn allocation(&self, pointer: DevicePtr) -> Option<(DevicePtr, u64)> {
        let (allocation, _) = self.inner.memory.range(pointer, 1).ok()?;
        Some((DevicePtr(allocation.base), allocation.bytes))
    }

    /// Copies host bytes to the device.
    ///
    /// # Errors
    /// If the range is not inside one live allocation.
    pub fn write(&self, pointer: DevicePtr, bytes: &[u8]) -> Result<(), MemoryError> {
        let (allocation, offset) = self.inner.memory.range(pointer, bytes.len() as u64)?;
        allocation.write(offset, bytes);
        Ok(())
    }

    /// Copies device bytes to the host.
    ///
    /// # Errors
    /// If the range is not inside one live allocation. On a device that sanitises also [`MemoryError::Undefined`] if
    /// [`Self::undefined`] finds something in the range; then the bytes have been copied nevertheless.
    pub fn read(&self, pointer: DevicePtr, bytes: &mut [u8]) -> Result<(), MemoryError> {
        let (allocation, offset) = self.inner.memory.range(pointer, bytes.len() as u64)?;
        allocation.read(offset, bytes);
        let findings = self.undefined(pointer, bytes.len() as u64)?;
        if findings.is_empty() { Ok(()) } else { Err(MemoryError::Undefined(findings)) }
    }

    /// Values in a range that a kernel has stored without ever having defined them, such as a sum over a tile that nothing was
    /// written to: one finding for each line that read memory which was never written, with the number of words of 4 bytes
    /// that hold such values. Bytes that nothing was stored to are not among them, nor is padding: bytes that were stored
    /// beside defined ones, as a part of a larger value. Without a sanitiser there is nothing to find.
    ///
    /// # Errors
    /// If the range is not inside one live allocation.
    pub fn undefined(&self, pointer: DevicePtr, bytes: u64) -> Result<Vec<Fault>, MemoryError> {
        let (allocation, offset) = self.inner.memory.range(pointer, bytes)?;
        let mut findings: Vec<Fault> = Vec::new();
        for UndefinedRead { source, first, words } in allocation.undefined_reads(offset..offset + bytes) {
            match source.line_in(&findings) {
                Some(known) => findings[known].count += words,
                None => {
                    let mut finding = Fault { count: words, ..Fault::clone(&source) };
                    let place = allocation.describe(allocation.base + first);
                    finding.notes.push(format!("the value is stored, and the host reads it {place}"));
                    findings.push(finding);
                }
            }
        }
        Ok(findings)
    }

    /// Takes the values of [`Self::undefined`] in a range as defined from now on, whatever they are: once reported, they are no
    /// further mistake.
    ///
    /// # Errors
    /// Same as [`Self::undefined`].
    pub fn define(&self, pointer: DevicePtr, bytes: u64) -> Result<(), MemoryError> {
        let (allocation, offset) = self.inner.memory.range(pointer, bytes)?;
        allocation.define(offset..offset + bytes);
        Ok(())
    }

    /// Copies `bytes` bytes on the device. The ranges may overlap.
    ///
    /// # Errors
    /// If one of the ranges is not inside one live allocation.
    pub fn copy(&self, to: DevicePtr, from: DevicePtr, bytes: u64) -> Result<(), MemoryError> {
        let (source, source_offset) = self.inner.memory.range(from, bytes)?;
        let (target, target_offset) = self.inner.memory.range(to, bytes)?;
        let backwards = Arc::ptr_eq(&source, &target) && source_offset < target_offset;
        let mut held = [0; 4096];
        let parts = bytes.div_ceil(4096);
        for part in 0..parts {
            let at = 4096 * if backwards { parts - 1 - part } else { part };
            let part = &mut held[..(bytes - at).min(4096) as usize];
            source.read(source_offset + at, part);
            target.write_unmarked(target_offset + at, part);
        }
        target.mark_like(target_offset, &source, source_offset, bytes);
        Ok(())
    }

    /// Sets `bytes` bytes to `value`.
    ///
    /// # Errors
    /// If the range is not inside one live allocation.
    pub fn fill(&self, pointer: DevicePtr, value: u8, bytes: u64) -> Result<(), MemoryError> {
        let (allocation, offset) = self.inner.memory.range(pointer, bytes)?;
        let part = [value; 4096];
        let mut done = 0;
        while done < bytes {
            let length = (bytes - done).min(4096);
            allocation.write(offset + done, &part[..length as usize]);
            done += length;
        }
        Ok(())
    }

    /// Makes a texture with memory of its own. `data`: its texels without gaps, x fastest, then y, z and layers.
    ///
    /// # Errors
    /// If there is no such texture on hardware, `data` does not have the bytes of all texels, or memory is full.
    pub fn create_texture(&self, texture: &TextureDescriptor, data: &[u8]) -> Result<ObjectHandle, ObjectError> {
        let TextureDescriptor { extent, format, sampling, label } = texture;
        self.inner.create(ObjectKind::Texture(*sampling), *extent, *format, label, data)
    }

    /// Makes a surface with memory of its own. `data` as for [`Self::create_texture`].
    ///
    /// # Errors
    /// Same as [`Self::create_texture`].
    pub fn create_surface(&self, surface: &SurfaceDescriptor, data: &[u8]) -> Result<ObjectHandle, ObjectError> {
        let SurfaceDescriptor { extent, format, label } = surface;
        self.inner.create(ObjectKind::Surface, *extent, *format, label, data)
    }

    /// A texture that reads a surface's contents: both share one memory, as objects of one `cudaArray`.
    ///
    /// # Errors
    /// If `surface` is no live surface, or its format cannot be sampled with `sampling`.
    pub fn texture_of(&self, surface: ObjectHandle, sampling: Sampling) -> Result<ObjectHandle, ObjectError> {
        self.inner.texture_of(surface, sampling, None)
    }

    /// A texture of cubes that reads a surface's contents: six layers are the faces of one.
    ///
    /// # Errors
    /// Same as [`Self::texture_of`], or if the surface's layers are not those of cubes.
    pub fn cubes_of(
        &self,
        surface: ObjectHandle,
        cubes: Extent,
        sampling: Sampling,
    ) -> Result<ObjectHandle, ObjectError> {
        self.inner.texture_of(surface, sampling, Some(cubes))
    }

    /// A texture over device memory, for `tex1Dfetch`; its extent is [`Extent::Linear`]. The memory stays the caller's.
    ///
    /// # Errors
    /// If the texture is not linear, `pointer` is not aligned to 16 bytes, or the memory there is too short.
    pub fn bind_texture(&self, texture: &TextureDescriptor, pointer: DevicePtr) -> Result<ObjectHandle, ObjectError> {
        match texture.extent {
            Extent::Linear(_) => self.inner.bind(texture, pointer, 0),
            _ => Err(unbound(texture, "only a texture of linear memory is bound to an address alone")),
        }
    }

    /// A texture over rows of device memory that lie `pitch` bytes apart; its extent is [`Extent::TwoD`]. The memory stays the
    /// caller's.
    ///
    /// # Errors
    /// If the texture has another extent, `pointer` or `pitch` is not a multiple of 16, or the memory there is too short.
    pub fn bind_pitched_texture(
        &self,
        texture: &TextureDescriptor,
        pointer: DevicePtr,
        pitch: u64,
    ) -> Result<ObjectHandle, ObjectError> {
        let row = Object::row_bytes(texture.extent, texture.format);
        match texture.extent {
            Extent::TwoD(..) if pitch.is_multiple_of(16) && pitch >= row => self.inner.bind(texture, pointer, pitch),
            Extent::TwoD(..) => Err(unbound(texture, "the pitch of a texture is a multiple of 16, and holds a row")),
            _ => Err(unbound(texture, "only a texture of two dimensions has a pitch")),
        }
    }

    /// Address of an object's first texel, and bytes from a row of texels to the next. Rows lie one after the other, then slices or
    /// layers.
    ///
    /// # Errors
    /// If the handle belongs to no live object.
    pub fn object_memory(&self, handle: ObjectHandle) -> Result<(DevicePtr, u64), ObjectError> {
        let object = self.inner.object(handle)?;
        Ok((DevicePtr(object.base), object.pitch))
    }

    /// Copies an object's texels to the host, without gaps.
    ///
    /// # Errors
    /// If the handle belongs to no live object, or `data` does not have the bytes of all texels.
    pub fn read_object(&self, handle: ObjectHandle, data: &mut [u8]) -> Result<(), ObjectError> {
        let object = self.inner.object(handle)?;
        let row = Inner::whole(&object, data.len() as u64)?;
        for (at, row) in (0..).zip(data.chunks_mut(row)) {
            self.read(DevicePtr(object.row(at)), row)?;
        }
        Ok(())
    }

    /// Copies host bytes to an object's texels.
    ///
    /// # Errors
    /// Same as [`Self::read_object`].
    pub fn write_object(&self, handle: ObjectHandle, data: &[u8]) -> Result<(), ObjectError> {
        let object = self.inner.object(handle)?;
        let row = Inner::whole(&object, data.len() as u64)?;
        for (at, row) in (0..).zip(data.chunks(row)) {
            self.write(DevicePtr(object.row(at)), row)?;
        }
        Ok(())
    }

    /// Destroys a texture or surface. Memory of its own is freed when no other object lies in it.
    ///
    /// # Errors
    /// If the handle belongs to no live object.
    pub fn destroy_object(&self, handle: ObjectHandle) -> Result<(), ObjectError> {
        let removed = Arc::make_mut(&mut self.inner.objects()).remove(handle.0);
        match removed {
            None => Err(ObjectError::Handle { handle, expected: "a texture or surface" }),
            Some((object, true)) => Ok(self.free(DevicePtr(object.base))?),
            Some((_, false)) => Ok(()),
        }
    }

    /// Allocations that have not been freed, in order of their addresses: those of the host, and blocks that kernels took
    /// from the heap with `malloc` or `new`. Variables of loaded modules are not among them.
    #[must_use]
    pub fn leaks(&self) -> Vec<Leak> {
        let memory = &self.inner.memory;
        let mut live = memory.live();
        live.retain(|allocation| allocation.role == Role::Buffer);
        live.extend(memory.heap().live());
        live.sort_by_key(|allocation| allocation.base);
        live.iter().map(|allocation| Leak::of(allocation)).collect()
    }

    /// Heap blocks that kernels never freed, as findings of kind [`crate::FaultKind::Leak`]: one for each line that allocated
    /// some, with its first block and the number of blocks. A later launch may yet free them, so no launch has them among its
    /// own findings: call this after the last launch.
    #[must_use]
    pub fn heap_findings(&self) -> Vec<Fault> {
        let mut findings = Vec::new();
        let mut bytes = Vec::new();
        for block in self.inner.memory.heap().live() {
            match block.origin.as_ref().and_then(|origin| origin.leak.line_in(&findings)) {
                Some(at) => {
                    findings[at].count += 1;
                    bytes[at] += block.bytes;
                }
                None => {
                    findings.extend(Leak::of(&block).finding.map(|finding| *finding));
                    bytes.push(block.bytes);
                }
            }
        }
        for (finding, bytes) in findings.iter_mut().zip(bytes) {
            if finding.count > 1 {
                finding.notes.push(format!("the {} blocks of this line have {bytes} bytes together", finding.count));
            }
        }
        findings
    }

    /// Memory in use.
    #[must_use]
    pub fn memory(&self) -> MemoryInfo {
        self.inner.memory.info()
    }

    /// Takes the text that kernels have printed since the last call.
    #[must_use]
    pub fn take_output(&self) -> String {
        std::mem::take(&mut *self.inner.output.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Inner {
    fn objects(&self) -> std::sync::MutexGuard<'_, Arc<Objects>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn object(&self, handle: ObjectHandle) -> Result<Arc<Object>, ObjectError> {
        match self.objects().find(handle.0) {
            Some(Slot::Live(object)) => Ok(Arc::clone(object)),
            _ => Err(ObjectError::Handle { handle, expected: "a texture or surface" }),
        }
    }

    fn alloc(&self, bytes: u64, label: &str, placement: Placement) -> Result<DevicePtr, MemoryError> {
        self.memory.alloc(bytes, label, Role::Buffer, placement).map(|allocation| DevicePtr(allocation.base))
    }

    /// Bytes of a row of texels; an error unless all texels together have `given` bytes.
    fn whole(object: &Object, given: u64) -> Result<usize, ObjectError> {
        let row = Object::row_bytes(object.extent, object.format);
        let expected = row * Object::rows(object.extent);
        if given != expected {
            return Err(ObjectError::Size { label: object.label.to_string(), given, expected });
        }
        Ok(row as usize)
    }

    /// A texture over a surface, in its own shape or that of cubes.
    fn texture_of(
        &self,
        surface: ObjectHandle,
        sampling: Sampling,
        cubes: Option<Extent>,
    ) -> Result<ObjectHandle, ObjectError> {
        let found = self.object(surface)?;
        if !matches!(found.kind, ObjectKind::Surface) {
            return Err(ObjectError::Handle { handle: surface, expected: "a surface" });
        }
        let extent = cubes.unwrap_or(found.extent);
        if (extent.size(), extent.layers()) != (found.extent.size(), found.extent.layers()) {
            let message = format!("{extent:?} does not have the texels of {:?}", found.extent);
            return Err(ObjectError::Invalid { label: found.label.to_string(), message });
        }
        self.enter(Object { kind: ObjectKind::Texture(sampling), extent, ..Object::clone(&found) })
    }

    /// A texture over memory that exists.
    fn bind(&self, texture: &TextureDescriptor, pointer: DevicePtr, pitch: u64) -> Result<ObjectHandle, ObjectError> {
        let TextureDescriptor { extent, format, sampling, label } = texture;
        if !pointer.0.is_multiple_of(16) {
            return Err(unbound(texture, "the address of a texture is a multiple of 16"));
        }
        let rows = Object::rows(*extent).saturating_sub(1);
        let bytes = rows.saturating_mul(pitch).saturating_add(Object::row_bytes(*extent, *format));
        self.memory.range(pointer, bytes)?;
        let object = Object {
            kind: ObjectKind::Texture(*sampling),
            extent: *extent,
            format: *format,
            base: pointer.0,
            pitch,
            owned: false,
            label: label.as_str().into(),
        };
        self.enter(object)
    }

    /// An object with memory of its own.
    fn create(
        &self,
        kind: ObjectKind,
        extent: Extent,
        format: TexelFormat,
        label: &str,
        data: &[u8],
    ) -> Result<ObjectHandle, ObjectError> {
        let pitch = Object::own_pitch(extent, format);
        let mut object = Object { kind, extent, format, base: 0, pitch, owned: true, label: label.into() };
        object.check()?;
        let row = Self::whole(&object, data.len() as u64)?;
        let bytes = pitch * Object::rows(extent);
        let allocation = self.memory.alloc(bytes, label, Role::Buffer, Placement::Device)?;
        for (at, row) in (0..).zip(data.chunks(row)) {
            allocation.write(at * pitch, row);
        }
        object.base = allocation.base;
        Ok(Arc::make_mut(&mut self.objects()).insert(object))
    }

    /// Registers an object whose memory exists.
    fn enter(&self, object: Object) -> Result<ObjectHandle, ObjectError> {
        object.check()?;
        Ok(Arc::make_mut(&mut self.objects()).insert(object))
    }
}

/// Reason why a texture is not over memory that exists.
fn unbound(texture: &TextureDescriptor, message: &str) -> ObjectError {
    ObjectError::Invalid { label: texture.label.clone(), message: message.to_owned() }
}

/// Memory that was allocated and not freed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("leak: `{label}` ({bytes} bytes at {:#x}) was never freed{}", pointer.0, whose(finding.as_deref()))]
pub struct Leak {
    /// First address.
    pub pointer: DevicePtr,
    /// Size.
    pub bytes: u64,
    /// Label of the allocation; for a kernel's allocation, where it was made.
    pub label: String,
    /// The leak as a finding, if a kernel allocated it: with its name, source line, block and thread.
    pub finding: Option<Box<Fault>>,
}

impl Leak {
    fn of(allocation: &Allocation) -> Self {
        let finding = allocation.origin.as_ref().map(|Origin { leak, block, thread }| {
            let message = format!("{} of the heap never freed", plural(allocation.bytes));
            let leak = Fault::clone(leak);
            Box::new(Fault { message, block: *block, thread: *thread, address: Some(allocation.base), ..leak })
        });
        let pointer = DevicePtr(allocation.base);
        Self { pointer, bytes: allocation.bytes, label: allocation.label.to_string(), finding }
    }
}

fn whose(finding: Option<&Fault>) -> String {
    finding.map_or_else(String::new, |Fault { kernel, block: [bx, by, bz], thread: [tx, ty, tz], .. }| {
        format!("; kernel `{kernel}`, block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz}) allocated it")
    })
}
