//! Listings: code blocks that include sources get line numbers, a link to each file, the command that runs it, and the data for
//! the served book's editor.
//!
//! The numbers stand in an attribute that the stylesheet shows: so they are not copied with the code, and highlighting, which the
//! browser does later, doesn't touch them.

use std::{fmt::Write as _, fs};

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};

use crate::{
    BookError,
    formula::WITH_MATH,
    generated::Workshop,
    include,
    markup::{edited, escaped},
    paths::{resolve, slashed},
    playground::check::Check,
    rerun::Kernel,
    sources::{self, Shown},
};

/// Page that a book without a server shows to readers who want to edit a kernel.
const EDITING: &str = "playground.html";

/// One file of a listing.
struct Part {
    /// Relative to the workspace, with `/`.
    file: String,
    source: String,
    first: usize,
    last: usize,
}

/// `page` with captions for its listings; the sources are added to `shown`.
///
/// # Errors
/// [`BookError::Read`].
pub fn captioned(page: &str, markdown: &str, workshop: &Workshop, shown: &mut Shown) -> Result<String, BookError> {
    let mut edits = Vec::new();
    for (event, range) in Parser::new_ext(markdown, WITH_MATH).into_offset_iter() {
        if !matches!(event, Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_)))) {
            continue;
        }
        let indent = &markdown[markdown[..range.start].rfind('\n').map_or(0, |end| end + 1)..range.start];
        let block = markdown[range.clone()].trim_end();
        let listing = numbered(page, block, workshop)?;
        // Without a source there is nothing to say.
        if listing.parts.is_empty() || !indent.trim().is_empty() {
            continue;
        }
        for part in &listing.parts {
            shown.add(&part.file, page);
        }
        let (before, after) = listing.frame(page);
        let before = before.join(&format!("\n{indent}"));
        let after = after.join(&format!("\n{indent}"));
        let text = format!("{before}\n\n{indent}{block}\n\n{indent}{after}");
        edits.push((range.start..range.start + block.len(), text));
    }
    Ok(edited(markdown, edits))
}

struct Listing {
    parts: Vec<Part>,
    /// Number of each shown line, if it is from a source.
    numbers: Vec<Option<usize>>,
    /// Characters of the longest line.
    width: usize,
    /// The code.
    text: String,
}

/// Code of a fenced block, with what it includes.
///
/// # Errors
/// [`BookError::Read`].
pub fn text(page: &str, block: &str, workshop: &Workshop) -> Result<String, BookError> {
    Ok(numbered(page, block, workshop)?.text)
}

/// Listing of a fenced block.
fn numbered(page: &str, block: &str, workshop: &Workshop) -> Result<Listing, BookError> {
    let mut listing = Listing { parts: Vec::new(), numbers: Vec::new(), width: 0, text: String::new() };
    let folder = workshop.pages.strip_prefix(&workshop.workspace).map(slashed).unwrap_or_default();
    let inner = block.lines().skip(1);
    for line in inner.take_while(|line| !line.trim_start().starts_with("```")) {
        let helpers = include::helpers(line);
        let wanted = helpers.iter().find(|helper| helper.name == "include").map(|helper| helper.argument);
        // Broken includes are for the check to report.
        let wanted = wanted.and_then(|argument| include::file_and_anchor(argument).ok());
        let file = wanted.and_then(|(file, anchor)| Some((resolve(&format!("{folder}/{page}"), file)?, anchor)));
        let Some((file, anchor)) = file else {
            listing.numbers.push(None);
            listing.text += line;
            listing.text.push('\n');
            listing.width = listing.width.max(line.chars().count());
            continue;
        };
        let path = workshop.workspace.join(&file);
        let source = fs::read_to_string(&path).map_err(|source| BookError::Read { path, source })?;
        let lines = include::shown_lines(&source, anchor);
        listing.numbers.extend(lines.iter().map(|&(number, _)| Some(number)));
        lines.iter().for_each(|(_, line)| listing.text.extend([line, "\n"]));
        listing.width = lines.iter().map(|(_, line)| line.chars().count()).fold(listing.width, usize::max);
        if let (Some(&(first, _)), Some(&(last, _))) = (lines.first(), lines.last()) {
            listing.parts.push(Part { file, source, first, last });
        }
    }
    Ok(listing)
}

impl Listing {
    /// Lines of HTML before and after the block.
    fn frame(&self, page: &str) -> (Vec<String>, Vec<String>) {
        let up = "../".repeat(page.matches('/').count());
        let mut caption = String::new();
        for (i, Part { file, first, last, .. }) in self.parts.iter().enumerate() {
            let lines = if first == last { format!("line {first}") } else { format!("lines {first}–{last}") };
            let (comma, address) = (if i == 0 { "" } else { ", " }, sources::address(file));
            let _ = write!(
                caption,
                "{comma}<a href=\"{up}{}#L{first}\" title=\"{lines}\">{}:{first}</a>",
                escaped(&address),
                escaped(file)
            );
        }
        let parts: Vec<(&str, Kernel<'_>)> = self
            .parts
            .iter()
            .filter_map(|Part { file, source, .. }| Some((file.as_str(), Kernel::of(file, source).ok()??)))
            .collect();
        let mut commands: Vec<String> = parts.iter().map(|(_, kernel)| kernel.command()).collect();
        commands.dedup();
        if !commands.is_empty() {
            let codes: Vec<String> =
                commands.iter().map(|command| format!("<code>{}</code>", escaped(command))).collect();
            let _ = write!(caption, " <span class=\"run\">edit and run: {}</span>", codes.join(", "));
        }
        let (mut kernels, mut reasons): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
        for (file, kernel) in &parts {
            match Check::of(kernel) {
                Ok(_) if !kernels.contains(file) => kernels.push(file),
                Ok(_) => {}
                Err(_) => reasons.extend(kernel.unchecked().filter(|reason| !reasons.contains(reason))),
            }
        }
        for reason in reasons {
            let _ = write!(caption, " <span class=\"unedited\">No Edit &amp; run button: {}.</span>", escaped(reason));
        }
        for file in &kernels {
            // Several are told apart.
            let name = if kernels.len() == 1 { "" } else { file.rsplit('/').next().unwrap_or_default() };
            let name = if name.is_empty() { String::new() } else { format!(" {}", escaped(name)) };
            let _ = write!(
                caption,
                " <a class=\"edit\" data-kernel=\"{}\" href=\"{up}{EDITING}\">Edit &amp; run{name}</a>",
                escaped(file)
            );
        }
        let number = |number: &Option<usize>| number.map(|number| number.to_string()).unwrap_or_default();
        let numbers: Vec<String> = self.numbers.iter().map(number).collect();
        let before = vec![
            format!("<figure class=\"listing\" style=\"--columns: {}\">", self.width.max(1)),
            format!("<figcaption>{caption}</figcaption>"),
            format!(
                "<div class=\"code\"><span class=\"lines\" aria-hidden=\"true\" data-lines=\"{}\"></span>",
                numbers.join("&#10;")
            ),
        ];
        (before, vec!["</div>".to_owned(), "</figure>".to_owned()])
    }
}
