use super::*;
use crate::terminal::Terminal;

fn sample() -> Table {
    let mut table = Table::new("gemm on sim", [Column::text("step"), Column::number("ms", 2)]);
    table.row(["naive, 1".into(), 12.345.into()]);
    table.row(["tiled | 2".into(), Cell::absent("no clock")]);
    table.row(["tiny".into(), 1e-7.into()]);
    table.note("warm L2");
    table
}

#[test]
fn text_aligns_and_explains_dashes() {
    let text = sample().to_text();
    assert_eq!(
        text,
        "gemm on sim\n\
         ╭───────────┬────────╮\n\
         │   step    │   ms   │\n\
         ├───────────┼────────┤\n\
         │ naive, 1  │  12.35 │\n\
         │ tiled | 2 │      – │\n\
         │ tiny      │ 1.0e-7 │\n\
         ╰───────────┴────────╯\n\
         – no clock\nwarm L2\n"
    );
}

#[test]
fn markdown_csv_and_several_reasons() {
    let mut table = sample();
    table.row(["x".into(), Cell::absent("no cuDNN")]);
    assert_eq!(
        table.to_markdown(),
        "**gemm on sim**\n\n| step | ms |\n| --- | ---: |\n| naive, 1 | 12.35 |\n| tiled \\| 2 | – [1] |\n\
         | tiny | 1.0e-7 |\n| x | – [2] |\n\n[1] no clock\n\n[2] no cuDNN\n\nwarm L2\n"
    );
    assert_eq!(table.to_csv(), "step,ms\n\"naive, 1\",12.345\ntiled | 2,\ntiny,0.0000001\nx,\n");
}

#[test]
fn what_is_not_possible_for_one_reason_has_one_note() {
    let mut table = sample();
    for what in ["GEMM of M = 1", "GEMM of M = 2"] {
        table.row(["x".into(), Cell::absent(format!("{what} is not possible on cuda:0: B: by rows alone"))]);
    }
    let markdown = table.to_markdown();
    assert!(markdown.contains("| x | – [2] |\n| x | – [2] |\n\n[1] no clock\n\n[2] B: by rows alone\n"), "{markdown}");
}

#[test]
fn no_format_lets_a_name_reach_the_terminal_raw() {
    let hostile = "a\u{1b}[2J\u{202e}\u{9b}.jpg";
    let mut table = Table::new(hostile, [Column::text("photo"), Column::number("ms", 2)]);
    table.row([hostile.into(), Cell::absent(hostile)]);
    table.note(hostile);
    for format in [Format::Text, Format::Markdown, Format::Csv, Format::Json] {
        let shown = table.render(format);
        assert!(!shown.chars().any(|c| c != '\n' && common::text::is_control(c)), "{shown:?}");
        let escape =
            if format == Format::Json { r"a\u001b[2J\u202e\u009b.jpg" } else { r"a\u{1b}[2J\u{202e}\u{9b}.jpg" };
        let times = if format == Format::Csv { 1 } else { 4 };
        assert_eq!(shown.matches(escape).count(), times, "{shown}");
    }
    assert_eq!(Table::from_json(&table.to_json()).unwrap(), table);
}

#[test]
fn json_round_trips_and_rubbish_is_refused() {
    let mut table = sample();
    assert_eq!(Table::from_json(&table.to_json()).unwrap(), table);
    table.row(["nan".into(), f64::NAN.into()]);
    let read = Table::from_json(&table.to_json()).unwrap();
    assert_eq!(read.rows[3][1], Cell::absent("the value was NaN"));
    for rubbish in ["", "{}", "[1, 2]", r#"{"title":"","columns":[],"rows":[[{"number":1}]],"notes":[]}"#] {
        let error = Table::from_json(rubbish).unwrap_err().to_string();
        assert!(error.starts_with("this is no saved table"), "{error}");
    }
}

#[test]
fn sentences_stand_on_short_lines_in_text_alone() {
    const WHY: ColumnSpec = ColumnSpec::text("why", "why").in_lines_of(8);
    let mut table = TableBuilder::of("t", [WHY]);
    table.row().set(WHY, "one two three").complete();
    let table = table.finish();
    assert!(table.to_text().contains("│ one two │\n│ three   │"), "{}", table.to_text());
    assert!(table.to_csv().contains("one two three"), "{}", table.to_csv());
    assert!(table.to_markdown().contains("| one two three |"), "{}", table.to_markdown());
    assert_eq!(Table::from_json(&table.to_json()).unwrap(), table);
}

