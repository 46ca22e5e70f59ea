//! Tensor maps: properties of a tensor in a buffer that bulk copies of Hopper GPUs (`cp.async.bulk.tensor`) need.

use super::arguments::{Arguments, KernelArg, Slot};
use super::backend::Backend;
use super::buffer::{DeviceSlice, DeviceSliceMut, Region, RegionMut};
use super::element::DeviceElement;
use super::handle::on_either;
use super::stream::Stream;
use super::tensor_map_config::{Encoded, TensorMapConfig};
use crate::error::{Error, Result};

/// Name of the making of a map in messages.
const ENCODE: &str = "making a tensor map";

/// A map of a buffer that a kernel reads: its parameter is a `const __grid_constant__ CUtensorMap`.
pub struct TensorMap<'b> {
    encoded: Encoded,
    region: Region<'b>,
}

/// A map of a buffer that a kernel writes, or reads and writes.
pub struct TensorMapMut<'b> {
    encoded: Encoded,
    region: RegionMut<'b>,
}

impl Stream {
    /// A map of a buffer that kernels read.
    ///
    /// # Errors
    /// [`Error::TensorMap`] with the rule that `config` breaks, also if the tensor does not fit the buffer;
    /// [`Error::WrongDevice`]; [`Error::Unsupported`] on a GPU before compute capability 9.0.
    pub fn tensor_map<'b, T: DeviceElement>(
        &self,
        buffer: &'b impl DeviceSlice<T>,
        config: &TensorMapConfig,
    ) -> Result<TensorMap<'b>> {
        let region = buffer.region();
        self.check_map(config, region.bytes)?;
        let encoded = on_either!(&self.queue, queue => {
            queue.encode(region.on(queue, ENCODE)?, region.range().start, config)?
        });
        Ok(TensorMap { encoded, region })
    }

    /// A map of a buffer that kernels write.
    ///
    /// # Errors
    /// Same as [`Stream::tensor_map`].
    pub fn tensor_map_mut<'b, T: DeviceElement>(
        &self,
        buffer: &'b mut impl DeviceSliceMut<T>,
        config: &TensorMapConfig,
    ) -> Result<TensorMapMut<'b>> {
        let mut region = buffer.region_mut();
        self.check_map(config, region.bytes)?;
        let start = region.range().start;
        let encoded = on_either!(&self.queue, queue => queue.encode(region.on(queue, ENCODE)?, start, config)?);
        Ok(TensorMapMut { encoded, region })
    }

    fn check_map(&self, config: &TensorMapConfig, bytes: usize) -> Result<()> {
        let device = self.device().short_name();
        // The address is checked where it is known; every multiple of 32 will do until then.
        config.at(0).check().map_err(|error| Error::TensorMap { device: device.clone(), detail: error.to_string() })?;
        let needed = config.bytes();
        if needed > bytes as u128 {
            let detail = format!("the tensor reaches to byte {needed} of a buffer of {bytes}");
            return Err(Error::TensorMap { device, detail });
        }
        Ok(())
    }
}

impl<'a, 'b: 'a> KernelArg<'a> for &'b TensorMap<'_> {
    fn push(self, args: &mut Arguments<'a>) {
        let at = args.push_value(bytemuck::bytes_of(&self.encoded.0));
        args.slots.push(Slot::ReadMap { at, region: self.region });
    }
}

impl<'a, 'b: 'a> KernelArg<'a> for &'b mut TensorMapMut<'_> {
    fn push(self, args: &mut Arguments<'a>) {
        let at = args.push_value(bytemuck::bytes_of(&self.encoded.0));
        args.slots.push(Slot::WriteMap { at, region: self.region.reborrow() });
    }
}
