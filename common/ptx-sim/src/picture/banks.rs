//! The 32 banks of shared memory as columns, and a row for each round in which they serve lanes.

use super::svg::{Svg, WIDTH};
use super::{code, count, lanes_in_words};
use crate::hardware::BANKS;
use crate::trace::{MemoryAccess, Round, Space, Trace};

/// Maximum rows drawn; the rest is only counted.
const MAX_ROWS: usize = 40;
const LEFT: f64 = 84.0;
const COLUMN: f64 = (WIDTH - LEFT - 12.0) / BANKS as f64;
const ROW: f64 = 17.0;

pub(super) fn draw(trace: &Trace, access: &MemoryAccess) -> String {
    let site = trace.site(access);
    let rounds = access.rounds();
    let (waves, ideal) = (access.wavefronts(), access.ideal_wavefronts());
    let ways = rounds.iter().map(Round::ways).max().unwrap_or(0);
    let bytes = access.touches.iter().map(|touch| touch.bytes).max().unwrap_or(0);
    let (warp, kind, lanes) = (access.warp, access.kind, lanes_in_words(access.lanes()));
    let what = format!("Warp {warp}, {lanes}: {kind} of {} each.", count(bytes, "byte"));
    let words = |round: &Round| round.banks.iter().flatten().any(|(_, lanes)| lanes.count_ones() > 1);
    let broadcast = bytes <= 4 && rounds.iter().any(words);
    let conflict = match ways {
        0 | 1 => "No bank conflict".to_owned(),
        ways => format!("{ways}-way bank conflict"),
    };
    let found = format!("{conflict}: {}; ideal: {ideal}.", count(waves, "wavefront"));
    let heading = trace.heading(site);
    let mut svg = Svg::new(&heading, code(site), &[format!("{what} {found}")]);

    let x_of = |bank: usize| LEFT + bank as f64 * COLUMN;
    let top = svg.y + 14.0;
    svg.text("dim e", LEFT - 8.0, top, "bank");
    for bank in 0..BANKS {
        let busy = rounds.iter().any(|round| !round.banks[bank].is_empty());
        svg.text(if busy { "n ink m" } else { "n dim m" }, x_of(bank) + COLUMN / 2.0, top, &bank.to_string());
    }
    let mut y = top + 7.0;
    let mut wave = 0;
    let (mut one_lane, mut several, mut idle) = (false, false, false);
    'rounds: for round in &rounds {
        for level in 0..round.ways() {
            if wave == MAX_ROWS {
                break 'rounds;
            }
            wave += 1;
            let label = match level {
                0 if rounds.len() > 1 => lanes_in_words(round.lanes()),
                _ => format!("wavefront {wave}"),
            };
            svg.text("n dim e", LEFT - 8.0, y + 12.0, &label);
            if round.banks.iter().any(|words| words.len() <= level) {
                idle = true;
                svg.rect("empty", [LEFT + 0.5, y, BANKS as f64 * COLUMN - 1.0, ROW - 1.0]);
            }
            for (bank, words) in round.banks.iter().enumerate() {
                let Some((word, lanes)) = words.get(level) else { continue };
                let one = lanes.count_ones() == 1;
                one_lane |= one && level == 0;
                several |= !one;
                let role = if level > 0 {
                    "warn"
                } else if one {
                    "full"
                } else {
                    "good"
                };
                let title = format!("{}: {}", lanes_in_words(*lanes), trace.locate(Space::Shared, word * 4));
                svg.titled_rect(role, [x_of(bank) + 0.5, y, COLUMN - 1.0, ROW - 1.0], &title);
                let text = if one { lanes.trailing_zeros().to_string() } else { format!("×{}", lanes.count_ones()) };
                svg.text(&format!("n on-{role} m"), x_of(bank) + COLUMN / 2.0, y + 12.0, &text);
            }
            y += ROW;
        }
        y += 5.0;
    }
    if idle {
        // What parts the banks, where one rectangle stands for all that are idle.
        for bank in 1..BANKS {
            svg.rect("paper", [x_of(bank) - 0.5, top + 7.0, 1.0, y - top - 7.0]);
        }
    }
    svg.y = y;
    if wave < waves as usize {
        svg.y += 12.0;
        svg.text("dim", LEFT, svg.y, &format!("… and {}", count(waves - wave as u32, "more wavefront")));
    }
    let mut entries = Vec::new();
    if one_lane {
        entries.push(("full", "word of one lane, with its number"));
    }
    if several {
        entries.push(("good", "word of several lanes: a broadcast"));
    }
    if ways > 1 {
        entries.push(("warn", "has to wait: the bank delivers another word first"));
    }
    entries.push(("empty", "idle"));
    svg.legend(&entries);
    let broadcasts = if broadcast { " Lanes that read the same word share it." } else { "" };
    svg.finish(&format!("{heading}: {kind} of shared memory"), &format!("{what} {found}{broadcasts}"))
}