#[test]
fn long_lines_are_wrapped_and_short_ones_left_alone() {
    assert_eq!(wrap("one two three\n  a   b\n", 8), "one two\nthree\n  a   b");
    assert_eq!(wrap("  alpha beta", 8), "  alpha\n  beta");
    assert_eq!(wrap("unbreakable!", 4), "unbreakable!");
    assert_eq!(wrap("", 4), "");
}

#[test]
fn wide_headings_and_long_sentences_are_broken() {
    let columns = (0..6).map(|i| Column::number(format!("column number {i} of twenty"), 1));
    let mut wide = Table::new("title ".repeat(30).trim_end(), columns);
    wide.row((0..6).map(|i| f64::from(i).into()));
    wide.note("word ".repeat(60).trim_end());
    let shown = wide.to_text();
    assert!(shown.lines().all(|line| line.chars().count() <= WIDTH), "{shown}");
    assert!(shown.contains("│   twenty    │"), "{shown}");
    assert_eq!((shown.matches("title").count(), shown.matches("word").count()), (30, 60));
}

#[test]
fn texts_in_cells_are_broken_where_headings_do_not_make_room() {
    let texts = (0..5).map(|i| Column::text(format!("{i}")));
    let mut wide = Table::new("wide", texts.chain([Column::number("ms", 1)]));
    wide.row((0..5).map(|_| "a text of five words".into()).chain([1.0.into()]));
    let shown = wide.to_text();
    assert!(shown.lines().all(|line| line.chars().count() <= WIDTH), "{shown}");
    assert!(shown.contains("│ a text of five │"), "{shown}");
    assert_eq!(shown.matches("words").count(), 5, "{shown}");
}

const AHEAD: ColumnSpec = ColumnSpec::number("of_peer", "% of cuBLAS", 1).level_at(100);

fn beside_a_peer() -> Table {
    let mut builder = TableBuilder::of("gemm\u{1b}[2J", [STEP, AHEAD]);
    for (step, of_peer) in [("tuned", 123.45), ("naive\u{1b}[2J", 1.0), ("cuBLAS", 100.0), ("level", 100.9)] {
        builder.row().set(STEP, step).set(AHEAD, of_peer).complete();
    }
    builder.finish()
}

#[test]
fn ahead_and_behind_are_coloured_where_colours_are_shown_and_nothing_else_reaches_the_terminal() {
    let plain = beside_a_peer().to_text();
    assert!(!plain.contains('\u{1b}'), "{plain}");
    for width in [WIDTH, 24] {
        let shown = beside_a_peer().to_terminal(Terminal { width, colors: true });
        let (green, red) = ("\u{1b}[32m", "\u{1b}[31m");
        assert_eq!((shown.matches(green).count(), shown.matches(red).count()), (1, 1), "{shown:?}");
        let of = |color: &str| shown.lines().find(|line| line.contains(color)).unwrap();
        assert!(of(green).contains("123.5") && of(red).contains("1.0"), "{shown:?}");
        // Without the colours it is the plain one: they change no width.
        let without = [green, red, "\u{1b}[39m", "\u{1b}[0m"].iter().fold(shown, |text, code| text.replace(code, ""));
        assert!(!without.contains('\u{1b}'), "{without:?}");
        assert_eq!(without, beside_a_peer().to_terminal(Terminal { width, colors: false }));
    }
}

#[test]
fn a_row_becomes_a_list_where_a_terminal_is_too_narrow_for_the_table() {
    let columns =
        [Column::text("model"), Column::number("naive, ms", 2), Column::number("tuned, ms", 2), Column::text("by")];
    let mut table = Table::new("what each phase bought, in milliseconds", columns);
    table.row(["ResNet18".into(), 12.5.into(), 1.25.into(), "".into()]);
    table.row(["a model of a name that is longer than a line".into(), 3.0.into(), Cell::absent("why"), "x".into()]);
    let narrow = table.to_terminal(Terminal { width: 30, colors: false });
    assert!(narrow.lines().all(|line| line.chars().count() <= 30), "{narrow}");
    assert_eq!(
        narrow,
        "what each phase bought, in\n  milliseconds\nResNet18\n  naive, ms 12.50,\n  tuned, ms 1.25\na model of a name that is\n\
         longer than a line\n  naive, ms 3.00, tuned, ms –,\n  by x\n– why\n"
    );
    assert!(table.to_terminal(Terminal { width: 80, colors: false }).contains('│'));
    // In between, without rules, and with words on lines of their own.
    assert_eq!(
        table.to_terminal(Terminal { width: 48, colors: false }),
        "what each phase bought, in milliseconds\n        model           naive, ms  tuned, ms  by\n\
         ResNet18                    12.50       1.25\na model of a name that       3.00          –  x\nis longer than a line\n– why\n"
    );
}

