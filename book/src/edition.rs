//! Additions to the pages when they are rendered, which are not in their Markdown: they would go out of date there, or be in the
//! way.

use mdbook_driver::{
    MDBook,
    book::{BookItem, Chapter},
};

use crate::{
    BookError, cells, formula,
    generated::Workshop,
    glossary::{self, Glossary, PageText},
    listing,
    paths::slashed,
    problem::Problem,
    route::Routes,
    sources::Shown,
};

/// Adds to each chapter of `book`: its place on the routes, links to the glossary's terms, formulas, where cells of tables may break, and
/// numbers and captions of listings; to some the map, the weeks, or the index of concepts. Returns the sources that the listings show.
///
/// # Errors
/// [`BookError::Problems`] for a formula that cannot be rendered, [`BookError::Read`] for a source that cannot be read.
pub fn prepare(book: &mut MDBook, workshop: &Workshop) -> Result<Shown, BookError> {
    let mut pages = Vec::new();
    for item in book.iter() {
        if let BookItem::Chapter(chapter) = item
            && let Some(page) = page_of(chapter)
        {
            pages.push(PageText::new(page, chapter.content.clone()));
        }
    }
    let glossary = pages.iter().find(|page| page.path == glossary::PAGE);
    let glossary = glossary.map_or_else(Glossary::default, |page| Glossary::read(&page.markdown));
    let routes = Routes::read(workshop)?;
    let (mut shown, mut failed) = (Shown::default(), None);
    let placed = |page: &str, content: &str| match &routes {
        Some(routes) => routes.placed(page, content.to_owned()),
        None => content.to_owned(),
    };
    book.book.for_each_chapter_mut(|chapter| {
        if let Some(page) = page_of(chapter)
            && failed.is_none()
        {
            match prepared(&page, &placed(&page, &chapter.content), &glossary, &pages, workshop, &mut shown) {
                Ok(content) => chapter.content = content,
                Err(error) => failed = Some(error),
            }
        }
    });
    failed.map_or(Ok(shown), Err)
}

fn prepared(
    page: &str,
    markdown: &str,
    glossary: &Glossary,
    pages: &[PageText],
    workshop: &Workshop,
    shown: &mut Shown,
) -> Result<String, BookError> {
    let markdown = match page {
        glossary::PAGE => glossary::with_ids(markdown),
        _ if glossary::asks_for_index(markdown) => glossary.fill_index(markdown, pages),
        _ => glossary.linked(page, markdown),
    };
    let problem = |(line, reason)| BookError::Problems(vec![Problem { page: page.to_owned(), line, reason }]);
    let markdown = formula::rendered(&markdown).map_err(problem)?;
    listing::captioned(page, &cells::broken(&markdown), workshop, shown)
}

/// The chapter's page below the pages' folder, with `/`.
fn page_of(chapter: &Chapter) -> Option<String> {
    chapter.source_path.as_deref().map(slashed)
}
