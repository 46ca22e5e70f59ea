//! Ids and links of one page: the ids that a link can end at, and the links themselves.

use std::collections::HashSet;

use pulldown_cmark::{BrokenLink, Event, LinkType, Options, Parser, Tag, TagEnd};

/// A link's target as written, or a reference label, and its 1-based line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// 1-based line in the page.
    pub line: usize,
    /// Link target or label.
    pub text: String,
}

/// A heading of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// Start of the heading, in bytes.
    pub offset: usize,
    /// Text after `#` in a link to it.
    pub id: String,
    /// Title as text.
    pub title: String,
}

/// The parts of a page that other pages depend on.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    /// Fragments that exist once mdBook has rendered the page.
    pub ids: HashSet<String>,
    /// In order.
    pub headings: Vec<Heading>,
    /// Targets of links and images, in Markdown and in inline HTML.
    pub links: Vec<Place>,
    /// `[text][label]` whose label is defined nowhere; Markdown shows these as plain text.
    pub undefined_labels: Vec<Place>,
    /// Whether the page has anything but headings.
    pub has_body: bool,
}

/// mdBook's own extensions. The test that compares [`Outline::ids`] with the rendered book guards this list.
pub(crate) const EXTENSIONS: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_FOOTNOTES)
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_TASKLISTS)
    .union(Options::ENABLE_HEADING_ATTRIBUTES)
    .union(Options::ENABLE_SMART_PUNCTUATION)
    .union(Options::ENABLE_DEFINITION_LIST)
    .union(Options::ENABLE_GFM);

/// Reads the Markdown of one page.
pub fn outline(markdown: &str) -> Outline {
    let mut outline = Outline::default();
    let mut undefined_labels = Vec::new();
    let mut undefined = |link: BrokenLink<'_>| {
        // `[x]` alone is far more often an array index than a forgotten link.
        if !matches!(link.link_type, LinkType::Shortcut | LinkType::ShortcutUnknown) {
            undefined_labels.push(Place { line: line_at(markdown, link.span.start), text: link.reference.to_string() });
        }
        None
    };
    let parser = Parser::new_with_broken_link_callback(markdown, EXTENSIONS, Some(&mut undefined));

    // The id and the text so far of the heading or definition title that we are in.
    let mut titled: Option<(Option<String>, String)> = None;
    for (event, range) in parser.into_offset_iter() {
        let line = line_at(markdown, range.start);
        match event {
            Event::Start(Tag::Heading { id, .. }) => {
                titled = Some((id.map(String::from), String::new()));
            }
            Event::Start(Tag::DefinitionListTitle) => titled = Some((None, String::new())),
            Event::End(end @ (TagEnd::Heading(_) | TagEnd::DefinitionListTitle)) => {
                let (id, title) = titled.take().unwrap_or_default();
                let id = id.unwrap_or_else(|| distinct(slug(&title), &outline.ids));
                outline.ids.insert(id.clone());
                if matches!(end, TagEnd::Heading(_)) {
                    outline.headings.push(Heading { offset: range.start, id, title });
                }
            }
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                outline.links.push(Place { line, text: dest_url.into_string() });
            }
            Event::Html(html) | Event::InlineHtml(html) => {
                outline.ids.extend(attributes(&html, "id").map(str::to_owned));
                let targets = attributes(&html, "href").chain(attributes(&html, "src"));
                outline.links.extend(targets.map(|target| Place { line, text: target.to_owned() }));
            }
            Event::Text(text) | Event::Code(text) => match &mut titled {
                Some((_, title)) => title.push_str(&text),
                None => outline.has_body = true,
            },
            _ => {}
        }
    }
    outline.undefined_labels = undefined_labels;
    outline
}

/// The 1-based line of a byte offset.
pub(crate) fn line_at(text: &str, offset: usize) -> usize {
    1 + text[..offset].matches('\n').count()
}

/// mdBook's id of a heading: lower case, spaces to hyphens, everything else but letters, digits, `_` and `-` dropped.
pub(crate) fn slug(heading: &str) -> String {
    heading
        .trim()
        .to_lowercase()
        .chars()
        .filter_map(|c| match c {
            c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c),
            c if c.is_whitespace() => Some('-'),
            _ => None,
        })
        .collect()
}

/// mdBook distinguishes equal headings of a page by `-1`, `-2`, ….
fn distinct(id: String, taken: &HashSet<String>) -> String {
    if !taken.contains(&id) {
        return id;
    }
    (1..)
        .map(|n| format!("{id}-{n}"))
        .find(|candidate| !taken.contains(candidate))
        .expect("a page has finitely many ids")
}

/// Values of `name="…"` in a piece of HTML.
fn attributes<'a>(html: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    html.match_indices(name).filter_map(move |(at, _)| {
        let whole_word = html[..at].ends_with(|c: char| c.is_whitespace() || c == ':');
        let value = html[at + name.len()..].strip_prefix("=\"")?;
        value.split_once('"').map(|(value, _)| value).filter(|_| whole_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_become_the_ids_that_mdbook_gives_them() {
        let page = "# Don't `__syncthreads()` -- twice!\n\n## Warp\n\n## Warp\n\n## Own {#mine}\n\nTerm\n: meaning\n";
        let mut ids: Vec<_> = outline(page).ids.into_iter().collect();
        ids.sort();
        assert_eq!(ids, ["dont-__syncthreads--twice", "mine", "term", "warp", "warp-1"]);
    }

    #[test]
    fn links_are_found_in_markdown_and_html_but_not_in_code() {
        let page =
            "see [a](a.md#x)\n\n![b](b.svg)\n\n<a class=\"k\" href=\"c.md\">c</a> `[d](d.md)`\n\n```\n[e](e.md)\n```\n";
        let links = outline(page).links;
        let found: Vec<_> = links.iter().map(|l| (l.line, l.text.as_str())).collect();
        assert_eq!(found, [(1, "a.md#x"), (3, "b.svg"), (5, "c.md")]);
    }

    #[test]
    fn undefined_labels_are_told_from_array_indices() {
        let page = "first\n\n[warp][w] and [lane][] and x[3]\n";
        let labels = outline(page).undefined_labels;
        let found: Vec<_> = labels.iter().map(|l| (l.line, l.text.as_str())).collect();
        assert_eq!(found, [(3, "w"), (3, "lane")]);
    }

    #[test]
    fn a_page_of_headings_has_no_body() {
        assert!(!outline("# One\n\n## Two\n").has_body);
        assert!(outline("# One\n\ntext\n").has_body);
    }
}
