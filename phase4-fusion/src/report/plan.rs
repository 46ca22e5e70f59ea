//! ResNet18 and the autoencoder as plans: which layers become which kernel.

use common::parts::{Part, Report};
use common::prelude::*;
use phase3_all_layers::models::autoencoder;
use phase3_all_layers::models::resnet::Config;

use crate::commands::resnet18::plan;
use crate::models::Arithmetic;

/// `cargo run -p phase4-fusion -- plan`.
pub const PART: Part = Part {
    name: "plan",
    about: "ResNet18 and the autoencoder as launches: which layers become which kernel, and why",
    tables: &["plan", "plan-f32", "plan-autoencoder"],
    by_default: true,
    run,
};

/// The plans of one image, and of a batch of spectrograms for the smallest autoencoder that is not one kernel.
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
    let tables = vec![table(Arithmetic::F16)?, table(Arithmetic::F32)?, of_medium.table(title, None)];
    Ok(Report { tables, wrong: Vec::new() })
}
