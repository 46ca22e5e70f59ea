//! A small book that is being served, for tests.
#![allow(dead_code, reason = "each file of tests takes what it needs")]

use std::{
    fs,
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use book::{Book, playground::pool::Limits, serve::Server};
use tempfile::TempDir;

/// The kernel that it has.
pub(crate) const KERNEL: &str = "phase1-infra/kernels/01_vector_add.cu";

/// The exercise that it has, `guard`.
pub(crate) const EXERCISE: &str = "phase1-infra/exercises/01-guard";

const ROUTES: &str = "weekend = [\"one.md\"]\nhours = 1\nweeks = [\"one.md\", \"part/index.md\"]\nappendix = []\n";

/// A small book that is being served.
pub(crate) struct Served {
    folder: TempDir,
    /// `127.0.0.1:PORT`.
    pub address: String,
    /// Address for the reader's browser.
    pub link: String,
}

/// Markdown of a page with a prediction, with a question in between.
const ASKING: &str = "## Your prediction\n\nHow many?\n\n<form class=\"question\" data-answer=\"4\"><input name=\"answer\"><button>Check</button>\
    <output></output></form>\n<details><summary>Answer</summary>\n\nFour.\n\n</details>\n\nAnd how fast?\n\n## Prediction\n\nFast.\n";

impl Served {
    pub(crate) fn start() -> Served {
        Served::with(Limits::default())
    }

    /// A server whose runs have these limits.
    pub(crate) fn with(limits: Limits) -> Served {
        let folder = TempDir::new().unwrap();
        let root = folder.path().join("book");
        fs::create_dir_all(root.join("pages/part")).unwrap();
        for file in [
            "book.toml",
            "style.css",
            "question.js",
            "prediction.js",
            "print.js",
            "scrolling.js",
            "occupancy.js",
            "playground.js",
            "progress.js",
        ] {
            fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(file), root.join(file)).unwrap();
        }
        fs::write(root.join("pages/SUMMARY.md"), "# S\n\n- [One](one.md)\n- [Part](part/index.md)\n").unwrap();
        fs::write(
            root.join("pages/one.md"),
            format!(
                "# One\n\n*You know: nothing.*\n\nbefore\n\n{{{{#routes}}}}\n\n```c\n{{{{#include ../../{KERNEL}:kernel}}}}\n```\n\n{ASKING}\n\
                 ### Exercise: add {{#exercise-guard}}\n\nTo do:\n\n```cpp\nthe skeleton\n```\n"
            ),
        )
        .unwrap();
        fs::write(root.join("pages/part/index.md"), "# Part\n\ninside\n").unwrap();
        // More than the system keeps for a reader that does not read.
        fs::write(root.join("pages/long.txt"), "all work and no play\n".repeat(2_000_000)).unwrap();
        fs::write(folder.path().join("secret.txt"), "secret").unwrap();
        let kernel = folder.path().join(KERNEL);
        fs::create_dir_all(kernel.parent().unwrap()).unwrap();
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(KERNEL), kernel).unwrap();
        fs::write(root.join("routes.toml"), ROUTES).unwrap();
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let exercise = folder.path().join(EXERCISE);
        fs::create_dir_all(exercise.join("wrong")).unwrap();
        for file in ["exercise.toml", "exercise.cu", "solution.cu", "wrong/off_by_one.cu"] {
            fs::copy(workspace.join(EXERCISE).join(file), exercise.join(file)).unwrap();
        }
        let book = Book::open(&root, &[]).unwrap();
        let server = Server::start(book, folder.path().join("out"), 0).unwrap();
        let server = server.running_kernels_by(env!("CARGO_BIN_EXE_book").into(), limits).unwrap();
        let address = server.url().trim_start_matches("http://").trim_end_matches('/').to_owned();
        let link = server.link();
        thread::spawn(move || server.run());
        Served { folder, address, link }
    }

    /// A file of the exercise.
    pub(crate) fn exercise(&self, file: &str) -> PathBuf {
        self.folder.path().join(EXERCISE).join(file)
    }

    pub(crate) fn pages(&self) -> PathBuf {
        self.folder.path().join("book/pages")
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        // Nothing may hang.
        stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(15))).unwrap();
        stream
    }

    /// The whole answer to these bytes.
    pub(crate) fn answer(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        read(&mut stream)
    }

    pub(crate) fn get(&self, path: &str) -> String {
        self.answer(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address))
    }

    pub(crate) fn assert_alive(&self) {
        let begin = Instant::now();
        let page = self.get("/one.html");
        assert!(page.starts_with("HTTP/1.1 200") && page.contains("before"), "{page}");
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    }
}

/// Everything up to the end, or up to where the server broke off.
pub(crate) fn read(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert!(!matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "it hangs");
    }
    String::from_utf8_lossy(&answer).into_owned()
}
