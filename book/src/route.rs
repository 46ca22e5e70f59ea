//! Routes through the book: the course, week by week, and the weekend, a part of it; the map of both, and what comes next on each page.
//!
//! `book/routes.toml` names the pages of the weekend, the first page of each week, and the parts of the table of contents that belong
//! to no route. A page's opening, `*You know: …*`, links to what it needs: those pages come before it, and on the weekend, they are a
//! part of it.

use std::{collections::BTreeSet, fmt::Write as _, fs, io};

use assignments::exercise::{self, Exercise};
use pulldown_cmark::{Event, HeadingLevel, Parser, Tag, TagEnd};
use serde::Deserialize;

use crate::{
    BookError,
    effort::Effort,
    generated::Workshop,
    markup::escaped,
    outline, paths,
    problem::{Problem, Reason, SUMMARY},
    read,
};

/// File next to `book.toml`.
const FILE: &str = "routes.toml";
/// Helpers that the map and the table of weeks stand for.
pub(crate) const MAP: &str = "routes";
pub(crate) const WEEKS: &str = "weeks";

/// `routes.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    /// Pages of the weekend, in the order of the table of contents.
    weekend: Vec<String>,
    /// Maximum hours of the weekend.
    hours: usize,
    /// The first page of each week.
    weeks: Vec<String>,
    /// Parts of the table of contents that are read as needed.
    appendix: Vec<String>,
}

/// The pages of the course, in order.
#[derive(Debug)]
pub(crate) struct Routes {
    stops: Vec<Stop>,
    hours: usize,
}

/// A page of the course.
#[derive(Debug)]
struct Stop {
    page: String,
    /// In the table of contents.
    title: String,
    part: String,
    week: usize,
    on_weekend: bool,
    effort: Effort,
    /// Ids of its exercises.
    exercises: Vec<String>,
}

/// A page that the table of contents lists.
struct Listed {
    page: String,
    title: String,
    part: String,
}

/// The pages in the order of the table of contents.
fn listed(summary: &str) -> Vec<Listed> {
    let (mut listed, mut part, mut in_part, mut link): (Vec<Listed>, _, _, Option<Listed>) =
        (Vec::new(), String::new(), false, None);
    for event in Parser::new(summary) {
        match event {
            Event::Start(Tag::Heading { level: HeadingLevel::H1, .. }) => (in_part, part) = (true, String::new()),
            Event::End(TagEnd::Heading(_)) => in_part = false,
            Event::Start(Tag::Link { dest_url, .. }) => {
                link = Some(Listed { page: dest_url.to_string(), title: String::new(), part: part.clone() });
            }
            Event::End(TagEnd::Link) => listed.extend(link.take()),
            Event::Text(text) | Event::Code(text) => match &mut link {
                Some(link) => link.title.push_str(&text),
                None if in_part => part.push_str(&text),
                None => {}
            },
            _ => {}
        }
    }
    listed
}

impl Routes {
    /// The routes of a book; `None` if it has no plan of them.
    ///
    /// # Errors
    /// [`BookError::Read`] for a plan that is malformed or names a page that no part of the course has.
    pub(crate) fn read(workshop: &Workshop) -> Result<Option<Routes>, BookError> {
        let file = workshop.pages.with_file_name(FILE);
        if !file.is_file() {
            return Ok(None);
        }
        let failed = |error: String| BookError::Read { path: file.clone(), source: io::Error::other(error) };
        let plan: Plan = toml::from_str(&read(&file)?).map_err(|error| failed(error.to_string()))?;
        let mut pages = listed(&read(&workshop.pages.join(SUMMARY))?);
        pages.retain(|listed| !plan.appendix.contains(&listed.part));
        if let Some(unknown) =
            plan.weekend.iter().chain(&plan.weeks).find(|page| !pages.iter().any(|listed| listed.page == **page))
        {
            return Err(failed(format!("`{unknown}` is no page of the course")));
        }
        let exercises = exercise::all(&workshop.workspace).map_err(|error| failed(format!("{error:#}")))?;
        let mut week = 0;
        let stops = pages.into_iter().map(|Listed { page, title, part }| {
            week += usize::from(plan.weeks.contains(&page));
            let on_page: Vec<&Exercise> = exercises.iter().filter(|exercise| exercise.page == page).collect();
            let text = fs::read_to_string(workshop.pages.join(&page)).unwrap_or_default();
            Ok(Stop {
                title,
                part,
                week: week.max(1),
                on_weekend: plan.weekend.contains(&page),
                effort: Effort::of(&page, &text, &on_page, workshop)?,
                exercises: on_page.iter().map(|exercise| exercise.id.clone()).collect(),
                page,
            })
        });
        Ok(Some(Routes { stops: stops.collect::<Result<_, BookError>>()?, hours: plan.hours }))
    }

