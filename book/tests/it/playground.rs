//! Kernels edited in a page: who may run them, the results of a run, and the reasons that end one.

use crate::served;

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use bench::trial::Size;
use book::playground::{kernels, pool::Limits};
use common::{device::Device, lifeline, testing::planted};
use serde_json::{Value, json};
use served::{KERNEL, Served};
use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System, UpdateKind};

/// A kernel of that body.
fn kernel(body: &str) -> String {
    let parameters = "const float *a, const float *b, float *c, unsigned n";
    format!(
        "extern \"C\" __global__ void vector_add({parameters}) {{\n    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n{body}\n}}\n"
    )
}

const ENDLESS: &str = "    for (volatile unsigned k = 0; k < 2; ) {\n        if (i < n) c[i] = a[i] + b[i];\n    }";

/// Headers of a request from a page of the book.
struct Asking<'a> {
    served: &'a Served,
    host: String,
    origin: Option<String>,
    token: Option<String>,
    more: &'static str,
}

impl<'a> Asking<'a> {
    fn properly(served: &'a Served) -> Asking<'a> {
        let token = served.link.split_once("#token=").unwrap().1.to_owned();
        let (host, origin) = (served.address.clone(), Some(format!("http://{}", served.address)));
        Asking { served, host, origin, token: Some(token), more: "" }
    }

    /// Status and body.
    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let Asking { served, host, origin, token, more } = self;
        let header = |name: &str, value: &Option<String>| match value {
            Some(value) => format!("{name}: {value}\r\n"),
            None => String::new(),
        };
        let (origin, token) = (header("Origin", origin), header("X-Warp-Token", token));
        let answer = served.answer(&format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{origin}{token}{more}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        ));
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("{answer}")), answer.split_once("\r\n\r\n").unwrap().1.to_owned())
    }

    fn submit(&self, text: &str) -> (u16, String) {
        self.ask("POST", "/.runs", &json!({ "file": KERNEL, "text": text }).to_string())
    }

    /// The number of an accepted run.
    fn begin(&self, text: &str) -> u64 {
        let (status, body) = self.submit(text);
        assert_eq!(status, 202, "{body}");
        serde_json::from_str::<Value>(&body).unwrap()["id"].as_u64().unwrap()
    }

    fn stage(&self, id: u64) -> Value {
        let (status, body) = self.ask("GET", &format!("/.runs/{id}"), "");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    fn end(&self, id: u64) -> Value {
        let begin = Instant::now();
        loop {
            let now = self.stage(id);
            if now["stage"] == "done" {
                return now["outcome"].clone();
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "{now}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn run(&self, text: &str) -> Value {
        self.end(self.begin(text))
    }
}

fn original() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(KERNEL)).unwrap()
}

fn has_compiler(test: &str) -> bool {
    planted::compiler(&Device::sim(), test)
}

