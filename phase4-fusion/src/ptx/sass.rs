//! What the hardware runs: the instructions that ptxas makes of shipped PTX, read back by nvdisasm and counted.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::ptx_sim::ptxas;

/// The instructions of one kernel, as they stand in its code, not as often as they run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The kernel's name.
    pub kernel: String,
    /// Each instruction with its modifiers (`LDG.E.128`), and how often it stands there; those behind the kernel's end left out.
    pub mnemonics: BTreeMap<String, u32>,
    /// Instructions under a predicate, leaving out branches and `EXIT`.
    pub predicated: u32,
}

impl Listing {
    /// All instructions.
    pub fn total(&self) -> u32 {
        self.mnemonics.values().sum()
    }

    /// Instructions whose names without modifiers are among `names`: `LDG.E.128 2, STG.E.128 2`.
    pub fn telling(&self, names: &[&str]) -> String {
        let is_named = |mnemonic: &str| mnemonic.split('.').next().is_some_and(|name| names.contains(&name));
        let named = self.mnemonics.iter().filter(|(mnemonic, _)| is_named(mnemonic));
        let named: Vec<String> = named.map(|(mnemonic, count)| format!("{mnemonic} {count}")).collect();
        if named.is_empty() { "none of these".to_owned() } else { named.join(", ") }
    }
}

/// A kernel of a PTX file, compiled for `arch` (`sm_90`).
///
/// # Errors
/// A sentence that says why it is not known.
pub fn listing(ptx: &Path, arch: &str, kernel: &str) -> Result<Listing, String> {
    let (ptxas, nvdisasm) = (tool("ptxas")?, tool("nvdisasm")?);
    // In a folder of our own: in the shared one somebody might have put a link where we write.
    let folder = tempfile::Builder::new().prefix("phase4-").tempdir();
    let folder = folder.map_err(|error| format!("no temporary folder for ptxas: {error}"))?;
    let cubin = folder.path().join("kernels.cubin");
    // The file's other kernels may take long to compile.
    said(
        &ptxas,
        ["-arch", arch, "--entry", kernel, "-o"].map(OsStr::new).into_iter().chain([cubin.as_ref(), ptx.as_ref()]),
    )?;
    let all = parse(&said(&nvdisasm, [OsStr::new("-c"), cubin.as_ref()])?);
    let found = all.into_iter().find(|listing| listing.kernel == kernel);
    found.ok_or_else(|| format!("nvdisasm shows no kernel `{kernel}`"))
}

/// The versions of ptxas and nvdisasm.
///
/// # Errors
/// As [`listing`].
pub fn versions() -> Result<[String; 2], String> {
    let version = |name: &str| {
        let text = said(&tool(name)?, [OsStr::new("--version")])?;
        let release = text.lines().find_map(|line| line.split_once(", V"));
        release.map(|(_, version)| version.trim().to_owned()).ok_or_else(|| format!("{name} does not say its version"))
    };
    Ok([version("ptxas")?, version("nvdisasm")?])
}

/// Reads what `nvdisasm -c` prints. Behind the code stand a jump to itself and `NOP`s, which no thread reaches.
fn parse(text: &str) -> Vec<Listing> {
    let mut all: Vec<Listing> = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(kernel) = line.strip_prefix(".text.").and_then(|rest| rest.strip_suffix(':')) {
            all.push(Listing { kernel: kernel.to_owned(), ..Listing::default() });
            continue;
        }
        let Some(listing) = all.last_mut() else { continue };
        // `/*00f0*/  @!P0 FMUL R9, R9, 0.125 ;`
        let Some((_, instruction)) = line.strip_prefix("/*").and_then(|line| line.split_once("*/")) else { continue };
        let (predicate, rest) = match instruction.trim().strip_prefix('@') {
            Some(guarded) => guarded.split_once(' ').unwrap_or((guarded, "")),
            None => ("", instruction.trim()),
        };
        let mnemonic = rest.trim().split([' ', ';']).next().unwrap_or_default();
        if mnemonic.is_empty() {
            continue;
        }
        *listing.mnemonics.entry(mnemonic.to_owned()).or_default() += 1;
        let leaves = mnemonic == "EXIT" || mnemonic == "BRA";
        listing.predicated += u32::from(!predicate.is_empty() && !leaves);
    }
    for listing in &mut all {
        listing.mnemonics.remove("NOP");
        // The jump to itself, which is the last of each kernel.
        if let Some(jumps) = listing.mnemonics.get_mut("BRA") {
            *jumps -= 1;
            if *jumps == 0 {
                listing.mnemonics.remove("BRA");
            }
        }
    }
    all
}

fn said<'a>(program: &Path, arguments: impl IntoIterator<Item = &'a OsStr>) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("cannot run `{}`: {error}", program.display()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("{}: {}", program.display(), errors.lines().next().unwrap_or("it failed without a word")))
}

/// A program of the CUDA toolkit, or how to get it.
fn tool(name: &str) -> Result<PathBuf, String> {
    ptxas::tool(name)
        .map_err(|reason| format!("{reason}; `pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm` brings it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_counted_to_its_end() {
        let text = "\
\t.elftype\t@\"ET_EXEC\"
.text.branch:
        /*0070*/               @P0 EXIT ;
        /*00c0*/                   LDG.E R9, desc[UR4][R2.64] ;
        /*00e0*/                   FSETP.GEU.AND P0, PT, R9, RZ, PT ;
        /*00f0*/              @!P0 FMUL R9, R9, 0.125 ;
        /*0100*/                   STG.E desc[UR4][R4.64], R9 ;
.L_x_2:
        /*0110*/                   EXIT ;
.L_x_0:
        /*0120*/                   BRA `(.L_x_0);
        /*0130*/                   NOP;
.text.other:
        /*0000*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
        /*0010*/              @!P1 BRA `(.L_x_3) ;
        /*0020*/                   EXIT ;
        /*0030*/                   BRA `(.L_x_4);
";
        let [branch, other] = &parse(text)[..] else { panic!("two kernels") };
        assert_eq!((branch.kernel.as_str(), branch.total(), branch.predicated), ("branch", 6, 1));
        assert_eq!(branch.telling(&["FMUL", "LDG", "BRA"]), "FMUL 1, LDG.E 1");
        assert_eq!((other.total(), other.telling(&["LDG", "BRA"])), (3, "BRA 1, LDG.E.128 1".to_owned()));
        assert_eq!(other.telling(&["FMUL"]), "none of these");
    }
}
