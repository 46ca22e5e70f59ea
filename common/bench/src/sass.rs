//! Machine code of kernels: the instructions that ptxas makes of shipped PTX, read back by nvdisasm.
//!
//! NVIDIA documents the names of the instructions (CUDA Binary Utilities, "Instruction Set Reference"), not their encoding. The
//! position of an instruction's [`Control`] in its 128 bits is known from measurements: Jia, Maggioni, Staiger and Scarpazza,
//! "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", 2018, section 2.1; it has been the same since.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use ptx_sim::ptxas;

/// The instructions of one kernel, each counted once, however often it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The kernel's name.
    pub kernel: String,
    /// Instructions up to its end, which is followed by a jump to itself and `NOP`s that no thread reaches.
    pub instructions: Vec<Instruction>,
}

/// One instruction of machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Bytes from the kernel's beginning; an instruction has 16.
    pub address: u32,
    /// The labels before it: `.L_x_4`.
    pub labels: Vec<String>,
    /// Text from nvdisasm, without the semicolon: `@!P0 FMUL R9, R9, 0.125`.
    pub text: String,
    /// Scheduling information from its encoding; `None` if nvdisasm did not show the encoding.
    pub control: Option<Control>,
}

/// Scheduling information that the compiler puts into each instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// Cycles until the warp may issue its next instruction.
    pub stall: u8,
    /// The scoreboard, of six, that is released when the result is written; `None`: the result has a fixed latency.
    pub result: Option<u8>,
    /// The scoreboard that is released when the operands have been read, so that their registers may be written again.
    pub operands: Option<u8>,
    /// One bit for each scoreboard that has to be released before this instruction is issued.
    pub waits: u8,
}

impl Control {
    /// Decodes the upper 64 of the instruction's 128 bits.
    fn of(upper: u64) -> Control {
        let bits = |from: u32, count: u32| (upper >> (from - 64) & ((1 << count) - 1)) as u8;
        let scoreboard = |number: u8| (number != 7).then_some(number);
        Control {
            stall: bits(105, 4),
            result: scoreboard(bits(110, 3)),
            operands: scoreboard(bits(113, 3)),
            waits: bits(116, 6),
        }
    }

    /// The scoreboards that have to be released: `SB0 SB2`.
    pub fn waited_for(self) -> String {
        let waited = (0..6).filter(|scoreboard| self.waits >> scoreboard & 1 == 1);
        waited.map(|scoreboard: u8| format!("SB{scoreboard}")).collect::<Vec<_>>().join(" ")
    }
}

impl Instruction {
    /// The predicate that guards it, with its `!`: `!P0`.
    pub fn predicate(&self) -> Option<&str> {
        Some(self.text.strip_prefix('@')?.split_whitespace().next().unwrap_or_default())
    }

    /// The instruction with its modifiers: `LDG.E.128`.
    pub fn mnemonic(&self) -> &str {
        self.text.split_whitespace().nth(usize::from(self.text.starts_with('@'))).unwrap_or_default()
    }

    /// The same without modifiers: `LDG`.
    pub fn name(&self) -> &str {
        self.mnemonic().split('.').next().unwrap_or_default()
    }

    /// Target of a branch: `.L_x_4` of ``BRA `(.L_x_4)``.
    fn target(&self) -> Option<&str> {
        if self.name() != "BRA" {
            return None;
        }
        self.text.split_once("`(")?.1.split(')').next()
    }
}

impl Listing {
    /// Number of all instructions except `NOP`.
    pub fn total(&self) -> u32 {
        self.instructions.iter().filter(|instruction| instruction.name() != "NOP").count() as u32
    }

    /// Instructions under a predicate, leaving out branches and `EXIT`.
    pub fn predicated(&self) -> u32 {
        let guarded = self.instructions.iter().filter(|instruction| instruction.predicate().is_some());
        guarded.filter(|instruction| !matches!(instruction.mnemonic(), "EXIT" | "BRA")).count() as u32
    }

    /// Instructions whose names without modifiers are among `names`: `LDG.E.128 2, STG.E.128 2`.
    pub fn telling(&self, names: &[&str]) -> String {
        let mut mnemonics = BTreeMap::<&str, u32>::new();
        for instruction in self.instructions.iter().filter(|instruction| names.contains(&instruction.name())) {
            *mnemonics.entry(instruction.mnemonic()).or_default() += 1;
        }
        let named: Vec<String> = mnemonics.iter().map(|(mnemonic, count)| format!("{mnemonic} {count}")).collect();
        if named.is_empty() { "none of these".to_owned() } else { named.join(", ") }
    }