#[test]
fn only_the_books_own_pages_may_ask() {
    let served = Served::start();
    let proper = || Asking::properly(&served);
    let text = json!({ "file": KERNEL, "text": original() }).to_string();
    let port = served.address.rsplit(':').next().unwrap();
    for (what, asking, status) in [
        ("another host", Asking { host: "example.org".to_owned(), ..proper() }, 421),
        ("a host that ends alike", Asking { host: format!("evil.localhost:{port}"), ..proper() }, 421),
        ("this host's other port", Asking { host: "127.0.0.1:1".to_owned(), ..proper() }, 403),
        ("no port", Asking { host: "127.0.0.1".to_owned(), ..proper() }, 403),
        ("another origin", Asking { origin: Some("http://example.org".to_owned()), ..proper() }, 403),
        ("another port's origin", Asking { origin: Some("http://127.0.0.1:1".to_owned()), ..proper() }, 403),
        ("https", Asking { origin: Some(format!("https://{}", served.address)), ..proper() }, 403),
        ("a file's page", Asking { origin: Some("null".to_owned()), ..proper() }, 403),
        ("no origin", Asking { origin: None, ..proper() }, 403),
        ("no token", Asking { token: None, ..proper() }, 403),
        ("an empty token", Asking { token: Some(String::new()), ..proper() }, 403),
        ("a wrong token", Asking { token: Some("0".repeat(64)), ..proper() }, 403),
        ("a token cut short", Asking { token: proper().token.map(|token| token[1..].to_owned()), ..proper() }, 403),
        ("another site", Asking { more: "Sec-Fetch-Site: cross-site\r\n", ..proper() }, 403),
        ("another origin of this site", Asking { more: "Sec-Fetch-Site: same-site\r\n", ..proper() }, 403),
    ] {
        let (found, body) = asking.ask("POST", "/.runs", &text);
        assert_eq!(found, status, "{what}: {body}");
        let (found, body) = asking.ask("DELETE", "/.runs/1", "");
        assert_eq!(found, status, "{what}: {body}");
        assert!(!body.contains(&proper().token.unwrap()));
    }
    // To read it is enough to have the token.
    let path = format!("/.kernels/{KERNEL}");
    assert_eq!(Asking { origin: None, ..proper() }.ask("GET", &path, "").0, 200);
    assert_eq!(Asking { origin: None, token: None, ..proper() }.ask("GET", &path, "").0, 403);
    assert_eq!(proper().ask("GET", "/.runs/1", "").0, 404);
    // Each start has a token of its own, which no account of this machine can fetch.
    let page = served.get("/one.html");
    for path in ["/", "/one.html", "/.builds", "/.editor.js", "/playground.js"] {
        assert!(!served.get(path).contains(&proper().token.unwrap()), "{path}");
    }
    assert!(
        page.contains("x-frame-options: DENY") && page.contains("cross-origin-resource-policy: same-origin"),
        "{page}"
    );
    assert_ne!(proper().token, Asking::properly(&Served::start()).token);
    served.assert_alive();
}

#[test]
fn only_kernels_of_the_course_can_be_named() {
    let served = Served::start();
    let asking = Asking::properly(&served);
    for file in [
        "../secret.txt",
        "secret.txt",
        "/etc/passwd",
        "phase1-infra/kernels/../../secret.txt",
        "phase1-infra/kernels/..",
        "phase1-infra/kernels/../kernels/01_vector_add.cu",
        "phase1-infra/kernels/01_vector_add.cu/",
        "phase1-infra/kernels\\01_vector_add.cu",
        "phase1-infra/kernels/01_vector_add.cu\0",
        "phase1-infra/kernels/none.cu",
        "phase1-infra/kernels/02_grid_stride.cu",
        "book/kernels/01_vector_add.cu",
        "C:/kernels/01_vector_add.cu",
        "",
    ] {
        let (status, body) = asking.ask("POST", "/.runs", &json!({ "file": file, "text": "" }).to_string());
        assert_eq!(status, 404, "{file:?}: {body}");
    }
    for path in [
        "/.kernels/../secret.txt",
        "/.kernels/%2e%2e/secret.txt",
        "/.kernels/phase1-infra%2fkernels%2f..%2f..%2fsecret.txt",
    ] {
        let (status, body) = asking.ask("GET", path, "");
        assert_eq!(status, 404, "{path}: {body}");
        assert!(!body.contains("secret\n"), "{path}: {body}");
    }
    assert_eq!(asking.ask("POST", "/.runs", "no JSON").0, 400);
    assert_eq!(asking.ask("GET", "/.runs/none", "").0, 400);
}

