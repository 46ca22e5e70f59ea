//! The course's own book: sound, rendered as the checker believes, and served.
#![allow(clippy::unwrap_used)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use book::{Book, check::pages_below, outline::outline, serve::Server};
use tempfile::TempDir;

#[test]
fn the_course_builds_and_its_pages_have_the_ids_that_links_were_checked_against() {
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
        for id in ids {
            assert!(html.contains(&format!("id=\"{id}\"")), "{page}: no id {id}");
        }
    }
}

/// mdBook rewrites links; this follows what came out.
#[test]
fn every_relative_link_of_the_rendered_book_leads_somewhere() {
    let output = TempDir::new().unwrap();
    Book::of_course().unwrap().build(output.path()).unwrap();
    let mut pages = BTreeMap::new();
    let mut folders = vec![output.path().canonicalize().unwrap()];
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
                file.is_file()
                    && (fragment.is_empty()
                        || pages.get(&file).is_some_and(|html| html.contains(&format!("id=\"{fragment}\""))))
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

#[test]
fn the_server_shows_pages_and_builds_again_after_an_edit() {
    let workspace = TempDir::new().unwrap();
    let root = workspace.path().join("book");
    copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("book.toml"), root.join("book.toml"));
    copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("style.css"), root.join("style.css"));
    fs::create_dir(root.join("pages")).unwrap();
    fs::write(root.join("pages/SUMMARY.md"), "# S\n\n- [One](one.md)\n").unwrap();
    fs::write(root.join("pages/one.md"), "# One\n\nbefore\n").unwrap();

    let book = Book::open(&root, &[]).unwrap();
    let server = Server::start(book, workspace.path().join("out"), 0).unwrap();
    let address = server.url().trim_start_matches("http://").trim_end_matches('/').to_owned();
    thread::spawn(move || server.run());

    let page = get(&address, "/one.html");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("before") && page.contains("location.reload"), "{page}");
    assert!(get(&address, "/").starts_with("HTTP/1.1 200"));
    assert!(get(&address, "/none.html").starts_with("HTTP/1.1 404"));
    assert!(get(&address, "/../book/book.toml").starts_with("HTTP/1.1 404"));

    // A chapter listed before its page exists fails to build; writing the page mends it.
    fs::write(root.join("pages/SUMMARY.md"), "# S\n\n- [One](one.md)\n- [Two](two.md)\n").unwrap();
    thread::sleep(Duration::from_millis(700));
    assert!(get(&address, "/two.html").starts_with("HTTP/1.1 404"));
    fs::write(root.join("pages/two.md"), "# Two\n\nafter\n").unwrap();
    let start = Instant::now();
    while !get(&address, "/two.html").contains("after") {
        assert!(start.elapsed() < Duration::from_secs(20), "not built again");
        thread::sleep(Duration::from_millis(100));
    }
}

fn copy(from: PathBuf, to: PathBuf) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(from, to).unwrap();
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}
