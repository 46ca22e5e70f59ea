//! The objects of a device, by their handles.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::{Extent, ObjectError, ObjectHandle, Sampling, TexelFormat};

/// The first handle: no address of device memory, and no small number.
const FIRST: u64 = 0x0001_7e00_0000;

/// Maximum number of destroyed objects that are still recognised.
const GRAVES: usize = 4096;

/// A texture or a surface. A texture may share the memory of a surface.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub kind: ObjectKind,
    pub extent: Extent,
    pub format: TexelFormat,
    /// Address of the first texel.
    pub base: u64,
    /// Bytes from a row to the next.
    pub pitch: u64,
    /// Whether the memory is the object's own, to be freed with the last object in it.
    pub owned: bool,
    pub label: Arc<str>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ObjectKind {
    Texture(Sampling),
    Surface,
}

impl Object {
    /// Bytes from a row to the next in memory of an object's own.
    pub(crate) fn own_pitch(extent: Extent, format: TexelFormat) -> u64 {
        Self::row_bytes(extent, format).next_multiple_of(16)
    }

    /// Bytes of a row's texels.
    pub(crate) fn row_bytes(extent: Extent, format: TexelFormat) -> u64 {
        u64::from(extent.size()[0]) * format.bytes()
    }

    /// Rows of all slices and layers together.
    pub(crate) fn rows(extent: Extent) -> u64 {
        let [_, height, depth] = extent.size().map(u64::from);
        height * depth * u64::from(extent.layers())
    }

    /// Address of the row `at` of all.
    pub(crate) fn row(&self, at: u64) -> u64 {
        self.base + at * self.pitch
    }

    /// Checks its shape, format and sampling; the error describes the problem.
    pub(crate) fn check(&self) -> Result<(), ObjectError> {
        let sampling = match &self.kind {
            ObjectKind::Texture(sampling) => Some(sampling),
            ObjectKind::Surface => None,
        };
        let invalid = |message| ObjectError::Invalid { label: self.label.to_string(), message };
        super::check(self.extent, self.format, sampling).map_err(invalid)
    }

    /// Address of the byte `x` of a row. All but `x` lie inside.
    pub(crate) fn address(&self, layer: u32, x: u64, y: u32, z: u32) -> u64 {
        let [_, height, depth] = self.extent.size().map(u64::from);
        let row = (u64::from(layer) * depth + u64::from(z)) * height + u64::from(y);
        self.base + row * self.pitch + x
    }
}

/// Entry of a handle.
#[derive(Clone, Debug)]
pub(crate) enum Slot {
    Live(Arc<Object>),
    /// Destroyed object, with its label.
    Gone(Arc<str>),
}

/// The objects of a device. A launch has those that existed when it began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    slots: BTreeMap<u64, Slot>,
    /// Handles of destroyed ones, oldest first.
    graves: VecDeque<u64>,
    made: u64,
}

impl Objects {
    pub(crate) fn find(&self, handle: u64) -> Option<&Slot> {
        self.slots.get(&handle)
    }

    pub(crate) fn insert(&mut self, object: Object) -> ObjectHandle {
        let handle = FIRST + self.made;
        self.made += 1;
        self.slots.insert(handle, Slot::Live(Arc::new(object)));
        ObjectHandle(handle)
    }

    /// Removes a live object; true if its memory is to be freed too.
    pub(crate) fn remove(&mut self, handle: u64) -> Option<(Arc<Object>, bool)> {
        let Some(Slot::Live(object)) = self.slots.get(&handle) else { return None };
        let object = Arc::clone(object);
        self.slots.insert(handle, Slot::Gone(Arc::clone(&object.label)));
        self.graves.push_back(handle);
        if self.graves.len() > GRAVES
            && let Some(oldest) = self.graves.pop_front()
        {
            self.slots.remove(&oldest);
        }
        let shared = self.slots.values().any(|slot| matches!(slot, Slot::Live(other) if other.base == object.base));
        let last = object.owned && !shared;
        Some((object, last))
    }
}
