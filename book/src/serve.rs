//! A server for this machine that builds again at every change, has pages reload themselves and runs kernels that a reader edits in
//! them ([`crate::playground`]).
//!
//! axum on hyper, with limits in each direction, since any page in a browser can reach a port of this machine: it answers only under
//! this machine's names, takes no bodies but a kernel's text, bounds what a header may hold and how long it may come, and how long a
//! connection lives. A slow reader waits alone. Files come from tower-http's `ServeDir`, which stays in its folder.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Write},
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, SystemTime},
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    http::{
        StatusCode,
        header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue},
    },
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use common::secret::Secret;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{net::TcpStream, sync::Semaphore, time::timeout};
use tower_http::{limit::RequestBodyLimitLayer, services::ServeDir};

use crate::{
    Book, BookError,
    playground::{
        api::{self, Api},
        pool::{self, Limits, Pool},
    },
};

/// Interval at which the book's files are checked.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// Path that returns the number of builds so far.
const BUILDS: &str = "/.builds";

/// Maximum bytes of the body of a file request; nothing reads it.
const BODY_LIMIT: usize = 1 << 10;
/// Maximum bytes of a request's first line and headers.
const HEADER_LIMIT: usize = 32 << 10;
/// Time within which the headers must arrive.
const HEADER_TIME: Duration = Duration::from_secs(10);
/// Maximum number of connections at a time; more wait.
const CONNECTIONS: usize = 64;
/// After this, a connection may finish its answer and accepts no other request …
const LIFETIME: Duration = Duration::from_secs(20);
/// … for which it has this long.
const FAREWELL: Duration = Duration::from_secs(10);
/// Maximum bytes of a page that the script is added to.
const PAGE_LIMIT: usize = 64 << 20;

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

/// Added to each page: kernels can be run here.
const SERVED: &str = "<meta name=\"warp-served\">\n";

/// A server that listens and has rendered the book once.
pub struct Server {
    listener: TcpListener,
    url: String,
    book: Book,
    output: PathBuf,
    rendered: SystemTime,
    api: Api,
}

impl Server {
    /// Renders `book` into `output` and listens on `port` of this machine only (0: a free port). The pages are checked while it
    /// runs: making their generated parts anew takes minutes, which readers need not wait for.
    ///
    /// # Errors
    /// Same as [`Book::render`], and [`BookError::Listen`] if the port is not available.
    pub fn start(book: Book, output: PathBuf, port: u16) -> Result<Server, BookError> {
        let refused = |error: io::Error| BookError::Listen { port, reason: error.to_string() };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let rendered = SystemTime::now();
        book.render(&output)?;
        let pool = pool::program().and_then(|program| Pool::start(program, Limits::default())).map_err(refused)?;
        let hosts = ["127.0.0.1", "localhost"].map(|name| format!("{name}:{}", address.port()));
        let api = Api {
            pool,
            token: Secret::random().map_err(refused)?,
            hosts,
            workspace: book.workspace(),
            pages: book.pages(),
        };
        Ok(Server { listener, url: format!("http://{address}/"), book, output, rendered, api })
    }

    /// The same, with kernels run in processes of `program` and within `limits`.
    ///
    /// # Errors
    /// If the system cannot start a thread for it.
    pub fn running_kernels_by(self, program: PathBuf, limits: Limits) -> io::Result<Server> {
        let api = Api { pool: Pool::start(program, limits)?, ..self.api };
        Ok(Server { api, ..self })
    }

    /// Address of the book.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Address of the book for the reader's browser: it brings the token by which its pages may run kernels.
    pub fn link(&self) -> String {
        format!("{}#token={}", self.url, self.api.token.reveal())
    }

    /// Opens the book in the system's browser. The address is in a file that only the reader's account can read: that of a
    /// program's arguments every account can.
    ///
    /// # Errors
    /// If the file cannot be written, or there is no browser.
    pub fn open(&self) -> io::Result<()> {
        let link = self.link();
        let page =
            format!("<!doctype html>\n<title>Warp by Warp</title>\n<script>location.replace({link:?});</script>\n");
        let path = self.output.with_file_name("open-book.html");
        let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
        file.write_all(page.as_bytes())?;
        file.persist(&path)?;
        open::that_detached(&path)
    }

