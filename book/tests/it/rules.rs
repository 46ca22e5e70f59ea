//! Each rule of the checker, broken on purpose in a small book.

use std::{fs, path::Path};

use bench::{
    record::Record,
    table::{ColumnSpec, TableBuilder},
};
use book::{
    Book, BookError,
    content::Picture,
    generated::{self, Generator},
    problem::Reason,
};
use common::Device;
use tempfile::TempDir;

const GENERATORS: &[Generator] = &[
    Generator { name: "answer", produce: |workspace, _| Ok(fs::read_to_string(workspace.join("answer.txt"))?.into()) },
    Generator { name: "figure", produce: |_, argument| Ok(argument.parse::<u32>()?.to_string().into()) },
    Generator { name: "slow", produce: |workspace, line| Ok(while_written(workspace, line)?.into()) },
    Generator { name: "circle", produce: |_, argument| Ok(circle(argument).into()) },
];

/// Adds a line to a page once, as its author may while a generator runs.
fn while_written(workspace: &Path, line: &str) -> std::io::Result<String> {
    let page = workspace.join("book/pages/one.md");
    let text = fs::read_to_string(&page)?;
    if !text.ends_with(&format!("{line}\n")) {
        fs::write(&page, format!("{text}{line}\n"))?;
    }
    Ok("made".to_owned())
}