    /// Among the innermost loops with instructions named `name`, the one that has the most of them, and of several such the
    /// shortest: from the target of the backward branch up to and including the branch.
    pub fn main_loop(&self, name: &str) -> Option<Range<usize>> {
        let place = |label: &str| self.instructions.iter().position(|at| at.labels.iter().any(|known| known == label));
        let ends = self.instructions.iter().enumerate();
        let loops = ends.filter_map(|(end, branch)| {
            let start = place(branch.target()?)?;
            (start <= end).then_some(start..end + 1)
        });
        let named = |range: &Range<usize>| self.named(range.clone(), name);
        let loops: Vec<Range<usize>> = loops.filter(|range| named(range) > 0).collect();
        let is_around = |outer: &Range<usize>, inner: &Range<usize>| {
            outer != inner && outer.start <= inner.start && inner.end <= outer.end
        };
        let innermost = loops.iter().filter(|outer| !loops.iter().any(|inner| is_around(outer, inner)));
        innermost.min_by_key(|range| (std::cmp::Reverse(named(range)), range.len())).cloned()
    }

    /// Instructions in `range` whose names without modifiers are `name`.
    pub fn named(&self, range: Range<usize>, name: &str) -> usize {
        self.instructions[range].iter().filter(|instruction| instruction.name() == name).count()
    }
}

/// A kernel of a PTX text, compiled for `arch` (`sm_90`).
///
/// # Errors
/// A sentence with the reason why it is not known.
pub fn listing(ptx: &str, arch: &str, kernel: &str) -> Result<Listing, String> {
    let (ptxas, nvdisasm) = (tool("ptxas")?, tool("nvdisasm")?);
    // In a folder of our own: in the shared one somebody might have put a link where we write.
    let folder = tempfile::Builder::new().prefix("warp-").tempdir();
    let folder = folder.map_err(|error| format!("no temporary folder for ptxas: {error}"))?;
    let (file, cubin) = (folder.path().join("kernels.ptx"), folder.path().join("kernels.cubin"));
    std::fs::write(&file, ptx).map_err(|error| format!("cannot write `{}`: {error}", file.display()))?;
    // The file's other kernels may take long to compile.
    said(
        &ptxas,
        ["-arch", arch, "--entry", kernel, "-o"].map(OsStr::new).into_iter().chain([cubin.as_ref(), file.as_ref()]),
    )?;
    let all = parse(&said(&nvdisasm, [OsStr::new("-c"), OsStr::new("-hex"), cubin.as_ref()])?);
    let found = all.into_iter().find(|listing| listing.kernel == kernel);
    found.ok_or_else(|| format!("nvdisasm shows no kernel `{kernel}`"))
}

/// The versions of ptxas and nvdisasm.
///
/// # Errors
/// Same as [`listing`].
pub fn versions() -> Result<[String; 2], String> {
    let version = |name: &str| {
        let text = said(&tool(name)?, [OsStr::new("--version")])?;
        let release = text.lines().find_map(|line| line.split_once(", V"));
        release.map(|(_, version)| version.trim().to_owned()).ok_or_else(|| format!("{name} does not say its version"))
    };
    Ok([version("ptxas")?, version("nvdisasm")?])
}

