//! The gradients of a layer: the versions of its backward pass on one set of operands, and their check against f64.

use bench::ladder::Expected;
use common::check::{Mismatch, Report};
use common::device::SimOptions;
use common::prelude::*;
use common::reference::{Gemm as Reference, TensorGemm};
use phase2_conv_bn::linear::backward::{self, Backward};
use phase2_conv_bn::linear::traffic::Traffic;
use phase2_conv_bn::linear::written::{MaskedGradient, Written};
use phase4_fusion::fusion::backward::{Backward as TensorBackward, Workspace};

/// Batch, inputs, outputs.
pub(super) type Size = [usize; 3];

/// A backward pass of random values on a device.
pub(super) struct Gradients {
    x: Tensor,
    w: Tensor,
    y: Tensor,
    dy: Tensor,
    /// dx, dW, db.
    results: [Tensor; 3],
}

/// A version of the backward pass.
#[derive(Clone, Copy)]
pub(super) enum Version {
    /// Masks the gradient as it is loaded, in two launches.
    Fused,
    /// The same with the masked gradient written first.
    Separate,
    /// With the ladder's best products.
    Written,
    /// With those of the tensor cores, in tf32.
    TensorCores,
}

impl Version {
    /// Bytes that it must move.
    pub(super) fn bytes(self, size @ [batch, inputs, outputs]: Size) -> u64 {
        match self {
            Version::Fused => Traffic::gradients(batch, inputs, outputs, false),
            Version::Separate | Version::Written => Traffic::gradients(batch, inputs, outputs, true),
            Version::TensorCores => TensorBackward::bytes(size),
        }
    }
}

/// One of them, loaded, with its memory.
pub(super) enum Loaded {
    Fused(Backward),
    Separate(Backward),
    Written(Box<(Written, MaskedGradient)>),
    TensorCores(Box<(TensorBackward, Workspace)>),
}

impl Loaded {
    pub(super) fn launch(&mut self, gradients: &mut Gradients, stream: &Stream) -> common::Result<()> {
        let (pass, gradients) = gradients.parts();
        match self {
            Loaded::Fused(kernels) => kernels.fused(stream, pass, gradients),
            Loaded::Separate(kernels) => kernels.separate(stream, pass, gradients),
            Loaded::Written(loaded) => {
                let (kernels, masked) = &mut **loaded;
                kernels.launch(stream, pass, masked, gradients)
            }
            Loaded::TensorCores(loaded) => {
                let (kernels, space) = &mut **loaded;
                kernels.launch(stream, pass, space, gradients)
            }
        }
    }
}

impl Gradients {
    /// Seeds of x, W, y and dy. However y was made, its signs are the mask.
    const SEEDS: [u64; 4] = [1, 2, 5, 6];

    fn host([batch, inputs, outputs]: Size) -> [Tensor; 4] {
        let shapes = [[batch, inputs], [outputs, inputs], [batch, outputs], [batch, outputs]];
        let mut seeds = Gradients::SEEDS.into_iter();
        shapes.map(|shape| Tensor::random(&shape, seeds.next().unwrap_or_default()))
    }

    pub(super) fn seeded(device: &Device, size: Size) -> crate::Result<Gradients> {
        let [x, w, y, dy] = Gradients::host(size).map(|tensor| tensor.to_device(device));
        let (x, w, y, dy) = (x?, w?, y?, dy?);
        let [dx, dw] = [x.shape(), w.shape()].map(|shape| Tensor::empty_on(device, shape));
        let results = [dx?, dw?, Tensor::empty_on(device, &[size[2]])?];
        Ok(Gradients { x, w, y, dy, results })
    }

    fn parts(&mut self) -> (backward::Pass<'_>, backward::Gradients<'_>) {
        let Gradients { x, w: weight, y, dy, results: [dx, dweight, dbias] } = self;
        (backward::Pass { dy, y, x, weight }, backward::Gradients { dx, dweight, dbias })
    }

    pub(super) fn poison(&mut self, stream: &Stream) -> crate::Result<()> {
        for gradient in &mut self.results {
            stream.poison(gradient.buffer_mut()?)?;
        }
        Ok(())
    }

    pub(super) fn load(&self, device: &Device, version: Version) -> common::Result<Loaded> {
        let ([batch, inputs], [_, outputs]) = (self.x.dims("x")?, self.y.dims("y")?);
        Ok(match version {
            Version::Fused => Loaded::Fused(Backward::load(device)?),
            Version::Separate => Loaded::Separate(Backward::load(device)?),
            Version::Written => {
                let kernels = Written::load(device)?;
                let masked = kernels.mask().place(device, [batch, outputs], false)?;
                Loaded::Written(Box::new((kernels, masked)))
            }
            Version::TensorCores => {
                let kernels = TensorBackward::load(device)?;
                let space = kernels.workspace(device, [batch, inputs, outputs])?;
                Loaded::TensorCores(Box::new((kernels, space)))
            }
        })
    }

    /// Each gradient against f64.
    pub(super) fn check(
        &self,
        size: Size,
        on_tensor_cores: bool,
    ) -> crate::Result<Vec<(&'static str, Result<Report, Mismatch>)>> {
        let [batch, inputs, outputs] = size;
        let [x, w, y, dy] = Gradients::host(size);
        let masked: Vec<f32> =
            y.as_slice()?.iter().zip(dy.as_slice()?).map(|(&y, &dy)| if y > 0.0 { dy } else { 0.0 }).collect();
        let flipped: Vec<f32> =
            (0..outputs).flat_map(|column| masked.iter().skip(column).step_by(outputs).copied()).collect();
        let ones = vec![1.0; batch];
        let product = |product: Reference<'_>, seed| {
            if on_tensor_cores {
                Expected::tensor_gemm(&TensorGemm::new(product, ElementType::F32, ElementType::F32), seed)
            } else {
                Expected::gemm(&product, seed)
            }
        };
        let expected = [
            ("dx", product(Reference::new(&masked, w.as_slice()?, batch, inputs, outputs), 7)?),
            ("dW", product(Reference::new(&flipped, x.as_slice()?, outputs, inputs, batch), 8)?),
            ("db", Expected::gemm(&Reference::new(&flipped, &ones, outputs, 1, batch), 9)?),
        ];
        let gradients = self.results.iter().zip(expected);
        gradients.map(|(it, (name, expected))| Ok((name, expected.check(it.to_host()?.as_slice()?)))).collect()
    }

    /// Bytes that a version moves, on its own simulator.
    pub(super) fn traffic(version: Version, size: Size) -> crate::Result<Traffic> {
        let device = Device::sim_with(SimOptions { profile: true, ..SimOptions::default() });
        let mut gradients = Gradients::seeded(&device, size)?;
        gradients.load(&device, version)?.launch(&mut gradients, &device.stream())?;
        let profiles = device.as_sim().map(|sim| sim.take_profiles()).unwrap_or_default();
        Ok(Traffic::of(&profiles))
    }
}
