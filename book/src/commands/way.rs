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

/// All exceptions, in one place: the first whose words all occur in the command, in order, decides. A word that ends in `*` is a
/// prefix. All other commands run on the simulator and succeed.
const EXCEPTIONS: &[(&str, Way)] = &[
    ("cargo test --workspace", Elsewhere("since it is what checks every commit")),
    ("cargo test", Tests),
    ("cargo build", Elsewhere("since it builds: the checks of every commit do the like")),
    ("cargo install", Elsewhere("since it changes what is installed")),
    ("cargo clippy", Elsewhere("since it is what checks every commit")),
    ("cargo fmt", Elsewhere("since it is what checks every commit")),
    ("--bin ship-ptx", Elsewhere("since it rewrites the shipped PTX; every commit runs it with --check")),
    ("-p book", Elsewhere("since it builds the book: every commit does")),
    ("python3", Elsewhere("since it changes what is installed")),
    ("pip", Elsewhere("since it changes what is installed")),
    (".venv/bin/pip", Elsewhere("since it changes what is installed")),
    (". .venv/bin/activate", Elsewhere("since it changes what is installed")),
    ("--device cuda*", Elsewhere("since it asks for a GPU")),
    ("ranks --values", Elsewhere("since it is for several GPUs")),
    ("all-reduce --gpus 2,4", Elsewhere("since it is for several GPUs")),
    ("tensor-parallel --config production", Elsewhere("since it needs the memory of a GPU")),
    ("--weights", Elsewhere("since it needs a network's published weights")),
    ("evaluate", Elsewhere("since it needs ImageNet's validation set")),
    ("ptxas", Elsewhere("since it needs the CUDA toolkit")),
    ("cuobjdump", Elsewhere("since it needs the CUDA toolkit")),
    ("nvdisasm", Elsewhere("since it needs the CUDA toolkit")),
    ("ncu", Elsewhere("since it needs a GPU and NVIDIA's profilers")),
    ("nsys", Elsewhere("since it needs a GPU and NVIDIA's profilers")),
    ("compute-sanitizer", Elsewhere("since it needs a GPU and NVIDIA's profilers")),
    ("torchrun", Elsewhere("since it needs a cluster")),
    ("mpirun", Elsewhere("since it needs a cluster")),
    ("srun", Elsewhere("since it needs a cluster")),
    ("export WARP_RANK_TIMEOUT=60", Elsewhere("since it needs a cluster")),
    ("export NCCL_DEBUG=WARN", Elsewhere("since it needs a cluster")),
    ("docker", Elsewhere("since it builds or runs a container")),
    ("diff", Elsewhere("since it is no program of the course")),
    ("git", Elsewhere("since it is no program of the course")),
    ("WARP_KERNELS=my-kernels", Elsewhere("since it needs a folder of the reader's")),
    ("FILE.ptx", Elsewhere("since it is a form to fill in")),
    // The exercises of a checkout are the reader's to solve, and a skeleton does not pass.
    ("assignments watch", Elsewhere("since it runs until a key ends it")),
    ("assignments check guard", InClass(1)),
    ("assignments check --answer", Fails), // a wrong one, so that the page gives nothing away
    ("assignments next", InClass(0)),
    ("assignments hint", InClass(0)),
    ("assignments show", InClass(0)),
    ("assignments list", InClass(0)),
    ("assignments grade", InClass(1)),
    // A gallery's broken kernel is wrong. Made early, the copies of number 7 give the right values.
    ("broken 07 --repaired", Succeeds),
    ("broken 07 --async early", Succeeds),
    ("broken 7*", Fails),
    ("broken 07", Fails),
    ("ranks --fault", Fails),
    // The page asks what a misaligned vector does.
    ("ptr:x+4", Fails),
];

/// How to handle a command.
pub fn of(command: &str) -> Way {
    let matches = |pattern: &str| {
        let mut words = command.split_whitespace();
        pattern.split_whitespace().all(|wanted| {
            words.any(|word| wanted.strip_suffix('*').map_or(word == wanted, |begin| word.starts_with(begin)))
        })
    };
    EXCEPTIONS.iter().find(|(pattern, _)| matches(pattern)).map_or(Succeeds, |(_, way)| *way)
}

/// The package of a `cargo run -p PACKAGE` or `cargo test -p PACKAGE`.
pub fn package(command: &str) -> Option<&str> {
    let mut words = command.split_whitespace();
    (words.next() == Some("cargo")).then_some(())?;
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
        for (at, (pattern, _)) in EXCEPTIONS.iter().enumerate() {
            let typed = pattern.replace('*', "");
            let first = EXCEPTIONS.iter().position(|(earlier, way)| {
                let _ = way;
                let mut words = typed.split_whitespace();
                earlier.split_whitespace().all(|wanted| {
                    words.any(|word| wanted.strip_suffix('*').map_or(word == wanted, |begin| word.starts_with(begin)))
                })
            });
            assert_eq!(first, Some(at), "{pattern}");
        }
    }
}