/// Parses the output of `nvdisasm -c -hex`.
fn parse(text: &str) -> Vec<Listing> {
    let mut all: Vec<Listing> = Vec::new();
    let mut labels = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(kernel) = line.strip_prefix(".text.").and_then(|rest| rest.strip_suffix(':')) {
            all.push(Listing { kernel: kernel.to_owned(), ..Listing::default() });
            labels.clear();
            continue;
        }
        let Some(listing) = all.last_mut() else { continue };
        if let Some(label) = line.strip_suffix(':').filter(|label| label.starts_with(".L")) {
            labels.push(label.to_owned());
            continue;
        }
        // `/*00f0*/  @!P0 FMUL R9, R9, 0.125 ;  /* 0x… */`, and in the line below the upper half of the encoding: `/* 0x… */`
        let Some((comment, rest)) = line.strip_prefix("/*").and_then(|line| line.split_once("*/")) else { continue };
        if let Some(encoding) = comment.trim().strip_prefix("0x") {
            if let (Some(last), Ok(upper)) = (listing.instructions.last_mut(), u64::from_str_radix(encoding, 16)) {
                last.control = Some(Control::of(upper));
            }
            continue;
        }
        let Ok(address) = u32::from_str_radix(comment.trim(), 16) else { continue };
        let text = rest.split(';').next().unwrap_or_default().trim().to_owned();
        if !text.is_empty() {
            listing.instructions.push(Instruction {
                address,
                labels: std::mem::take(&mut labels),
                text,
                control: None,
            });
        }
    }
    for Listing { instructions, .. } in &mut all {
        while instructions.last().is_some_and(|last| last.mnemonic() == "NOP") {
            instructions.pop();
        }
        // The jump to itself.
        if instructions.last().is_some_and(|last| last.target().is_some()) {
            instructions.pop();
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

/// A program of the CUDA toolkit, or the way to get it.
fn tool(name: &str) -> Result<PathBuf, String> {
    ptxas::tool(name)
        .map_err(|reason| format!("{reason}; `pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm` brings it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
\t.elftype\t@\"ET_EXEC\"
.text.branch:
        /*0070*/               @P0 EXIT ;                     /* 0x000000000000094d */
                                                              /* 0x000fea0003800000 */
        /*00c0*/                   LDG.E R9, desc[UR4][R2.64] ;  /* 0x0000000402037981 */
                                                              /* 0x000ee2000c1e1900 */
        /*00e0*/                   FSETP.GEU.AND P0, PT, R9, RZ, PT ;
        /*00f0*/              @!P0 FMUL R9, R9, 0.125 ;       /* 0x0000000304097221 */
                                                              /* 0x008fca0000000000 */
        /*0100*/                   STG.E desc[UR4][R4.64], R9 ;
.L_x_2:
        /*0110*/                   EXIT ;
.L_x_0:
        /*0120*/                   BRA `(.L_x_0);
        /*0130*/                   NOP;
.text.other:
.L_x_3:
        /*0000*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
.L_x_5:
        /*0010*/                   FFMA R4, R5, R6, R4 ;
        /*0020*/              @!P1 BRA `(.L_x_5) ;
        /*0030*/              @!P1 BRA `(.L_x_3) ;
        /*0040*/                   EXIT ;
.L_x_4:
        /*0050*/                   BRA `(.L_x_4);
";

    #[test]
    fn a_listing_is_counted_to_its_end() {
        let [branch, other] = &parse(TEXT)[..] else { panic!("two kernels") };
        assert_eq!((branch.kernel.as_str(), branch.total(), branch.predicated()), ("branch", 6, 1));
        assert_eq!(branch.telling(&["FMUL", "LDG", "BRA"]), "FMUL 1, LDG.E 1");
        assert_eq!((other.total(), other.telling(&["LDG", "BRA"])), (5, "BRA 2, LDG.E.128 1".to_owned()));
        assert_eq!(other.telling(&["FMUL"]), "none of these");
        let multiply = &branch.instructions[3];
        assert_eq!((multiply.address, multiply.predicate(), multiply.mnemonic()), (0xf0, Some("!P0"), "FMUL"));
        assert_eq!(branch.instructions[5].labels, [".L_x_2"]);
    }

    /// Instructions of `vector_add`: a load without a fixed latency, and an addition that waits for two of them.
    #[test]
    fn what_the_scheduler_is_told_is_read_from_the_encoding() {
        let [branch, _] = &parse(TEXT)[..] else { panic!("two kernels") };
        let control = |at: usize| branch.instructions[at].control;
        assert_eq!(control(1), Some(Control { stall: 1, result: Some(3), operands: None, waits: 0 }));
        let add = Control { stall: 5, result: None, operands: None, waits: 0b1000 };
        assert_eq!((control(3), add.waited_for().as_str()), (Some(add), "SB3"));
        assert_eq!(control(2), None);
    }

    #[test]
    fn the_main_loop_is_the_innermost_with_the_most() {
        let [branch, other] = &parse(TEXT)[..] else { panic!("two kernels") };
        assert_eq!(branch.main_loop("FMUL"), None);
        assert_eq!(other.main_loop("FFMA"), Some(1..3));
        assert_eq!(other.main_loop("LDG"), Some(0..4));
        assert_eq!(other.main_loop("STG"), None);
        assert_eq!(other.named(1..3, "BRA"), 1);
    }
}
