//! Virtual memory: reserved addresses, memory without addresses, and mappings that show the one at the other.

use std::collections::BTreeMap;
use std::ffi::c_int;

use ptx_sim::{Device, DevicePtr};

use crate::abi::{Code, Handle, Outcome, Pointer};
use crate::handles::new_handle;
use crate::tell::refused;

/// Multiple that addresses and sizes have: 2 MiB, as on NVIDIA's GPUs.
pub(crate) const GRANULARITY: u64 = 2 << 20;

/// All reservations, memories and mappings.
#[derive(Debug, Default)]
pub(crate) struct VirtualMemory {
    /// Bytes of each reservation, by its first address.
    reservations: BTreeMap<Pointer, u64>,
    /// Mappings by their first address.
    mappings: BTreeMap<Pointer, Mapping>,
    memories: BTreeMap<Handle, Memory>,
}

/// `CUmemGenericAllocationHandle`
#[derive(Debug)]
struct Memory {
    /// The allocation that the program does not see.
    allocation: DevicePtr,
    bytes: u64,
    /// Ordinal of its device.
    device: c_int,
    /// Number of handles and of mappings.
    references: usize,
}

#[derive(Debug)]
struct Mapping {
    bytes: u64,
    memory: Handle,
    /// `CUmemAccess_flags` of each device that was given some. Without any, nothing reaches the memory here.
    access: BTreeMap<c_int, u64>,
}

impl Mapping {
    fn is_reachable(&self) -> bool {
        self.access.values().any(|flags| *flags != 0)
    }
}

fn checked(bytes: u64) -> Outcome {
    if bytes != 0 && bytes.is_multiple_of(GRANULARITY) { Ok(()) } else { Err(Code::INVALID_VALUE) }
}

impl VirtualMemory {
    pub(crate) fn reserve(&mut self, device: &Device, bytes: u64, align: u64) -> Outcome<Pointer> {
        checked(bytes)?;
        if align != 0 && !align.is_power_of_two() {
            return Err(Code::INVALID_VALUE);
        }
        let start = device.reserve(bytes, align.max(GRANULARITY)).0;
        self.reservations.insert(start, bytes);
        Ok(start)
    }

    /// Gives a reservation up, in which nothing is mapped.
    pub(crate) fn give_up(&mut self, start: Pointer, bytes: u64) -> Outcome {
        let is_whole = self.reservations.get(&start) == Some(&bytes);
        if !is_whole || self.mappings.range(start..start + bytes).next().is_some() {
            return Err(Code::INVALID_VALUE);
        }
        self.reservations.remove(&start);
        Ok(())
    }

    /// Allocates memory without an address.
    pub(crate) fn create(&mut self, device: &Device, bytes: u64, ordinal: c_int) -> Outcome<Handle> {
        checked(bytes)?;
        let allocation = device.alloc(bytes, "memory to be mapped").map_err(|error| refused(&error))?;
        let handle = new_handle();
        self.memories.insert(handle, Memory { allocation, bytes, device: ordinal, references: 1 });
        Ok(handle)
    }

    /// Ordinal of a memory's device.
    pub(crate) fn device_of(&self, memory: Handle) -> Outcome<c_int> {
        self.memories.get(&memory).map(|memory| memory.device).ok_or(Code::INVALID_VALUE)
    }

    /// Ends one handle or mapping of a memory, and the memory with the last.
    pub(crate) fn release(&mut self, device: &Device, handle: Handle) -> Outcome {
        let memory = self.memories.get_mut(&handle).ok_or(Code::INVALID_VALUE)?;
        memory.references -= 1;
        if memory.references > 0 {
            return Ok(());
        }
        let allocation = memory.allocation;
        self.memories.remove(&handle);
        device.free(allocation).map_err(|error| refused(&error))
    }

