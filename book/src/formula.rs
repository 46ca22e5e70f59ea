//! Formulas in pages: LaTeX between dollars, `$…$` in a sentence and `$$…$$` on lines of its own, becomes MathML, which browsers render
//! without a script. A generated number may stand in a formula: its markers are left out.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use pulldown_latex::{ParserError, RenderConfig, Storage, config::DisplayMode};

use crate::{
    markup::edited,
    outline::{EXTENSIONS, line_at},
    problem::Reason,
};

/// mdBook's extensions, and dollars.
pub(crate) const WITH_MATH: Options = EXTENSIONS.union(Options::ENABLE_MATH);

/// A formula as written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Formula {
    /// Range with its dollars.
    range: Range<usize>,
    /// LaTeX without them, and without markers of generated numbers.
    latex: String,
    is_display: bool,
}

fn formulas(markdown: &str) -> impl Iterator<Item = Formula> {
    Parser::new_ext(markdown, WITH_MATH).into_offset_iter().filter_map(|(event, range)| {
        let (latex, is_display) = match event {
            Event::InlineMath(latex) => (latex, false),
            Event::DisplayMath(latex) => (latex, true),
            _ => return None,
        };
        Some(Formula { range, latex: without_comments(&latex).trim().to_owned(), is_display })
    })
}

fn without_comments(latex: &str) -> String {
    let mut parts = latex.split("<!--");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| shown + part.split_once("-->").map_or("", |(_, after)| after))
}

/// Lines and reasons of the formulas that cannot be rendered.
pub(crate) fn broken(markdown: &str) -> Vec<(usize, Reason)> {
    let reason = |formula: Formula| {
        let error = mathml(&formula.latex, formula.is_display).err()?;
        Some((line_at(markdown, formula.range.start), Reason::Formula { latex: formula.latex, error }))
    };
    formulas(markdown).filter_map(reason).chain(unended(markdown)).collect()
}

/// Formulas that Markdown does not recognise, and would show as written: they begin in a line and do not end, or their braces
/// don't match.
fn unended(markdown: &str) -> Vec<(usize, Reason)> {
    let (mut found, mut is_code) = (Vec::<(usize, Reason)>::new(), false);
    for (event, range) in Parser::new_ext(markdown, WITH_MATH).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(_)) => is_code = true,
            Event::End(TagEnd::CodeBlock) => is_code = false,
            Event::Text(_) if !is_code => {
                let text = &markdown[range.clone()];
                let is_escaped = markdown[..range.start].ends_with('\\');
                let begins = text.match_indices('$').map(|(at, _)| at).find(|&at| {
                    let is_followed = markdown[range.start + at + 1..].starts_with(|c: char| !c.is_whitespace());
                    is_followed && !(at == 0 && is_escaped)
                });
                let line = line_at(markdown, range.start);
                if let Some(at) = begins.filter(|_| found.last().is_none_or(|(last, _)| *last != line)) {
                    let rest = markdown[range.start + at..].lines().next().unwrap_or_default();
                    let latex = rest.trim_matches('$').to_owned();
                    found.push((line, Reason::Formula { latex, error: UNENDED.to_owned() }));
                }
            }
            _ => {}
        }
    }
    found
}

const UNENDED: &str = "it has no end, or its braces don't match (for a dollar write `\\$`)";

/// The page with MathML for its formulas.
///
/// # Errors
/// Line and reason of the first formula that cannot be rendered.
pub fn rendered(markdown: &str) -> Result<String, (usize, Reason)> {
    let mut edits = Vec::new();
    for Formula { range, latex, is_display } in formulas(markdown) {
        match mathml(&latex, is_display) {
            Ok(math) if is_display => edits.push((range, format!("<span class=\"formula\">{math}</span>"))),
            Ok(math) => edits.push((range, math)),
            Err(error) => return Err((line_at(markdown, range.start), Reason::Formula { latex, error })),
        }
    }
    Ok(edited(markdown, edits))
}

/// A formula as one line of HTML that Markdown leaves unchanged.
fn mathml(latex: &str, is_display: bool) -> Result<String, String> {
    if latex.is_empty() {
        return Err("it is empty".to_owned());
    }
    let storage = Storage::new();
    let events: Result<Vec<_>, ParserError> = pulldown_latex::Parser::new(latex, &storage).collect();
    let message = |error: ParserError| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        first.strip_prefix("parsing error: ").unwrap_or(first).to_owned()
    };
    let events = events.map_err(message)?;
    let display_mode = if is_display { DisplayMode::Block } else { DisplayMode::Inline };
    let config = RenderConfig { display_mode, annotation: Some(latex), ..RenderConfig::default() };
    let mut html = String::new();
    let events = events.into_iter().map(Ok::<_, ParserError>);
    pulldown_latex::push_mathml(&mut html, events, config).map_err(|error| error.to_string())?;
    Ok(inert(&html))
}

/// HTML in which Markdown finds no markup between the tags.
fn inert(html: &str) -> String {
    let mut text = String::with_capacity(html.len());
    let mut is_in_tag = false;
    for c in html.chars() {
        match c {
            '<' => is_in_tag = true,
            '>' => is_in_tag = false,
            _ => {}
        }
        match c {
            '\n' => text.push(' '),
            '*' | '_' | '`' | '\\' | '[' | ']' | '\'' | '"' | '~' | '|' | '!' | '.' | '-' | '$' if !is_in_tag => {
                text.push_str(&format!("&#{};", u32::from(c)));
            }
            _ => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_found_outside_code_and_their_markers_are_left_out() {
        let page = "a $x_1$ and `$y$`, 5 $ or 6 $\n\n```\n$z$\n```\n\n$$\\frac{<!-- figure: t[\"a$\" : \"b\"] -->4<!-- /figure -->}{2}$$\n";
        let page = page.replace("a$", "a");
        let found: Vec<_> = formulas(&page).map(|formula| (formula.latex, formula.is_display)).collect();
        assert_eq!(found, [("x_1".to_owned(), false), ("\\frac{4}{2}".to_owned(), true)]);
    }

    #[test]
    fn markdown_sees_no_markup_in_a_formula() {
        let page = rendered("so $a_1 * b_1 * c'$ is\n").unwrap_or_default();
        let text = page.split('<').filter_map(|part| part.split_once('>')).map(|(_, text)| text).collect::<String>();
        assert!(page.starts_with("so <math") && !text.contains(['*', '_', '\'']), "{page}");
    }
}
