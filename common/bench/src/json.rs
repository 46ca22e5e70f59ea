//! JSON format of records: indented, but each column and each row of a table on one line, so that two records of one table
//! differ in the lines of the rows that changed.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, PrettyFormatter, Serializer};

use common::text;

/// The lists whose elements take one line each.
const ONE_LINE_EACH: [&str; 2] = ["columns", "rows"];

/// Formats `value`, which holds only strings, finite numbers and containers of them. Characters that a terminal would obey are
/// escaped.
///
/// # Panics
/// If it holds anything else: that is a bug in the program.
pub fn to_string(value: &impl Serialize) -> String {
    let mut json = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut json, Rows::default());
    value.serialize(&mut serializer).expect("strings and finite numbers are valid JSON");
    String::from_utf8(json).expect("JSON is UTF-8")
}

#[derive(Default)]
struct Rows<'a> {
    pretty: PrettyFormatter<'a>,
    /// The key that was written last.
    key: String,
    in_key: bool,
    /// Containers that are open inside the list whose elements take one line each, with the list: 0 outside.
    depth: usize,
}

impl Rows<'_> {
    /// True inside an element that takes one line.
    fn in_line(&self) -> bool {
        self.depth > 1
    }

    fn open(&mut self, is_list: bool) {
        if self.depth > 0 || (is_list && ONE_LINE_EACH.contains(&self.key.as_str())) {
            self.depth += 1;
        }
    }

    fn separate<W: ?Sized + Write>(writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }
}

impl Formatter for Rows<'_> {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if self.in_key {
            self.key.push_str(fragment);
        }
        // serde_json escapes C0 itself.
        for character in fragment.chars() {
            if text::is_control(character) {
                write!(writer, "\\u{:04x}", u32::from(character))?;
            } else {
                writer.write_all(character.encode_utf8(&mut [0; 4]).as_bytes())?;
            }
        }
        Ok(())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        self.pretty.write_char_escape(writer, escape)
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(true);
        if self.in_line() { CompactFormatter.begin_array(writer) } else { self.pretty.begin_array(writer) }
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        let in_line = self.in_line();
        self.depth = self.depth.saturating_sub(1);
        if in_line { CompactFormatter.end_array(writer) } else { self.pretty.end_array(writer) }
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if self.in_line() { Self::separate(writer, first) } else { self.pretty.begin_array_value(writer, first) }
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.in_line() { Ok(()) } else { self.pretty.end_array_value(writer) }
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(false);
        if self.in_line() { CompactFormatter.begin_object(writer) } else { self.pretty.begin_object(writer) }
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        let in_line = self.in_line();
        self.depth = self.depth.saturating_sub(1);
        if in_line { CompactFormatter.end_object(writer) } else { self.pretty.end_object(writer) }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.key.clear();
        self.in_key = true;
        if self.in_line() { Self::separate(writer, first) } else { self.pretty.begin_object_key(writer, first) }
    }

    fn end_object_key<W: ?Sized + Write>(&mut self, _writer: &mut W) -> io::Result<()> {
        self.in_key = false;
        Ok(())
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.in_line() { Ok(()) } else { self.pretty.end_object_value(writer) }
    }
}

#[cfg(test)]
mod tests {
    use crate::table::{Cell, Column, Table};

    #[test]
    fn each_row_and_each_column_takes_one_line() {
        let mut table = Table::new("times", [Column::text("step"), Column::identity("n"), Column::number("ms", 2)]);
        table.row(["a \"b\"\n\u{1b}\u{9b}".into(), 64usize.into(), 0.125.into()]);
        table.row(["c".into(), 64usize.into(), Cell::absent("no clock")]);
        table.note("warm");
        let json = table.to_json();
        assert_eq!(
            json,
            r#"{
  "title": "times",
  "columns": [
    {"name": "step", "decimals": null},
    {"name": "n", "decimals": 0, "identifies": true},
    {"name": "ms", "decimals": 2}
  ],
  "rows": [
    [{"text": "a \"b\"\n\u001b\u009b"}, {"number": 64.0}, {"number": 0.125}],
    [{"text": "c"}, {"number": 64.0}, {"absent": "no clock"}]
  ],
  "notes": [
    "warm"
  ]
}"#
        );
        assert_eq!(Table::from_json(&json).unwrap(), table);
        let empty = Table::new("", []);
        assert_eq!(empty.to_json(), "{\n  \"title\": \"\",\n  \"columns\": [],\n  \"rows\": [],\n  \"notes\": []\n}");
    }
}
