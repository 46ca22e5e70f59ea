//! Faults and load errors as text, drawn as rustc draws its errors.

use std::path::{Path, PathBuf};

use annotate_snippets::{AnnotationKind, Group, Level, Message, Renderer, Snippet};

use crate::error::{LoadError, Unsupported};
use crate::fault::{Fault, OtherAccess, thread_in_words};
use crate::names::kernel_name;

fn draw(report: &[Group<'_>], colour: bool) -> String {
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    renderer.render(report)
}

/// Characters per line of a note, which is indented by about eleven.
const NOTE_WIDTH: usize = 89;

fn note(text: &str) -> Message<'static> {
    Level::NOTE.message(wrapped(text))
}

fn help(text: &str) -> Message<'static> {
    Level::HELP.message(wrapped(text))
}

/// The text in lines of at most [`NOTE_WIDTH`] characters, if its words allow. Shorter lines stay as they are.
fn wrapped(text: &str) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let mut column = 0;
        for word in line.split_inclusive(' ') {
            let width = word.trim_end().chars().count();
            if column > 0 && column + width > NOTE_WIDTH {
                out.truncate(out.trim_end_matches(' ').len());
                out.push('\n');
                column = 0;
            }
            out += word;
            column += word.chars().count();
        }
    }
    out
}

/// Byte range of a 1-based line without its blanks on the left, from `column` (1-based; 0: the whole line) on.
fn line_range(source: &str, line: u32, column: u32) -> Option<std::ops::Range<usize>> {
    let mut start = 0;
    for (number, text) in (1..).zip(source.split_inclusive('\n')) {
        if number == line {
            let text = text.trim_end();
            let blanks = text.len() - text.trim_start().len();
            let from = match column {
                0 => blanks,
                column => (column as usize - 1).clamp(blanks, text.len()),
            };
            let from = (0..=from).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            return Some(start + from..start + text.len().max(from));
        }
        start += text.len();
    }
    None
}

/// Maximum size of a source file that is read for a diagnostic.
const MAX_SOURCE: u64 = 16 << 20;

/// The text of a source file, if it is in one of `folders`, which are free of links. The path comes from the PTX, which may
/// be untrusted: nothing outside is read, by a link or otherwise, nor anything but regular files of text, so that no
/// diagnostic shows a line from elsewhere or waits for a device. Its ending says nothing: compilers of many languages
/// produce PTX.
fn source_in(path: &Path, folders: &[PathBuf]) -> Option<String> {
    let path = path.canonicalize().ok()?;
    if !folders.iter().any(|folder| path.starts_with(folder)) {
        return None;
    }
    let file = std::fs::File::open(&path).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > MAX_SOURCE {
        return None;
    }
    let mut text = String::new();
    std::io::Read::read_to_string(&mut std::io::Read::take(file, MAX_SOURCE), &mut text).ok()?;
    Some(text)
}

/// The text of a source file, `path` as named in the PTX file `ptx`: at that path, if that is in the PTX's own folder
/// or in one of `roots`, or else a file of that name beside the PTX or in one of `roots` itself. The own folder of
/// `kernels/ptx/add.ptx` is `kernels`: compiled files in a folder `ptx` have their sources above it.
pub(crate) fn source_near(path: &str, ptx: &str, roots: &[PathBuf]) -> Option<String> {
    let (path, ptx) = (Path::new(path), Path::new(ptx));
    // A name that is no file's has no folder.
    let own = ptx.parent().filter(|_| ptx.is_file() || ptx.with_extension("ptx.gz").is_file()).and_then(|folder| {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder }.canonicalize().ok()?;
        if folder.ends_with("ptx") { folder.parent().map(Path::to_path_buf) } else { Some(folder) }
    });
    let roots = roots.iter().filter_map(|folder| folder.canonicalize().ok());
    let folders: Vec<PathBuf> = own.into_iter().chain(roots).collect();
    source_in(path, &folders).or_else(|| {
        let name = path.file_name()?;
        folders.iter().find_map(|folder| source_in(&folder.join(name), &folders))
    })
}

impl Fault {
    /// The fault in a compiler's style: title, source line with a caret, notes and a hint.
    ///
    /// `source` is the text of the CUDA file; without it the file that `.loc` names is read if it is in the PTX's folder,
    /// and otherwise the PTX line is shown.
    #[must_use]
    pub fn render(&self, source: Option<&str>, colour: bool) -> String {
        fault(self, source, &[], colour)
    }

    /// [`Self::render`], which also shows source files in the folders `roots` and below them.
    #[must_use]
    pub fn render_from(&self, roots: &[PathBuf], colour: bool) -> String {
        fault(self, None, roots, colour)
    }
}

impl LoadError {
    /// The error in a compiler's style: title, file, line, the text with a caret, and a remedy.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        load_error(self, colour)
    }
}

