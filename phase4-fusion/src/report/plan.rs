//! ResNet18, the autoencoder and the U-Net as plans: the layers of each kernel.

use bench::parts::{Part, Report};
use common::prelude::*;
use phase3_all_layers::models::resnet::Config;
use phase3_all_layers::models::{autoencoder, unet};

use crate::commands::resnet18::plan;
use crate::models::Arithmetic;

/// `cargo run -p phase4-fusion -- plan`.
pub const PART: Part = Part {
    name: "plan",
    about: "the models as launches: which layers become which kernel, and why",
    tables: &["plan", "plan-f32", "plan-autoencoder", "plan-unet", "plan-int8"],
    by_default: true,
    run,
};

/// The plans of one image, of a batch of spectrograms for the smallest autoencoder that is not one kernel, and of two latents.
fn run(device: &Device) -> Result<Report> {
    let config = Config::RESNET18;
    let parameters = config.seeded(18);
    let table = |arithmetic| {
        let plan = plan(device, config, &parameters, arithmetic, &[1, 3, 224, 224])?;
        let title = format!("ResNet18 in {arithmetic}, one image, on {}", device.short_name());
        Ok::<_, Error>(plan.table(title, None))
    };
    let (medium, batch) = (autoencoder::Config::MEDIUM, 512);
    let of_medium = crate::autoencoder::plan(device, &medium, &medium.seeded(5), Arithmetic::Tf32, batch)?;
    let title = format!("autoencoder medium in tf32, batch {batch}, on {}", device.short_name());
    let (tiny, latents) = (unet::Config::TINY, [2, unet::INPUTS, 64, 64]);
    let of_tiny = crate::commands::unet::plan(device, tiny, &tiny.seeded(8), Arithmetic::F16, &latents)?;
    let of_tiny = of_tiny.summary(format!("U-Net tiny in f16, 2 × 64×64, on {}", device.short_name()));
    let tables = vec![
        table(Arithmetic::F16)?,
        table(Arithmetic::F32)?,
        of_medium.table(title, None),
        of_tiny,
        table(Arithmetic::Int8)?,
    ];
    Ok(Report { tables, wrong: Vec::new() })
}
