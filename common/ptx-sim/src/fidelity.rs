//! `--fidelity`: how true the instructions of a run are to hardware.

use std::io::{self, Write};

use ptx_sim::{Fidelity, FidelityRule, Profile};
use serde_json::{Value, json};

/// Where the evidence of a rule is: files of instruction tests, or the section of a manual.
fn evidence(rule: &FidelityRule) -> String {
    match rule.fidelity {
        Fidelity::Manual => rule.evidence.to_owned(),
        _ => format!("tests/instructions: {}", rule.evidence.replace(' ', ", ")),
    }
}

/// Instructions that ran, by rule.
fn groups(profile: &Profile) -> Vec<(&'static FidelityRule, Vec<&str>)> {
    FidelityRule::group(profile.opcodes.iter().map(|(opcode, _)| opcode.as_str()))
}

/// Writes each rule, with its instructions and the evidence.
pub(crate) fn write(out: &mut impl Write, profile: &Profile) -> io::Result<()> {
    writeln!(out, "fidelity of `{}` to hardware", profile.kernel)?;
    for (rule, opcodes) in groups(profile) {
        writeln!(out, "  {}: {} ({})", rule.fidelity, opcodes.join(", "), evidence(rule))?;
    }
    Ok(())
}

pub(crate) fn to_json(profile: &Profile) -> Value {
    let of_rule = |(rule, opcodes): (&FidelityRule, Vec<&str>)| {
        let (kind, bound) = match rule.fidelity {
            Fidelity::Exact => ("exact", None),
            Fidelity::Within(bound) => ("within", Some(bound)),
            Fidelity::Manual => ("manual", None),
        };
        json!({ "fidelity": kind, "bound": bound, "instructions": opcodes, "evidence": evidence(rule) })
    };
    groups(profile).into_iter().map(of_rule).collect()
}

/// Writes all rules, in Markdown.
pub(crate) fn write_rules(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\n| instructions | results | evidence |\n| --- | --- | --- |")?;
    for rule in FidelityRule::all() {
        let names: Vec<String> = rule.mnemonics.split(' ').map(|name| format!("`{name}`")).collect();
        let modifiers: Vec<String> =
            rule.modifiers.split_whitespace().map(|group| format!(" `.{}`", group.replace('|', "` or `."))).collect();
        writeln!(out, "| {}{} | {} | {} |", names.join(" "), modifiers.concat(), rule.fidelity, rule.evidence)?;
    }
    Ok(())
}
