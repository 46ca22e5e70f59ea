//! ResNet18 as a plan: which layers become which kernel.

use common::parts::{Part, Report};
use common::prelude::*;
use phase3_all_layers::models::resnet::Config;

use crate::commands::resnet18::plan;
use crate::models::Arithmetic;

/// `cargo run -p phase4-fusion -- plan`.
pub const PART: Part = Part {
    name: "plan",
    about: "ResNet18 as launches, in f16 and in f32: which layers become which kernel, and why",
    tables: &["plan", "plan-f32"],
    by_default: true,
    run,
};

/// The plans of one image.
fn run(device: &Device) -> Result<Report> {
    let config = Config::RESNET18;
    let parameters = config.seeded(18);
    let table = |arithmetic| {
        let plan = plan(device, config, &parameters, arithmetic, &[1, 3, 224, 224])?;
        let title = format!("ResNet18 in {arithmetic}, one image, on {}", device.short_name());
        Ok::<_, Error>(plan.table(title, None))
    };
    Ok(Report { tables: vec![table(Arithmetic::F16)?, table(Arithmetic::F32)?], wrong: Vec::new() })
}