    /// Pages whose opening links to a page that comes later, or on the weekend to one that is not a part of it; and a weekend that takes too
    /// long.
    pub(crate) fn problems(&self, texts: impl Fn(&str) -> Option<String>) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut before: BTreeSet<&str> = BTreeSet::new();
        for stop in &self.stops {
            let text = texts(&stop.page).unwrap_or_default();
            for needed in opening(&text).into_iter().filter_map(|link| page_of(&stop.page, &link)) {
                let on_weekend = self.stops.iter().any(|other| other.page == needed && other.on_weekend);
                let reason = if !before.contains(needed.as_str()) {
                    Reason::ComesLater(needed)
                } else if stop.on_weekend && !on_weekend {
                    Reason::NotOnWeekend(needed)
                } else {
                    continue;
                };
                problems.push(Problem { page: stop.page.clone(), line: 1, reason });
            }
            before.insert(&stop.page);
        }
        let minutes = self.weekend().map(|stop| stop.effort.minutes()).sum();
        if minutes > self.hours * 60 {
            let reason = Reason::LongWeekend { minutes, hours: self.hours };
            problems.push(Problem { page: format!("../{FILE}"), line: 1, reason });
        }
        problems
    }

    fn weekend(&self) -> impl Iterator<Item = &Stop> {
        self.stops.iter().filter(|stop| stop.on_weekend)
    }

    /// `markdown` of `page` with its place on the routes after its opening, what comes next at its end, and the map and the table of weeks
    /// where it asks for them.
    pub(crate) fn placed(&self, page: &str, markdown: String) -> String {
        let mut markdown = markdown.replace(&format!("{{{{#{MAP}}}}}"), &self.map());
        markdown = markdown.replace(&format!("{{{{#{WEEKS}}}}}"), &self.weeks());
        let Some(at) = self.stops.iter().position(|stop| stop.page == page) else { return markdown };
        if let Some(end) =
            markdown.find("\n*You know: ").and_then(|start| Some(start + markdown[start..].find(".*\n")? + 2))
        {
            markdown.insert_str(end, &format!("\n\n{}", self.place(at)));
        }
        markdown + "\n\n" + &self.next(at)
    }

    /// Place of a page on the routes, with its times.
    fn place(&self, at: usize) -> String {
        let stop = &self.stops[at];
        let mut text = format!("<p class=\"route\">Week {}", stop.week);
        if stop.on_weekend {
            let position = self.stops[..=at].iter().filter(|stop| stop.on_weekend).count();
            let _ = write!(text, " · weekend {position} of {}", self.weekend().count());
        }
        let _ = write!(text, " · {} to read", hours(stop.effort.reading()));
        if stop.effort.exercises > 0 {
            let s = if stop.exercises.len() == 1 { "" } else { "s" };
            let _ = write!(text, ", {} for the exercise{s}", hours(stop.effort.exercises));
        }
        text + "</p>"
    }

    /// The end of a page: what comes next on its routes.
    fn next(&self, at: usize) -> String {
        let up = "../".repeat(self.stops[at].page.matches('/').count());
        let mut text = format!("<nav class=\"onward\" data-page=\"{}\"", address(&self.stops[at].page));
        let weekend: Vec<String> = self.weekend().map(|stop| address(&stop.page)).collect();
        let _ = write!(text, " data-weekend=\"{}\">", weekend.join(" "));
        let next = &self.stops[at + 1..];
        let weekend = next.iter().find(|stop| stop.on_weekend).filter(|_| self.stops[at].on_weekend);
        for (route, stop) in [("weekend", weekend), ("course", next.first())] {
            let _ = match stop {
                Some(Stop { page, title, .. }) => write!(
                    text,
                    "<p>Next {} the {route}: <a href=\"{up}{}\">{}</a></p>",
                    if route == "weekend" { "on" } else { "in" },
                    address(page),
                    escaped(title)
                ),
                None if route == "weekend" && self.stops[at].on_weekend => {
                    write!(text, "<p>This is the end of the weekend.</p>")
                }
                None if route == "course" => write!(text, "<p>This is the end of the course.</p>"),
                None => Ok(()),
            };
        }
        text + "</nav>\n"
    }

    /// The map: all pages, part by part, those of the weekend marked; and how long each route takes.
    fn map(&self) -> String {
        let total = |stops: &mut dyn Iterator<Item = &Stop>| {
            stops.fold((0, Effort::default(), 0), |(pages, effort, exercises), stop| {
                (pages + 1, effort + stop.effort, exercises + stop.exercises.len())
            })
        };
        let mut text = "<div class=\"map\">\n<ul class=\"legend\">\n".to_owned();
        let weeks = self.stops.last().map_or(0, |stop| stop.week);
        for (class, name, (pages, effort, exercises)) in [
            ("weekend", "A weekend".to_owned(), total(&mut self.weekend())),
            ("", format!("The course, {weeks} weeks"), total(&mut self.stops.iter())),
        ] {
            let (reading, solving) = (hours(effort.reading()), hours(effort.exercises));
            let _ = writeln!(
                text,
                "<li class=\"{class}\"><b>{name}</b>: {pages} pages, {}: {reading} to read, {solving} for {exercises} exercises</li>",
                hours(effort.minutes())
            );
        }
        text.push_str("</ul>\n");
        let mut part = None;
        for stop in &self.stops {
            if part != Some(&stop.part) {
                let close = if part.is_some() { "</ol></section>\n" } else { "" };
                // The introduction stands under the table's own title.
                let title = if stop.part == "Summary" { "Start" } else { &stop.part };
                let _ = writeln!(text, "{close}<section><h3>{}</h3><ol>", escaped(title));
                part = Some(&stop.part);
            }
            let class = if stop.on_weekend { " class=\"weekend\"" } else { "" };
            let _ = writeln!(
                text,
                "<li{class}><a href=\"{}\">{}</a> <small>{}</small></li>",
                address(&stop.page),
                escaped(&stop.title),
                hours(stop.effort.minutes())
            );
        }
        text + "</ol></section>\n</div>"
    }

    /// The course week by week.
    fn weeks(&self) -> String {
        let mut text = "| week | pages | exercises | time |\n| ---: | --- | --- | ---: |\n".to_owned();
        for week in self.stops.chunk_by(|a, b| a.week == b.week) {
            let pages: Vec<String> =
                week.iter().map(|stop| format!("[{}]({})", stop.title.replace('|', "\\|"), stop.page)).collect();
            let exercises: Vec<String> = week
                .iter()
                .flat_map(|stop| stop.exercises.iter().map(|id| format!("[{id}]({}#exercise-{id})", stop.page)))
                .collect();
            let minutes = week.iter().map(|stop| stop.effort.minutes()).sum();
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} |",
                week[0].week,
                pages.join(", "),
                exercises.join(", "),
                hours(minutes)
            );
        }
        text
    }
}

