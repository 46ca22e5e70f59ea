//! Step 8: why a GPU that only stores the data is slower than no GPU at all.
//!
//! **Hypothesis.** Sending each layer's tensors to the device and back, while the CPU still computes, can only add time: the
//! copies gain nothing. This is how phase 1 runs a network, and the baseline that later phases must beat.
//!
//! **Change.** The first layers of ResNet18 (with a stride where it would pool), computed naively on the CPU. Before each
//! layer, its input and parameters are copied to the device and back, through newly allocated buffers, as a beginner's wrapper
//! would do it.
//!
//! **Look at** the share of the transfers, layer by layer. A convolution does hundreds of operations per byte, BatchNorm and
//! ReLU only a few, so the copies dominate there. When those layers move to the device in phase 3, the saving is not the
//! arithmetic but the copies.

use std::time::Duration;

use bench::table::{Cell, ColumnSpec, Table, TableBuilder};
use bench::timing::{Bench, Timing};
use common::device::MemoryInfo;
use common::prelude::*;
use common::reference::{BatchNorm, Conv2dParams, batch_norm_f32, conv2d_f32, relu_f32};

use crate::NO_CLOCK;

/// A layer with its parameters on the host.
pub struct Layer {
    /// Name in the table.
    pub name: &'static str,
    operation: Operation,
    /// Convolution: weight \[K, C, R, S\]. BatchNorm: γ, β, mean, variance \[C\] each. ReLU: none.
    parameters: Vec<Tensor>,
}

enum Operation {
    Convolution(Conv2dParams),
    BatchNorm,
    Relu,
}

impl Layer {
    /// A convolution from `c` to `k` channels with an r×r window, without bias.
    fn convolution(name: &'static str, [k, c, r]: [usize; 3], params: Conv2dParams) -> Layer {
        Layer { name, operation: Operation::Convolution(params), parameters: vec![Tensor::random(&[k, c, r, r], 1)] }
    }

    fn batch_norm(name: &'static str, channels: usize) -> Layer {
        let mut parameters: Vec<Tensor> = (2..5).map(|seed| Tensor::random(&[channels], seed)).collect();
        parameters.push(Tensor::from_fn(&[channels], |at| 1.0 + at[0] as f32)); // a variance is positive
        Layer { name, operation: Operation::BatchNorm, parameters }
    }

    fn relu(name: &'static str) -> Layer {
        Layer { name, operation: Operation::Relu, parameters: Vec::new() }
    }

    /// Runs it on the CPU, with `parameters` instead of its own.
    fn forward(&self, input: &Tensor, parameters: &[Tensor]) -> Result<Tensor> {
        match (&self.operation, parameters) {
            (Operation::Convolution(params), [weight]) => conv2d_f32(input, weight, None, *params),
            (Operation::BatchNorm, [weight, bias, mean, variance]) => {
                batch_norm_f32(input, &BatchNorm { weight, bias, mean, variance, eps: 1e-5 })
            }
            (Operation::Relu, []) => relu_f32(input),
            (_, other) => {
                Err(Error::shape(self.name, format!("{} parameters are not as many as its own", other.len())))
            }
        }
    }
}

/// The layers for an image \[1, 3, H, W\].
pub fn layers() -> Vec<Layer> {
    vec![
        Layer::convolution("conv 7×7/2, 3→64", [64, 3, 7], Conv2dParams::new(2, 3)),
        Layer::batch_norm("batch norm", 64),
        Layer::relu("relu"),
        Layer::convolution("conv 3×3/2, 64→64", [64, 64, 3], Conv2dParams::new(2, 1)),
        Layer::batch_norm("batch norm", 64),
        Layer::relu("relu"),
    ]
}

/// The bytes and times of one layer.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The layer.
    pub name: &'static str,
    /// Bytes copied, both ways together.
    pub bytes: usize,
    /// Time to compute on the CPU, by the host's clock.
    pub cpu: Timing,
    /// Time of the copies to the device and back, by the host's clock; `None` on the simulator.
    pub transfer: Option<Timing>,
    /// The device's memory after the layer.
    pub memory: MemoryInfo,
}

/// Copies `tensor` to the device and back.
// ANCHOR: travel
fn travel(tensor: &Tensor, device: &Device) -> Result<Tensor> {
    tensor.to_device(device)?.to_host()
}
// ANCHOR_END: travel

