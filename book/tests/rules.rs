//! Each rule of the checker, broken on purpose in a small book.
#![allow(clippy::unwrap_used)]

use std::{fs, path::Path};

use book::{Book, BookError, content::Picture, generated::Generator, problem::Reason};
use tempfile::TempDir;

const GENERATORS: &[Generator] = &[
    Generator { name: "answer", produce: |workspace, _| Ok(fs::read_to_string(workspace.join("answer.txt"))?.into()) },
    Generator { name: "figure", produce: |_, argument| Ok(argument.parse::<u32>()?.to_string().into()) },
    Generator { name: "circle", produce: |_, argument| Ok(circle(argument).into()) },
];

fn circle(radius: &str) -> Picture {
    let svg = format!("<svg role=\"img\" aria-label=\"a circle\">\n\n<circle r=\"{radius}\"/>\n</svg>\n");
    Picture { name: "circle".to_owned(), class: "trace", svg, caption: "<b>round</b>".to_owned() }
}

/// A sound book with an include, links of every kind and a generated part.
fn sound() -> TempDir {
    let workspace = TempDir::new().unwrap();
    let write = |path: &str, text: &str| {
        let path = workspace.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("answer.txt", "42");
    write(
        "kernels/add.cu",
        "// ANCHOR: kernel\nint x;\n// ANCHOR_END: kernel\n// ANCHOR: nothing\n// ANCHOR_END: nothing\n",
    );
    write("book/book.toml", "[book]\ntitle = \"T\"\nsrc = \"pages\"\n");
    write("book/pages/SUMMARY.md", "# Summary\n\n- [One](one.md)\n- [Two](part/two.md)\n");
    write("book/pages/dot.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"/>\n");
    write(
        "book/pages/one.md",
        "# One\n\n[two](part/two.md#deep-end) ![dot](dot.svg) [web](https://example.org)\n\n\
         ```cpp\n{{#include ../../kernels/add.cu:kernel}}\n```\n",
    );
    write(
        "book/pages/part/two.md",
        "# Two\n\n## Deep end\n\n[one](../one.md) [here](#deep-end)\n\n\
         <!-- BEGIN generated: answer -->\n42\n<!-- END generated: answer -->\n",
    );
    workspace
}

fn open(workspace: &TempDir) -> Book {
    Book::open(&workspace.path().join("book"), GENERATORS).unwrap()
}

fn problems(workspace: &TempDir) -> Vec<String> {
    let report = open(workspace).check().unwrap();
    report.problems.iter().map(ToString::to_string).collect()
}

/// Adds `line` as the last line of one.md, line 8, and returns the problems.
fn with_line(line: &str) -> Vec<String> {
    let workspace = sound();
    let page = workspace.path().join("book/pages/one.md");
    let text = fs::read_to_string(&page).unwrap();
    fs::write(page, format!("{text}{line}\n")).unwrap();
    problems(&workspace)
}

#[test]
fn the_sound_book_has_no_problems_and_builds() {
    let workspace = sound();
    assert_eq!(problems(&workspace), [""; 0]);
    let output = workspace.path().join("out");
    assert_eq!(open(&workspace).build(&output).unwrap().pages, 2);
    let page = fs::read_to_string(output.join("one.html")).unwrap();
    assert!(page.contains("int x;") && !page.contains("ANCHOR"), "{page}");
}

#[test]
fn planted_breakages_are_reported_with_page_and_line() {
    let cases = [
        ("{{#include ../../kernels/gone.cu:kernel}}", "cannot include `../../kernels/gone.cu`: "),
        (
            "{{#include ../../kernels/add.cu:kernal}}",
            "`../../kernels/add.cu` has no `ANCHOR: kernal` (it has: kernel, nothing)",
        ),
        ("{{#include ../../kernels/add.cu:nothing}}", "`ANCHOR: nothing` in `../../kernels/add.cu` encloses no lines"),
        ("{{#include ../../kernels/add.cu}}", "`../../kernels/add.cu` has ANCHOR comments"),
        ("{{#include ../../kernels/add.cu:1:2}}", "`../../kernels/add.cu:1:2` includes by line numbers"),
        ("{{#include part/two.md}}", "`part/two.md` is Markdown"),
        ("{{#playground ../../kernels/add.cu}}", "`{{#playground}}` is not used"),
        ("[x](three.md)", "link to `three.md`: no such file in the book"),
        ("[x](One.md)", "link to `One.md`: no such file in the book"),
        ("[x](part/two.html)", "link to `part/two.html`: no such file in the book (link to the page's .md file)"),
        (
            "[x](part/two.md#shallow-end)",
            "link to `part/two.md#shallow-end`: part/two.md has no heading or id `shallow-end`",
        ),
        ("[x](#two)", "link to `#two`: one.md has no heading or id `two`"),
        ("![x](gone.svg)", "link to `gone.svg`: no such file"),
        ("<a href=\"gone.md\">x</a>", "link to `gone.md`: no such file"),
        ("[x](../../kernels/add.cu)", "link to `../../kernels/add.cu` leaves the book"),
        ("[x](/one.md)", "link to `/one.md` leaves the book"),
        ("[x][y]", "`[…][y]` has no definition"),
        ("<!-- BEGIN generated: answer -->", "generated part `answer` lacks"),
        ("is <!-- figure: 7 -->6<!-- /figure -->", "generated part `figure 7` is out of date"),
        ("is <!-- figure: x -->6<!-- /figure -->", "cannot generate `figure x`: invalid digit"),
        ("is <!-- figure: 7 -->7", "generated part `figure` lacks"),
        ("<!-- figure: 7 -->7<!-- /figure -->", "`figure: 7` begins its line"),
    ];
    for (line, expected) in cases {
        let found = with_line(line);
        assert_eq!(found.len(), 1, "{line}: {found:?}");
        assert!(found[0].starts_with(&format!("one.md:8: {expected}")), "{line}: {}", found[0]);
    }
    assert_eq!(with_line("7 is <!-- figure: 7 -->7<!-- /figure -->, not <!-- figure: 8 -->8<!-- /figure -->"), [""; 0]);
    assert_eq!(with_line("\\{{#include as.written}} `[x](y.md)` <https://example.org> x[3]"), [""; 0]);
}

#[test]
fn pages_and_the_table_of_contents_agree() {
    let workspace = sound();
    let pages = workspace.path().join("book/pages");
    fs::write(pages.join("lost.md"), "# Lost\n\n[one](one.md)\n").unwrap();
    fs::write(pages.join("part/empty.md"), "# Empty\n").unwrap();
    fs::write(pages.join("part/README.md"), "# Read me\n\n[one](../one.md)\n").unwrap();
    let summary = fs::read_to_string(pages.join("SUMMARY.md")).unwrap();
    let summary =
        format!("{summary}- [Empty](part/empty.md)\n- [Read me](part/README.md)\n- [Gone](gone.md)\n- [Draft]()\n");
    fs::write(pages.join("SUMMARY.md"), summary).unwrap();
    assert_eq!(
        problems(&workspace),
        [
            "SUMMARY.md:7: link to `gone.md`: no such file in the book",
            "SUMMARY.md:8: a chapter without a page: list it when it is written",
            "lost.md:1: not listed in SUMMARY.md, so no reader will find it",
            "part/README.md:1: mdBook would rename this page and not the links to it: call it index.md",
            "part/empty.md:1: an empty page",
        ]
    );
}

#[test]
fn a_broken_book_is_not_rendered_and_the_error_lists_every_problem() {
    let workspace = sound();
    fs::write(workspace.path().join("book/pages/one.md"), "# One\n\n[a](b.md)\n\n[c](d.md)\n").unwrap();
    let output = workspace.path().join("out");
    let error = open(&workspace).build(&output).unwrap_err();
    assert_eq!(
        error.to_string(),
        "2 problems in the book's pages\n  one.md:3: link to `b.md`: no such file in the book\n  \
         one.md:5: link to `d.md`: no such file in the book"
    );
    assert!(!output.exists());
}

#[test]
fn a_stale_generated_part_fails_the_check_until_it_is_updated() {
    let workspace = sound();
    fs::write(workspace.path().join("answer.txt"), "43").unwrap();
    let one = workspace.path().join("book/pages/one.md");
    let sentence =
        |number: u32| format!("# One\n\nis <!-- figure: 7 -->{number}<!-- /figure -->, [two](part/two.md)\n");
    fs::write(&one, sentence(6)).unwrap();
    let book = open(&workspace);
    let report = book.check().unwrap();
    assert!(matches!(&report.problems[..], [one, two]
            if one.page == "one.md" && one.line == 3 && one.reason == Reason::Stale("figure 7".into())
            && two.page == "part/two.md" && two.line == 7 && two.reason == Reason::Stale("answer".into())));
    let changed = book.update().unwrap();
    assert!(changed.len() == 2 && changed[1].ends_with(Path::new("part/two.md")), "{changed:?}");
    assert_eq!(fs::read_to_string(&one).unwrap(), sentence(7));
    assert_eq!(problems(&workspace), [""; 0]);
    assert!(book.update().unwrap().is_empty());

    fs::remove_file(workspace.path().join("answer.txt")).unwrap();
    assert!(
        matches!(book.update(), Err(BookError::Problems(p)) if matches!(p[0].reason, Reason::GeneratorFailed { .. }))
    );
}

#[test]
fn the_readme_is_kept_in_step_though_it_is_no_page() {
    let workspace = sound();
    let readme = workspace.path().join("README.md");
    let text = |answer| format!("# R\n\n<!-- BEGIN generated: answer -->\n{answer}\n<!-- END generated: answer -->\n");
    fs::write(&readme, text(41)).unwrap();
    let found = problems(&workspace);
    assert!(matches!(&found[..], [one] if one.starts_with("README.md:3: generated part `answer` is out of date")));
    assert_eq!(open(&workspace).update().unwrap(), std::slice::from_ref(&readme));
    assert_eq!(fs::read_to_string(readme).unwrap(), text(42));
    assert_eq!(open(&workspace).check().unwrap().pages, 2);
}

#[test]
fn figures_in_doc_comments_of_the_phases_are_kept_in_step() {
    let workspace = sound();
    let source = workspace.path().join("phase2-x/src/conv/step.rs");
    fs::create_dir_all(source.parent().unwrap()).unwrap();
    let text = |first, second| {
        format!(
            "//! Step 1.  Measured: <!-- figure: 7 -->{first}<!-- /figure --> ms,\r\n//! and more.\n\n\
             /// Took <!-- figure: 8 -->{second}<!-- /figure --> ms.\n\
             const A: &str = \"is <!-- figure: 9 -->6<!-- /figure -->\"; // <!-- figure: 9 -->\n  fn odd( ) {{}}"
        )
    };
    fs::write(&source, text(7, 6)).unwrap();
    // Without a marker, without the ending, or in another folder: not looked at.
    fs::write(source.with_file_name("other.rs"), "//! Nothing.\n").unwrap();
    fs::write(source.with_file_name("notes.txt"), text(6, 6)).unwrap();
    fs::create_dir_all(workspace.path().join("tool/src")).unwrap();
    fs::write(workspace.path().join("tool/src/lib.rs"), text(6, 6)).unwrap();

    let stale =
        "phase2-x/src/conv/step.rs:4: generated part `figure 8` is out of date: run `cargo run -p book -- --update`";
    assert_eq!(problems(&workspace), [stale]);
    assert!(open(&workspace).check().unwrap().files.contains(&source));
    assert_eq!(open(&workspace).update().unwrap(), std::slice::from_ref(&source));
    assert_eq!(fs::read_to_string(&source).unwrap(), text(7, 8));
    assert_eq!(problems(&workspace), [""; 0]);
    assert!(open(&workspace).update().unwrap().is_empty());

    for (doc, expected) in [
        ("//! is <!-- figure: x -->6<!-- /figure -->", "cannot generate `figure x`: invalid digit"),
        ("//! is <!-- figure: 7 -->7", "generated part `figure` lacks"),
        ("//! <!-- figure: 7 -->7<!-- /figure --> ms", "`figure: 7` begins its line"),
        ("/// <!-- BEGIN generated: answer -->", "`answer` is a block: in a source's doc comment only figures"),
    ] {
        fs::write(&source, format!("//! Step.\n{doc}\n")).unwrap();
        let found = problems(&workspace);
        assert_eq!(found.len(), 1, "{doc}: {found:?}");
        assert!(found[0].starts_with(&format!("phase2-x/src/conv/step.rs:2: {expected}")), "{doc}: {}", found[0]);
        assert!(matches!(open(&workspace).update(), Err(BookError::Problems(_))), "{doc}");
    }
}

#[test]
fn a_picture_is_a_file_that_its_page_includes_and_that_is_kept_in_step() {
    let workspace = sound();
    let page = workspace.path().join("book/pages/part/two.md");
    let text = fs::read_to_string(&page).unwrap();
    let markers = "<!-- BEGIN generated: circle 5 -->\n<!-- END generated: circle -->\n";
    fs::write(&page, format!("{text}\n{markers}")).unwrap();
    let stale = ["part/two.md:11: generated part `circle 5` is out of date: run `cargo run -p book -- --update`"];
    assert_eq!(problems(&workspace), stale);

    let book = open(&workspace);
    let picture = workspace.path().join("book/pictures/circle.svg");
    assert_eq!(book.update().unwrap(), [picture.clone(), page.clone()]);
    assert_eq!(problems(&workspace), [""; 0]);
    assert!(book.update().unwrap().is_empty());
    let shown = fs::read_to_string(&page).unwrap();
    let expected =
        "<figure class=\"trace\">\n{{#include ../../pictures/circle.svg}}\n<figcaption><b>round</b></figcaption>\n";
    assert!(shown.contains(expected), "{shown}");
    let output = workspace.path().join("out");
    book.build(&output).unwrap();
    let html = fs::read_to_string(output.join("part/two.html")).unwrap();
    assert!(html.contains("aria-label=\"a circle\"") && html.contains("<circle r=\"5\" />"), "{html}");

    // A picture that is not what the generator makes.
    fs::write(&picture, "<svg/>").unwrap();
    assert_eq!(problems(&workspace), stale);
    assert_eq!(book.update().unwrap(), std::slice::from_ref(&picture));
    // One that is gone can't be included either.
    fs::remove_file(&picture).unwrap();
    assert!(
        problems(&workspace).iter().any(|problem| problem.starts_with("part/two.md:11: generated part `circle 5`"))
    );
    assert_eq!(book.update().unwrap(), [picture]);
    // One that no page shows.
    fs::write(workspace.path().join("book/pictures/old.svg"), "<svg/>").unwrap();
    assert_eq!(problems(&workspace), ["pictures/old.svg:1: no page shows this picture: delete it"]);
    // The README is shown without includes.
    fs::remove_file(workspace.path().join("book/pictures/old.svg")).unwrap();
    fs::write(workspace.path().join("README.md"), markers).unwrap();
    assert_eq!(
        problems(&workspace),
        ["README.md:1: `circle 5` makes a picture, which only pages of the book can show"]
    );
}

#[test]
fn a_folder_without_a_book_is_an_error_with_its_path() {
    let nowhere = TempDir::new().unwrap();
    let error = Book::open(nowhere.path(), GENERATORS).unwrap_err().to_string();
    assert!(error.contains("book.toml"), "{error}");
}