#[test]
fn a_huge_body_is_refused() {
    let served = Served::start();
    let asking = Asking::properly(&served);
    assert_eq!(asking.submit(&"x".repeat(300_000)).0, 413);
    assert_eq!(asking.submit(&"\u{1}".repeat(65_536)).0, 202);
    let token = asking.token.as_ref().unwrap();
    let head = format!("Host: {0}\r\nOrigin: http://{0}\r\nX-Warp-Token: {token}\r\n", served.address);
    let answer = served.answer(&format!("POST /.runs HTTP/1.1\r\n{head}Content-Length: 99999999999\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    // One that says no length, and goes on.
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 16, "x".repeat(1 << 16)).repeat(60);
    let mut stream = served.connect();
    // The server may close before all of it is sent.
    let request = format!("POST /.runs HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\n\r\n{chunk}0\r\n\r\n");
    let is_sent = stream.write_all(request.as_bytes()).is_ok();
    let answer = served::read(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 413") || !is_sent && answer.is_empty(), "{answer}");
    served.assert_alive();
}

#[test]
fn of_a_hundred_runs_at_once_most_are_refused_and_the_others_end() {
    let limits = Limits { waiting: 4, ..Limits::default() };
    let served = Served::with(limits);
    let asking = Asking::properly(&served);
    let text = original();
    let answers: Vec<(u16, String)> = thread::scope(|scope| {
        let asked: Vec<_> = (0..100).map(|_| scope.spawn(|| asking.submit(&text))).collect();
        asked.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let accepted: Vec<u64> = answers
        .iter()
        .filter(|(status, _)| *status == 202)
        .map(|(_, body)| serde_json::from_str::<Value>(body).unwrap()["id"].as_u64().unwrap())
        .collect();
    assert!((1..50).contains(&accepted.len()), "{} were accepted", accepted.len());
    assert!(answers.iter().all(|(status, _)| matches!(status, 202 | 429)), "{answers:?}");
    for id in accepted {
        assert_eq!(asking.end(id)["verdict"], "right");
    }
}

#[test]
fn a_run_says_what_the_course_says_of_its_own_kernels() {
    let served = Served::start();
    let asking = Asking::properly(&served);
    let outcome = asking.run(&original());
    assert_eq!(outcome["verdict"], "right", "{outcome}");
    assert_eq!(outcome["counts"][0]["kernel"], "vector_add");
    let count = |outcome: &Value, name: &str| {
        let counts = outcome["counts"][0]["counts"].as_array().unwrap().clone();
        counts.iter().find(|count| count[0] == name).and_then(|count| count[1].as_u64()).unwrap()
    };
    let sectors = count(&outcome, "sectors loaded");
    assert!(sectors > 0 && outcome["tables"][0].as_str().unwrap().contains("100003"), "{outcome}");
    // One thread of 256 has something to add: its warp diverges at the guard.
    let steps = outcome["recordings"][0]["steps"].as_array().unwrap();
    assert!(steps.iter().any(|step| step["event"] == "branch" && step["active"] != step["mask"]), "{steps:?}");
    assert!(steps.iter().any(|step| step["access"]["what"] == "global read"), "{steps:?}");
    if !has_compiler("a_run_says_what_the_course_says_of_its_own_kernels") {
        return;
    }
    let wrong = asking.run(&kernel("    if (i < n) c[i] = a[i] - b[i];"));
    assert_eq!(wrong["verdict"], "wrong", "{wrong}");
    assert!(wrong["details"][0].as_str().unwrap().contains("values are wrong"), "{wrong}");
    // Right values, and an access beyond the end, in line 3.
    let found = asking.run(&kernel("    float x = ((volatile const float *)a)[i];\n    if (i < n) c[i] = x + b[i];"));
    assert_eq!((&found["verdict"], &found["messages"][0]["line"]), (&json!("found"), &json!(3)), "{found}");
    assert!(found["messages"][0]["text"].as_str().unwrap().starts_with("out-of-bounds"), "{found}");
    let refused = asking.run(&kernel("    c[i] = a[i] + b[i]"));
    assert_eq!((&refused["verdict"], &refused["messages"][0]["line"]), (&json!("refused"), &json!(4)), "{refused}");
    // Twice the traffic.
    let slow = asking.run(&kernel("    if (i < n) c[i] = a[i] + ((volatile const float *)a)[i] * 0.0f + b[i];"));
    assert_eq!((&slow["verdict"], count(&slow, "sectors loaded")), (&json!("right"), sectors * 3 / 2), "{slow}");
}

#[test]
fn a_run_has_the_size_that_was_chosen_within_limits() {
    let served = Served::start();
    let asking = Asking::properly(&served);
    let (status, body) = asking.ask("GET", &format!("/.kernels/{KERNEL}"), "");
    assert_eq!(status, 200, "{body}");
    let sizes = serde_json::from_str::<Value>(&body).unwrap()["sizes"].clone();
    assert_eq!(sizes, json!([{ "name": "n", "least": 0, "most": 65536, "usual": 1000 }]));
    let ask = |sizes: Value| {
        let body = json!({ "file": KERNEL, "text": original(), "sizes": sizes }).to_string();
        asking.ask("POST", "/.runs", &body)
    };
    for (sizes, status, reason) in [
        (json!([65537]), 422, "n may be 0 to 65536 here, not 65537"),
        (json!([u64::MAX]), 422, "n may be 0 to 65536"),
        (json!([]), 422, "0 sizes were given; this kernel takes n"),
        (json!([1, 2]), 422, "2 sizes were given"),
        (json!(vec![1; 30_000]), 422, "30000 sizes were given"),
        (json!([-1]), 400, "this is no run"),
        (json!([1.5]), 400, "this is no run"),
        (json!(["1"]), 400, "this is no run"),
        (json!([1e300]), 400, "this is no run"),
        (json!({ "n": 1 }), 400, "this is no run"),
    ] {
        let (found, body) = ask(sizes.clone());
        assert!(found == status && body.contains(reason), "{sizes}: {found}: {body}");
    }
    let run = |n: usize| {
        let (status, body) = ask(json!([n]));
        assert_eq!(status, 202, "{body}");
        asking.end(serde_json::from_str::<Value>(&body).unwrap()["id"].as_u64().unwrap())
    };
    // A launch of that size and no other: 32 bytes of each vector in a sector, rounded up.
    for n in [1usize, 1000] {
        let outcome = run(n);
        assert_eq!(outcome["verdict"], "right", "{outcome}");
        let counts = &outcome["counts"][0];
        let loaded = counts["counts"].as_array().unwrap().iter().find(|count| count[0] == "sectors loaded").unwrap();
        assert_eq!((&counts["launches"], &loaded[1]), (&json!(1), &json!(2 * (4 * n).div_ceil(32))), "{counts}");
        // What its lanes have in registers is there too: the first thread of each warp reads %tid.x.
        let recording = &outcome["recordings"][0];
        assert_eq!(recording["registers_until"], recording["steps"].as_array().unwrap().len());
        let writes = recording["steps"].as_array().unwrap().iter().filter_map(|step| step["writes"].as_array());
        let lanes: Vec<&Value> = writes.flatten().filter(|write| write["bits"] == "0+1*32").collect();
        assert!(!lanes.is_empty(), "{recording}");
    }
}

/// Answer of the process that the server starts for a run of a kernel, without a server.
fn run_at(file: &str, sizes: &[usize]) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_book"))
        .arg("--run-kernel")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let task = json!({ "workspace": workspace, "file": file, "sizes": sizes, "ptx": null });
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(format!("{task}\n").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    String::from_utf8(output.stdout).unwrap()
}

/// At the size that their pages begin with: none of these kernels refuses it.
#[test]
fn products_and_attention_on_tensor_cores_run_at_their_usual_sizes() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut run = 0;
    for entry in std::fs::read_dir(workspace.join("phase4-fusion/kernels")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_one = name.ends_with(".cu") && ["gemm_", "attention_"].iter().any(|begin| name.starts_with(begin));
        if !is_one {
            continue;
        }
        let file = format!("phase4-fusion/kernels/{name}");
        let check = kernels::check_of(workspace, &file).unwrap();
        let usual: Vec<usize> = check.sizes().iter().map(|size| size.usual).collect();
        let answer = run_at(&file, &usual);
        assert!(answer.contains("\"right\""), "{name} at {usual:?}: {answer}");
        run += 1;
    }
    assert!(run > 20, "only {run} kernels");
}

/// The process does not rely on the server's check.
#[test]
fn an_absurd_size_is_refused_by_the_run_too() {
    let answer = run_at(KERNEL, &[usize::MAX]);
    assert!(answer.contains("n may be 0 to 65536 here") && !answer.contains("\"right\""), "{answer}");
}

/// Each size that a page offers is supported by its kernel, at either end too.
#[test]
fn what_sizes_offer_makes_sense() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut sized = 0;
    for package in ["phase1-infra", "phase2-conv-bn", "phase3-all-layers", "phase4-fusion"] {
        for entry in std::fs::read_dir(workspace.join(package).join("kernels")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let Ok(found) = kernels::check_of(workspace, &format!("{package}/kernels/{name}")) else { continue };
            let sizes = found.sizes();
            if sizes.is_empty() {
                continue;
            }
            sized += 1;
            assert!(sizes.iter().all(|size| (size.least..=size.most).contains(&size.usual)), "{name}: {sizes:?}");
            let usual: Vec<usize> = sizes.iter().map(|size| size.usual).collect();
            assert_eq!(found.admit(&usual), Ok(()), "{name}");
            let beyond: Vec<usize> = sizes.iter().map(|size| size.most + 1).collect();
            assert!(found.admit(&beyond).is_err(), "{name}");
        }
    }
    assert!(sized > 190, "only {sized} kernels have sizes");
}

/// The course's own kernels are right at the size that a page begins with, and at the minimum of each.
#[test]
fn problems_are_solved_at_their_usual_and_least_sizes() {
    let device = Device::sim();
    let phases = [
        phase1_infra::trials::TRIALS,
        phase2_conv_bn::trials::TRIALS,
        phase3_all_layers::trials::TRIALS,
        phase4_fusion::trials::TRIALS,
    ];
    for trial in phases.into_iter().flatten() {
        let Some(problem) = trial.problem else { continue };
        for of in [|size: &Size| size.usual, |size: &Size| size.least] {
            let sizes: Vec<usize> = problem.sizes.iter().map(of).collect();
            let wrong = (problem.run)(&device, &sizes).unwrap_or_else(|error| panic!("{}: {error}", trial.name));
            assert!(wrong.is_empty(), "{} at {sizes:?}: {wrong:?}", trial.name);
        }
    }
}

#[test]
fn an_answer_to_an_exercise_gets_the_graders_verdict() {
    let served = Served::start();
    let asking = Asking::properly(&served);
    let (status, body) = asking.ask("GET", "/.exercises/guard", "");
    let offer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, offer["file"].as_str()), (200, Some("phase1-infra/exercises/01-guard/exercise.cu")), "{body}");
    assert_eq!(offer["hints"].as_array().map(Vec::len), Some(3));
    assert!(!body.contains("if (i < n) {"), "no solution: {body}");
    for (method, path, body) in [
        ("GET", "/.exercises/none", String::new()),
        ("GET", "/.exercises/..%2f01-guard", String::new()),
        ("PUT", "/.exercises/none", "text".to_owned()),
        ("POST", "/.runs", json!({ "exercise": "none", "text": "" }).to_string()),
    ] {
        assert_eq!(asking.ask(method, path, &body).0, 404, "{method} {path}");
    }
    let file = served.exercise("exercise.cu");
    assert_eq!(asking.ask("PUT", "/.exercises/guard", "// mine\n"), (200, "{}".to_owned()));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "// mine\n");
    let stranger = Asking { token: None, ..Asking::properly(&served) };
    assert_eq!(stranger.ask("PUT", "/.exercises/guard", "// not mine\n").0, 403);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "// mine\n");

    if !has_compiler("an_answer_to_an_exercise_gets_the_graders_verdict") {
        return;
    }
    let judged = |text: &str| {
        let (status, body) = asking.ask("POST", "/.runs", &json!({ "exercise": "guard", "text": text }).to_string());
        assert_eq!(status, 202, "{body}");
        asking.end(serde_json::from_str::<Value>(&body).unwrap()["id"].as_u64().unwrap())
    };
    let solution = std::fs::read_to_string(served.exercise("solution.cu")).unwrap();
    let right = judged(&solution);
    assert_eq!(right["verdict"], "right", "{right}");
    assert!(right["pictures"][0]["Ok"].as_str().is_some_and(|svg| svg.starts_with("<svg")), "{right}");
    let wrong = judged(&std::fs::read_to_string(served.exercise("wrong/off_by_one.cu")).unwrap());
    assert_eq!(wrong["verdict"], "wrong", "{wrong}");
    assert!(wrong["parts"][0]["asks"].as_str().is_some_and(|asks| asks.contains("last element")), "{wrong}");
    let unguarded = judged(&kernel("    c[i] = a[i] + b[i];"));
    assert_eq!((&unguarded["verdict"], &unguarded["messages"][0]["line"]), (&json!("found"), &json!(3)), "{unguarded}");
    let refused = judged(&kernel("    if (i < n) c[i] = a[i] + b[i]"));
    assert_eq!((&refused["verdict"], &refused["messages"][0]["line"]), (&json!("wrong"), &json!(4)), "{refused}");
    let endless = asking.ask("POST", "/.runs", &json!({ "exercise": "guard", "text": kernel(ENDLESS) }).to_string()).1;
    let id = serde_json::from_str::<Value>(&endless).unwrap()["id"].as_u64().unwrap();
    let begin = Instant::now();
    asking.ask("DELETE", &format!("/.runs/{id}"), "");
    asking.end(id);
    assert!(begin.elapsed() < Duration::from_secs(10), "a cancelled answer went on for {:?}", begin.elapsed());
}

