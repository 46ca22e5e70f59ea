//! ResNet18 as a plan: which layers become which kernel.

use common::parts::{Part, Report};
use common::prelude::*;
use phase3_all_layers::models::resnet::Config;

use crate::commands::resnet18::plan;
use crate::models::Arithmetic;

/// `cargo run -p phase4-fusion -- plan`.
pub const PART: Part = Part {
    name: "plan",
    about: "ResNet18 as launches on tensor cores: which layers become which kernel, and why",
    tables: &["plan"],
    by_default: true,
    run,
};

/// The plan of one image in f16.
fn run(device: &Device) -> Result<Report> {
    let config = Config::RESNET18;
    let plan = plan(device, config, &config.seeded(18), Arithmetic::F16, &[1, 3, 224, 224])?;
    let title = format!("ResNet18 in f16, one image, on {}", device.short_name());
    Ok(Report { tables: vec![plan.table(title, None)], wrong: Vec::new() })
}
