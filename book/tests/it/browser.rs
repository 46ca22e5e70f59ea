//! A kernel edited and run in a real browser, where there is one: `browser.mjs` has the steps. It needs Node.js and Chromium or Chrome,
//! which `CHROMIUM` names if it has an unusual name; `REQUIRE_CHROMIUM=1` makes a failure of their absence.

use crate::served;

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use common::{device::Device, testing::planted};
use served::Served;
use tempfile::TempDir;

/// Names of Chromium's program.
const NAMES: [&str; 6] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge"];
const APPLICATIONS: [&str; 3] = [
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "C:/Program Files/Google/Chrome/Application/chrome.exe",
];

/// A program of one of these names in `PATH`.
fn program(names: &[&str]) -> Option<PathBuf> {
    let folders: Vec<PathBuf> = env::split_paths(&env::var_os("PATH")?).collect();
    let named = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    named.map(|path| path.with_extension(env::consts::EXE_EXTENSION)).find(|path| path.is_file())
}

fn browser() -> Result<(PathBuf, PathBuf), String> {
    let node = program(&["node"]).ok_or("there is no Node.js (node)")?;
    let chromium = env::var_os("CHROMIUM").map(PathBuf::from);
    let chromium = chromium.or_else(|| program(&NAMES));
    let chromium = chromium.or_else(|| APPLICATIONS.iter().map(PathBuf::from).find(|path| path.is_file()));
    Ok((node, chromium.ok_or("there is no Chromium, Chrome or Edge; CHROMIUM can name one")?))
}

#[test]
fn a_kernel_is_edited_and_run_in_a_browser() {
    let (node, chromium) = match browser() {
        Ok(both) => both,
        Err(reason) => {
            assert!(env::var_os("REQUIRE_CHROMIUM").is_none(), "REQUIRE_CHROMIUM is set, but {reason}");
            println!("a_kernel_is_edited_and_run_in_a_browser: skipped, since {reason}");
            return;
        }
    };
    let served = Served::start();
    let profile = TempDir::new().unwrap();
    let mut command = Command::new(node);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser.mjs")).arg(chromium).arg(profile.path());
    command.arg(served.link.replace("/#", "/one.html#"));
    command.args(env::var_os("BROWSER_SCREENSHOTS"));
    if !planted::compiler(&Device::sim(), "a_kernel_is_edited_and_run_in_a_browser") {
        command.env("NO_COMPILER", "1");
    }
    let output = command.output().unwrap();
    let (said, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{said}");
    assert!(output.status.success() && said.ends_with("no complaints\n"), "{said}{wrong}");
}
