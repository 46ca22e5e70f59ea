//! The course's own book: sound, and rendered as the checker expects.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use book::{Book, check::pages_below, outline::outline};
use tempfile::TempDir;

#[test]
fn the_course_builds_with_the_ids_that_links_were_checked_against_and_every_link_leads_somewhere() {
    let output = TempDir::new().unwrap();
    let book = Book::of_course().unwrap();
    let report = book.build(output.path()).unwrap();
    assert!(report.pages >= 3);
    for page in pages_below(&book.pages()).unwrap() {
        if page == "SUMMARY.md" {
            continue;
        }
        let ids = outline(&fs::read_to_string(book.pages().join(&page)).unwrap()).ids;
        let html = fs::read_to_string(output.path().join(&page).with_extension("html")).unwrap();
        let rendered = ids_in(&html);
        for id in ids {
            assert!(rendered.contains(&*id), "{page}: no id {id}");
        }
    }
    every_relative_link_leads_somewhere(output.path());
}

/// The ids of a rendered page's elements.
fn ids_in(html: &str) -> BTreeSet<&str> {
    html.split("id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// mdBook rewrites links; this follows the rendered ones.
fn every_relative_link_leads_somewhere(output: &Path) {
    let mut pages = BTreeMap::new();
    let mut folders = vec![output.canonicalize().unwrap()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "html") {
                pages.insert(path.clone(), fs::read_to_string(path).unwrap());
            }
        }
    }
    let ids: BTreeMap<_, _> = pages.iter().map(|(page, html)| (page, ids_in(html))).collect();
    let mut followed = 0;
    let mut broken = BTreeSet::new();
    for (page, html) in &pages {
        let links = ["href=\"", "src=\""].into_iter().flat_map(|start| html.split(start).skip(1));
        for target in links.filter_map(|rest| rest.split('"').next()) {
            if target.contains(':') || target.starts_with('/') {
                continue;
            }
            let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
            let file = match path {
                "" => page.clone(),
                path => page.parent().unwrap().join(path),
            };
            // Without `..`, as the pages are listed.
            let there = file.canonicalize().is_ok_and(|file| {
                let has_fragment = || ids.get(&file).is_some_and(|ids| ids.contains(fragment));
                file.is_file() && (fragment.is_empty() || has_fragment())
            });
            if !there {
                broken.insert(format!("{}: {target}", page.display()));
            }
            followed += 1;
        }
    }
    assert!(followed > 20, "{followed}");
    assert_eq!(broken, BTreeSet::new());
}