#[test]
fn what_rows_share_stands_above_them_where_a_terminal_is_too_narrow_for_its_column() {
    let columns = [Column::text("M×N×K"), Column::text("step"), Column::number("ms", 2), Column::number("TFLOP/s", 1)];
    let mut table = Table::new("products", columns);
    for (size, step, ms) in [
        ("4096×784×1024", "naive", 8.0),
        ("4096×784×1024", "tiled", 4.0),
        ("256³", "naive", 0.5),
        ("256³", "tiled", 0.25),
    ] {
        table.row([size.into(), step.into(), ms.into(), Cell::absent("why")]);
    }
    table.row(["256³".into(), "tuned".into(), Cell::absent("why"), 3.0.into()]);
    assert_eq!(
        table.to_terminal(Terminal { width: 32, colors: false }),
        "products\n    step        ms   TFLOP/s\n4096×784×1024\n  naive        8.00        –\n  tiled        4.00        –\n256³\n  \
         naive        0.50        –\n  tiled        0.25        –\n  tuned           –      3.0\n– why\n"
    );
}

#[test]
fn a_measured_column_without_a_value_is_not_shown_and_neither_are_its_reasons() {
    let columns =
        [Column::text("step"), Column::number("lanes", 0), Column::number("ms", 1), Column::number("TFLOP/s", 1)];
    let mut table = Table::new("t", columns);
    table.row(["naive".into(), 8.0.into(), Cell::absent("no clock"), Cell::absent("no clock")]);
    table.row(["tuned".into(), Cell::absent("too small"), Cell::absent("too small"), Cell::absent("no clock")]);
    let text = table.to_text();
    assert!(!text.contains("ms") && !text.contains("TFLOP/s") && !text.contains("no clock"), "{text}");
    assert!(text.ends_with("– too small\n"), "{text}");
    assert_eq!(
        table.to_markdown(),
        "**t**\n\n| step | lanes |\n| --- | ---: |\n| naive | 8 |\n| tuned | – |\n\n– too small\n"
    );
    assert!(table.to_csv().starts_with("step,lanes,ms,TFLOP/s\n"));

    table.retain_rows(|row| row[1] == Cell::absent("too small"));
    assert!(table.to_text().contains("TFLOP/s"), "dashes alone stay: {}", table.to_text());
}

