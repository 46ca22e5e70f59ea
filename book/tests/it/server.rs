//! The server, attacked while it runs, and at its work.

use crate::served;

use std::{
    fs,
    io::Write,
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use served::Served;

#[test]
fn a_body_of_any_stated_length_is_refused() {
    let served = Served::start();
    for (length, status) in [(100_000_000_000_000u64, "413"), (u64::MAX, "4"), (2000, "413"), (5, "405")] {
        let head = format!("POST /one.html HTTP/1.1\r\nHost: {}\r\nContent-Length: {length}\r\n", served.address);
        let answer = served.answer(&format!("{head}Connection: close\r\n\r\n"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{length}: {answer}");
    }
    served.assert_alive();
}

#[test]
fn a_folder_is_its_index() {
    let served = Served::start();
    assert!(served.get("/part/").contains("inside"));
    let redirect = served.get("/part");
    assert!(redirect.starts_with("HTTP/1.1 307") && redirect.contains("location: /part/"), "{redirect}");
    // mdBook's folders of fonts and scripts have no index.
    assert!(served.get("/fonts/").starts_with("HTTP/1.1 404"));
    served.assert_alive();
}

#[test]
fn a_slow_reader_waits_alone() {
    let served = Served::start();
    let request = format!("GET /long.txt HTTP/1.1\r\nHost: {}\r\n\r\n", served.address);
    let mut slow: Vec<TcpStream> = (0..16).map(|_| served.connect()).collect();
    slow.iter_mut().for_each(|stream| stream.write_all(request.as_bytes()).unwrap());
    // And as many that never finish what they ask.
    let silent: Vec<TcpStream> = (0..16).map(|_| served.connect()).collect();
    thread::sleep(Duration::from_millis(300));
    served.assert_alive();
    drop((slow, silent));
    served.assert_alive();
}

#[test]
fn headers_end_or_the_connection_does() {
    let served = Served::start();
    let mut stream = served.connect();
    stream.write_all(b"GET /one.html HTTP/1.1\r\nX: ").unwrap();
    let mut sent = 0;
    let chunk = [b'a'; 1 << 16];
    // What the system's buffers take is not the server's.
    while sent < 200_000_000 && stream.write_all(&chunk).is_ok() {
        sent += chunk.len();
    }
    assert!(sent < 20_000_000, "{sent} bytes of a header were taken");
    served.assert_alive();
    let many: String = (0..1000).map(|n| format!("X{n}: y\r\n")).collect();
    let answer = served.answer(&format!("GET /one.html HTTP/1.1\r\nHost: {}\r\n{many}\r\n", served.address));
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    served.assert_alive();
}

#[test]
fn no_path_leaves_the_book() {
    let served = Served::start();
    for path in [
        "/../secret.txt",
        "/part/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/%2e%2e%2fsecret.txt",
        "/..%5csecret.txt",
        "/part/..\\..\\secret.txt",
        "//secret.txt",
        "/./../secret.txt",
        "/%252e%252e/secret.txt",
        "/C:/secret.txt",
        "/../book/book.toml",
        "/one.html%00.txt",
        "/..",
        "/%2e%2e/",
        "http://127.0.0.1/../secret.txt",
    ] {
        let answer = served.get(path);
        assert!(answer.starts_with("HTTP/1.1 4"), "{path}: {answer}");
        assert!(!answer.contains("secret") && !answer.contains("title ="), "{path}: {answer}");
    }
    served.assert_alive();
}

#[test]
fn only_names_of_this_machine_are_answered() {
    let served = Served::start();
    let port = served.address.rsplit(':').next().unwrap();
    let with = |host: &str| served.answer(&format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
    for host in [served.address.clone(), format!("localhost:{port}"), "localhost".to_owned()] {
        assert!(with(&host).starts_with("HTTP/1.1 200"), "{host}");
    }
    for host in ["example.org", "127.0.0.1.example.org", ""] {
        assert!(with(host).starts_with("HTTP/1.1 421"), "{host}");
    }
}

#[test]
fn pages_reload_when_the_book_is_built_again() {
    let served = Served::start();
    let page = served.get("/one.html");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("before") && page.contains("location.reload"), "{page}");
    assert!(page.contains("no-store") && page.trim_end().ends_with("</html>"), "{page}");
    assert!(served.get("/").starts_with("HTTP/1.1 200"));
    // mdBook adds a hash to the name.
    let style = page.split("href=\"").filter_map(|rest| rest.split('"').next()).find(|target| target.contains("style"));
    let style = served.get(&format!("/{}", style.unwrap()));
    assert!(style.starts_with("HTTP/1.1 200") && style.contains("text/css") && !style.contains("location.reload"));
    assert!(served.get("/none.html").starts_with("HTTP/1.1 404"));
    let builds = || served.get("/.builds").rsplit("\r\n").next().unwrap().to_owned();
    assert_eq!(builds(), "1");

    // A chapter listed before its page exists fails to build; writing the page mends it.
    fs::write(served.pages().join("SUMMARY.md"), "# S\n\n- [One](one.md)\n- [Part](part/index.md)\n- [Two](two.md)\n")
        .unwrap();
    thread::sleep(Duration::from_millis(700));
    assert!(served.get("/two.html").starts_with("HTTP/1.1 404"));
    assert_eq!(builds(), "1");
    fs::write(served.pages().join("two.md"), "# Two\n\nafter\n").unwrap();
    let start = Instant::now();
    while !served.get("/two.html").contains("after") {
        assert!(start.elapsed() < Duration::from_secs(20), "not built again");
        thread::sleep(Duration::from_millis(100));
    }
    // Counted when it is complete.
    thread::sleep(Duration::from_millis(500));
    assert_ne!(builds(), "1");
}
