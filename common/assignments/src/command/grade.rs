//! Points for all exercises.

use std::fmt::Write;

use anyhow::Result;
use assignments::exercise::Exercise;
use assignments::grade::Verdict;
use clap::ValueEnum;
use common::command::Shell;
use rayon::prelude::*;

use super::{Session, compiler};

/// How the result is shown.
#[derive(Clone, Copy, ValueEnum)]
pub enum Format {
    /// With the reasons.
    Text,
    /// A table.
    Markdown,
    /// For programs.
    Json,
}

/// Grades the exercises of these ids, or all.
pub fn run(session: &Session, ids: &[String], format: Format, shell: &mut Shell) -> Result<()> {
    compiler()?;
    let exercises: Vec<&Exercise> = if ids.is_empty() {
        session.exercises.iter().collect()
    } else {
        ids.iter().map(|id| session.find(id)).collect::<Result<_>>()?
    };
    let verdicts = exercises.par_iter().map(|exercise| session.check(exercise)).collect::<Result<Vec<_>>>()?;
    if !verdicts.iter().all(Verdict::passed) {
        shell.fail_quietly();
    }
    Ok(shell.print(&render(&verdicts, format)?)?)
}

fn render(verdicts: &[Verdict], format: Format) -> Result<String> {
    let (points, full) =
        (verdicts.iter().map(Verdict::points).sum::<u32>(), verdicts.iter().map(Verdict::full).sum::<u32>());
    let mut text = String::new();
    match format {
        Format::Text => {
            verdicts.iter().try_for_each(|verdict| write!(text, "{verdict}"))?;
            writeln!(text, "{points} of {full} points")?;
        }
        Format::Markdown => {
            text += "| exercise | points | of |\n|:--|--:|--:|\n";
            verdicts.iter().try_for_each(|v| writeln!(text, "| {} | {} | {} |", v.id, v.points(), v.full()))?;
            writeln!(text, "| **all** | **{points}** | **{full}** |")?;
        }
        Format::Json => writeln!(text, "{}", serde_json::to_string_pretty(verdicts)?)?,
    }
    Ok(text)
}
