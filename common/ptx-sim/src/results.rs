//! Results and output of a launch, as they are written to stdout.

use std::io::{self, Write};

use ptx_sim::{Device, Fault, Profile};
use serde_json::{Map, Value};

use crate::json::{fault_json, finding_json};
use crate::session::{Place, Session, read};

/// Writes the kernels' output before a fault, which helps to understand it; as JSON with the fault, and with the findings
/// if a sanitiser watched.
pub(crate) fn write_failed(out: &mut impl Write, json: bool, printed: &str, fault: &Fault, findings: Option<&[Fault]>) {
    // A closed pipe must not hide the fault, which is told on stderr too.
    let _ = if json {
        let mut object = fault_json(fault, printed);
        if let Some(findings) = findings {
            object["findings"] = findings.iter().map(finding_json).collect();
        }
        writeln!(out, "{object}")
    } else {
        write_printed(out, printed)
    };
    let _ = out.flush();
}

/// Writes the output of kernels, with what a terminal would obey as escapes. Further text begins on a line of its own.
pub(crate) fn write_printed(out: &mut impl Write, printed: &str) -> io::Result<()> {
    // Separators of lines, and embeddings, overrides and isolates of the direction of text (Unicode UAX 9).
    let is_obeyed = |c: char| {
        c.is_control() && !matches!(c, '\n' | '\t') || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    for piece in printed.split_inclusive(is_obeyed) {
        let last = piece.chars().next_back().filter(|&last| is_obeyed(last));
        let plain = &piece[..piece.len() - last.map_or(0, char::len_utf8)];
        write!(out, "{plain}{}", last.map_or_else(String::new, |last| last.escape_default().to_string()))?;
    }
    if !printed.is_empty() && !printed.ends_with('\n') {
        writeln!(out)?;
    }
    Ok(())
}

pub(crate) fn write_results(out: &mut impl Write, session: &Session, printed: &str) -> io::Result<()> {
    write_printed(out, printed)?;
    session.shown().try_for_each(|place| place.write_line(out, &session.device))
}

impl Place {
    /// Writes the elements as a line of text.
    pub(crate) fn write_line(&self, out: &mut impl Write, device: &Device) -> io::Result<()> {
        self.write(out, device, |out, bits| out.write_all(self.element.text(bits).as_bytes()))?;
        writeln!(out)
    }

    /// Writes the elements as a list of JSON.
    pub(crate) fn write_list(&self, out: &mut impl Write, device: &Device) -> io::Result<()> {
        out.write_all(b"[")?;
        self.write(out, device, |out, bits| write!(out, "{}", self.element.json(bits)))?;
        out.write_all(b"]")
    }

    /// Writes the elements with commas between, in parts: as text they take many times their memory.
    fn write<W: Write>(
        &self,
        out: &mut W,
        device: &Device,
        one: impl Fn(&mut W, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        // A texture or surface is read whole.
        let texels = self.object.map(|handle| {
            let mut texels = vec![0; self.bytes as usize];
            let read = device.read_object(handle, &mut texels);
            read.expect("it was made with this size and never destroyed");
            texels
        });
        let mut part = [0; 1 << 16];
        let mut done = 0;
        while done < self.bytes {
            let part = &mut part[..(self.bytes - done).min(1 << 16) as usize];
            match &texels {
                Some(texels) => part.copy_from_slice(&texels[done as usize..done as usize + part.len()]),
                None => read(device, self.pointer.offset(done), part),
            }
            for (at, bits) in self.element.elements(part).enumerate() {
                if done != 0 || at != 0 {
                    out.write_all(b",")?;
                }
                one(out, bits)?;
            }
            done += part.len() as u64;
        }
        Ok(())
    }
}

/// The object with the buffers as its first member and a profile, with more members, as its last.
pub(crate) fn write_json(
    out: &mut impl Write,
    session: &Session,
    object: &Value,
    profile: Option<(&Profile, Map<String, Value>)>,
) -> io::Result<()> {
    write!(out, "{{\"buffers\":[")?;
    for (at, place) in session.shown().enumerate() {
        out.write_all(if at == 0 { b"" } else { b"," })?;
        place.write_list(out, &session.device)?;
    }
    let rest = object.to_string();
    let members = rest.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(&rest);
    write!(out, "],{members}")?;
    if let Some((profile, more)) = profile {
        write!(out, ",\"profile\":")?;
        profile.write_json(out, more)?;
    }
    writeln!(out, "}}")
}

#[cfg(test)]
mod tests {
    use super::write_printed;

    #[test]
    fn what_a_kernel_prints_cannot_command_a_terminal() {
        let written = |text: &str| {
            let mut out = Vec::new();
            write_printed(&mut out, text).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written("1.5 ä\t2\n"), "1.5 ä\t2\n");
        assert_eq!(written("a\u{1b}[2J\rb\u{202e}"), "a\\u{1b}[2J\\rb\\u{202e}\n");
        assert_eq!(written(""), "");
    }
}
