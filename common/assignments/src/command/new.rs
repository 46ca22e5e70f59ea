//! A new exercise.

use anyhow::{Context, Result};
use bench::command::Shell;

use crate::{exercise, new};

/// Writes the exercise, and says what to do next.
pub(crate) fn run(name: &str, phase: &str, shell: &mut Shell) -> Result<()> {
    let here = std::env::current_dir().context("the current directory is not known")?;
    // A course of one's own begins with its first exercise.
    let root = exercise::root().unwrap_or_else(|_| here.clone());
    let folder = new::write(&root, phase, name)?;
    let has_book = root.join("book/pages").is_dir();
    let folder = folder.strip_prefix(&here).unwrap_or(&folder).display();
    shell.print(&format!(
        "{folder} is a small exercise that works. Make it yours:

  exercise.toml  title, goal and hints; sizes; in [task], what the kernel is given
  reference.cu   what must come out, by one thread in double
  solution.cu    gets all points, and its costs make the budget
  exercise.cu    the skeleton, which compiles and does not pass
  wrong/         what must fail, and in exercise.toml for which reason

Then see that each file gets what it should, and that no small mistake gets all points:

  author {folder}
  author {folder} --mutants
"
    ))?;
    if has_book {
        shell.print(&format!(
            "
For the book, name its page in exercise.toml, write these two lines there, and run `cargo run -p book -- --update`:

  <!-- BEGIN generated: exercise {name} -->
  <!-- END generated: exercise {name} -->
"
        ))?;
    }
    Ok(())
}