fn fault(fault: &Fault, source: Option<&str>, roots: &[PathBuf], colour: bool) -> String {
    let title = format!("kernel `{}`: {}", kernel_name(&fault.kernel), fault.message);
    let read;
    let source = match (source, &fault.file) {
        (Some(source), _) => Some(source),
        (None, Some(path)) => {
            read = source_near(path, &fault.ptx.0, roots);
            read.as_deref()
        }
        _ => None,
    };
    let mut group = Group::with_title(Level::ERROR.primary_title(&title).id(fault.kind.name()));
    let others = match fault.threads {
        0 | 1 => String::new(),
        2 => " and another thread of its warp".into(),
        count => format!(" and {} more threads of its warp", count - 1),
    };
    let who = format!("{}{others}", thread_in_words(fault.device, fault.block, fault.thread));
    let place = match (&fault.file, fault.line) {
        (Some(path), Some(line)) => {
            let range = source.and_then(|source| Some((source, line_range(source, line, fault.column)?)));
            range.map(|(source, range)| (path.as_str(), source, range))
        }
        _ => None,
    };
    let (ptx_file, ptx_line) = &fault.ptx;
    let other = fault.other.as_deref();
    let other_who = other.map_or_else(String::new, other_in_words);
    let mut other_shown = false;
    match &place {
        Some((path, source, range)) => {
            let annotation = AnnotationKind::Primary.span(range.clone()).label(&who);
            let mut snippet = Snippet::source(*source).path(*path).annotation(annotation);
            if let Some(other) = other
                && other.file.as_deref() == Some(path)
                && let Some(range) = other.line.and_then(|line| line_range(source, line, other.column))
            {
                snippet = snippet.annotation(AnnotationKind::Context.span(range).label(&other_who));
                other_shown = true;
            }
            group = group.element(snippet);
        }
        None => {
            let annotation = AnnotationKind::Primary.span(0..fault.instruction.len()).label(&who);
            let snippet = Snippet::source(&fault.instruction).path(ptx_file).line_start(*ptx_line as usize);
            group = group.element(snippet.annotation(annotation));
        }
    }
    if let Some(other) = other.filter(|_| !other_shown) {
        let (file, line) = match (&other.file, other.line) {
            (Some(file), Some(line)) => (file.as_str(), line),
            _ => (other.ptx.0.as_str(), other.ptx.1),
        };
        group = group.element(note(&format!("{other_who} at {file}:{line}")));
    }
    for text in &fault.notes {
        group = group.element(note(text));
    }
    if place.is_some() {
        let text = format!("the instruction is `{}` ({ptx_file}:{ptx_line})", fault.instruction);
        group = group.element(note(&text));
    } else if let (Some(path), Some(line)) = (&fault.file, fault.line) {
        group = group.element(note(&format!("this comes from {path}:{line}, which cannot be read")));
    }
    if fault.count > u64::from(fault.threads) {
        let text = format!("this line did so {} times in the launch; the first is shown", fault.count);
        group = group.element(note(&text));
    }
    group = group.element(help(fault.help()));
    draw(&[group], colour)
}

fn other_in_words(other: &OtherAccess) -> String {
    format!("earlier: {} by {}", other.what, thread_in_words(other.device, other.block, other.thread))
}

/// A call of a function that the file only declares has no line.
fn place(file: &str, line: u32) -> String {
    if line == 0 { file.to_owned() } else { format!("{file}:{line}") }
}

fn load_error(error: &LoadError, colour: bool) -> String {
    match error {
        LoadError::Syntax { file, line, message, snippet: (text, range) } => {
            let title = format!("not valid PTX: {message}");
            let snippet = Snippet::source(text.as_str())
                .path(file.as_str())
                .line_start(*line as usize)
                .annotation(AnnotationKind::Primary.span(range.clone()));
            let group = Level::ERROR.primary_title(&title).element(snippet);
            draw(&[group], colour)
        }
        LoadError::Unsupported { kernel, file, items } => {
            let title = format!(
                "limit of the simulator: kernel `{}` has instructions that it does not know",
                kernel_name(kernel)
            );
            let lines: Vec<String> = Unsupported::grouped(items)
                .map(|(item, form)| match form.lines.len() {
                    1 => format!("{}: `{}`: {}", place(file, item.line), item.text, item.reason),
                    count => {
                        format!("{}: `{}`, {count} times: {}", place(file, item.line), form.form, item.reason)
                    }
                })
                .collect();
            let mut group = Group::with_title(Level::ERROR.primary_title(&title));
            for line in &lines {
                group = group.element(note(line));
            }
            group = group.element(help("this says nothing about the kernel, which may be right: run it on a GPU"));
            draw(&[group], colour)
        }
        LoadError::Unresolved { .. } => {
            let title = error.to_string();
            let remedy =
                "give the PTX of the file that defines it, too (`--link FILE.ptx`), or compile without `-rdc=true`";
            let group = Group::with_title(Level::ERROR.primary_title(&title)).element(help(remedy));
            draw(&[group], colour)
        }
        LoadError::UnknownKernel { .. } | LoadError::Memory { .. } | LoadError::Limit { .. } => {
            let title = error.to_string();
            draw(&[Group::with_title(Level::ERROR.primary_title(&title))], colour)
        }
    }
}
