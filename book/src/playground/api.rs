//! Requests of the served book's pages: the text of a kernel or an exercise, a run of an edited one, its progress, and its end.
//!
//! A run compiles and executes what it is sent, so only the book's own pages may ask: each request carries a token,
//! names this very server as its host, and comes from a page of it. The token reaches the browser in the address that the command
//! prints, behind a `#`, which browsers do not send: no answer of the server holds it.

use std::{fs, path::PathBuf};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, Request, State},
    http::{
        HeaderMap, Method, StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE, HOST, ORIGIN},
    },
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use bench::trial::Size;
use common::{compile::gate::MAX_SOURCE, secret::Secret};
use serde::Deserialize;
use serde_json::{Value, json};
use tower_http::limit::RequestBodyLimitLayer;

use super::{
    answer as exercises,
    job::{Answer, Edited, Job},
    kernels,
    pool::{Pool, Stage},
};
use crate::exercise::find;

/// The header that carries the token.
const TOKEN: &str = "x-warp-token";
/// Bytes of a request's body: a text in JSON, in which a character may take six bytes.
const BODY_LIMIT: usize = 6 * MAX_SOURCE + 1024;
/// The editor, bundled.
const EDITOR: &str = include_str!("../../editor/editor.js");

/// State for answering requests.
#[derive(Clone)]
pub struct Api {
    /// The runs.
    pub pool: Pool,
    /// Secret of the book's pages.
    pub token: Secret,
    /// `127.0.0.1:3000`, and `localhost:3000`.
    pub hosts: [String; 2],
    /// The folder of the workspace.
    pub workspace: PathBuf,
    /// The folder of the book's pages.
    pub pages: PathBuf,
}

/// A run requested by a page.
#[derive(Deserialize)]
#[serde(untagged)]
enum Asked {
    Kernel(AskedKernel),
    Answer { exercise: String, text: String },
}

/// A run of a kernel.
#[derive(Deserialize)]
struct AskedKernel {
    file: String,
    text: String,
    /// The page whose pictures are to be drawn again: `/phase2/gemm-naive.html`.
    #[serde(default)]
    page: Option<String>,
    /// The problem's sizes, instead of those of the check.
    #[serde(default)]
    sizes: Option<Vec<usize>>,
}

/// The routes.
pub fn router(api: Api) -> Router {
    Router::new()
        .route("/.kernels/{*file}", get(kernel))
        .route("/.exercises/{id}", get(exercise).put(save))
        .route("/.runs", post(submit))
        .route("/.runs/{id}", get(stage).delete(cancel))
        .layer(RequestBodyLimitLayer::new(BODY_LIMIT))
        .layer(middleware::from_fn_with_state(api.clone(), for_the_books_pages))
        .with_state(api)
        .route("/.editor.js", get(editor))
}

async fn for_the_books_pages(State(api): State<Api>, request: Request, next: Next) -> Response {
    match refusal(&api, request.method(), request.headers()) {
        None => next.run(request).await,
        Some(reason) => (StatusCode::FORBIDDEN, format!("refused: {reason}\n")).into_response(),
    }
}

/// Why a request is refused.
fn refusal(api: &Api, method: &Method, headers: &HeaderMap) -> Option<&'static str> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(host) = header(HOST.as_str()).filter(|host| api.hosts.iter().any(|own| own == host)) else {
        return Some("the host is not this server");
    };
    match header(ORIGIN.as_str()) {
        Some(origin) if origin.strip_prefix("http://") != Some(host) => return Some("it comes from another origin"),
        // Browsers say where a request comes from that may change something.
        None if method != Method::GET => return Some("it does not say where it comes from"),
        _ => {}
    }
    if header("sec-fetch-site").is_some_and(|site| site != "same-origin") {
        return Some("it comes from another site");
    }
    let is_token = header(TOKEN).is_some_and(|given| api.token.is(given));
    (!is_token).then_some("the token is missing or wrong: open the address that `cargo run -p book -- --open` prints")
}

async fn editor() -> Response {
    ([(CONTENT_TYPE, "text/javascript; charset=utf-8"), (CACHE_CONTROL, "no-cache")], EDITOR).into_response()
}

fn answer(status: StatusCode, value: &Value) -> Response {
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    (status, headers, value.to_string()).into_response()
}

