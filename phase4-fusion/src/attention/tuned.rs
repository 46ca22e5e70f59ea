//! The choice among the steps of f16 and bf16, by GPU and size.

use bench::ladder;
use common::prelude::*;

use super::{Attention, Inputs, Options, Size, Step, step02_mma, step04_roles, step05_split, step08_stream};

/// The best step of f16 and of bf16 for each size.
///
/// On GPUs other than Hopper, step 2 handles all sizes of f16, and nothing handles bf16.
#[derive(Clone, Debug)]
pub struct Tuned {
    /// Steps for many queries, for few and for one, where the GPU supports them.
    hopper: Option<[Attention; 3]>,
    any: Attention,
}

impl Tuned {
    /// The kernel files of the steps that it chooses from, for [`Device::load_ahead`].
    pub fn sources() -> impl Iterator<Item = &'static KernelSource> {
        static STEPS: &[Step] = &[step02_mma::STEP, step04_roles::STEP, step05_split::STEP, step08_stream::STEP];
        STEPS.iter().map(|step| &step.source)
    }

    /// Loads the steps that it chooses from.
    ///
    /// # Errors
    /// Same as [`Step::load`]; [`Error::Unsupported`] on GPUs before compute capability 8.0.
    pub fn load(device: &Device) -> Result<Tuned> {
        device.load_ahead(Tuned::sources());
        let load = || {
            let [many, few, one] =
                [step04_roles::STEP, step05_split::STEP, step08_stream::STEP].map(|step| step.load(device));
            Ok([many?, few?, one?])
        };
        let hopper = ladder::if_supported(load())?.ok();
        Ok(Tuned { hopper, any: step02_mma::STEP.load(device)? })
    }

    /// The step for a type and a size on a GPU with this many SMs.
    fn step(&self, element: ElementType, size: &Size, processors: usize) -> &Attention {
        match &self.hopper {
            None => &self.any,
            Some([many, ..]) if size.head > many.largest_head() => &self.any,
            Some([many, ..]) if element == ElementType::BF16 => many, // the only one with kernels for it
            Some([.., one]) if size.queries == 1 => one,
            // A cluster shares a tile if that gives no SM two blocks, and each block a step of keys.
            Some([many, few, _]) => {
                let kernel = few.kernel(element, size, processors);
                if kernel.is_room(size, processors) { few } else { many }
            }
        }
    }

    /// Choice for a size in f16 without a mask on a GPU with this many SMs, and its number of blocks: `roles`, `roles, wide`
    /// or, with slices, `split keys/8`.
    pub fn choice(&self, size: &Size, processors: usize) -> (String, usize) {
        let step = self.step(ElementType::F16, size, processors);
        let kernel = step.kernel(ElementType::F16, size, processors);
        let tile = match kernel.slices {
            1 if kernel.is_wide => ", wide".to_owned(),
            1 => String::new(),
            slices => format!("/{slices}"),
        };
        (format!("{}{tile}", step.name), step.blocks(kernel, size, processors))
    }

    /// Choice for a size in f16 without a mask on its device, or why no step supports it.
    ///
    /// # Errors
    /// The reason, in words.
    pub fn explain(&self, size: &Size) -> Result<String, String> {
        let processors = self.any.processors;
        self.step(ElementType::F16, size, processors)
            .refuses(size)
            .map_or_else(|| Ok(self.choice(size, processors).0), Err)
    }

    /// [`Attention::launch`] of the step for this size.
    ///
    /// # Errors
    /// Same as [`Attention::launch`].
    pub fn launch(
        &self,
        stream: &Stream,
        inputs: Inputs<'_>,
        options: Options,
        out: &mut Tensor,
        lse: &mut Tensor,
    ) -> Result<()> {
        let chosen = self.step(inputs.element(), &inputs.size()?, self.any.processors);
        chosen.launch(stream, inputs, options, out, lse)
    }
}