    /// Watches and answers until the process ends.
    ///
    /// # Errors
    /// If the system cannot start a thread or event queue for it.
    pub fn run(self) -> io::Result<()> {
        let Server { listener, book, output, rendered, api, .. } = self;
        let builds = Arc::new(AtomicU64::new(1));
        let router = router(&output, Arc::clone(&builds), api);
        thread::Builder::new().spawn(move || watch(&book, &output, rendered, &builds))?;
        // One thread is enough: files are read by others.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(accept(listener, router))
    }
}

/// Routes of all paths.
fn router(output: &Path, builds: Arc<AtomicU64>, api: Api) -> Router {
    let files = Router::new()
        .route(BUILDS, get(move || async move { builds.load(Ordering::Relaxed).to_string() }))
        .fallback_service(ServeDir::new(output))
        .layer(middleware::map_response(with_scripts))
        .layer(RequestBodyLimitLayer::new(BODY_LIMIT));
    files
        .merge(api::router(api))
        .layer(middleware::map_response(for_own_pages))
        .layer(middleware::from_fn(for_this_machine))
}

/// Pages of other origins can neither embed nor frame these pages.
async fn for_own_pages(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.insert("x-frame-options", HeaderValue::from_static("DENY"));
    response
}

/// Refuses requests under names that are not this machine's: with its own name that leads here, a page of another site could read
/// the answers.
async fn for_this_machine(request: Request, next: Next) -> Response {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _port)| name);
    if matches!(name, "127.0.0.1" | "localhost") {
        next.run(request).await
    } else {
        (StatusCode::MISDIRECTED_REQUEST, "this server answers to localhost only\n").into_response()
    }
}

/// Pages with the script that reloads them and the mark by which they know this server; the browser caches nothing, since it could take an old page
/// for the new one.
async fn with_scripts(response: Response) -> Response {
    let (mut head, body) = response.into_parts();
    head.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let is_page = head.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    if !is_page || head.status != StatusCode::OK {
        return Response::from_parts(head, body);
    }
    let Ok(page) = to_bytes(body, PAGE_LIMIT).await else {
        return (StatusCode::INTERNAL_SERVER_ERROR, "the page cannot be read\n").into_response();
    };
    let page = String::from_utf8_lossy(&page).replacen("</body>", &format!("{RELOAD}</body>"), 1);
    let page = page.replacen("</head>", &format!("{SERVED}</head>"), 1);
    head.headers.remove(CONTENT_LENGTH);
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    Response::from_parts(head, Body::from(page))
}

/// Takes connections and answers each on its own.
async fn accept(listener: TcpListener, router: Router) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&free).acquire_owned().await else { return Ok(()) };
        match listener.accept().await {
            Ok((stream, _)) => {
                let router = router.clone();
                tokio::spawn(async move {
                    serve(stream, router).await;
                    drop(place);
                });
            }
            // The other side went away, or there are no descriptors left for now.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Answers the requests of a connection until it ends or its time is over. A browser that has gone away is not an error.
async fn serve(stream: TcpStream, router: Router) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIME).max_buf_size(HEADER_LIMIT);
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    if timeout(LIFETIME, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(FAREWELL, connection).await;
    }
}

/// Checks the pages that were rendered at this time, then builds again after each change.
fn watch(book: &Book, output: &Path, rendered: SystemTime, builds: &AtomicU64) {
    let mut files = BTreeSet::new();
    match book.check() {
        Ok(report) => {
            if !report.problems.is_empty() {
                eprintln!("error: {}", BookError::Problems(report.problems));
            }
            files = report.files;
        }
        Err(error) => eprintln!("error: {error}"),
    }
    let mut before = stamps(&files);
    let is_later = |stamp: &Option<(SystemTime, u64)>| stamp.is_none_or(|(modified, _)| modified > rendered);
    let mut changed = before.iter().any(is_later);
    loop {
        if !changed {
            thread::sleep(LOOK_EVERY);
            if stamps(&files) == before {
                continue;
            }
        }
        changed = false;
        let rendered = book.check().and_then(|report| {
            files = report.files;
            // Taken before rendering: an edit meanwhile is seen at the next look.
            before = stamps(&files);
            if report.problems.is_empty() { book.render(output) } else { Err(BookError::Problems(report.problems)) }
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

/// Times and sizes that reveal changed files: `None` for one that is gone.
fn stamps(files: &BTreeSet<PathBuf>) -> Vec<Option<(SystemTime, u64)>> {
    let stamp = |file: &PathBuf| {
        let data = fs::metadata(file).ok()?;
        Some((data.modified().ok()?, data.len()))
    };
    files.iter().map(stamp).collect()
}
