//! The glossary's terms in the other pages: the first use of each on a page is a link to its row with its meaning as a tooltip, and an
//! index lists where each is used.
//!
//! The rows are those of tables whose first column is headed `term`. Several forms of one term are separated by commas; text in
//! parentheses distinguishes equal terms, which are then not linked, since only a reader knows which is meant.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt::Write as _,
    ops::Range,
};

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use crate::{
    formula::WITH_MATH,
    markup::{edited, escaped},
    outline::{Outline, line_at, outline, slug},
    paths::resolve,
    problem::Reason,
};

/// Path of the page, below the pages' folder.
pub const PAGE: &str = "glossary.md";
/// The helper that the index of concepts replaces.
pub const INDEX: &str = "concepts";
/// Maximum number of pages of the index per term, besides the one that defines it.
const MOST_PAGES: usize = 5;
/// Number of uses in a text that one in a heading counts for.
const HEADING_WEIGHT: usize = 5;

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    id: String,
    /// Name in the glossary.
    name: String,
    /// Its range there.
    range: Range<usize>,
    /// Without markup.
    meaning: String,
    /// Text and target of the links to its explanations.
    explained: Vec<(String, String)>,
}

impl Term {
    /// The forms of the term.
    fn forms(&self) -> Vec<String> {
        let mut name = self.name.clone();
        while let Some((before, rest)) = name.split_once('(') {
            name = format!("{}{}", before.trim_end(), rest.split_once(')').map_or("", |(_, after)| after));
        }
        name.split(", ").map(|form| form.trim().to_owned()).filter(|form| !form.is_empty()).collect()
    }
}

/// A page of the book, for the index.
#[derive(Clone, Debug)]
pub struct PageText {
    /// Below the pages' folder, with `/`.
    pub path: String,
    /// Its text.
    pub markdown: String,
    outline: Outline,
}

impl PageText {
    /// Reads the headings of a page.
    pub fn new(path: String, markdown: String) -> PageText {
        let outline = outline(&markdown);
        PageText { path, markdown, outline }
    }
}

/// The terms, ready for searching.
#[derive(Clone, Debug, Default)]
pub struct Glossary {
    terms: Vec<Term>,
    /// By the first word, in lower case and in the singular: all words of a form, and the term.
    by_word: HashMap<String, Vec<(Vec<String>, usize)>>,
    /// For each term those that end it, as `block` does `residual block`: after the long form, the short form may stand for it.
    endings: Vec<Vec<usize>>,
}

impl Glossary {
    /// Reads the glossary's page.
    pub fn read(markdown: &str) -> Glossary {
        let terms = terms(markdown);
        let mut uses: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (i, term) in terms.iter().enumerate() {
            for form in term.forms() {
                uses.entry(form).or_default().push(i);
            }
        }
        let mut by_word: HashMap<String, Vec<(Vec<String>, usize)>> = HashMap::new();
        for (form, owners) in uses {
            let words: Vec<String> = words(&form, 0..form.len()).map(|range| form[range].to_owned()).collect();
            if let (&[term], Some(first)) = (owners.as_slice(), words.first()) {
                by_word.entry(first.to_lowercase()).or_default().push((words, term));
            }
        }
        let endings = terms.iter().map(|term| {
            let forms = term.forms();
            let last = forms.iter().filter_map(|form| Some(form.rsplit_once(' ')?.1));
            last.filter_map(|word| by_word.get(&word.to_lowercase()))
                .flatten()
                .filter(|(words, _)| words.len() == 1)
                .map(|(_, ending)| *ending)
                .collect::<Vec<usize>>()
        });
        let endings = endings.collect();
        // The longest form that fits is meant.
        by_word.values_mut().for_each(|forms| forms.sort_by_key(|(words, _)| std::cmp::Reverse(words.len())));
        Glossary { terms, by_word, endings }
    }

    /// The terms in a part of a text: their ranges, and which they are.
    fn find(&self, text: &str, part: Range<usize>) -> Vec<(Range<usize>, usize)> {
        let words: Vec<Range<usize>> = words(text, part.clone()).collect();
        let mut found = Vec::new();
        let mut at = 0;
        while at < words.len() {
            let matched = self.match_at(text, &part, &words[at..]);
            if let Some((length, term)) = matched {
                found.push((words[at].start..words[at + length - 1].end, term));
            }
            at += matched.map_or(1, |(length, _)| length);
        }
        found
    }

