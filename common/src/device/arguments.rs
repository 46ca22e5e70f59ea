//! The arguments that a kernel is given.

use std::sync::Arc;

use super::buffer::{Buffer, DeviceSlice, DeviceSliceMut, Lease, Region, RegionMut, View, ViewMut};
use super::element::DeviceElement;
use super::kernel::Kernel;
use super::launch_config::LaunchConfig;
use super::properties::Properties;
use crate::compile::ptx::Param;
use crate::error::{Error, Result};

/// A kernel with what it is given.
pub struct Arguments<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) slots: Vec<Slot<'a>>,
    /// Scalars and structs, each at a multiple of 8 bytes.
    pub(super) values: Vec<u64>,
    /// Whether the launch may begin before the previous one has ended.
    pub(super) dependent: bool,
}

/// One argument.
pub(super) enum Slot<'a> {
    /// Bytes of [`Arguments::values`].
    Value {
        /// Index of the first unit.
        at: usize,
        bytes: usize,
    },
    Read(Region<'a>),
    Write(RegionMut<'a>),
    /// A tensor map, of [`Arguments::values`] from unit `at` on, and the buffer that it is of.
    ReadMap {
        at: usize,
        region: Region<'a>,
    },
    WriteMap {
        at: usize,
        region: RegionMut<'a>,
    },
    /// A buffer that may be another device's.
    Peer(Region<'a>),
    PeerMut(RegionMut<'a>),
    /// Buffers of several devices, whose addresses are [`Arguments::values`] from unit `at` on.
    Peers {
        at: usize,
        regions: &'a [Region<'a>],
    },
    /// The buffer of the argument with this index, once more.
    Again(usize),
    /// A pointer to nothing.
    Null,
}

/// An argument of a kernel: `&T` for a scalar or a `#[repr(C)]` struct, `&Buffer` or `&View` to read, `&mut Buffer` or
/// `&mut ViewMut` to write, `&TensorMap` or `&mut TensorMapMut`. `None` of an `Option` of these buffers is a null pointer.
pub trait KernelArg<'a> {
    /// Appends the argument.
    #[doc(hidden)]
    fn push(self, args: &mut Arguments<'a>);
}

impl<'a, T: DeviceElement> KernelArg<'a> for &T {
    fn push(self, args: &mut Arguments<'a>) {
        args.push_bytes(bytemuck::bytes_of(self));
    }
}

impl<'a, 'b: 'a, T: DeviceElement> KernelArg<'a> for &'b Buffer<T> {
    fn push(self, args: &mut Arguments<'a>) {
        args.slots.push(Slot::Read(self.region()));
    }
}

impl<'a, 'b: 'a, T: DeviceElement> KernelArg<'a> for &'b mut Buffer<T> {
    fn push(self, args: &mut Arguments<'a>) {
        args.slots.push(Slot::Write(self.region_mut()));
    }
}

impl<'a, 'b: 'a, T: DeviceElement> KernelArg<'a> for &'b View<'_, T> {
    fn push(self, args: &mut Arguments<'a>) {
        args.slots.push(Slot::Read(self.region()));
    }
}

impl<'a, 'b: 'a, T: DeviceElement> KernelArg<'a> for &'b mut ViewMut<'_, T> {
    fn push(self, args: &mut Arguments<'a>) {
        args.slots.push(Slot::Write(self.region_mut()));
    }
}

impl<'a, 'b: 'a, T: DeviceElement> KernelArg<'a> for Option<&'b Buffer<T>> {
    fn push(self, args: &mut Arguments<'a>) {
        args.slots.push(self.map_or(Slot::Null, |buffer| Slot::Read(buffer.region())));
    }
}

impl<'a, 'b: 'a, T: DeviceElement> KernelArg<'a> for Option<&'b mut Buffer<T>> {
    fn push(self, args: &mut Arguments<'a>) {
        args.slots.push(self.map_or(Slot::Null, |buffer| Slot::Write(buffer.region_mut())));
    }
}

/// Buffers of several devices, for kernels that take a struct of pointers: `struct Peers { float *at[16]; }`. If it has more, the
/// rest are null. Each launch with this argument may write all of them.
pub struct Peers<'b> {
    regions: Vec<Region<'b>>,
}

