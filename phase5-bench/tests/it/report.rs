//! The report, parsed as by a browser.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use assert_cmd::Command;
use bench::record::{Conditions, Quantity, Record, Slowed};
use bench::table::{Cell, ColumnSpec, DeviceKind, TableBuilder};
use common::Device;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};
use phase5_bench::plot;
use phase5_bench::report::Report;
use phase5_bench::tables::TABLES;

/// A parsed page.
#[derive(Default)]
struct Page {
    /// Elements, in order, with their attributes.
    elements: Vec<(String, HashMap<String, String>)>,
    /// All text, without scripts and styles.
    text: String,
    script: String,
    /// Open elements.
    open: Vec<String>,
    errors: Vec<String>,
}

#[derive(Default)]
struct Sink(RefCell<Page>);

/// Void elements of HTML and of SVG, as plotters writes them.
const VOID: [&str; 4] = ["meta", "link", "br", "img"];

impl TokenSink for Sink {
    type Handle = ();

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<()> {
        let mut page = self.0.borrow_mut();
        match token {
            Token::TagToken(Tag { kind: TagKind::StartTag, name, self_closing, attrs, .. }) => {
                let name = name.to_string();
                let attributes =
                    attrs.iter().map(|attribute| (attribute.name.local.to_string(), attribute.value.to_string()));
                page.elements.push((name.clone(), attributes.collect()));
                if !self_closing && !VOID.contains(&&*name) {
                    page.open.push(name.clone());
                }
                match &*name {
                    "script" => return TokenSinkResult::RawData(RawKind::ScriptData),
                    "style" => return TokenSinkResult::RawData(RawKind::Rawtext),
                    "title" => return TokenSinkResult::RawData(RawKind::Rcdata),
                    _ => {}
                }
            }
            Token::TagToken(Tag { name, .. }) => {
                let open = page.open.pop();
                if open.as_deref() != Some(&*name) {
                    page.errors.push(format!("line {line}: </{name}> ends {open:?}"));
                }
            }
            Token::CharacterTokens(text) => match page.open.last().map(String::as_str) {
                Some("script") => page.script.push_str(&text),
                Some("style") => {}
                _ => page.text.push_str(&text),
            },
            Token::ParseError(error) => page.errors.push(format!("line {line}: {error}")),
            Token::NullCharacterToken => page.errors.push(format!("line {line}: a NUL")),
            Token::DoctypeToken(_) | Token::CommentToken(_) | Token::EOFToken => {}
        }
        TokenSinkResult::Continue
    }
}

impl Page {
    /// Parses a page, which must be well formed.
    fn read(html: &str) -> Page {
        let input = BufferQueue::default();
        input.push_back(StrTendril::from(html));
        let tokenizer =
            Tokenizer::new(Sink::default(), TokenizerOpts { exact_errors: true, ..TokenizerOpts::default() });
        let _ = tokenizer.feed(&input);
        tokenizer.end();
        let page = tokenizer.sink.0.into_inner();
        assert_eq!(page.errors, Vec::<String>::new());
        assert_eq!(page.open, Vec::<String>::new());
        page
    }

    fn all<'p>(&'p self, name: &'p str) -> impl Iterator<Item = &'p HashMap<String, String>> {
        self.elements.iter().filter(move |(element, _)| element == name).map(|(_, attributes)| attributes)
    }

    fn count(&self, name: &str) -> usize {
        self.all(name).count()
    }

    fn ids(&self) -> Vec<&str> {
        self.elements.iter().filter_map(|(_, attributes)| attributes.get("id")).map(String::as_str).collect()
    }

    /// Checks that it loads nothing and runs no script but its own.
    fn needs_nothing(&self) {
        for (name, attributes) in &self.elements {
            assert!(!matches!(&**name, "img" | "iframe" | "object" | "embed" | "base" | "form" | "video"), "{name}");
            for (key, value) in attributes {
                assert!(!key.starts_with("on"), "{name} {key}={value}");
                assert!(key != "src" && key != "srcset" && key != "xlink:href", "{name} {key}={value}");
                let is_inside = value.starts_with('#') || value == "data:,";
                assert!(key != "href" || is_inside, "{name} {key}={value}");
            }
        }
        assert_eq!(self.count("script"), 1);
        assert_eq!(self.script, include_str!("../../src/report/sort.js"));
        let policy = self.all("meta").find_map(|meta| {
            (meta.get("http-equiv")? == "Content-Security-Policy").then(|| meta.get("content")).flatten()
        });
        assert!(policy.unwrap().starts_with("default-src 'none';"));
    }
}

