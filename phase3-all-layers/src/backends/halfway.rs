//! The two halfway houses of the course: backends that use a device and pay more for the copies than they gain.

use common::prelude::*;

use super::cpu::{Cpu, OnHost};
use super::device::{Operands, Ready, Unfused};
use crate::nn::{Backend, Operation, Value};

/// The CPU computes, but each layer's tensors first travel to the device and back: this shows what copies cost, and nothing else.
#[derive(Debug)]
pub struct RoundTrip {
    cpu: Cpu,
    stream: Stream,
}

impl RoundTrip {
    /// A backend that copies over this device.
    pub fn new(device: &Device) -> RoundTrip {
        RoundTrip { cpu: Cpu::new(), stream: device.stream() }
    }

    /// The same values, by way of the device.
    fn travelled(&self, x: &Tensor) -> Result<Tensor> {
        let there = self.stream.clone_htod(x.as_slice()?)?;
        Tensor::from_vec(x.shape(), self.stream.clone_dtoh(&there)?)
    }
}

impl OnHost for RoundTrip {}

impl Backend for RoundTrip {
    type Layer = Operation;
    type Pass = RoundTrip;
    type Output = Tensor;

    fn load(&self, operation: Operation) -> Result<Operation> {
        self.cpu.load(operation)
    }

    fn run(layer: &Operation, x: Value<'_, Self>, with: Option<Value<'_, Self>>) -> Result<Tensor> {
        let trip = x.pass();
        let there_and_back = |x: Value<'_, Self>| Ok::<_, Error>(Value::result(&trip.cpu, trip.travelled(&x)?));
        let y = Cpu::run(layer, there_and_back(x)?, with.map(there_and_back).transpose()?)?;
        trip.travelled(&y)
    }

    fn copy(trip: &RoundTrip, x: &Tensor) -> Result<Tensor> {
        Cpu::copy(&trip.cpu, x)
    }
}

/// Convolutions and BatchNorm on the device, the rest on the CPU: a convolution's input is copied there, and the result of the
/// BatchNorm that follows it back.
#[derive(Debug)]
pub struct ConvOnDevice {
    cpu: Cpu,
    device: Unfused,
    stream: Stream,
}

/// Where a layer runs.
#[derive(Debug)]
pub enum Half {
    /// A convolution or BatchNorm, on the device.
    Device(Box<Ready>),
    /// Anything else, on the CPU.
    Cpu(Operation),
}

impl ConvOnDevice {
    /// On this device.
    pub fn new(device: &Device) -> ConvOnDevice {
        ConvOnDevice { cpu: Cpu::new(), device: Unfused::new(device), stream: device.stream() }
    }

    /// The memory of `x`, on the device.
    fn there(&self, x: Value<'_, Self>) -> Result<Tensor> {
        if x.is_on_device() { x.own() } else { x.to_device(self.stream.device()) }
    }

    /// `x` on the host, for the CPU.
    fn here<'p>(&'p self, x: Value<'_, Self>) -> Result<Value<'p, Cpu>> {
        let x = if x.is_on_device() { x.to_host()? } else { x.own()? };
        Ok(Value::result(&self.cpu, x))
    }
}

impl OnHost for ConvOnDevice {}

impl Backend for ConvOnDevice {
    type Layer = Half;
    type Pass = ConvOnDevice;
    /// On the device after a convolution, else on the host.
    type Output = Tensor;

    fn load(&self, operation: Operation) -> Result<Half> {
        match operation {
            Operation::Conv2d { .. } | Operation::BatchNorm { .. } => {
                Ok(Half::Device(Box::new(self.device.load(operation)?)))
            }
            other => Ok(Half::Cpu(self.cpu.load(other)?)),
        }
    }

    fn run(layer: &Half, x: Value<'_, Self>, with: Option<Value<'_, Self>>) -> Result<Tensor> {
        let backend = x.pass();
        let ready = match layer {
            Half::Cpu(operation) => {
                let with = with.map(|with| backend.here(with)).transpose()?;
                return Cpu::run(operation, backend.here(x)?, with);
            }
            Half::Device(ready) => ready,
        };
        if ready.operation().is_in_place() {
            let mut y = backend.there(x)?;
            ready.launch(&backend.stream, Operands::default(), &mut y)?;
            return y.to_host();
        }
        let mut y = Tensor::empty_on(backend.stream.device(), &ready.operation().output_shape(&x, None)?)?;
        let x = backend.there(x)?;
        ready.launch(&backend.stream, Operands { x: Some(&x), ..Operands::default() }, &mut y)?;
        Ok(y)
    }

    fn copy(backend: &ConvOnDevice, x: &Tensor) -> Result<Tensor> {
        match x.device() {
            Some(device) => x.to_device(device),
            None => Cpu::copy(&backend.cpu, x),
        }
    }
}
