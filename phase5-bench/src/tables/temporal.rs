//! `temporal`: a clip by the U-Net with a memory, by every rule and arithmetic: the time of a frame, and its quality.

use common::progress::Progress;
use phase3_all_layers::commands::video::SCHEDULE;
use phase3_all_layers::models::unet::Config;
use phase4_fusion::models::Arithmetic;
use phase4_fusion::temporal::sampler::{Deep, Every, Options, Rule};
use phase4_fusion::temporal::table::{COLUMNS, Case};

use crate::spec::{Context, FinishedTable, Make, Need, TableSpec};

/// Rate that a video is shown at.
pub(crate) const REAL_TIME: f64 = 30.0;

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "temporal",
    shows: "temporal caching: ms a frame, frames/s, PSNR, SSIM by rule",
    uses: &[Need::Gpu],
    columns: &COLUMNS,
    make: Make::Measured(run),
};

const fn deep(level: usize, every: Every) -> Rule {
    Rule { deep: Some(Deep { level, every }), threshold: None }
}

const fn tiles(threshold: f32, deep: Option<Deep>) -> Rule {
    Rule { deep, threshold: Some(threshold) }
}

/// Rules for every arithmetic. Neighbours share a network if they cut it alike.
const RULES: [Rule; 7] = [
    Rule { deep: None, threshold: None },
    deep(1, Every::Steps(2)),
    deep(1, Every::Steps(3)),
    deep(1, Every::Steps(5)),
    deep(1, Every::Frames(2)),
    deep(1, Every::Frames(4)),
    deep(2, Every::Steps(3)),
];

/// Rules only for f16: tiles, alone and combined with a deep part that runs in every third step.
const TILES: [Rule; 4] = [
    tiles(0.0, None),
    tiles(0.05, None),
    tiles(0.25, None),
    tiles(0.05, Some(Deep { level: 1, every: Every::Steps(3) })),
];

/// On the simulator, where time is short: one of each kind.
const FEW: [Rule; 2] = [RULES[0], RULES[1]];
const FEW_TILES: [Rule; 1] = [TILES[1]];

/// Makes the table.
fn run(context: &Context) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let (name, config) = if device.is_sim() {
        ("of 8 channels", Config { channels: 8, heads: 2 })
    } else {
        ("production", Config::PRODUCTION)
    };
    let [frames, steps, side] = if device.is_sim() { [2, 2, 8] } else { [60, 20, 64] };
    let parameters = config.seeded(8);
    let options = Options { side, steps, noisiest: SCHEDULE / 2.0 };
    let case = Case { config, parameters: &parameters, options, frames, seed: 1 };
    let (rules, of_f16): (&[Rule], &[Rule]) = if device.is_sim() { (&FEW, &FEW_TILES) } else { (&RULES, &TILES) };
    let title = format!("temporal caching in the U-Net {name} on {}", device.short_name());
    let mut table = context.table(title, &COLUMNS);
    let progress = Progress::new((Arithmetic::ALL.len() * rules.len() + of_f16.len()) as u64, "temporal");
    let (mut wrong, mut whole) = (Vec::new(), Vec::new());
    for arithmetic in Arithmetic::ALL {
        let more = if arithmetic == Arithmetic::F16 { of_f16 } else { &[] };
        case.make(device, arithmetic, &[rules, more].concat(), |rule, made| {
            if whole.is_empty() {
                whole = made.frames.iter().map(|frame| frame.to_host()).collect::<common::Result<_>>()?;
            }
            wrong.extend(case.row(&mut table, arithmetic, rule, &made, &whole)?);
            progress.set_message(format!("temporal: {arithmetic}, {rule}"));
            progress.inc(1);
            Ok(())
        })?;
    }
    case.notes(&mut table);
    Ok(FinishedTable { table: table.finish(), wrong })
}
