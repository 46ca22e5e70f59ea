//! `--serve`: the built book on this machine, built again when a file that it is made of changes.
//!
//! Changes are found by comparing times and lengths of exactly what the last check read (or wished to read). That is a
//! hundred `stat` calls, needs no file-watching library, and does not see `target/` below the workspace.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, SystemTime},
};

use tiny_http::{Header, Request, Response};

use crate::{Book, BookError};

const LOOK_EVERY: Duration = Duration::from_millis(300);

/// Answers with the number of builds so far.
const BUILDS: &str = "/.builds";

/// Added to each page: reloads it when the number of builds has changed.
const RELOAD: &str = r"<script>
(async () => {
  for (let seen, now; ; seen = now ?? seen) {
    try { now = await (await fetch('/.builds', { cache: 'no-store' })).text(); } catch { now = undefined; }
    if (seen !== undefined && now !== undefined && now !== seen) location.reload();
    await new Promise(wake => setTimeout(wake, 500));
  }
})();
</script>
";

/// A server that listens and has built the book once.
pub struct Server {
    http: tiny_http::Server,
    url: String,
    book: Book,
    output: PathBuf,
    files: BTreeSet<PathBuf>,
}

impl Server {
    /// Builds `book` into `output` and listens on `port` of this machine only (0: a free port).
    ///
    /// # Errors
    /// As [`Book::build`], and [`BookError::Listen`] if the port can't be had.
    pub fn start(book: Book, output: PathBuf, port: u16) -> Result<Server, BookError> {
        let http = tiny_http::Server::http(("127.0.0.1", port))
            .map_err(|error| BookError::Listen { port, reason: error.to_string() })?;
        let files = book.build(&output)?.files;
        let url = format!("http://{}/", http.server_addr());
        Ok(Server { http, url, book, output, files })
    }

    /// Where the browser finds the book.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Watches and answers until the process ends.
    pub fn run(self) {
        let Server { http, book, output, files, .. } = self;
        let builds = Arc::new(AtomicU64::new(1));
        let watcher = {
            let (builds, output) = (Arc::clone(&builds), output.clone());
            move || watch(&book, &output, files, &builds)
        };
        thread::spawn(watcher);
        for request in http.incoming_requests() {
            // A browser that went away while we answered is no error of ours.
            let _ = answer(request, &output, builds.load(Ordering::Relaxed));
        }
    }
}

fn watch(book: &Book, output: &Path, mut files: BTreeSet<PathBuf>, builds: &AtomicU64) {
    let mut before = stamps(&files);
    loop {
        thread::sleep(LOOK_EVERY);
        if stamps(&files) == before {
            continue;
        }
        let rendered = book.check().and_then(|report| {
            files = report.files;
            // Taken before rendering: an edit meanwhile is seen at the next look.
            before = stamps(&files);
            match report.problems.is_empty() {
                true => book.render(output),
                false => Err(BookError::Problems(report.problems)),
            }
        });
        match rendered {
            Ok(()) => {
                builds.fetch_add(1, Ordering::Relaxed);
                println!("built again");
            }
            Err(error) => eprintln!("error: {error}"),
        }
    }
}

/// What tells a changed file: `None` for one that is gone.
fn stamps(files: &BTreeSet<PathBuf>) -> Vec<Option<(SystemTime, u64)>> {
    let stamp = |file: &PathBuf| {
        let data = fs::metadata(file).ok()?;
        Some((data.modified().ok()?, data.len()))
    };
    files.iter().map(stamp).collect()
}

fn answer(request: Request, output: &Path, builds: u64) -> std::io::Result<()> {
    let path = request.url().split(['?', '#']).next().unwrap_or_default();
    if path == BUILDS {
        return request.respond(Response::from_string(builds.to_string()));
    }
    let Some(file) = file_for(path).map(|file| output.join(file)) else {
        return request.respond(Response::from_string("not a page").with_status_code(404));
    };
    let header = Header::from_bytes("Content-Type", content_type(&file)).expect("content types are ASCII");
    if file.extension().is_some_and(|extension| extension == "html") {
        return match fs::read_to_string(&file) {
            Ok(page) => {
                let page = page.replacen("</body>", &format!("{RELOAD}</body>"), 1);
                request.respond(Response::from_string(page).with_header(header))
            }
            Err(_) => request.respond(Response::from_string("no such page").with_status_code(404)),
        };
    }
    match File::open(&file) {
        Ok(content) => request.respond(Response::from_file(content).with_header(header)),
        Err(_) => request.respond(Response::from_string("no such file").with_status_code(404)),
    }
}

/// The file below the output folder that a request path names. mdBook's names are plain, so anything with an escape, a
/// drive letter, a backslash or a dot in front names nothing.
fn file_for(path: &str) -> Option<PathBuf> {
    let path = path.strip_prefix('/')?;
    let plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    match path.strip_suffix('/').unwrap_or(path) {
        "" => Some(PathBuf::from("index.html")),
        folder if path.ends_with('/') => folder.split('/').all(plain).then(|| Path::new(folder).join("index.html")),
        file => file.split('/').all(plain).then(|| PathBuf::from(file)),
    }
}

fn content_type(file: &Path) -> &'static str {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("json") => "application/json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("woff2") => "font/woff2",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_never_leaves_the_output_folder() {
        for path in ["/../secret", "/a/../../b", "/C:/x", "/a\\b", "/%2e%2e/x", "//etc/passwd", "relative", "/.builds2"]
        {
            assert_eq!(file_for(path), None, "{path}");
        }
        assert_eq!(file_for("/"), Some("index.html".into()));
        assert_eq!(file_for("/a/b-1.html"), Some("a/b-1.html".into()));
        assert_eq!(file_for("/a/"), Some(Path::new("a").join("index.html")));
    }
}