/// Runs `layers` on `input` (\[N, C, H, W\], on the host), each with tensors that came back from the device; returns the
/// measurements and the output.
///
/// # Errors
/// Errors of the device, [`Error::Shape`] if a layer does not fit, [`Error::Invalid`] if a tensor came back changed.
pub fn measure(device: &Device, layers: &[Layer], input: Tensor) -> Result<(Vec<Measured>, Tensor)> {
    let bench = Bench { warm_up: 1, repeats: 5, ..Bench::default() };
    let mut measured = Vec::new();
    let mut x = input;
    for layer in layers {
        let tensors: Vec<&Tensor> = std::iter::once(&x).chain(&layer.parameters).collect();
        let mut travelled = Vec::new();
        let mut there_and_back = || {
            travelled = tensors.iter().map(|tensor| travel(tensor, device)).collect::<Result<Vec<_>>>()?;
            Ok(())
        };
        let transfer = if device.is_sim() {
            // The host makes the simulator's copies, so their time says nothing about a GPU's.
            there_and_back()?;
            None
        } else {
            Some(bench.measure_host(there_and_back)?)
        };
        for (sent, back) in tensors.iter().zip(&travelled) {
            let bits = |tensor: &Tensor| Ok(tensor.as_slice()?.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
            if bits(sent)? != bits(back)? {
                return Err(Error::Invalid(format!("{}: a tensor came back changed", layer.name)));
            }
        }
        let bytes = 2 * size_of::<f32>() * tensors.iter().map(|tensor| tensor.len()).sum::<usize>();

        let mut output = None;
        // A convolution takes so long that one run has to be enough.
        let limit = Duration::from_millis(300);
        let cpu = Bench { warm_up: 0, repeats: 3, limit, ..Bench::default() }.measure_host(|| {
            output = Some(layer.forward(&travelled[0], &travelled[1..])?);
            Ok(())
        })?;
        measured.push(Measured { name: layer.name, bytes, cpu, transfer, memory: device.memory() });
        x = output.expect("measured at least once");
    }
    Ok((measured, x))
}

const LAYER: ColumnSpec = ColumnSpec::text("layer", "layer");
const BYTES: ColumnSpec = ColumnSpec::identity("bytes, both ways", "bytes, both ways");
const CPU: ColumnSpec = ColumnSpec::number("CPU, ms", "CPU, ms", 2);
const TRANSFERS: ColumnSpec = ColumnSpec::number("transfers, ms", "transfers, ms", 2);
const SHARE: ColumnSpec = ColumnSpec::number("transfers' share, %", "transfers' share, %", 1);

/// The layers on a 224×224 image of random values.
///
/// # Errors
/// Same as [`measure`].
pub fn run(device: &Device) -> Result<Vec<Table>> {
    let input = Tensor::random(&[1, 3, 224, 224], 0);
    let (measured, _) = measure(device, &layers(), input)?;

    let mut table = TableBuilder::on(device, "transfer-test", &[LAYER, BYTES, CPU, TRANSFERS, SHARE]);
    let mut add = |name: &str, bytes: usize, cpu: Option<f64>, transfer: Option<f64>| {
        let share = cpu.zip(transfer).map(|(cpu, transfer)| 100.0 * transfer / (cpu + transfer));
        let times = [(CPU, cpu), (TRANSFERS, transfer), (SHARE, share)];
        let times = times.map(|(column, value)| (column, Cell::or_absent(value, NO_CLOCK)));
        table.row().set(LAYER, name).set(BYTES, bytes).set_all(times).complete();
    };
    for m in &measured {
        add(m.name, m.bytes, m.cpu.median_ms(), m.transfer.as_ref().and_then(Timing::median_ms));
    }
    let bytes = measured.iter().map(|m| m.bytes).sum();
    let cpu: Option<f64> = measured.iter().map(|m| m.cpu.median_ms()).sum();
    let transfer: Option<f64> = measured.iter().map(|m| m.transfer.as_ref()?.median_ms()).sum();
    add("all", bytes, cpu, transfer);
    table.note("CPU (at most 3 runs) and transfers (5) by the host's clock, medians. Every tensor came back with the same bits.");
    if let Some((cpu, transfer)) = cpu.zip(transfer) {
        let factor = (cpu + transfer) / cpu;
        table.note(format!("With the transfers, these layers take {factor:.2} times as long as on the CPU alone."));
    }
    Ok(vec![table.finish()])
}