    /// One more handle of the memory that is mapped at an address.
    pub(crate) fn retain(&mut self, address: Pointer) -> Outcome<Handle> {
        let handle = self.mapping(address).ok_or(Code::INVALID_VALUE)?.1.memory;
        self.memories.get_mut(&handle).ok_or(Code::INVALID_VALUE)?.references += 1;
        Ok(handle)
    }

    /// Maps the first bytes of a memory to an address, where nothing reaches them yet.
    pub(crate) fn map(&mut self, at: Pointer, bytes: u64, memory: Handle) -> Outcome {
        checked(bytes)?;
        let end = at.checked_add(bytes).ok_or(Code::INVALID_VALUE)?;
        let reserved = self.reservations.range(..=at).next_back();
        let is_reserved = reserved.is_some_and(|(start, bytes)| end <= start + bytes);
        let is_free = self.mappings.range(..end).next_back().is_none_or(|(start, other)| start + other.bytes <= at);
        let found = self.memories.get_mut(&memory).ok_or(Code::INVALID_VALUE)?;
        if !at.is_multiple_of(GRANULARITY) || !is_reserved || !is_free || bytes > found.bytes {
            return Err(Code::INVALID_VALUE);
        }
        found.references += 1;
        self.mappings.insert(at, Mapping { bytes, memory, access: BTreeMap::new() });
        Ok(())
    }

    pub(crate) fn unmap(&mut self, device: &Device, at: Pointer, bytes: u64) -> Outcome {
        for start in self.whole(at, bytes)? {
            let Some(mapping) = self.mappings.remove(&start) else { continue };
            if mapping.is_reachable() {
                device.free(DevicePtr(start)).map_err(|error| refused(&error))?;
            }
            self.release(device, mapping.memory)?;
        }
        Ok(())
    }

    /// Sets what devices may do with mapped memory. All devices have one memory here: one that may reach it opens it to all.
    pub(crate) fn set_access(&mut self, device: &Device, at: Pointer, bytes: u64, access: &[(c_int, u64)]) -> Outcome {
        for start in self.whole(at, bytes)? {
            let Some(mapping) = self.mappings.get_mut(&start) else { continue };
            let before = mapping.is_reachable();
            mapping.access.extend(access.iter().copied());
            let done = match (before, mapping.is_reachable()) {
                (false, true) => {
                    let memory = self.memories.get(&mapping.memory).ok_or(Code::INVALID_VALUE)?.allocation;
                    let label = format!("mapping of {} bytes", mapping.bytes);
                    device.map(DevicePtr(start), mapping.bytes, memory, &label)
                }
                (true, false) => device.free(DevicePtr(start)),
                _ => Ok(()),
            };
            done.map_err(|error| refused(&error))?;
        }
        Ok(())
    }

    /// Access that a device has to the memory that is mapped at an address.
    pub(crate) fn access(&self, address: Pointer, device: c_int) -> Outcome<u64> {
        let (_, mapping) = self.mapping(address).ok_or(Code::INVALID_VALUE)?;
        Ok(mapping.access.get(&device).copied().unwrap_or(0))
    }

    /// Bytes from an address to the end of the mapping that it is in, if it is in one.
    pub(crate) fn left(&self, address: Pointer) -> Option<u64> {
        self.mapping(address).map(|(start, mapping)| start + mapping.bytes - address)
    }

    /// The mapping around an address, and its start.
    fn mapping(&self, address: Pointer) -> Option<(Pointer, &Mapping)> {
        let (start, mapping) = self.mappings.range(..=address).next_back()?;
        (address - start < mapping.bytes).then_some((*start, mapping))
    }

    /// The starts of the mappings that a range is made of.
    fn whole(&self, at: Pointer, bytes: u64) -> Outcome<Vec<Pointer>> {
        let (mut next, mut starts) = (at, Vec::new());
        while next < at.saturating_add(bytes) {
            starts.push(next);
            next += self.mappings.get(&next).ok_or(Code::INVALID_VALUE)?.bytes;
        }
        if bytes != 0 && next == at + bytes { Ok(starts) } else { Err(Code::INVALID_VALUE) }
    }
}