#[test]
fn the_course_s_report_has_every_table_and_every_plot_and_needs_nothing_else() {
    let records = phase5_bench::records().unwrap();
    let rows: usize = records.iter().flat_map(|run| &run.tables).map(|named| named.table.rows().len()).sum();
    let tables = records.iter().map(|run| run.tables.len()).sum::<usize>();
    let html = Report::new(records.clone()).unwrap().html().unwrap();
    let page = Page::read(&html);
    page.needs_nothing();
    assert_eq!(page.all("html").next().unwrap()["lang"], "en");
    assert!(page.all("meta").any(|meta| meta.get("name").is_some_and(|name| name == "viewport")));

    // Each table with a heading per column and all rows; claims are made again from the others, and may be more than were saved.
    let sortable = page.all("table").filter(|table| table["class"].contains("sortable"));
    // One that the records do not have is made from others, and the summary is one more.
    let derived = TABLES.iter().filter(|spec| !spec.needs().is_empty());
    let made = derived.filter(|spec| records.iter().all(|run| run.table(spec.name).is_none())).count();
    assert_eq!(sortable.count(), tables + made + 1);
    assert!(page.count("tr") >= rows + tables, "{} for {rows} rows of {tables} tables", page.count("tr"));
    let ids = page.ids();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "an id stands twice");
    for name in records.iter().flat_map(|run| &run.tables).map(|named| &named.name) {
        let is_it = |id: &&&str| id.ends_with(&format!("-{name}")) || **id == name;
        assert!(ids.iter().any(|id| is_it(&id)), "{name}");
    }
    let noted = records.iter().flat_map(|run| &run.tables).filter(|named| named.name != "claims");
    for note in noted.flat_map(|named| &named.table.notes) {
        assert!(page.text.contains(&**note), "{note}");
    }
    // Each plot, with words for those who do not see it.
    for name in plot::names() {
        assert!(ids.contains(&&*format!("plot-{name}")), "{name}");
    }
    let figures = page.count("figure");
    let said: Vec<&String> = page
        .all("div")
        .filter(|div| div.get("role").is_some_and(|role| role == "img"))
        .map(|div| &div["aria-label"])
        .collect();
    assert!(figures >= plot::names().count() && said.len() == figures, "{figures} figures, {} texts", said.len());
    assert!(said.iter().all(|words| words.len() > 80), "{said:?}");
    // What can be operated has a role or is a control, and every reference leads somewhere.
    for (name, attributes) in &page.elements {
        for key in ["aria-labelledby", "href"] {
            let target = attributes.get(key).map(|value| value.trim_start_matches('#'));
            assert!(target.is_none_or(|id| id == "data:," || ids.contains(&id)), "{name} {key}={target:?}");
        }
        assert!(attributes.get("tabindex").is_none_or(|_| attributes.contains_key("role")), "{attributes:?}");
    }
    assert_eq!(page.count("button"), page.all("th").filter(|head| head.contains_key("aria-sort")).count());
    // Claims have a verdict in words, and a page of the book.
    assert!(page.text.contains("in kind") && page.text.contains("phase2/linear-relu"));
    let is_ahead = |cell: &HashMap<String, String>| cell.get("class").is_some_and(|class| class.contains("ahead"));
    assert!(ids.contains(&"summary") && page.all("td").any(is_ahead));
    // The colours of charts are the page's.
    assert!(html.contains("prefers-color-scheme") && html.contains("--hue-0"));
    let fixed: HashSet<&str> = page
        .elements
        .iter()
        .flat_map(|(_, attributes)| ["fill", "stroke"].into_iter().filter_map(|key| attributes.get(key)))
        .map(String::as_str)
        .filter(|colour| *colour != "none" && !html.contains(&format!("[fill=\"{colour}\" i]")))
        .collect();
    assert_eq!(fixed, HashSet::new());
}

const NAME: ColumnSpec = ColumnSpec::text("step", "step");
const MS: ColumnSpec = ColumnSpec::number("ms", "ms", 4);

