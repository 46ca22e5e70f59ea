//! PTX as it is found: with the marks of an editor, a C string's end, or a tool's headers around it.

use std::borrow::Cow;

/// Compute capability of the simulated device. Of a dump it takes the newest code that is no newer.
const DEVICE: u32 = 90;

/// The PTX in a text, with its lines where they were: without a byte-order mark and NULs at the end; of the output of
/// `cuobjdump -ptx`, what is for one architecture.
pub(crate) fn ptx_in(text: &str) -> Cow<'_, str> {
    let text = text.trim_start_matches('\u{feff}').trim_end_matches('\0');
    let is_header = |line: &str| line.starts_with("Fatbin ") && line.trim_end().ends_with("code:");
    if !text.lines().any(is_header) {
        return Cow::Borrowed(text);
    }
    // Each line with the architecture of its section; headers, which end at an empty line, and machine code have none.
    let (mut in_header, mut is_ptx, mut section) = (false, false, None);
    let lines = text.split_inclusive('\n').map(|line| {
        if is_header(line) {
            (in_header, is_ptx, section) = (true, line.starts_with("Fatbin ptx"), None);
        }
        in_header &= !line.trim().is_empty() && !line.starts_with(".version");
        if in_header {
            section = section.or(architecture(line).filter(|_| is_ptx));
        }
        (line, section.filter(|_| !in_header))
    });
    let lines: Vec<(&str, Option<u32>)> = lines.collect();
    let sections = || lines.iter().filter_map(|(_, section)| *section);
    let wanted = sections().filter(|section| *section <= DEVICE).max().or_else(|| sections().min());
    let keeps = |section: Option<u32>| section.is_some() && section == wanted;
    Cow::Owned(lines.into_iter().map(|(line, section)| if keeps(section) { line } else { "\n" }).collect())
}

/// The number in a header's line `arch = sm_80`.
fn architecture(line: &str) -> Option<u32> {
    let name = line.strip_prefix("arch = sm_")?.trim_end();
    name.trim_end_matches(|last: char| last.is_ascii_alphabetic()).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::ptx_in;

    #[test]
    fn marks_and_headers_around_the_text_are_no_part_of_it() {
        let ptx = ".version 8.0\n.target sm_80\n";
        for found in [ptx.to_owned(), format!("\u{feff}{ptx}"), format!("{ptx}\0"), format!("\u{feff}{ptx}\0\0")] {
            assert_eq!(ptx_in(&found), ptx);
        }
        let section = |architecture: &str, text: &str| {
            format!(
                "\nFatbin ptx code:\n================\narch = {architecture}\ncode version = [8,0]\nhost = linux\n\n{text}"
            )
        };
        let machine = "\nFatbin elf code:\n================\narch = sm_80\ncompile_size = 64bit\n";
        let dump = [
            machine.to_owned(),
            section("sm_52", "old\n"),
            section("sm_90a", ptx),
            section("sm_100", "new\n"),
            machine.replace("80", "89"),
        ]
        .concat();
        let read = ptx_in(&dump);
        assert_eq!(read.trim(), ptx.trim());
        let line = |text: &str| text.lines().position(|line| line.starts_with(".version"));
        assert_eq!(line(&read), line(&dump));
    }
}