impl<'b> Peers<'b> {
    /// Collects the buffers, in the order of the pointers.
    pub fn new<T: DeviceElement>(buffers: impl IntoIterator<Item = &'b mut Buffer<T>>) -> Peers<'b> {
        Peers { regions: buffers.into_iter().map(|buffer| (*buffer).region()).collect() }
    }
}

impl<'a, 'b: 'a> KernelArg<'a> for &'a Peers<'b> {
    fn push(self, args: &mut Arguments<'a>) {
        let pointers = args.kernel.params().get(args.slots.len()).map_or(0, |param| param.bytes as usize / 8);
        let at = args.values.len();
        args.values.resize(at + pointers.max(self.regions.len()), 0);
        args.slots.push(Slot::Peers { at, regions: &self.regions });
    }
}

impl<'a> Arguments<'a> {
    pub(super) fn new(kernel: &'a Kernel) -> Arguments<'a> {
        Arguments { kernel, slots: Vec::new(), values: Vec::new(), dependent: false }
    }

    /// Appends a scalar or struct.
    pub(super) fn push_bytes(&mut self, bytes: &[u8]) {
        let at = self.push_value(bytes);
        self.slots.push(Slot::Value { at, bytes: bytes.len() });
    }

    /// Start of a value's bytes among the values.
    pub(super) fn push_value(&mut self, bytes: &[u8]) -> usize {
        let at = self.values.len();
        self.values.resize(at + bytes.len().div_ceil(8), 0);
        bytemuck::cast_slice_mut(&mut self.values[at..])[..bytes.len()].copy_from_slice(bytes);
        at
    }

    /// Writes the addresses of buffers of several devices into the kernel's values.
    pub(super) fn fill_in_peers(&mut self, address: impl Fn(&Region<'_>) -> Result<u64>) -> Result<()> {
        for slot in &self.slots {
            if let Slot::Peers { at, regions } = slot {
                for (value, region) in self.values[*at..].iter_mut().zip(*regions) {
                    *value = address(region)?;
                }
            }
        }
        Ok(())
    }

    /// Leases of all buffers among the arguments.
    pub(super) fn leases(&self) -> Vec<Arc<Lease>> {
        let leases = |slot: &Slot<'_>| match slot {
            Slot::Read(region) | Slot::ReadMap { region, .. } | Slot::Peer(region) => vec![region.lease().clone()],
            Slot::Write(region) | Slot::WriteMap { region, .. } | Slot::PeerMut(region) => vec![region.lease().clone()],
            Slot::Peers { regions, .. } => regions.iter().map(|region| region.lease().clone()).collect(),
            Slot::Value { .. } | Slot::Again(_) | Slot::Null => Vec::new(),
        };
        self.slots.iter().flat_map(leases).collect()
    }

    /// Checks arguments and geometry against kernel and device.
    pub(super) fn check(&self, config: &LaunchConfig, properties: &Properties) -> Result<()> {
        self.check_arguments()?;
        check_config(self.kernel, config, properties)
    }

    fn check_arguments(&self) -> Result<()> {
        let params = self.kernel.params();
        let wrong = |detail: String| {
            Err(Error::Arguments {
                kernel: self.kernel.name().to_owned(),
                detail: format!("{detail}; it takes {}", signature(params)),
            })
        };
        if self.slots.len() != params.len() {
            return wrong(format!(
                "{} given for {}",
                count(self.slots.len(), "argument"),
                count(params.len(), "parameter")
            ));
        }
        for (number, (slot, param)) in (1..).zip(self.slots.iter().zip(params)) {
            let (what, bytes) = match slot {
                Slot::Value { bytes, .. } => ("a value", *bytes),
                Slot::Read(_) | Slot::Write(_) | Slot::Peer(_) | Slot::PeerMut(_) | Slot::Again(_) => {
                    ("a buffer's address", 8)
                }
                // The struct may have room for more.
                Slot::Peers { regions, .. } => ("addresses", (8 * regions.len()).max(param.bytes as usize / 8 * 8)),
                Slot::Null => ("a null pointer", 8),
                Slot::ReadMap { .. } | Slot::WriteMap { .. } => ("a tensor map", ptx_sim::TENSOR_MAP_BYTES),
            };
            if bytes != param.bytes as usize {
                return wrong(format!(
                    "argument {number} is {what} of {}, the parameter has {}",
                    count(bytes, "byte"),
                    param.bytes
                ));
            }
        }
        Ok(())
    }
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// `(u64, u64, u32)`.
fn signature(params: &[Param]) -> String {
    let types: Vec<_> = params.iter().map(|param| param.ty.as_str()).collect();
    format!("({})", types.join(", "))
}

/// Checks a geometry against the limits of kernel and device: a driver would only say "invalid argument".
fn check_config(kernel: &Kernel, config: &LaunchConfig, properties: &Properties) -> Result<()> {
    let attributes = kernel.attributes();
    let wrong = |detail: String| Err(Error::LaunchConfig { kernel: kernel.name().to_owned(), detail });
    let grid = [config.grid_dim.0, config.grid_dim.1, config.grid_dim.2];
    let block = [config.block_dim.0, config.block_dim.1, config.block_dim.2];
    for (what, dims, limits) in [("grid", grid, properties.max_grid), ("block", block, properties.max_block)] {
        if dims.contains(&0) {
            return wrong(format!("the {what} is {dims:?}, and no dimension may be 0"));
        }
        if dims.iter().zip(limits).any(|(&dim, limit)| dim > limit) {
            return wrong(format!("the {what} is {dims:?}, at most {limits:?} is possible"));
        }
    }
    let threads: u64 = block.iter().map(|&dim| u64::from(dim)).product();
    if threads > u64::from(properties.max_threads_per_block) {
        return wrong(format!(
            "a block of {block:?} has {threads} threads, the device allows {}",
            properties.max_threads_per_block
        ));
    }
    if threads > u64::from(attributes.max_threads_per_block) {
        let registers = match attributes.registers {
            Some(registers) => format!(" at {registers} registers per thread"),
            None => String::new(),
        };
        return wrong(format!(
            "a block of {block:?} has {threads} threads, this kernel allows {}{registers}",
            attributes.max_threads_per_block
        ));
    }
    let shared = u64::from(attributes.static_shared) + u64::from(config.shared_mem_bytes);
    if shared > u64::from(properties.shared_per_block_optin) {
        return wrong(format!(
            "a block needs {shared} bytes of shared memory ({} static, {} dynamic), the device has {}",
            attributes.static_shared, config.shared_mem_bytes, properties.shared_per_block_optin
        ));
    }
    Ok(())
}