    fn match_at(&self, text: &str, part: &Range<usize>, words: &[Range<usize>]) -> Option<(usize, usize)> {
        let first = &text[words[0].clone()];
        let candidates = singulars(first).filter_map(|word| self.by_word.get(&word.to_lowercase())).flatten();
        let fits = |form: &[String]| {
            let joined = |pair: &[Range<usize>]| {
                let gap = &text[pair[0].end..pair[1].start];
                gap == "-" || gap.chars().all(char::is_whitespace)
            };
            let Some(words) = words.get(..form.len()) else { return false };
            let (Some(last), Some(last_word)) = (form.last(), words.last()) else { return false };
            let whole =
                words.iter().zip(form).take(form.len() - 1).all(|(range, word)| is_same(&text[range.clone()], word));
            let end = singulars(&text[last_word.clone()]).any(|word| is_same(&word, last));
            whole && end && words.windows(2).all(joined) && !is_part_of_more(text, part, words[0].start..last_word.end)
        };
        candidates
            .filter(|(form, _)| fits(form))
            .map(|(form, term)| (form.len(), *term))
            .max_by_key(|(length, _)| *length)
    }

    /// `page` with a link at the first use of each term.
    pub fn linked(&self, page: &str, markdown: &str) -> String {
        let up = "../".repeat(page.matches('/').count());
        let (mut seen, mut edits) = (HashSet::new(), Vec::new());
        for Prose { range, is_heading } in prose(markdown) {
            if is_heading {
                continue;
            }
            for (range, term) in self.find(markdown, range) {
                if seen.insert(term) {
                    let Term { id, meaning, .. } = &self.terms[term];
                    let text = &markdown[range.clone()];
                    let meaning = escaped(meaning);
                    let link = format!("<a class=\"term\" href=\"{up}{PAGE}#{id}\" title=\"{meaning}\">{text}</a>");
                    edits.push((range, link));
                }
                seen.extend(&self.endings[term]);
            }
        }
        edited(markdown, edits)
    }

    /// Replaces the helper in `markdown` by the index of concepts.
    pub(crate) fn fill_index(&self, markdown: &str, pages: &[PageText]) -> String {
        markdown.replace(&helper(), &self.index(pages))
    }

    /// The index: each term with the page that explains it and those that use it most, each with a link to the section with most
    /// uses.
    fn index(&self, pages: &[PageText]) -> String {
        let mut uses: Vec<Vec<Use<'_>>> = self.terms.iter().map(|_| Vec::new()).collect();
        for page in pages.iter().filter(|page| page.path != PAGE && !asks_for_index(&page.markdown)) {
            let mut weights: BTreeMap<usize, BTreeMap<Option<usize>, usize>> = BTreeMap::new();
            for Prose { range, is_heading } in prose(&page.markdown) {
                let after = page.outline.headings.partition_point(|heading| heading.offset <= range.start);
                for (_, term) in self.find(&page.markdown, range) {
                    let weight = if is_heading { HEADING_WEIGHT } else { 1 };
                    *weights.entry(term).or_default().entry(after.checked_sub(1)).or_default() += weight;
                }
            }
            for (term, sections) in weights {
                let weight = sections.values().sum();
                // Of equal sections the first.
                let section =
                    sections.into_iter().rev().max_by_key(|(_, weight)| *weight).and_then(|(section, _)| section);
                uses[term].push(Use { page, section, weight });
            }
        }
        let mut order: Vec<usize> = (0..self.terms.len()).collect();
        order.sort_by_key(|&term| self.terms[term].name.to_lowercase());
        let (mut text, mut letter) = (String::new(), None);
        for term in order {
            let first = self.terms[term].name.chars().next().map(|c| c.to_ascii_uppercase());
            if first != letter {
                let _ = write!(text, "{}## {}\n\n", if letter.is_some() { "\n" } else { "" }, first.unwrap_or('?'));
                letter = first;
            }
            let _ = writeln!(text, "- {}", self.entry(term, &uses[term]));
        }
        text
    }

