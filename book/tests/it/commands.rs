//! Commands that pages tell readers to type: each is run, tested or left out for a reason, and a wrong page is found.

use std::fs;
use std::path::Path;

use book::Book;
use book::commands::way::{self, Way};
use book::commands::{self, CommandsError};
use tempfile::TempDir;

#[test]
fn every_command_of_the_course_is_one_of_its_programs_or_has_a_reason() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let found = commands::found(&Book::of_course().unwrap()).unwrap();
    assert!(found.len() > 150, "{} commands", found.len());
    let tables = found.iter().flat_map(|found| &found.typed.shown).count();
    assert!(tables > 15, "{tables} tables and listings to compare");
    for one in found.iter().filter(|one| !matches!(one.way, Way::Elsewhere(_))) {
        let text = &one.typed.text;
        let program = way::package(text).or_else(|| text.split_whitespace().next()).unwrap();
        let is_package = ["", "common"].iter().any(|within| workspace.join(within).join(program).is_dir());
        assert!(is_package, "{}:{}: `{text}` is no program of the course", one.typed.page, one.typed.line);
    }
}

/// A workspace with a page, and the files that commands find in the course's.
fn course(page: &str) -> (TempDir, Book) {
    let workspace = tempfile::tempdir().unwrap();
    let at = |path: &str| workspace.path().join(path);
    for (path, text) in [
        ("book/book.toml", "[book]\nsrc = \"pages\"\n"),
        ("book/pages/SUMMARY.md", "# Summary\n\n- [Page](page.md)\n"),
        ("book/pages/page.md", page),
        ("common/media/assets/china.jpg", ""),
        ("phase1-infra/exercises/01-guard/solution.cu", ""),
    ] {
        fs::create_dir_all(at(path).parent().unwrap()).unwrap();
        fs::write(at(path), text).unwrap();
    }
    let book = Book::open(&at("book"), &[]).unwrap();
    (workspace, book)
}

/// Report of a run of the page's commands, and its result.
fn run(page: &str) -> (String, Result<(), CommandsError>) {
    let (_workspace, book) = course(page);
    let mut said = String::new();
    let ended = commands::run(&book, &[], |line| {
        said.push_str(line);
        Ok(())
    });
    (said, ended)
}

#[test]
fn a_page_that_shows_what_is_not_printed_or_types_what_fails_is_found() {
    let typed = "cargo run -p ptx-sim -- check --list";
    let (said, ended) = run(&format!("# Page\n\n```text\n$ {typed}\n…\n```\n\n```sh\n{typed}    # the list\n```\n"));
    assert!(ended.is_ok(), "{said}");
    assert!(
        said.contains("compared")
            && said.ends_with("1 commands: 1 run, of which 1 have the output that pages show; 0 not run, 0 failed\n"),
        "{said}"
    );

    let (said, ended) = run(&format!("# Page\n\n```text\n$ {typed}\nan instruction that nobody has\n```\n"));
    assert!(matches!(ended, Err(CommandsError::Failed { failed: 1, run: 1 })), "{said}");
    assert!(said.contains("page.md:4 shows a line that it does not print: an instruction that nobody has"), "{said}");

    let (said, ended) = run("# Page\n\n```sh\ncargo run -p ptx-sim -- dance\nptxas -v\nls\n```\n");
    assert!(matches!(ended, Err(CommandsError::Failed { failed: 2, run: 2 })), "{said}");
    assert!(said.contains("ended with status 2 instead of 0"), "{said}");
    assert!(said.contains("`ls` is no program of the course"), "{said}");
    assert!(said.contains("not run, since it needs the CUDA toolkit:"), "{said}");
}