/// A run with one table, of one row for each of these names.
fn run(table: &str, rows: &[(&str, f64)]) -> Record {
    let mut builder = TableBuilder::new("a table", DeviceKind::Gpu, &[NAME, MS]);
    for (name, ms) in rows {
        builder.row().set(NAME, *name).set(MS, *ms).complete();
    }
    let mut run = Record::begin(&Device::sim());
    run.push(table, builder.finish());
    run
}

#[test]
fn hostile_texts_are_shown_and_not_obeyed() {
    const HOSTILE: &str =
        "</title></style></script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u{1b}[2J&amp;";
    let mut builder = TableBuilder::of(HOSTILE, [NAME, MS]);
    builder.heading(MS, HOSTILE);
    builder.row().set(NAME, HOSTILE).set(MS, Cell::absent(HOSTILE)).complete();
    builder.row().set(NAME, "plain").set(MS, Cell::absent("another reason")).complete();
    builder.note(HOSTILE);
    let mut run = Record::begin(&Device::sim());
    run.device_name = HOSTILE.to_owned();
    run.host = HOSTILE.to_owned();
    run.date = HOSTILE.to_owned();
    run.commit = HOSTILE.to_owned();
    run.push(format!("../../{HOSTILE}"), builder.finish());
    let html = Report::new(vec![run.clone()]).unwrap().compared_with(Some(run.clone()), None).html().unwrap();
    let page = Page::read(&html);
    page.needs_nothing();
    assert!(page.text.matches("<script>alert(1)</script>").count() >= 8, "{}", page.text);
    assert!(page.text.contains(r"\u{1b}[2J&amp;") && !html.contains('\u{1b}'));

    // Nor do names lead out of the folder.
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("inner").join("report.html");
    fs::create_dir(out.parent().unwrap()).unwrap();
    let saved = Report::new(vec![run]).unwrap().save(&out).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    assert_eq!(fs::read_dir(out.parent().unwrap()).unwrap().count(), 2);
    for entry in fs::read_dir(saved.folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.'), "{name}");
    }
}

#[test]
fn a_run_s_conditions_and_a_comparison_stand_in_it() {
    let mut now = run("steps", &[("one", 2.0), ("two", 1.0)]);
    let power = Quantity {
        name: "power".into(),
        unit: "W".into(),
        before: 90.0,
        least: 90.0,
        median: 650.0,
        most: 700.0,
        after: 95.0,
    };
    now.tables[0].conditions = Some(Conditions {
        driver: "driver 580.1".into(),
        readings: 20,
        quantities: vec![power],
        slowed: vec![Slowed { reason: "the power cap".into(), percent: 25.0 }],
    });
    let report = |earlier| Report::new(vec![now.clone()]).unwrap().compared_with(earlier, Some(0.1)).html().unwrap();
    let page = Page::read(&report(None));
    for words in ["power 650 W (90 to 700)", "held down by the power cap in 25 % of 20 readings", "driver 580.1"] {
        assert!(page.text.contains(words), "{words} is missing: {}", page.text);
    }
    assert!(!page.ids().contains(&"comparison"));
    let page = Page::read(&report(Some(run("steps", &[("one", 1.0), ("two", 1.0)]))));
    assert!(page.ids().contains(&"comparison") && page.text.contains("steps, compared with an earlier run"));
    assert!(page.all("td").any(|cell| cell.get("data-value").is_some_and(|value| value == "2")), "2 ms, of 1");
    // Twice as long is more than a tenth of noise: it is said, marked, and unfolded.
    assert!(page.text.contains("1 of 2 worse") && page.text.contains("1 number became slower"), "{}", page.text);
    let marked = page.all("td").filter(|cell| cell.get("class").is_some_and(|class| class == "bad"));
    assert_eq!((marked.count(), page.all("details").filter(|part| part.contains_key("open")).count()), (1, 1));
    let page = Page::read(&report(Some(run("steps", &[("one", 1.95), ("two", 1.0)]))));
    assert!(page.text.contains("none of 2 worse") && page.text.contains("Nothing became slower"), "{}", page.text);
    // A run without that table is compared with nothing.
    let page = Page::read(&report(Some(run("other", &[("one", 1.0)]))));
    assert!(!page.ids().contains(&"comparison"));
}