    fn entry(&self, term: usize, uses: &[Use<'_>]) -> String {
        let Term { id, name, explained, .. } = &self.terms[term];
        let mut entry = format!("[{name}]({PAGE}#{id}):");
        let explaining: Vec<String> =
            explained.iter().map(|(_, target)| target.split('#').next().unwrap_or(target).to_owned()).collect();
        for (text, target) in explained {
            let _ = write!(entry, " **[{}]({target})**,", bracketed(text));
        }
        let others = uses.iter().filter(|one| !explaining.contains(&one.page.path));
        let mut most: Vec<(usize, &Use<'_>)> = others.enumerate().collect();
        let count = most.len();
        most.sort_by_key(|(_, one)| std::cmp::Reverse(one.weight));
        most.truncate(MOST_PAGES);
        most.sort_by_key(|(place, _)| *place);
        for (_, Use { page, section, .. }) in most {
            let headings = &page.outline.headings;
            let title = headings.first().map_or(page.path.as_str(), |heading| &heading.title);
            let heading = section.filter(|&section| section > 0).and_then(|section| headings.get(section));
            let _ = match heading {
                Some(heading) => {
                    let text = bracketed(&format!("{title}: {}", heading.title));
                    write!(entry, " [{text}]({}#{}),", page.path, heading.id)
                }
                None => write!(entry, " [{}]({}),", bracketed(title), page.path),
            };
        }
        entry.pop();
        match count.saturating_sub(MOST_PAGES) {
            0 => {}
            1 => entry.push_str(" and 1 more page"),
            more => drop(write!(entry, " and {more} more pages")),
        }
        entry
    }
}

/// A page that uses a term, and the section that uses it most.
struct Use<'a> {
    page: &'a PageText,
    section: Option<usize>,
    weight: usize,
}

/// Text as in a link.
fn bracketed(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('[', "\\[")
        .replace(']', "\\]")
        .replace('*', "\\*")
        .replace('_', "\\_")
        .replace('<', "&lt;")
}

fn helper() -> String {
    format!("{{{{#{INDEX}}}}}")
}

/// Whether the index of concepts belongs on the page.
pub(crate) fn asks_for_index(markdown: &str) -> bool {
    markdown.contains(&helper())
}

/// The glossary's page with an id in each row.
pub(crate) fn with_ids(markdown: &str) -> String {
    let dfn = |term: Term| {
        let name = &markdown[term.range.clone()];
        (term.range, format!("<dfn id=\"{}\">{name}</dfn>", term.id))
    };
    edited(markdown, terms(markdown).into_iter().map(dfn).collect())
}

/// Lines and reasons of rows that repeat a term.
pub(crate) fn repeated(markdown: &str) -> Vec<(usize, Reason)> {
    let mut seen = HashSet::new();
    let mut rows = terms(markdown);
    rows.retain(|term| !seen.insert(term.id.clone()));
    rows.into_iter().map(|term| (line_at(markdown, term.range.start), Reason::RepeatedTerm(term.name))).collect()
}

fn terms(markdown: &str) -> Vec<Term> {
    let mut found = Vec::new();
    let (mut is_of_terms, mut column) = (false, 0);
    let mut cells: Vec<(String, Range<usize>)> = Vec::new();
    let mut links: Vec<(String, String)> = Vec::new();
    let mut is_in_link = false;
    for (event, range) in Parser::new_ext(markdown, WITH_MATH).into_offset_iter() {
        match event {
            Event::End(TagEnd::TableHead) => {
                is_of_terms = cells.first().is_some_and(|(text, _)| text == "term");
                cells.clear();
            }
            Event::Start(Tag::TableHead | Tag::TableRow) => column = 0,
            Event::Start(Tag::TableCell) => cells.push((String::new(), range.end..range.start)),
            Event::End(TagEnd::TableCell) => column += 1,
            Event::Start(Tag::Link { dest_url, .. }) if column > 1 => {
                links.push((String::new(), dest_url.into_string()));
                is_in_link = true;
            }
            Event::End(TagEnd::Link) => is_in_link = false,
            Event::Text(text) | Event::Code(text) | Event::InlineMath(text) => {
                if let Some((cell, place)) = cells.last_mut() {
                    cell.push_str(&text);
                    *place = place.start.min(range.start)..place.end.max(range.end);
                }
                if let (true, Some((link, _))) = (is_in_link, links.last_mut()) {
                    link.push_str(&text);
                }
            }
            Event::InlineHtml(tag) if &*tag == "<sup>" => {
                if let Some((cell, _)) = cells.last_mut() {
                    cell.push('^');
                }
            }
            Event::End(TagEnd::TableRow) => {
                let explained = std::mem::take(&mut links);
                let mut row = std::mem::take(&mut cells).into_iter();
                if let (true, Some((name, range)), Some((meaning, _))) = (is_of_terms, row.next(), row.next()) {
                    // Targets are relative to the glossary, which is at the top.
                    let explained =
                        explained.into_iter().filter(|(_, target)| resolve(PAGE, target).is_some()).collect();
                    found.push(Term { id: format!("term-{}", slug(&name)), name, range, meaning, explained });
                }
            }
            _ => {}
        }
    }
    found
}

/// A part of a page in which terms are looked for.
struct Prose {
    range: Range<usize>,
    is_heading: bool,
}

/// The text of a page outside links, code, tables, formulas and HTML.
fn prose(markdown: &str) -> Vec<Prose> {
    let mut found: Vec<Prose> = Vec::new();
    // Of what contains no prose; `<a>` in HTML besides.
    let (mut depth, mut is_in_anchor, mut is_heading) = (0_usize, false, false);
    // Whether the text before goes on.
    let mut goes_on = false;
    for (event, range) in Parser::new_ext(markdown, WITH_MATH).into_offset_iter() {
        match event {
            Event::Text(_) if depth == 0 && !is_in_anchor => {
                match found.last_mut().filter(|_| goes_on) {
                    Some(before) => before.range.end = range.end,
                    None => found.push(Prose { range, is_heading }),
                }
                goes_on = true;
                continue;
            }
            Event::SoftBreak => continue,
            Event::Start(Tag::Heading { .. }) => is_heading = true,
            Event::End(TagEnd::Heading(_)) => is_heading = false,
            Event::Start(Tag::Link { .. } | Tag::Image { .. } | Tag::CodeBlock(_) | Tag::Table(_)) => depth += 1,
            Event::End(TagEnd::Link | TagEnd::Image | TagEnd::CodeBlock | TagEnd::Table) => {
                depth = depth.saturating_sub(1)
            }
            Event::InlineHtml(tag) if tag.starts_with("<a ") => is_in_anchor = true,
            Event::InlineHtml(tag) if tag.starts_with("</a") => is_in_anchor = false,
            _ => {}
        }
        goes_on = false;
    }
    found
}

/// Runs of letters and digits.
fn words(text: &str, part: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let (mut at, end) = (part.start, part.end);
    std::iter::from_fn(move || {
        let rest = &text[at..end];
        let start = at + rest.find(char::is_alphanumeric)?;
        let rest = &text[start..end];
        at = start + rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
        Some(start..at)
    })
}

/// A word, and the words of which it may be the plural.
fn singulars(word: &str) -> impl Iterator<Item = String> {
    let ies = word.strip_suffix("ies").map(|stem| format!("{stem}y"));
    let es = word.strip_suffix("es").map(str::to_owned);
    let s = word.strip_suffix('s').map(str::to_owned);
    [Some(word.to_owned()), s, es, ies].into_iter().flatten()
}

/// Whether a word of a page is that of a term: a term in lower case may begin a sentence.
fn is_same(word: &str, of_term: &str) -> bool {
    word == of_term || {
        let mut letters = word.chars();
        let first = letters.next().map(|c| c.to_lowercase().to_string()).unwrap_or_default();
        first + letters.as_str() == of_term
    }
}

/// Whether the text at `range` belongs to a longer name, such as `warp-wide` or `cp.async`.
fn is_part_of_more(text: &str, part: &Range<usize>, range: Range<usize>) -> bool {
    let joins = |c: char| matches!(c, '-' | '_' | '.' | '/' | '\'' | '’' | '`');
    let mut after = text[range.end..part.end].chars();
    let mut before = text[part.start..range.start].chars().rev();
    let is_joined =
        |next: Option<char>, then: Option<char>| next.is_some_and(joins) && then.is_some_and(char::is_alphanumeric);
    // A possessive is none.
    let is_possessive = text[range.end..part.end]
        .strip_prefix(['\'', '’'])
        .is_some_and(|rest| rest.starts_with('s') && !rest[1..].starts_with(char::is_alphanumeric));
    (is_joined(after.next(), after.next()) && !is_possessive) || is_joined(before.next(), before.next())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLOSSARY: &str = "| term | meaning | page |\n| --- | --- | --- |\n| warp | 32 *lanes*, 2<sup>5</sup>. | [M](m.md) |\n\
        | bank conflict, n-way | Turns. | [M](m.md#banks) |\n| SM | A \"part\". | [M](m.md) |\n| stage (of a loop) | One. | [M](m.md) |\n\
        | stage (of a line) | Two. | [M](m.md) |\n| latency | Time. | [M](m.md) |\n";

    #[test]
    fn the_first_use_of_a_term_outside_code_links_and_headings_is_linked() {
        let page = "# Warps\n\n`warp` [warp](x.md) warp-wide warps' warp's, Warps and warps. Bank\nconflicts on SMs of a stage, sm, latencies\n";
        let linked = Glossary::read(GLOSSARY).linked("phase1/x.md", page);
        let found: Vec<_> = linked.split("<a class=\"term\" href=\"../glossary.md#").skip(1).collect();
        let found: Vec<_> = found.iter().filter_map(|rest| rest.split_once("</a>")).map(|(link, _)| link).collect();
        assert_eq!(
            found,
            [
                "term-warp\" title=\"32 lanes, 2^5.\">warps",
                "term-bank-conflict-n-way\" title=\"Turns.\">Bank\nconflicts",
                "term-sm\" title=\"A “part”.\">SMs",
                "term-latency\" title=\"Time.\">latencies",
            ]
        );
    }

    #[test]
    fn a_word_within_a_longer_term_is_not_the_shorter_one() {
        let rows =
            "| block | Of threads. | [M](m.md) |\n| residual block, attention block | Of layers. | [M](m.md) |\n";
        let glossary = Glossary::read(&format!("{GLOSSARY}{rows}"));
        for (page, expected) in [
            // The short form may then stand for the long one, as only a reader knows.
            ("Residual blocks, a residual\nblock; a block.", ["Of layers.\">Residual blocks"].as_slice()),
            ("A block, and attention blocks.", &["Of threads.\">block", "Of layers.\">attention blocks"]),
        ] {
            let linked = glossary.linked("x.md", page);
            let found = linked.split("title=\"").skip(1).filter_map(|rest| rest.split_once("</a>"));
            assert_eq!(found.map(|(link, _)| link).collect::<Vec<_>>(), expected, "{page}");
        }
    }

    #[test]
    fn rows_have_ids_and_repeated_ones_are_found() {
        assert!(with_ids(GLOSSARY).contains("| <dfn id=\"term-warp\">warp</dfn> |"));
        assert_eq!(repeated(GLOSSARY), []);
        let twice = format!("{GLOSSARY}| warp | Again. | [M](m.md) |\n");
        assert_eq!(repeated(&twice), [(9, Reason::RepeatedTerm("warp".to_owned()))]);
    }

    #[test]
    fn the_index_names_the_section_that_uses_a_term_most() {
        let text = "# A page\n\nA warp.\n\n## One_part\n\nwarp, warp\n\n## Two\n\nwarp\n";
        let page = PageText::new("x.md".to_owned(), text.to_owned());
        let index = Glossary::read(GLOSSARY).index(&[page]);
        let entry = "- [warp](glossary.md#term-warp): **[M](m.md)**, [A page: One\\_part](x.md#one_part)\n";
        assert!(index.contains(entry), "{index}");
        assert!(index.contains("- [SM](glossary.md#term-sm): **[M](m.md)**\n"), "{index}");
    }
}