/// A file's lines would stand in the compiler's messages.
#[test]
fn an_edited_kernel_reads_no_file_and_writes_none() {
    let served = Served::start();
    let asking = Asking::properly(&served);
    let secret = std::env::temp_dir().join(format!("warp-secret-{}", std::process::id()));
    std::fs::write(&secret, "a secret line\n").unwrap();
    let written = secret.with_extension("written");
    let body = kernel("    if (i < n) c[i] = a[i] + b[i];");
    for before in [
        format!("#include \"{}\"\n", secret.display()),
        format!("#include <{}>\n", secret.display()),
        format!("#inc\\\nlude \"{}\"\n", secret.display()),
        format!("%:include \"{}\"\n", secret.display()),
        format!("#define NAME \"{}\"\n#include NAME\n", secret.display()),
        "#include \"../../secret.txt\"\n".to_owned(),
        "#include \"/proc/self/environ\"\n".to_owned(),
        format!("// nvrtc: --pre-include={}\n", secret.display()),
        format!("// nvrtc: --time={}\n", written.display()),
        format!("// nvrtc: --create-pch={}\n", written.display()),
        format!("// nvrtc: --fdevice-time-trace={}\n", written.display()),
    ] {
        let outcome = asking.run(&format!("{before}{body}"));
        assert_ne!(outcome["verdict"], "right", "{before}{outcome}");
        assert!(!outcome.to_string().contains("secret line") && !written.exists(), "{before}{outcome}");
    }
    std::fs::remove_file(secret).unwrap();
}

