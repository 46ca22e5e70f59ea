//! Command lines of the programs: what they take by name, and examples.

use std::fmt::Write;

use clap::Command;

use crate::{cli, content::Produced, exercise::escaped};

/// The command line of a program; `None` if it is not known here.
fn command(program: &str) -> Option<Command> {
    Some(match program {
        "phase1-infra" => phase1_infra::cli::command(),
        "phase2-conv-bn" => phase2_conv_bn::cli::command(),
        "phase3-all-layers" => phase3_all_layers::cli::command(),
        "phase4-fusion" => phase4_fusion::cli::command(),
        "phase5-bench" => phase5_bench::cli::command(),
        "assignments" => assignments::cli::command(),
        "book" => cli::command(),
        _ => return None,
    })
}

/// A table of the subcommands of a program, of the names that it takes instead, and of its options if it takes neither; then the first
/// paragraph of what its help ends with, its examples.
pub fn section(program: &str) -> Produced {
    let command = command(program).ok_or_else(|| format!("the command line of `{program}` is not known"))?;
    let mut rows: Vec<(String, String)> = Vec::new();
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        rows.push((subcommand.get_name().to_owned(), text(subcommand.get_about())));
    }
    // A subcommand goes before a value of its name, as on the command line.
    for value in command.get_positionals().flat_map(|argument| argument.get_possible_values()) {
        if rows.iter().all(|(name, _)| name != value.get_name()) {
            rows.push((value.get_name().to_owned(), text(value.get_help())));
        }
    }
    if rows.is_empty() {
        let options = command.get_arguments().filter(|argument| !argument.is_hide_set());
        rows.extend(options.filter_map(|option| Some((format!("--{}", option.get_long()?), text(option.get_help())))));
    }
    let mut section = format!("| `cargo run -p {program} -- …` | |\n| --- | --- |\n");
    for (name, about) in rows {
        let _ = writeln!(section, "| `{name}` | {} |", escaped(&about));
    }
    let after = text(command.get_after_help());
    let examples: Vec<&str> = after.lines().take_while(|line| !line.is_empty()).skip(1).map(str::trim_start).collect();
    if !examples.is_empty() {
        let _ = write!(section, "\n```text\n{}\n```", examples.join("\n"));
    }
    Ok(section.trim_end().to_owned().into())
}

fn text(styled: Option<&clap::builder::StyledStr>) -> String {
    styled.map(ToString::to_string).unwrap_or_default()
}