/// Minutes, as hours where there are some.
fn hours(minutes: usize) -> String {
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes} min"),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

/// Address of a rendered page.
fn address(page: &str) -> String {
    page.strip_suffix(".md").unwrap_or(page).to_owned() + ".html"
}

/// The links of a page's opening.
fn opening(text: &str) -> Vec<String> {
    let opening = text.split("\n\n").find(|paragraph| paragraph.starts_with("*You know: ")).unwrap_or_default();
    outline::outline(opening).links.into_iter().map(|link| link.text).collect()
}

/// The page that a link of `page` leads to, if it leads to another one.
fn page_of(page: &str, link: &str) -> Option<String> {
    let path = link.split('#').next().filter(|path| path.ends_with(".md"))?;
    paths::resolve(page, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(page: &str, week: usize, on_weekend: bool, words: usize) -> Stop {
        let effort = Effort { words, ..Effort::default() };
        let (title, part) = (page.to_uppercase(), String::new());
        Stop { page: format!("{page}.md"), title, part, week, on_weekend, effort, exercises: Vec::new() }
    }

    fn routes() -> Routes {
        let stops = vec![stop("a", 1, true, 1800), stop("p/b", 1, false, 900), stop("c", 2, true, 180)];
        Routes { stops, hours: 1 }
    }

    #[test]
    fn the_table_of_contents_is_read_with_its_parts() {
        let summary = "# Summary\n\n[A](a.md)\n\n# One & two\n\n- [`B` and C](p/b.md)\n  - [D](d.md)\n";
        let listed: Vec<_> =
            listed(summary).into_iter().map(|listed| [listed.page, listed.title, listed.part]).collect();
        assert_eq!(listed, [["a.md", "A", "Summary"], ["p/b.md", "B and C", "One & two"], ["d.md", "D", "One & two"]]);
    }

    #[test]
    fn a_page_needs_what_comes_before_it_and_on_the_weekend_what_is_a_part_of_it() {
        let texts = |page: &str| {
            Some(match page {
                "a.md" => "# A\n\n*You know: how to count.*\n\n[later](c.md)\n".to_owned(),
                "p/b.md" => "# B\n\n*You know: [a](../a.md#x), [c](../c.md).*\n".to_owned(),
                _ => "# C\n\n*You know: [a](a.md), [b](p/b.md).*\n".to_owned(),
            })
        };
        let problems: Vec<String> = routes().problems(texts).iter().map(ToString::to_string).collect();
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].starts_with("p/b.md:1: ") && problems[0].contains("`c.md`"), "{problems:?}");
        assert!(problems[1].starts_with("c.md:1: ") && problems[1].contains("`p/b.md`"), "{problems:?}");
        let long = Routes { stops: vec![stop("a", 1, true, 180 * 61)], hours: 1 };
        assert!(matches!(
            &long.problems(|_| None)[..],
            [Problem { reason: Reason::LongWeekend { minutes: 61, hours: 1 }, .. }]
        ));
    }

    #[test]
    fn a_page_says_its_place_and_what_comes_next() {
        let text = routes().placed("a.md", "# A\n\n*You know: nothing.*\n\nWhy?\n".to_owned());
        assert!(
            text.contains("nothing.*\n\n<p class=\"route\">Week 1 · weekend 1 of 2 · 10 min to read</p>\n\nWhy?"),
            "{text}"
        );
        assert!(
            text.contains("Next on the weekend: <a href=\"c.html\">C</a>")
                && text.contains("Next in the course: <a href=\"p/b.html\">P/B</a>")
        );
        let text = routes().placed("p/b.md", "# B\n\n*You know: nothing.*\n".to_owned());
        assert!(!text.contains("weekend:") && text.contains("<a href=\"../c.html\">C</a>"), "{text}");
        let text = routes().placed("other.md", "{{#weeks}}".to_owned());
        assert!(text.contains("| 1 | [A](a.md), [P/B](p/b.md) |  | 15 min |"), "{text}");
    }
}
