//! Facts that stand in a kernel's file, in comments `// KEY: VALUE`, one or several on a line.
//!
//! | fact | meaning |
//! | --- | --- |
//! | `// nvrtc: OPTION…` | more compiler options, of those below; `--gpu-architecture=compute_80` is the oldest architecture that the kernel runs on |
//! | `// run: gemm` | what runs it after an edit: this part of its package's program |
//! | `// run: broken 04`, `// run: broken 04 --repaired` | this gallery of its package's program: `broken` or `published` |
//! | `// run: test layers` | this module of its package's tests |
//! | `// trial: softmax` | the trial (`bench::trial`) of its package that checks it |
//! | `// trial: none, REASON` | why no trial checks it, in a clause |

use super::DEFAULT_ARCHITECTURE;

/// NVRTC's options that a head may have: they change the code that is made. Others read or write files, and a kernel may be a
/// stranger's.
const OPTIONS: [&str; 12] = [
    "--Ofast-compile",
    "--define-macro",
    "--extra-device-vectorization",
    "--fmad",
    "--ftz",
    "--gpu-architecture",
    "--maxrregcount",
    "--prec-div",
    "--prec-sqrt",
    "--restrict",
    "--std",
    "--use_fast_math",
];

/// Facts about a kernel, from its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelHead {
    /// The oldest architecture that it runs on: `compute_80`.
    pub architecture: String,
    /// Further options for NVRTC, allowed or not.
    options: Vec<String>,
    /// Command that runs it after an edit.
    pub run: Option<Run>,
    /// Trial that checks it, beside the part or the gallery that runs it.
    pub trial: Option<TrialName>,
}

/// Command that runs a kernel after an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Run {
    /// A part of its package's program.
    Part(String),
    /// A number in one of the program's galleries of broken kernels.
    Broken {
        /// The gallery's subcommand: `broken`.
        gallery: String,
        /// `04`.
        number: String,
        /// Whether it is the version without the bug.
        repaired: bool,
    },
    /// A module of its package's tests.
    Test(String),
}

/// The name of the trial that checks a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialName {
    /// This one.
    Named(String),
    /// None, for this reason.
    Missing(String),
}

impl KernelHead {
    /// Reads the facts in a kernel's or a header's text.
    pub fn read(text: &str) -> KernelHead {
        let architecture = DEFAULT_ARCHITECTURE.to_owned();
        let mut head = KernelHead { architecture, options: Vec::new(), run: None, trial: None };
        let comments = text.lines().filter_map(|line| line.strip_prefix("// "));
        for (key, value) in comments.flat_map(|line| line.split(" // ")).filter_map(|fact| fact.split_once(": ")) {
            match key {
                "nvrtc" => head.add_options(value),
                "run" => head.run = Some(Run::parse(value)),
                "trial" => head.trial = Some(TrialName::parse(value)),
                _ => {}
            }
        }
        head
    }

    /// The options, if a head may have all of them.
    ///
    /// # Errors
    /// A sentence with the first that it may not have, and those that it may.
    pub(crate) fn allowed_options(&self) -> Result<&[String], String> {
        let name = |option: &str| option.split('=').next().unwrap_or_default().to_owned();
        let is_allowed = |option: &String| option.starts_with("-D") || OPTIONS.contains(&&*name(option));
        match self.options.iter().find(|option| !is_allowed(option)) {
            None => Ok(&self.options),
            Some(option) => {
                Err(format!("`// nvrtc: {}`: a kernel's options are -DNAME and {}", name(option), OPTIONS.join(", ")))
            }
        }
    }

    fn add_options(&mut self, options: &str) {
        for option in options.split_whitespace() {
            match option.split_once('=') {
                Some(("--gpu-architecture" | "-arch", architecture)) => self.architecture = architecture.to_owned(),
                _ => self.options.push(option.to_owned()),
            }
        }
    }
}

impl Run {
    fn parse(value: &str) -> Run {
        match value.split_whitespace().collect::<Vec<_>>()[..] {
            ["test", file] => Run::Test(file.to_owned()),
            [gallery @ ("broken" | "published"), number, ref rest @ ..] if matches!(rest, [] | ["--repaired"]) => {
                Run::Broken { gallery: gallery.to_owned(), number: number.to_owned(), repaired: !rest.is_empty() }
            }
            _ => Run::Part(value.trim().to_owned()),
        }
    }

    /// The command to type.
    pub fn command(&self, package: &str) -> String {
        match self {
            Run::Part(part) => format!("cargo run -p {package} -- {part}"),
            Run::Broken { gallery, number, repaired } => {
                let repaired = if *repaired { " --repaired" } else { "" };
                format!("cargo run -p {package} -- {gallery} {number}{repaired}")
            }
            Run::Test(module) => format!("cargo test -p {package} --test it {module}::"),
        }
    }
}

impl TrialName {
    fn parse(value: &str) -> TrialName {
        match value.trim().strip_prefix("none, ") {
            Some(reason) => TrialName::Missing(reason.to_owned()),
            None => TrialName::Named(value.trim().to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_stand_on_lines_of_their_own_or_share_one() {
        let text = "// a kernel\n// nvrtc: --use_fast_math --gpu-architecture=compute_90a // run: test layers\n\
                    // nvrtc: -DN=4\n// trial: none, several devices run it together\nint x; // run: gemm\n";
        let head = KernelHead::read(text);
        assert_eq!(head.architecture, "compute_90a");
        assert_eq!(head.allowed_options().unwrap(), ["--use_fast_math", "-DN=4"]);
        assert_eq!(head.run, Some(Run::Test("layers".into())));
        assert_eq!(head.trial, Some(TrialName::Missing("several devices run it together".into())));
    }

    #[test]
    fn options_that_touch_files_are_refused_by_name() {
        for option in [
            "--time=/tmp/x",
            "-time=x",
            "--create-pch=x",
            "--use-pch=x",
            "--pch-dir=x",
            "--pch",
            "--fdevice-time-trace=x",
            "--include-path=/etc",
            "-I/etc",
            "--pre-include=/etc/passwd",
            "--device-debug",
            "@x",
            "x",
            "--std",
        ] {
            let text = format!("// nvrtc: -DN=4 {option} // nvrtc: --fmad=false\n");
            let refusal = KernelHead::read(&text).allowed_options().map(<[String]>::to_vec);
            match option {
                "--std" => assert_eq!(refusal.unwrap(), ["-DN=4", "--std", "--fmad=false"]),
                _ => {
                    let refusal = refusal.unwrap_err();
                    assert!(
                        refusal.contains(option.split('=').next().unwrap()) && refusal.contains("--fmad"),
                        "{refusal}"
                    );
                }
            }
        }
    }

    #[test]
    fn commands_are_those_that_one_types() {
        for (run, command) in [
            ("gemm", "cargo run -p a -- gemm"),
            ("broken 04", "cargo run -p a -- broken 04"),
            ("published 04 --repaired", "cargo run -p a -- published 04 --repaired"),
            ("test layers", "cargo test -p a --test it layers::"),
        ] {
            let head = KernelHead::read(&format!("// run: {run} // trial: b\nint x;\n"));
            assert_eq!(head.run.map(|run| run.command("a")).as_deref(), Some(command));
            assert_eq!(head.trial, Some(TrialName::Named("b".into())));
        }
        assert_eq!(KernelHead::read("int x;\n").run, None);
    }
}