#[test]
fn what_never_ends_or_takes_too_much_is_stopped() {
    if !has_compiler("what_never_ends_or_takes_too_much_is_stopped") {
        return;
    }
    let stopped = |limits: Limits, text: &str| {
        let served = Served::with(limits);
        let outcome = Asking::properly(&served).run(text);
        assert_eq!(outcome["verdict"], "stopped", "{outcome}");
        served.assert_alive();
        outcome["summary"].as_str().unwrap().to_owned()
    };
    let few = Limits { instructions: 100_000, ..Limits::default() };
    let summary = stopped(few, &kernel(ENDLESS));
    assert!(summary.contains("instructions"), "{summary}");
    let short = Limits { time: Duration::from_millis(1500), instructions: u64::MAX, ..Limits::default() };
    let summary = stopped(short, &kernel(ENDLESS));
    assert!(summary.contains("1.5 s"), "{summary}");
    // Less than the compiler takes.
    let summary =
        stopped(Limits { memory: 16 << 20, ..Limits::default() }, &kernel("    if (i < n) c[i] = b[i] + a[i];"));
    assert!(summary.contains("16 MiB of memory"), "{summary}");
    // More than the simulated device has, of each kind of memory.
    let served = Served::start();
    let asking = Asking::properly(&served);
    for greedy in [
        format!("__device__ float big[1u << 29];\n{}", kernel("    if (i < n) c[i] = big[i] = a[i] + b[i];")),
        kernel(
            "    char x[1 << 30];\n    for (unsigned k = i; k < 1u << 30; k += 4096) x[k] = (char)n;\n    if (i < n) c[i] = x[i];",
        ),
        kernel("    __shared__ float x[1 << 26];\n    x[i] = a[i];\n    if (i < n) c[i] = x[i] + b[i];"),
    ] {
        let outcome = asking.run(&greedy);
        assert_ne!(outcome["verdict"], "right", "{outcome}");
        println!("{outcome}");
        served.assert_alive();
    }
}

