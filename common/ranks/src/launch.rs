//! A launcher for one host: it starts a program several times with torchrun's variables, and leaves none of the processes
//! behind.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Once;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::world::MAX_RANKS;
use common::console;
use common::error::{Error, RankFailure, RankFailureKind, Result};
use common::lifeline;
use common::secret::Secret;

/// Holds the secret of the ranks of one run: rank 0 lets in whoever knows it. A launcher of one's own may set it too.
const SECRET: &str = "WARP_RANK_SECRET";

/// Time for the other ranks to report why they end, once one has failed.
const GRACE: Duration = Duration::from_secs(5);

/// Maximum piece of a line that is passed on at once.
const LINE: u64 = 8 << 10;

/// A program to start several times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Number of processes.
    pub processes: usize,
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// Runs the processes of a world on this host until all have ended. Rank 0's standard output is passed on as it is; every other
/// line gets the rank as a prefix. Child processes of these are not known here, and not ended.
///
/// # Errors
/// [`Error::Ranks`] for the first process that failed; the others had 5 s to end by themselves before they were killed.
/// [`Error::Io`] if the program cannot be started.
pub fn launch(launch: &Launch) -> Result<()> {
    let size = launch.processes;
    if size == 0 || size > MAX_RANKS {
        return Err(Error::Invalid(format!("{size} processes: ranks are 1 to {MAX_RANKS}")));
    }
    let secret = Secret::random().map_err(Error::io(&launch.program))?;
    let port = free_port().map_err(Error::io("127.0.0.1"))?;
    let mut started = Processes::default();
    for rank in 0..size {
        let mut command = Command::new(&launch.program);
        command.args(&launch.args).stdout(Stdio::piped()).stderr(Stdio::piped());
        // What another launcher has set for us is not theirs.
        for name in ["TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RUN_ID", "WARP_RANK_PORT"] {
            command.env_remove(name);
        }
        for (name, number) in [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", size), ("LOCAL_WORLD_SIZE", size)] {
            command.env(name, number.to_string());
        }
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
        command.env(SECRET, secret.reveal());
        lifeline::attach(&mut command);
        started.add(rank, command.spawn().map_err(Error::io(&launch.program))?);
    }
    let mut first: Option<(usize, ExitStatus)> = None;
    let mut end = None;
    loop {
        let failed = started.ended().map_err(Error::io(&launch.program))?;
        let failed = failed.into_iter().filter(|(_, status)| !status.success());
        if first.is_none() {
            // Of several seen at once: the one that ended without a status of its own, since the others can say why they end.
            first = failed.min_by_key(|(_, status)| status.code().is_some());
            end = first.map(|_| Instant::now() + GRACE);
        }
        if started.children.is_empty() || end.is_some_and(|end| Instant::now() > end) {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    drop(started);
    let Some((rank, status)) = first else { return Ok(()) };
    let sentence = format!("the process of rank {rank} of {size} failed ({status}); no process is left");
    Err(Error::Ranks(RankFailure { rank, kind: RankFailureKind::Ended, sentence }))
}

/// An unused port, though another program may take it before rank 0 does.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Running processes, and the threads that pass on their output.
#[derive(Default)]
struct Processes {
    children: Vec<(usize, Child)>,
    forwarders: Vec<JoinHandle<()>>,
}

impl Processes {
    fn add(&mut self, rank: usize, mut child: Child) {
        let prefix = format!("[rank {rank}] ");
        if let Some(out) = child.stdout.take() {
            let prefix = if rank == 0 { String::new() } else { prefix.clone() };
            self.forwarders.push(thread::spawn(move || forward(out, io::stdout, &prefix)));
        }
        if let Some(err) = child.stderr.take() {
            self.forwarders.push(thread::spawn(move || forward(err, io::stderr, &prefix)));
        }
        self.children.push((rank, child));
    }

    /// Processes that have ended since the last call.
    fn ended(&mut self) -> io::Result<Vec<(usize, ExitStatus)>> {
        let mut ended = Vec::new();
        for (rank, child) in &mut self.children {
            if let Some(status) = child.try_wait()? {
                ended.push((*rank, status));
            }
        }
        self.children.retain(|(rank, _)| ended.iter().all(|(other, _)| other != rank));
        Ok(ended)
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for (_, child) in &mut self.children {
            let _ = child.kill();
        }
        for (_, child) in &mut self.children {
            let _ = child.wait();
        }
        // What a process of theirs still holds open is not waited for.
        let end = Instant::now() + Duration::from_secs(1);
        while self.forwarders.iter().any(|thread| !thread.is_finished()) && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Passes on whole lines, or pieces of very long ones.
fn forward<W: Write>(from: impl Read, to: fn() -> W, prefix: &str) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    let mut begins = true;
    while matches!(from.by_ref().take(LINE).read_until(b'\n', &mut line), Ok(1..)) {
        let text = [if begins { prefix.as_bytes() } else { b"" }, &line].concat();
        let mut to = to();
        // If nobody reads, the process goes on all the same.
        let _ = to.write_all(&text).and_then(|()| to.flush());
        begins = line.ends_with(b"\n");
        line.clear();
    }
}

/// The secret that this process was given; empty without one.
pub(super) fn secret() -> Secret {
    Secret::given(std::env::var(SECRET).unwrap_or_default())
}

/// Ends this process when the launcher that started it has ended, for whatever reason.
pub(super) fn watch_the_launcher() {
    static WATCHING: Once = Once::new();
    WATCHING.call_once(|| {
        lifeline::watch(io::stdin(), || console::error("the launcher of this process has ended"));
    });
}
