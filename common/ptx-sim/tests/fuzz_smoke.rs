//! Broken PTX must be refused or run, never crash the host: seeded mutations of the tests' own files.
//!
//! Three seconds by default; `PTX_SIM_FUZZ_SECONDS=600` for longer, `PTX_SIM_FUZZ_SEED` for other mutations. A failing
//! text is written to a file whose name is printed. With every overflow of the simulator a panic, for twenty minutes:
//!
//! `PTX_SIM_FUZZ_SECONDS=1200 cargo checked --test fuzz_smoke -- --nocapture`
//!
//! `fuzz/` has the same target for cargo-fuzz, guided by coverage.

#[path = "../fuzz/fuzz_targets/target.rs"]
mod target;

use std::path::Path;
use std::time::{Duration, Instant};

use target::Random;

/// Names and texts of the files in these folders of the tests, in an order by which a seed always means the same.
fn corpus(folders: &[&str]) -> Vec<(String, String)> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    folders.iter().flat_map(|folder| instruction_cases::texts(&tests.join(folder)).expect("it is text")).collect()
}

/// Texts that the fuzzers found once stay fixed.
#[test]
fn what_once_crashed_does_not() {
    let found = corpus(&["regressions"]);
    assert!(!found.is_empty());
    for (_, text) in found {
        target::exercise(&text);
    }
}

/// Byte ranges of words, numbers, strings and punctuation.
fn tokens(text: &str) -> Vec<std::ops::Range<usize>> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%' | b'.');
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        at += 1;
        if bytes[start].is_ascii_whitespace() || !bytes[start].is_ascii() {
            continue;
        }
        if is_word(bytes[start]) {
            while at < bytes.len() && is_word(bytes[at]) {
                at += 1;
            }
        }
        tokens.push(start..at);
    }
    tokens
}

/// Values at the edges of common ranges, and words that have a meaning everywhere.
const INTERESTING: [&str; 24] = [
    "0",
    "1",
    "-1",
    "16",
    "33",
    "255",
    "65536",
    "2147483647",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "-9223372036854775808",
    "0x7fffffffffffffff",
    "0f7FFFFFFF",
    "0d7FF0000000000000",
    "_",
    "%tid.x",
    "{",
    "}",
    ".shared",
    ".param",
    ".v4",
    "WARP_SZ",
];

fn mutate(source: &str, other: &str, random: &mut Random) -> String {
    let mut text = source.to_owned();
    for _ in 0..=random.below(4) {
        let tokens = tokens(&text);
        if tokens.is_empty() {
            return text;
        }
        let token = tokens[random.below(tokens.len())].clone();
        let another = tokens[random.below(tokens.len())].clone();
        match random.below(12) {
            0 => {
                let at = (0..=random.below(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
                text.truncate(at);
            }
            1 => {
                let mut bytes = std::mem::take(&mut text).into_bytes();
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
                text = String::from_utf8_lossy(&bytes).into_owned();
            }
            2 => text.replace_range(token, ""),
            3 => {
                let copy = format!(" {}", &text[token.clone()]);
                text.insert_str(token.end, &copy);
            }
            4 | 5 => {
                let copy = text[another].to_owned();
                text.replace_range(token, &copy);
            }
            6 | 7 => text.replace_range(token, INTERESTING[random.below(INTERESTING.len())]),
            // a modifier from elsewhere, or one less
            8 => {
                let from = other_token(other, random);
                let modifier = from.rfind('.').map_or("", |at| &from[at..]).to_owned();
                text.insert_str(token.end, &modifier);
            }
            9 => {
                let word = text[token.clone()].to_owned();
                let short = word.rfind('.').map_or(word.as_str(), |at| &word[..at]);
                text.replace_range(token, short);
            }
            10 => {
                let from = other_token(other, random).to_owned();
                text.replace_range(token, &from);
            }
            // a line elsewhere, or twice
            _ => {
                let lines: Vec<&str> = text.lines().collect();
                let (from, to) = (random.below(lines.len()), random.below(lines.len()));
                let mut moved = lines.clone();
                moved.insert(to, lines[from]);
                text = moved.join("\n");
            }
        }
    }
    text
}

fn other_token<'t>(text: &'t str, random: &mut Random) -> &'t str {
    let tokens = tokens(text);
    if tokens.is_empty() { "" } else { &text[tokens[random.below(tokens.len())].clone()] }
}

#[test]
fn mutated_ptx_never_crashes() {
    let number = |name: &str, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let seconds = number("PTX_SIM_FUZZ_SECONDS", 3);
    let corpus = corpus(&["instructions", "kernels", "regressions"]);
    assert!(corpus.len() > 1, "the tests have PTX files");
    let mut random = Random(number("PTX_SIM_FUZZ_SEED", 1));
    let begun = Instant::now();
    let folder = std::env::temp_dir();
    let running = folder.join(format!("ptx-sim-fuzz-{}.ptx", std::process::id()));
    let (mut count, mut accepted, mut slowest, mut failures) = (0u64, 0u64, Duration::ZERO, 0);
    while begun.elapsed() < Duration::from_secs(seconds) {
        let (_, source) = &corpus[random.below(corpus.len())];
        let (_, other) = &corpus[random.below(corpus.len())];
        let mutated = mutate(source, other, &mut random);
        // Kept while it runs: a crash that cannot be caught leaves it behind.
        std::fs::write(&running, &mutated).expect("the temporary folder can be written to");
        let started = Instant::now();
        let result = std::panic::catch_unwind(|| target::exercise(&mutated));
        slowest = slowest.max(started.elapsed());
        count += 1;
        let kept = folder.join(format!("ptx-sim-fuzz-{}-{count}.ptx", std::process::id()));
        match result {
            Ok(loaded) => {
                accepted += u64::from(loaded);
                if started.elapsed() > Duration::from_secs(10) {
                    std::fs::copy(&running, &kept).expect("the temporary folder can be written to");
                    println!("{} takes {:.1?}", kept.display(), started.elapsed());
                    failures += 1;
                }
            }
            Err(_) => {
                std::fs::copy(&running, &kept).expect("the temporary folder can be written to");
                println!("{} panics", kept.display());
                failures += 1;
            }
        }
    }
    let _ = std::fs::remove_file(&running);
    println!("{count} mutations of {} files, {accepted} loaded; the slowest took {slowest:.1?}", corpus.len());
    assert_eq!(failures, 0, "of {count} mutations");
    assert!(accepted > 0 && accepted < count, "mutations that are all refused, or all accepted, test little");
}