/// Processes of the command that run a kernel for this one.
fn running() -> usize {
    let mut system = System::new();
    let what = ProcessRefreshKind::nothing().with_cmd(UpdateKind::Always);
    system.refresh_processes_specifics(ProcessesToUpdate::All, true, what);
    let own = sysinfo::get_current_pid().unwrap();
    let mine = |process: &&sysinfo::Process| {
        process.parent() == Some(own) && process.cmd().iter().any(|word| word == "--run-kernel")
    };
    system.processes().values().filter(mine).count()
}

#[test]
fn cancelling_leaves_no_process_behind() {
    if !has_compiler("cancelling_leaves_no_process_behind") {
        return;
    }
    let limits = Limits { instructions: u64::MAX, ..Limits::default() };
    let served = Served::with(limits);
    let asking = Asking::properly(&served);
    let (first, second) = (asking.begin(&kernel(ENDLESS)), asking.begin(&original()));
    let begin = Instant::now();
    while asking.stage(first)["seconds"].as_f64().is_none_or(|seconds| seconds < 0.3) {
        assert!(begin.elapsed() < Duration::from_secs(30), "it never began");
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(asking.stage(second)["stage"], "waiting");
    assert!(running() >= 1);
    for id in [second, first] {
        assert_eq!(asking.ask("DELETE", &format!("/.runs/{id}"), "").1, "{\"cancelled\":true}");
        assert_eq!(asking.end(id)["summary"], "Cancelled.");
        assert_eq!(asking.ask("DELETE", &format!("/.runs/{id}"), "").1, "{\"cancelled\":false}");
    }
    // Other tests of this file have runs, too.
    let begin = Instant::now();
    while running() > 0 {
        assert!(begin.elapsed() < Duration::from_secs(60), "{} processes are left", running());
        thread::sleep(Duration::from_millis(50));
    }
}

/// A server that was killed can't end its run: the run ends when it has gone.
#[test]
fn a_run_ends_with_its_server() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_book"));
    lifeline::attach(&mut command);
    command.arg("--run-kernel").stdout(Stdio::null()).env("WARP_SIM_BUDGET", u64::MAX.to_string());
    let mut child = command.spawn().unwrap();
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let task = json!({ "workspace": workspace, "file": "phase1-infra/kernels/05_mistakes.cu", "ptx": null });
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(format!("{task}\n").as_bytes()).unwrap();
    drop(stdin);
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > Duration::from_secs(10) {
            child.kill().unwrap();
            panic!("it goes on");
        }
        thread::sleep(Duration::from_millis(10));
    }
    assert!(!child.wait().unwrap().success());
}

/// Kernels without a check here are few, and of packages whose tests check them.
#[test]
fn most_kernels_of_the_course_can_be_edited() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut can, mut others) = (0, Vec::new());
    for package in ["phase1-infra", "phase2-conv-bn", "phase3-all-layers", "phase4-fusion", "phase5-bench"] {
        for entry in std::fs::read_dir(workspace.join(package).join("kernels")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".cu") {
                let file = format!("{package}/kernels/{name}");
                match kernels::check_of(workspace, &file) {
                    Ok(_) => can += 1,
                    Err(reason) => others.push(reason),
                }
            }
        }
    }
    println!("{can} kernels can be edited, {} not:\n{}", others.len(), others.join("\n"));
    assert!(can > 6 * others.len(), "{others:?}");
    assert!(others.iter().all(|reason| reason.contains("run `cargo ")), "{others:?}");
}