fn circle(radius: &str) -> Picture {
    let svg = format!("<svg role=\"img\" aria-label=\"a circle\">\n\n<circle r=\"{radius}\"/>\n</svg>\n");
    Picture { name: "circle".to_owned(), class: "trace", svg, caption: "<b>round</b>".to_owned(), folded: None }
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
        ("is <!-- figur: 7 -->7<!-- /figure -->", "`figur: 7` is no marker within a line"),
        ("is <!-- note -->", "`note` is no marker within a line"),
        ("is <!-- figure: 7", "`figure: 7` is no marker within a line"),
        ("is 7<!-- /figure -->", "`/figure` is no marker within a line"),
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
fn what_is_written_while_a_page_is_updated_stays() {
    let workspace = sound();
    let one = workspace.path().join("book/pages/one.md");
    let text = |made, more| {
        format!("# One\n\n<!-- BEGIN generated: slow more -->\n{made}<!-- END generated: slow -->\n{more}")
    };
    fs::write(&one, text("", "")).unwrap();
    open(&workspace).update().unwrap();
    assert_eq!(fs::read_to_string(&one).unwrap(), text("made\n", "more\n"));
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

/// A book with the course's own generators, one of whose pages has `lines`, from line 3 on; its record is from `commit`.
fn recorded(commit: &str, lines: &str) -> TempDir {
    const STEP: ColumnSpec = ColumnSpec::identity("step", "step");
    const MS: ColumnSpec = ColumnSpec::number("ms", "ms", 2);
    const SHARE: ColumnSpec = ColumnSpec::number("share", "share, %", 0);
    let mut table = TableBuilder::of("steps", [STEP, MS, SHARE]);
    for (step, ms, share) in [("1 naive", 12.0, 10.0), ("2 tiles", 4.0, 30.0), ("3 bad", 6.0, 20.0)] {
        table.row().set(STEP, step).set(MS, ms).set(SHARE, share).complete();
    }
    let mut record = Record::begin(&Device::sim());
    record.push("steps", table.finish());
    record.simulated = false;
    record.device_name = "NVIDIA H200".to_owned();
    record.commit = commit.to_owned();

    let workspace = TempDir::new().unwrap();
    let write = |path: &str, text: &str| {
        let path = workspace.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("p/records/nvidia-h200.json", &record.to_json());
    write("book/book.toml", "[book]\ntitle = \"T\"\nsrc = \"pages\"\n");
    write("book/pages/SUMMARY.md", "# Summary\n\n- [Rules](introduction.md)\n- [One](part/one.md)\n");
    write("book/pages/introduction.md", "# Rules\n\n## As predicted\n\nA factor.\n");
    write("book/pages/part/one.md", &format!("# One\n\n{lines}\n\nText.\n"));
    workspace
}

fn course(workspace: &TempDir) -> Book {
    Book::open(&workspace.path().join("book"), generated::GENERATORS).unwrap()
}

fn contradictions(commit: &str, lines: &str) -> Vec<String> {
    let report = course(&recorded(commit, lines)).check().unwrap();
    report.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn what_a_sentence_says_of_recorded_numbers_is_checked() {
    for sound in [
        r#"It takes <!-- figure: p/steps["step=tiles" : "ms"] -->4.00<!-- /figure --> ms."#,
        r#"Faster. <!-- holds: p/steps["step=tiles" : "ms"] < ["step=naive"] -->"#,
        r#"Not slower. <!-- holds: p/steps["step=tiles" : "ms"] <= 4 --> Nor much. <!-- holds: 12 >= p/steps["12.00" : "ms"] -->"#,
        r#"A third. <!-- holds: p/steps["step=tiles" : "ms"] * 3 = ["step=naive"] --> Or so."#,
        r#"About half. <!-- holds: p/steps["step=bad" : "ms"] within 10 % of (["step=naive"] / 2) -->"#,
        r#"The largest share. <!-- holds: p/steps["step=tiles" : "share"] = most p/steps[: "share"] -->"#,
        r#"The fastest. <!-- holds: p/steps["step=tiles" : "ms"] < least p/steps[except "step=tiles" : "ms"] -->"#,
        r#"Faster and faster. <!-- holds: falling p/steps[to "step=tiles" : "ms"] -->"#,
        r#"All shares are larger than times but for one. <!-- holds: each p/steps[from "step=tiles" : "ms"] < [from "step=tiles" : "share"] -->"#,
        "Text before.\n<!-- holds: 1 < 2 -->\n<!-- holds: 2 < 3 -->\n\nText after.",
        "Text before.\n\n<!-- holds: 1 < 2 -->\nText after.",
        "- text <!-- holds: 1 < 2 -->\n- text",
        r#"It came [as predicted](../introduction.md#as-predicted) by the relation. <!-- holds: 1 < 2 -->"#,
        r#"It is <!-- verdict: predicted 3.5, measured p/steps["step=tiles" : "ms"] -->[as predicted](../introduction.md#as-predicted)<!-- /verdict -->."#,
        r#"It is <!-- verdict: predicted 6 to 8, measured p/steps["step=tiles" : "ms"] -->[0.67 times the lower end of the prediction](../introduction.md#as-predicted)<!-- /verdict -->."#,
    ] {
        assert_eq!(contradictions("abc", sound), [""; 0], "{sound}");
    }
    // Each kind of contradiction, planted.
    let of = |step: &str| format!(r#"p/steps["step={step}" : "ms"]"#);
    let (naive, tiles, bad) = (of("naive"), of("tiles"), of("bad"));
    for (sentence, expected) in [
        (
            format!("It takes <!-- figure: {tiles} -->4.01<!-- /figure --> ms."),
            format!("generated part `figure {tiles}` is out of date"),
        ),
        (format!("Faster. <!-- holds: {naive} < {tiles} -->"), format!("`holds: {naive} < {tiles}` is false: 12 < 4")),
        (
            format!("At most. <!-- holds: {naive} <= 11.99 -->"),
            format!("`holds: {naive} <= 11.99` is false: 12 <= 11.99"),
        ),
        (format!("Slower. <!-- holds: {tiles} > {naive} -->"), format!("`holds: {tiles} > {naive}` is false: 4 > 12")),
        (format!("At least. <!-- holds: {tiles} >= 4.5 -->"), format!("`holds: {tiles} >= 4.5` is false: 4 >= 4.5")),
        (format!("Equal. <!-- holds: {tiles} = {bad} -->"), format!("`holds: {tiles} = {bad}` is false: 4 = 6")),
        (
            format!("Half. <!-- holds: {tiles} within 20 % of {bad} -->"),
            format!("`holds: {tiles} within 20 % of {bad}` is false: 4 within 20 % of 6"),
        ),
        (
            r#"The most. <!-- holds: p/steps["step=bad" : "share"] = most p/steps[: "share"] -->"#.to_owned(),
            r#"`holds: p/steps["step=bad" : "share"] = most p/steps[: "share"]` is false: 20 = 30"#.to_owned(),
        ),
        (
            r#"Better each time. <!-- holds: falling p/steps[: "ms"] -->"#.to_owned(),
            "`holds: falling p/steps[: \"ms\"]` is false: 4 > 6 (row `3 bad`)".to_owned(),
        ),
        (
            r#"More each time. <!-- holds: rising p/steps[: "share"] -->"#.to_owned(),
            "`holds: rising p/steps[: \"share\"]` is false: 30 < 20 (row `3 bad`)".to_owned(),
        ),
        (
            r#"All. <!-- holds: each p/steps[: "ms"] < [: "share"] -->"#.to_owned(),
            "`holds: each p/steps[: \"ms\"] < [: \"share\"]` is false: 12 < 10 (row `1 naive`)".to_owned(),
        ),
        (
            format!(
                "It is <!-- verdict: predicted 6, measured {tiles} -->[as predicted](../introduction.md#as-predicted)<!-- /verdict -->."
            ),
            format!("generated part `verdict predicted 6, measured {tiles}` is out of date"),
        ),
        ("All this is as predicted.".to_owned(), "`as predicted` by hand: use `verdict".to_owned()),
        // Malformed, or about what is not there.
        (format!("Faster. <!-- holds: {naive} -->"), format!("cannot judge `holds: {naive}`: `` is no comparison")),
        ("Faster. <!-- holds: -->".to_owned(), "cannot judge `holds:`: `` does not begin with TABLE".to_owned()),
        (format!("Faster. <!-- holds {naive} < 3 -->"), "`holds p/steps".to_owned()),
        ("Faster. <!-- hold: 1 < 2 -->".to_owned(), "`hold: 1 < 2` is no marker within a line".to_owned()),
        ("Faster. <!-- holds: 1 < 2".to_owned(), "`holds: 1 < 2` is no marker within a line".to_owned()),
        (
            r#"Faster. <!-- holds: p/stairs[: "ms"] < 3 -->"#.to_owned(),
            r#"cannot judge `holds: p/stairs[: "ms"] < 3`: no table `stairs` in"#.to_owned(),
        ),
        (
            r#"Faster. <!-- holds: q/steps[: "ms"] < 3 -->"#.to_owned(),
            r#"cannot judge `holds: q/steps[: "ms"] < 3`: "#.to_owned(),
        ),
        (
            r#"Faster. <!-- holds: p/steps["step=best" : "ms"] < 3 -->"#.to_owned(),
            r#"cannot judge `holds: p/steps["step=best" : "ms"] < 3`: 0 rows have the cells"#.to_owned(),
        ),
        (
            r#"Faster. <!-- holds: p/steps["step=bad" : "µs"] < 3 -->"#.to_owned(),
            r#"cannot judge `holds: p/steps["step=bad" : "µs"] < 3`: no column `µs`"#.to_owned(),
        ),
        (
            r#"It is <!-- verdict: 6 -->as predicted<!-- /verdict -->."#.to_owned(),
            "cannot generate `verdict 6`: `6` is not understood".to_owned(),
        ),
        (
            "<!-- verdict: predicted 6, measured 6 -->as predicted<!-- /verdict -->.".to_owned(),
            "`verdict: predicted 6, measured 6` begins its line".to_owned(),
        ),
        (
            "It is <!-- verdict: predicted 6, measured 6 -->as predicted.".to_owned(),
            "generated part `verdict` lacks".to_owned(),
        ),
    ] {
        let found = contradictions("abc", &sentence);
        assert_eq!(found.len(), 1, "{sentence}: {found:?}");
        assert!(found[0].starts_with(&format!("part/one.md:3: {expected}")), "{sentence}: {}", found[0]);
    }
    let split = contradictions("abc", "Text before.\n<!-- holds: 1 < 2 -->\nText after.");
    assert!(matches!(&split[..], [one] if one.starts_with("part/one.md:4: this marker would split")), "{split:?}");
    let row = contradictions(
        "abc",
        "| a |\n| ---: |\n| <!-- figure: steps[\"1 naive\" : \"max |Δ|\"] -->2<!-- /figure --> |",
    );
    assert!(row.iter().any(|one| one.starts_with("part/one.md:5: a `|` in a marker ends its cell")), "{row:?}");
}

#[test]
fn what_was_measured_at_no_commit_is_no_evidence() {
    for sentence in [
        r#"It takes <!-- figure: p/steps["step=tiles" : "ms"] -->4.00<!-- /figure --> ms."#,
        r#"Faster. <!-- holds: p/steps["step=tiles" : "ms"] < ["step=naive"] -->"#,
        "<!-- BEGIN generated: record p/steps -->\n<!-- END generated: record -->",
    ] {
        assert!(contradictions("abc-dirty", sentence).len() == 1, "{sentence}");
        let found = contradictions("abc-dirty", sentence);
        let expected = "is from commit abc-dirty: measure it again from a clean checkout";
        assert!(found[0].starts_with("part/one.md:3: cannot ") && found[0].ends_with(expected), "{found:?}");
    }
}

#[test]
fn updating_writes_verdicts_and_leaves_what_is_false_to_the_author() {
    let sentence = |said: &str| {
        format!(
            "It is <!-- verdict: predicted 2, measured p/steps[\"step=tiles\" : \"ms\"] -->{said}<!-- /verdict -->. \
             <!-- holds: 2 < 1 -->"
        )
    };
    let workspace = recorded("abc", &sentence("as predicted"));
    let page = workspace.path().join("book/pages/part/one.md");
    assert_eq!(course(&workspace).update().unwrap(), std::slice::from_ref(&page));
    let written = "[2.0 times the prediction](../introduction.md#as-predicted)";
    assert_eq!(fs::read_to_string(&page).unwrap(), format!("# One\n\n{}\n\nText.\n", sentence(written)));
    let report = course(&workspace).check().unwrap();
    let values = "2 < 1".to_owned();
    assert_eq!(report.problems[0].reason, Reason::False { relation: "holds: 2 < 1".to_owned(), values });
    assert_eq!(report.problems.len(), 1);
    // Readers see neither.
    let output = workspace.path().join("out");
    course(&workspace).render(&output).unwrap();
    let html = fs::read_to_string(output.join("part/one.html")).unwrap();
    assert!(html.contains("It is") && html.contains("2.0 times the prediction</a>"), "{html}");
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

/// Writes a page of the small book.
fn write_page(workspace: &TempDir, page: &str, text: &str) {
    fs::write(workspace.path().join("book/pages").join(page), text).unwrap();
}

#[test]
fn formulas_that_are_no_latex_are_problems_with_their_lines() {
    for (line, expected) in [
        ("so $\\frac{1}{2$ is", "cannot render the formula `\\frac{1}{2$ is`: it has no end"),
        ("costs $5", "cannot render the formula `5`: it has no end"),
        ("so $\\nonsense x$ is", "cannot render the formula `\\nonsense x`: "),
    ] {
        let found = with_line(line);
        assert_eq!(found.len(), 1, "{line}: {found:?}");
        assert!(found[0].starts_with(&format!("one.md:8: {expected}")), "{line}: {}", found[0]);
    }
    assert_eq!(with_line("so $\\frac{1}{2}$ and `$\\frac{1}{2$` cost 5 $ or \\$5"), [""; 0]);
}

#[test]
fn chapters_of_the_course_have_all_their_parts() {
    let whole = "# Four\n\n*You know: [one](../one.md).*\n\nHow many?\n\n## Your prediction\n\nHow many?\n\n\
                 ## Three takeaways\n\n- a\n- b\n- c\n\n## Check yourself\n\n1. a?\n2. b?\n\n\
                 <details><summary>Answers</summary>\n\n1. A\n2. B\n\n</details>\n";
    let workspace = sound();
    write_page(
        &workspace,
        "SUMMARY.md",
        "# Summary\n\n- [One](one.md)\n- [Two](part/two.md)\n- [Four](phase1/four.md)\n",
    );
    fs::create_dir(workspace.path().join("book/pages/phase1")).unwrap();
    let found = |text: &str| {
        write_page(&workspace, "phase1/four.md", text);
        problems(&workspace)
    };
    assert_eq!(found(whole), [""; 0]);
    // These parts are there if they serve the page.
    let without = whole.replace("## Three takeaways", "## Four takeaways").replace("## Check yourself", "## Check");
    assert_eq!(found(&without), [""; 0]);
    for (right, wrong, expected) in [
        ("*You know", "*10 minutes. You know", "1: the chapter lacks its opening"),
        ("You know: ", "", "1: the chapter lacks its opening"),
        ("\n\nHow many?\n\n## Your", "\n\nMany.\n\n## Your", "1: the chapter lacks a question"),
        ("## Your prediction", "## My prediction", "1: the chapter lacks `Your prediction`"),
        ("- c\n", "", "11: the chapter lacks three takeaways"),
        ("<details><summary>Answers</summary>\n\n1. A\n2. B\n\n</details>\n", "", "17: the chapter lacks answers"),
        ("2. B\n", "", "17: the chapter lacks an answer to each question"),
    ] {
        let text = whole.replacen(right, wrong, 1);
        assert_ne!(text, whole, "{right}");
        let found = found(&text);
        assert_eq!(found.len(), 1, "{wrong}: {found:?}");
        assert!(found[0].starts_with(&format!("phase1/four.md:{expected}")), "{wrong}: {}", found[0]);
    }
}

#[test]
fn kernels_that_no_command_runs_are_problems() {
    let workspace = sound();
    fs::create_dir_all(workspace.path().join("phase2-conv-bn/kernels")).unwrap();
    fs::write(workspace.path().join("phase2-conv-bn/kernels/mystery.cu"), "int x;\n").unwrap();
    write_page(&workspace, "one.md", "# One\n\n```cpp\n{{#include ../../phase2-conv-bn/kernels/mystery.cu}}\n```\n");
    let found = problems(&workspace);
    let expected = "one.md:4: no command runs `phase2-conv-bn/kernels/mystery.cu`";
    assert!(found.iter().any(|problem| problem.starts_with(expected)), "{found:?}");
}

#[test]
fn listings_formulas_terms_and_the_index_are_rendered() {
    let workspace = sound();
    let kernels = workspace.path().join("phase2-conv-bn/kernels");
    fs::create_dir_all(&kernels).unwrap();
    let source =
        "// run: gemm\n// ANCHOR: k\nint warps;\n// ANCHOR: inner\nint b<4>;\n// ANCHOR_END: inner\n// ANCHOR_END: k\n";
    fs::write(kernels.join("gemm_01.cu"), source).unwrap();
    write_page(
        &workspace,
        "part/two.md",
        "# Two\n\n## Deep end\n\nA warp and warps: $x^2$\n\n```cpp\n{{#include ../../../phase2-conv-bn/kernels/gemm_01.cu:k}}\n```\n",
    );
    write_page(
        &workspace,
        "glossary.md",
        "# Glossary\n\n| term | meaning | page |\n| --- | --- | --- |\n| warp | 32 threads. | [One](one.md) |\n",
    );
    write_page(&workspace, "concepts.md", "# Concepts\n\n{{#concepts}}\n");
    let summary =
        "# Summary\n\n- [One](one.md)\n- [Two](part/two.md)\n- [Glossary](glossary.md)\n- [Concepts](concepts.md)\n";
    write_page(&workspace, "SUMMARY.md", summary);
    let output = workspace.path().join("out");
    open(&workspace).build(&output).unwrap();

    let rendered = |page: &str| fs::read_to_string(output.join(page)).unwrap();
    let two = rendered("part/two.html");
    for expected in [
        // The numbers of the file, without its anchors.
        "data-lines=\"3\n5\"",
        "href=\"../sources/phase2-conv-bn/kernels/gemm_01.cu.html#L3\"",
        "<code>cargo run -p phase2-conv-bn -- gemm</code>",
        "<msup>",
        "A <a class=\"term\" href=\"../glossary.html#term-warp\" title=\"32 threads.\">warp</a> and warps",
    ] {
        assert!(two.contains(expected), "{expected}: {two}");
    }
    let source = rendered("sources/phase2-conv-bn/kernels/gemm_01.cu.html");
    assert!(source.contains("<span id=\"L5\" data-line=\"5\">int b&lt;4&gt;;</span>"), "{source}");
    assert!(source.contains("<a href=\"../../../part/two.html\">part/two</a>"), "{source}");
    assert!(rendered("glossary.html").contains("<dfn id=\"term-warp\">warp</dfn>"));
    let index = rendered("concepts.html");
    assert!(
        index.contains("<a href=\"glossary.html#term-warp\">warp</a>: <strong><a href=\"one.html\">One</a></strong>"),
        "{index}"
    );
    assert!(index.contains("<a href=\"part/two.html#deep-end\">Two: Deep end</a>"), "{index}");
    assert!(rendered("print.html").contains("href=\"sources/phase2-conv-bn/kernels/gemm_01.cu.html#L3\""));
}
