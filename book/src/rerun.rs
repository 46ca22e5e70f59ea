//! Kernels of the course's packages: the command that runs one again after an edit, and the trial that checks it, as its head says.

use common::compile::{
    KernelHead,
    head::{Run, TrialName},
};

/// A kernel, or a header of kernels.
#[derive(Clone, Debug)]
pub struct Kernel<'a> {
    /// The package that has it.
    pub package: &'a str,
    /// Command that runs it.
    pub run: Run,
    /// Trial that checks it, beside what runs it.
    pub trial: Option<TrialName>,
}

impl<'a> Kernel<'a> {
    /// The kernel in `file`, whose text is `text`; `Ok(None)` if it is not named as `PACKAGE/kernels/NAME.cu` or `.cuh`.
    ///
    /// # Errors
    /// The file, if its head does not say what runs it.
    pub fn of(file: &'a str, text: &str) -> Result<Option<Kernel<'a>>, String> {
        let mut parts = file.split('/');
        let (Some(package), Some("kernels"), Some(name), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Ok(None);
        };
        if !name.ends_with(".cu") && !name.ends_with(".cuh") {
            return Ok(None);
        }
        let KernelHead { run, trial, .. } = KernelHead::read(text);
        Ok(Some(Kernel { package, run: run.ok_or_else(|| file.to_owned())?, trial }))
    }

    /// Returns the command to type.
    pub fn command(&self) -> String {
        self.run.command(self.package)
    }

    /// Returns the reason why nothing checks it here, in a clause, if its head gives one.
    pub fn unchecked(&self) -> Option<&str> {
        match &self.trial {
            Some(TrialName::Missing(reason)) => Some(reason),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::playground::check::{Check, trials};

    #[test]
    fn kernels_are_files_of_a_package_that_say_what_runs_them() {
        let kernel = Kernel::of("phase3-all-layers/kernels/add_01.cu", "// run: test layers // trial: add\n");
        assert_eq!(kernel.unwrap().unwrap().command(), "cargo test -p phase3-all-layers --test it layers::");
        let mystery = "phase2-conv-bn/kernels/mystery.cuh";
        assert_eq!(Kernel::of(mystery, "int x;\n").unwrap_err(), mystery);
        for other in ["phase2-conv-bn/src/lib.rs", "common/tests/kernels/add.cu", "phase2-conv-bn/kernels/ptx/add.ptx"]
        {
            assert!(Kernel::of(other, "// run: gemm\n").unwrap().is_none(), "{other}");
        }
    }

    /// Parts, galleries, files of tests and trials that heads name are there.
    #[test]
    fn every_kernel_says_what_runs_and_what_checks_it() {
        let parts = |package: &str| -> Vec<&str> {
            match package {
                "phase1-infra" => phase1_infra::STEPS.iter().map(|step| step.name).collect(),
                "phase2-conv-bn" => phase2_conv_bn::report::PARTS.iter().map(|part| part.name).collect(),
                "phase4-fusion" => phase4_fusion::report::PARTS.iter().map(|part| part.name).collect(),
                "phase5-bench" => phase5_bench::tables::TABLES.iter().map(|table| table.name).collect(),
                _ => Vec::new(),
            }
        };
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for package in ["phase1-infra", "phase2-conv-bn", "phase3-all-layers", "phase4-fusion", "phase5-bench"] {
            for entry in fs::read_dir(workspace.join(package).join("kernels")).unwrap() {
                let path = entry.unwrap().path();
                let file = format!("{package}/kernels/{}", path.file_name().unwrap().to_string_lossy());
                if path.is_dir() {
                    continue;
                }
                let kernel = Kernel::of(&file, &fs::read_to_string(&path).unwrap());
                let Some(kernel) = kernel.unwrap_or_else(|file| {
                    panic!("{file} does not say what runs it: write `// run: PART`, `// run: test FILE` or `// run: broken NUMBER` in its head")
                }) else {
                    continue;
                };
                let runs = match &kernel.run {
                    Run::Part(part) => parts(package).contains(&part.as_str()),
                    Run::Broken { .. } => Check::of(&kernel).is_ok(),
                    Run::Test(test) => workspace.join(package).join("tests/it").join(format!("{test}.rs")).is_file(),
                };
                assert!(runs, "{file}: `{}` does not exist", kernel.command());
                if let Some(TrialName::Named(name)) = &kernel.trial {
                    let trials: Vec<&str> = trials(package).iter().map(|trial| trial.name).collect();
                    assert!(trials.contains(&name.as_str()), "{file}: its phase's trials are {trials:?}, not {name:?}");
                }
                assert!(
                    Check::of(&kernel).is_ok() != kernel.unchecked().is_some(),
                    "{file} does not say what checks it: write `// trial: NAME` or `// trial: none, REASON` in its head"
                );
            }
        }
    }
}