fn refused(status: StatusCode, reason: &str) -> Response {
    answer(status, &json!({ "error": reason }))
}

async fn kernel(State(api): State<Api>, Path(file): Path<String>) -> Response {
    let found = kernels::check_of(&api.workspace, &file)
        .and_then(|check| Ok((check.sizes(), kernels::text(&api.workspace, &file)?)));
    match found {
        Ok((sizes, text)) => {
            let size =
                |size: Size| json!({ "name": size.name, "least": size.least, "most": size.most, "usual": size.usual });
            let sizes: Vec<Value> = sizes.into_iter().map(size).collect();
            answer(StatusCode::OK, &json!({ "file": file, "text": text, "sizes": sizes }))
        }
        Err(reason) => refused(StatusCode::NOT_FOUND, &reason),
    }
}

async fn exercise(State(api): State<Api>, Path(id): Path<String>) -> Response {
    match find(&api.workspace, &id).and_then(|exercise| exercises::offer(&api.workspace, &exercise)) {
        Ok(offer) => answer(StatusCode::OK, &offer),
        Err(reason) => refused(StatusCode::NOT_FOUND, &reason),
    }
}

/// Puts the reader's text into the exercise's file.
async fn save(State(api): State<Api>, Path(id): Path<String>, text: String) -> Response {
    let saved = find(&api.workspace, &id).and_then(|exercise| {
        let file = exercise.file("exercise.cu");
        fs::write(&file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))
    });
    match saved {
        Ok(()) => answer(StatusCode::OK, &json!({})),
        Err(reason) => refused(StatusCode::NOT_FOUND, &reason),
    }
}

async fn submit(State(api): State<Api>, body: Bytes) -> Response {
    let asked = match serde_json::from_slice(&body) {
        Ok(asked) => asked,
        Err(error) => return refused(StatusCode::BAD_REQUEST, &format!("this is no run: {error}")),
    };
    let (Asked::Kernel(AskedKernel { text, .. }) | Asked::Answer { text, .. }) = &asked;
    if text.len() > MAX_SOURCE {
        return refused(StatusCode::PAYLOAD_TOO_LARGE, &format!("a kernel may have {MAX_SOURCE} bytes"));
    }
    let job = match asked {
        Asked::Answer { exercise, text } => match find(&api.workspace, &exercise) {
            Ok(exercise) => Job::Answer(Box::new(Answer { exercise, text })),
            Err(reason) => return refused(StatusCode::NOT_FOUND, &reason),
        },
        Asked::Kernel(AskedKernel { file, text, page, sizes }) => {
            let check = match kernels::check_of(&api.workspace, &file) {
                Ok(check) => check,
                Err(reason) => return refused(StatusCode::NOT_FOUND, &reason),
            };
            if let Some(Err(reason)) = sizes.as_ref().map(|chosen| check.admit(chosen)) {
                return refused(StatusCode::UNPROCESSABLE_ENTITY, &reason);
            }
            let pictures = page.map(|page| kernels::pictures(&api.pages, &page, &file)).unwrap_or_default();
            Job::Edited(Edited { workspace: api.workspace, file, text, sizes, pictures })
        }
    };
    match api.pool.submit(job) {
        Some(id) => answer(StatusCode::ACCEPTED, &json!({ "id": id })),
        None => refused(StatusCode::TOO_MANY_REQUESTS, "too many runs are waiting: try again when they have ended"),
    }
}

async fn stage(State(api): State<Api>, Path(id): Path<u64>) -> Response {
    match api.pool.stage(id) {
        None => refused(StatusCode::NOT_FOUND, "there is no such run"),
        Some(Stage::Waiting(before)) => answer(StatusCode::OK, &json!({ "stage": "waiting", "before": before })),
        Some(Stage::Running(since)) => {
            answer(StatusCode::OK, &json!({ "stage": "running", "seconds": since.as_secs_f32() }))
        }
        Some(Stage::Done(outcome)) => answer(StatusCode::OK, &json!({ "stage": "done", "outcome": outcome })),
    }
}

async fn cancel(State(api): State<Api>, Path(id): Path<u64>) -> Response {
    answer(StatusCode::OK, &json!({ "cancelled": api.pool.cancel(id) }))
}
