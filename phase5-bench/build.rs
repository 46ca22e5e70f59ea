//! Builds the recorded runs into the command: one `include_str!` for each `records/*.json`.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let records = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("records");
    println!("cargo::rerun-if-changed={}", records.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(&records)? {
        let path: PathBuf = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    files.sort();
    let list: String = files
        .iter()
        .map(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // `{:?}` quotes backslashes, which paths on Windows have.
            format!("    ({name:?}, include_str!({:?})),\n", path.display().to_string())
        })
        .collect();
    let out = Path::new(&env::var("OUT_DIR")?).join("records.rs");
    fs::write(out, format!("&[\n{list}]\n"))?;
    Ok(())
}