#[test]
fn claims_lead_to_the_book_where_it_is_said_to_be() {
    let report = Report::new(phase5_bench::records().unwrap()).unwrap().linked_to(Some("../book/".to_owned()));
    let page = Page::read(&report.html().unwrap());
    let links = page.all("a").filter_map(|link| link.get("href")).filter(|address| !address.starts_with('#'));
    let pages: HashSet<&str> = links.map(|address| address.strip_prefix("../book/").unwrap()).collect();
    assert!(pages.contains("phase2/linear-relu.html") && pages.contains("phase4/unet.html"), "{pages:?}");
}

/// Standard error of the command, and whether it succeeds.
fn report(args: &[&str]) -> (bool, String) {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("phase5-bench"));
    let output = command.arg("report").args(args).output().unwrap();
    assert_eq!(output.stdout, b"");
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn the_command_writes_a_page_and_a_folder_of_files_that_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let saved = run("steps-mine", &[("one", 2.0)]);
    saved.save(Path::new(&at("run.json"))).unwrap();
    let (succeeded, stderr) =
        report(&["--from", &at("run.json"), "--out", &at("page.html"), "--compare", &at("run.json")]);
    assert!(succeeded && stderr.contains("page.html"), "{stderr}");
    Page::read(&fs::read_to_string(at("page.html")).unwrap()).needs_nothing();
    assert_eq!(Record::open(Path::new(&at("page/ptx-sim.json"))).unwrap(), saved);
    assert_eq!(fs::read_to_string(at("page/steps-mine.csv")).unwrap(), "step,ms\none,2\n");

    for (args, says) in [
        (vec!["--from", "missing.json", "--out", "page.html"], "missing.json"),
        (vec!["--out", "report"], "its name needs an ending"),
        (vec!["--out", "no/such/page.html"], "its directory does not exist"),
    ] {
        let args: Vec<String> =
            args.into_iter().map(|word| if word.starts_with("--") { word.to_owned() } else { at(word) }).collect();
        let (succeeded, stderr) = report(&args.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(!succeeded && stderr.starts_with("error: ") && stderr.contains(says), "{stderr}");
    }
    assert!(Report::new(Vec::new()).is_err() && Report::new(vec![Record::begin(&Device::sim())]).is_err());
}

/// A run of the course with one number in place of all that were measured: refused, or reported in time.
#[test]
fn hostile_numbers_neither_hang_nor_fill_the_memory() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.json");
    for (value, is_read) in
        [(0.0, true), (-1.0, true), (1e-60, true), (1e60, true), (4e15, true), (5e-324, false), (1e308, false)]
    {
        let mut run = phase5_bench::records().unwrap().remove(0);
        for named in &mut run.tables {
            named.spread = None;
            named.table.map_cells(|column, cell| match cell {
                Cell::Number(_) if !column.identifies => Cell::Number(value),
                cell => cell.clone(),
            });
        }
        run.save(&file).unwrap();
        let Ok(run) = Record::open(&file) else {
            assert!(!is_read, "{value} is refused");
            continue;
        };
        assert!(is_read, "{value} is read");
        for plot in plot::names() {
            let _ = plot::svg(&run, plot);
        }
        Report::new(vec![run]).unwrap().html().unwrap();
    }
}

/// No table's file replaces another's.
#[test]
fn tables_whose_names_meet_have_files_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let mut twice = run("steps", &[("one", 1.0)]);
    twice.push("steps-2", run("x", &[("two", 2.0)]).tables.remove(0).table);
    let saved = Report::new(vec![twice.clone(), twice]).unwrap().save(&dir.path().join("report.html")).unwrap();
    let tables = fs::read_dir(saved.folder)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "csv"));
    assert_eq!(tables.count(), 4);
}

#[test]
fn every_plot_is_saved_as_svg_and_png() {
    let dir = tempfile::tempdir().unwrap();
    let records = phase5_bench::records().unwrap();
    let saved = Report::new(records).unwrap().save(&dir.path().join("report.html")).unwrap();
    for name in plot::names() {
        let file = |ending: &str| saved.folder.join(format!("{name}.{ending}"));
        assert!(fs::read_to_string(file("svg")).unwrap().contains("</svg>"), "{name}");
        assert!(fs::read(file("png")).unwrap().starts_with(b"\x89PNG"), "{name}");
    }
    assert!(saved.folder.join("gemm.csv").is_file() && saved.folder.join("nvidia-h200.json").is_file());
}