#[test]
fn a_table_of_numbers_too_wide_for_rules_has_none() {
    let columns = [Column::text("step")].into_iter().chain((0..8).map(|n| Column::number(format!("column {n}"), 1)));
    let mut table = Table::new("t", columns);
    let row = [Cell::from("by flags")].into_iter().chain((0..8).map(|_| Cell::from(1_048_576.0)));
    table.row(row.collect::<Vec<_>>());
    let text = table.to_text();
    assert!(!text.contains('│') && text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn a_command_to_type_stays_on_a_line_of_its_own() {
    let mut table = Table::new("doctor", [Column::text("component"), Column::text("version"), Column::text("advice")]);
    table.row(["cuBLAS".into(), "absent".into(), "no row to compare with\n$ pip install 'nvidia-cublas'".into()]);
    table.row(["NVRTC".into(), "13.0".into(), "libnvrtc.so.13".into()]);
    assert_eq!(
        table.to_terminal(Terminal { width: 24, colors: false }),
        "doctor\ncuBLAS\n  absent\n    no row to compare\n    with\n    $ pip install 'nvidia-cublas'\nNVRTC\n  13.0, libnvrtc.so.13\n"
    );
}

#[test]
fn a_row_is_about_what_stands_before_its_first_measured_number() {
    let columns = [Column::text("path"), Column::identity("KiB"), Column::number("ms", 1), Column::text("check")];
    let mut table = Table::new("t", columns);
    table.row(["up".into(), 64usize.into(), 1.0.into(), "ok".into()]);
    assert_eq!(table.identity(&table.rows[0]), ["up".into(), 64usize.into()]);
    assert_eq!(Table::from_json(&table.to_json()).unwrap(), table);
}

const STEP: ColumnSpec = ColumnSpec::text("step", "step");
const BATCH: ColumnSpec = ColumnSpec::identity("batch", "batch");
const RATE: ColumnSpec = ColumnSpec::number("tflops", "TFLOP/s", 2).on_gpu();
const LANES: ColumnSpec = ColumnSpec::number("lanes", "lanes per product", 1).on_simulator();
const UNKNOWN: ColumnSpec = ColumnSpec::number("ms", "TFLOP/s", 2);

fn built(kind: DeviceKind) -> Table {
    let mut builder = TableBuilder::new("t", kind, &[STEP, BATCH, RATE, LANES]);
    builder.row().set(LANES, 7.0).set(RATE, 1.5).set(BATCH, 4usize).set(STEP, "tiled").finish("not measured");
    builder.row().set(STEP, "naive").finish("not measured");
    builder.finish()
}

#[test]
fn rows_are_filled_and_read_by_the_keys_of_their_columns() {
    let (gpu, simulated) = (built(DeviceKind::Gpu), built(DeviceKind::Simulator));
    assert_eq!(gpu.rows[0], ["tiled".into(), 4usize.into(), 1.5.into()]);
    assert_eq!(simulated.rows[0], ["tiled".into(), 4usize.into(), 7.0.into()]);
    assert_eq!(gpu.rows[1][1..], [Cell::absent("not measured"), Cell::absent("not measured")]);
    let row = gpu.find(&[(STEP, "tiled".into()), (BATCH, 4usize.into())]).unwrap().unwrap();
    assert_eq!((row.number(RATE).unwrap(), row.text(STEP).unwrap()), (Some(1.5), "tiled"));
    assert!(gpu.find(&[(STEP, "tiled".into()), (BATCH, 5usize.into())]).unwrap().is_none());
    assert_eq!(gpu.iter().nth(1).unwrap().number(RATE).unwrap(), None);
    let error = row.number(LANES).unwrap_err().to_string();
    assert_eq!(error, "the table `t` has no column `lanes`; it has step, batch, tflops");
    // A heading is no key.
    assert!(row.number("TFLOP/s").is_err() && gpu.find(&[(UNKNOWN, 1.0.into())]).is_err());
}

#[test]
#[should_panic(expected = "a row of the table `t` has no `tflops`")]
fn a_row_that_lacks_a_cell_is_not_complete() {
    let mut builder = TableBuilder::of("t", [STEP, BATCH, RATE]);
    builder.row().set(BATCH, 4usize).set(STEP, "tiled").complete();
}

#[test]
fn columns_are_chosen_and_rows_and_cells_left_out_or_changed() {
    let mut table = built(DeviceKind::Gpu).with_columns(&[2, 0]);
    let keys: Vec<&str> = table.columns.iter().map(Column::key).collect();
    assert_eq!((keys, &table.rows()[0][..]), (vec!["tflops", "step"], &[1.5.into(), "tiled".into()][..]));
    table.retain_rows(|row| row[1] == "naive".into());
    table.map_cells(|column, cell| if column.key() == "step" { "first".into() } else { cell.clone() });
    assert_eq!(table.rows(), [[Cell::absent("not measured"), "first".into()]]);
}

#[test]
fn a_heading_that_only_the_run_knows_is_a_key_too() {
    let columns = [Column::from(STEP), Column::number("4 Welford", 1)];
    let mut builder = TableBuilder::of("t", columns.clone());
    builder.row().set(&columns[1], 2.0).set(STEP, "a").complete();
    assert_eq!(builder.finish().rows, [["a".into(), 2.0.into()]]);
}

#[test]
#[should_panic(expected = "the table `t` declares no column `ms`")]
fn a_column_that_no_table_declares_is_an_error_at_once() {
    let mut builder = TableBuilder::new("t", DeviceKind::Gpu, &[STEP, RATE]);
    builder.row().set(UNKNOWN, 1.0).finish("");
}

#[test]
fn a_column_is_the_same_under_another_heading_and_one_without_a_key_by_its_heading() {
    let mut builder = TableBuilder::new("t", DeviceKind::Gpu, &[STEP, RATE]);
    builder.heading(RATE, "10¹² operations per second");
    let table = Table::from_json(&builder.finish().to_json()).unwrap();
    let [step, renamed] = &table.columns[..] else { panic!() };
    assert_eq!((renamed.key(), &*renamed.heading), ("tflops", "10¹² operations per second"));
    assert!(renamed.is_same(&RATE.into()) && !renamed.is_same(step));
    let old = Column::number("TFLOP/s", 2);
    assert!(old.is_same(&RATE.into()) && Column::from(RATE).is_same(&old) && !old.is_same(renamed));
    assert!(!Column::from(UNKNOWN).is_same(&RATE.into()), "two keys under one heading");
}

#[test]
fn columns_of_earlier_records_are_read() {
    let read = |json: &str| serde_json::from_str::<Column>(json).unwrap();
    let ms = Column::from(ColumnSpec::number("time", "ms", 2));
    assert_eq!(read(r#"{"id": "time", "name": "ms", "decimals": 2}"#), ms);
    assert_eq!(read(r#"{"name": "n", "decimals": 0, "key": true}"#), Column::identity("n"));
    for column in [ms, Column::identity("n"), Column::text("step")] {
        assert_eq!(read(&serde_json::to_string(&column).unwrap()), column);
    }
}
