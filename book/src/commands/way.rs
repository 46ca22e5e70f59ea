//! How a command of a page is run, or why it is not.

/// How to handle a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It runs, and succeeds.
    Succeeds,
    /// It runs and ends with status 1, as its page says.
    Fails,
    /// It runs in a class's repository, so that the reader's own records stay unchanged, and ends with this status.
    InClass(i32),
    /// Cargo's own tests run it; the test must exist.
    Tests,
    /// It is not run here, for this reason.
    Elsewhere(&'static str),
}

use Way::{Elsewhere, Fails, InClass, Succeeds, Tests};

/// All exceptions, in one place: the first with a pattern whose words all occur in the command, in order, decides. A word that ends in
/// `*` is a prefix. All other commands run on the simulator and succeed.
const EXCEPTIONS: &[(Way, &[&str])] = &[
    (Elsewhere("since it is what checks every commit"), &["cargo test --workspace", "cargo clippy", "cargo fmt"]),
    (Tests, &["cargo test"]),
    (Elsewhere("since it builds: the checks of every commit do the like"), &["cargo build"]),
    (Elsewhere("since it needs a GPU and PyTorch"), &["python3 phase5-bench/elsewhere/*"]),
    (
        Elsewhere("since it changes what is installed"),
        &[
            "cargo install",
            "python3",
            "pip",
            "brew",
            ".venv/bin/pip",
            ". .venv/bin/activate",
            "toolkit=*",
            "ln",
            "export PATH=*",
        ],
    ),
    (Elsewhere("since it rewrites the shipped PTX; every commit runs it with --check"), &["--bin ship-ptx"]),
    (Elsewhere("since it builds the book: every commit does"), &["-p book"]),
    (Elsewhere("since it asks for a GPU"), &["--device cuda*"]),
    (Elsewhere("since it is for several GPUs"), &["ranks --values", "all-reduce --gpus 2,4"]),
    (Elsewhere("since it needs the memory of a GPU"), &["tensor-parallel --config production"]),
    (Elsewhere("since it needs a network's published weights"), &["--weights"]),
    (Elsewhere("since it needs ImageNet's validation set"), &["evaluate"]),
    (
        Elsewhere("since it needs the CUDA toolkit"),
        &["nvcc", "./vector_add", "./matmul_cute", "./broken", "./sum", "ptxas", "cuobjdump", "nvdisasm"],
    ),
    (Elsewhere("since it needs a GPU and NVIDIA's tools"), &["ncu", "nsys", "compute-sanitizer", "cuda-gdb"]),
    (
        Elsewhere("since it needs a cluster"),
        &["torchrun", "mpirun", "srun", "export WARP_RANK_TIMEOUT=60", "export NCCL_DEBUG=WARN"],
    ),
    (Elsewhere("since it builds or runs a container"), &["docker"]),
    (Elsewhere("since it is no program of the course"), &["diff", "git"]),
    (Elsewhere("since it needs a folder of the reader's"), &["WARP_KERNELS=my-kernels"]),
    (Elsewhere("since it is a form to fill in"), &["FILE.ptx"]),
    (Elsewhere("since readers edit it; phase 1 tests what judges it"), &["--example"]),
    (Elsewhere("since it runs until a key ends it"), &["assignments watch"]),
    // The exercises of a checkout are the reader's to solve, and a skeleton does not pass.
    (InClass(1), &["assignments check guard", "assignments grade"]),
    (InClass(0), &["assignments next", "assignments hint", "assignments show", "assignments list", "assignments new"]),
    // A wrong answer, so that the page gives nothing away.
    (Fails, &["assignments check --answer"]),
    // A gallery's broken kernel is wrong. Made early, the copies of number 7 give the right values.
    (Succeeds, &["broken 07 --repaired", "broken 07 --async early", "published 09 --repaired"]),
    // The last asks what a misaligned vector does.
    (Fails, &["broken 01", "broken 7*", "broken 07", "published 09", "ranks --fault", "ptr:x+4"]),
];

/// How to handle a command.
pub fn of(command: &str) -> Way {
    let exception = EXCEPTIONS.iter().find(|(_, patterns)| patterns.iter().any(|pattern| matches(pattern, command)));
    exception.map_or(Succeeds, |(way, _)| *way)
}

fn matches(pattern: &str, command: &str) -> bool {
    let mut words = command.split_whitespace();
    let is_word =
        |word: &str, wanted: &str| wanted.strip_suffix('*').map_or(word == wanted, |begin| word.starts_with(begin));
    pattern.split_whitespace().all(|wanted| words.any(|word| is_word(word, wanted)))
}

/// The package of a `cargo run -p PACKAGE` or `cargo test -p PACKAGE`.
pub fn package(command: &str) -> Option<&str> {
    let mut words = command.strip_prefix("cargo ")?.split_whitespace();
    words.find(|word| *word == "-p")?;
    words.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_exception_whose_words_occur_in_order_decides() {
        assert_eq!(of("cargo run -p phase1-infra -- vector-add --device sim"), Succeeds);
        assert_eq!(of("cargo run -p phase1-infra -- broken 07 --device sim"), Fails);
        assert_eq!(of("cargo run -p phase1-infra -- broken 07 --repaired"), Succeeds);
        assert_eq!(of("cargo run -p phase1-infra -- broken"), Succeeds);
        assert_eq!(of("cargo test -p phase4-fusion --test it gemm::"), Tests);
        assert!(matches!(of("cargo run -p x -- y --device cuda:1"), Elsewhere(_)));
        assert_eq!(package("cargo run -p ptx-sim -- run"), Some("ptx-sim"));
        assert_eq!(package("ptxas -p x"), None);
    }

    #[test]
    fn no_exception_hides_another() {
        let all: Vec<&str> = EXCEPTIONS.iter().flat_map(|(_, patterns)| *patterns).copied().collect();
        for (at, pattern) in all.iter().enumerate() {
            let typed = pattern.replace('*', "");
            assert_eq!(all.iter().position(|earlier| matches(earlier, &typed)), Some(at), "{pattern}");
        }
    }
}
