//! Rank 0's side of the connections: it listens at the launcher's address, and calls the [`Hub`] for the ranks of other
//! processes.
//!
//! Each connection has a thread that reads and one that writes. Messages between answers show each side that the other process
//! lives.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::hub::{Hub, Told, seconds};
use super::wire::{self, Hello, Kind};
use super::world::Meeting;
use common::error::{Error, RankFailure, RankFailureKind, Result};

/// Extra time for a peer beyond the timeout before its silence counts: a busy host schedules late.
const GRACE: Duration = Duration::from_secs(2);

/// Time for the other side to read the last message.
const PARTING: Duration = Duration::from_secs(1);

/// Maximum number of connections that have not said who they are. One more ends the oldest: so idle strangers keep no rank out.
const STRANGERS: usize = 64;

/// Maximum number of pieces that are read of whoever was refused.
const MOST_PIECES: usize = 8;

/// Time in which a connection must say who it is.
const INTRODUCTION: Duration = Duration::from_secs(5);

/// The guarded value; no thread leaves one half changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Interval of a process's signs of life.
pub(super) fn interval(timeout: Duration) -> Duration {
    (timeout / 8).clamp(Duration::from_millis(20), Duration::from_secs(2))
}

/// Maximum silence of a peer.
pub(super) fn silence(timeout: Duration) -> Duration {
    timeout + GRACE
}

/// Sets up a connection: small messages go out at once, and neither reading nor writing waits for ever.
pub(super) fn prepare(stream: &TcpStream, timeout: Duration) -> io::Result<()> {
    // On some systems a connection is as its listener is.
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(silence(timeout)))?;
    stream.set_write_timeout(Some(silence(timeout)))
}

/// Listens until all ranks have come, and serves them until it is dropped.
pub(super) struct Server {
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

struct Shared {
    hub: Arc<Hub>,
    hello: Hello,
    stop: AtomicBool,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Connections of ranks.
    streams: Mutex<Vec<TcpStream>>,
    /// Connections that have not said who they are, by number, the oldest first.
    strangers: Mutex<VecDeque<(u64, TcpStream)>>,
}

impl Server {
    /// Listens for the ranks that match `hello`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the port is not available.
    pub(super) fn listen(meeting: &Meeting, hub: Arc<Hub>, hello: Hello) -> Result<Server> {
        // All addresses, unless the name means this host alone: many hosts give their own name an address that others cannot reach.
        let host = meeting.host.as_str();
        let local = host == "localhost" || host == "::1" || host.starts_with("127.");
        let address = match (local, host.contains(':')) {
            (true, _) => host,
            (false, true) => "::",
            (false, false) => "0.0.0.0",
        };
        let refused = |error: io::Error| {
            let remedy =
                "end what has it, or set MASTER_PORT (or WARP_RANK_PORT) to a free port, the same for all ranks";
            Error::Invalid(match error.kind() {
                io::ErrorKind::AddrInUse => {
                    format!("rank 0 cannot listen at {meeting}: port {} is taken; {remedy}", meeting.port)
                }
                _ => format!("rank 0 cannot listen at {meeting}: {error}; {remedy}"),
            })
        };
        let listener = TcpListener::bind((address, meeting.port)).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let shared = Arc::new(Shared {
            hub,
            hello,
            stop: AtomicBool::new(false),
            threads: Mutex::default(),
            streams: Mutex::default(),
            strangers: Mutex::default(),
        });
        let listening = thread::spawn({
            let shared = shared.clone();
            move || shared.accept(&listener)
        });
        Ok(Server { shared, listening: Some(listening) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Shared { hub, stop, threads, streams, strangers, .. } = &*self.shared;
        stop.store(true, Ordering::Relaxed);
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
        lock(strangers).drain(..).for_each(|(_, stranger)| drop(stranger.shutdown(Shutdown::Both)));
        // The writers send what is still to be told, and end; the readers end when the other side has read it and closes.
        hub.close();
        let threads = std::mem::take(&mut *lock(threads));
        let end = Instant::now() + PARTING;
        while threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
        for stream in &*lock(streams) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

impl Shared {
    fn accept(self: &Arc<Shared>, listener: &TcpListener) {
        let mut number = 0;
        while !self.stop.load(Ordering::Relaxed) && !self.hub.is_complete() {
            match listener.accept() {
                Ok((stream, _)) => {
                    let Ok(copy) = stream.try_clone() else { continue };
                    number += 1;
                    let mut strangers = lock(&self.strangers);
                    strangers.push_back((number, copy));
                    if strangers.len() > STRANGERS
                        && let Some((_, oldest)) = strangers.pop_front()
                    {
                        let _ = oldest.shutdown(Shutdown::Both);
                    }
                    drop(strangers);
                    let shared = self.clone();
                    self.keep(thread::spawn(move || shared.serve(number, stream)));
                }
                Err(_) => thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    fn keep(&self, thread: JoinHandle<()>) {
        let mut threads = lock(&self.threads);
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
    }

    /// The greeting of a connection, and another handle of it; `None` if it is no rank's, or came too late.
    fn introduction(
        &self,
        number: u64,
        stream: &mut TcpStream,
    ) -> Option<(std::result::Result<Hello, u32>, TcpStream)> {
        let timeout = self.hub.timeout();
        let prepared = prepare(stream, timeout).and_then(|()| stream.set_read_timeout(Some(INTRODUCTION)));
        let greeting = prepared.and_then(|()| wire::read_hello(stream));
        let mut strangers = lock(&self.strangers);
        let at = strangers.iter().position(|(other, _)| *other == number)?;
        let (_, copy) = strangers.remove(at)?;
        drop(strangers);
        let hello = wire::parse_hello(&greeting.ok()?)?;
        stream.set_read_timeout(Some(silence(timeout))).ok()?;
        Some((hello, copy))
    }

    /// Serves a connection until one of its sides closes it.
    fn serve(self: &Arc<Shared>, number: u64, mut stream: TcpStream) {
        let Some((hello, copy)) = self.introduction(number, &mut stream) else { return };
        let joined = self.admit(hello).and_then(|rank| Ok((rank, self.hub.join(rank)?)));
        let (rank, told) = match joined {
            Ok(joined) => joined,
            Err(failure) => {
                let _ = wire::write(&mut stream, Kind::Failed, &[&wire::failure(&failure)]);
                let _ = stream.shutdown(Shutdown::Write);
                // A connection closed with unread bytes takes back what was written.
                let _ = stream.set_read_timeout(Some(PARTING));
                let mut rest = [0; 4 << 10];
                let mut pieces = 0;
                while pieces < MOST_PIECES && matches!(stream.read(&mut rest), Ok(1..)) {
                    pieces += 1;
                }
                return;
            }
        };
        lock(&self.streams).push(copy);
        if let Ok(writer) = stream.try_clone() {
            let hub = self.hub.clone();
            self.keep(thread::spawn(move || write(writer, &hub, &told)));
        }
        self.read(stream, rank);
    }

    /// The rank of a peer, if it may take part.
    fn admit(&self, hello: std::result::Result<Hello, u32>) -> std::result::Result<usize, RankFailure> {
        let refused = |rank: usize, sentence| RankFailure { rank, kind: RankFailureKind::Refused, sentence };
        let ours = &self.hello;
        let hello = hello.map_err(|version| {
            refused(
                0,
                format!("a rank speaks version {version} of the protocol, rank 0 another: build all from one commit"),
            )
        })?;
        let rank = hello.rank as usize;
        if !ours.secret.is(hello.secret.reveal()) {
            // It may be anyone's: ours goes on without it, and it learns nothing.
            let remedy = "both need the same WARP_RANK_SECRET, or none";
            return Err(refused(rank, format!("rank {rank} does not know the secret of rank 0: {remedy}")));
        }
        if hello.job != ours.job {
            // It is another run's: ours goes on without it.
            return Err(refused(
                rank,
                format!("rank 0 at this address belongs to the run `{}`, not `{}`", ours.job, hello.job),
            ));
        }
        let sentence = if hello.size != ours.size {
            format!("rank {rank} counts {} ranks, rank 0 counts {}", hello.size, ours.size)
        } else if hello.program != ours.program {
            format!("rank {rank} runs another program than rank 0, or with other arguments")
        } else if hello.backend != ours.backend {
            let (theirs, ours) = (&hello.backend, &ours.backend);
            format!(
                "rank {rank} exchanges values by {theirs}, rank 0 by {ours}: all need the same, in the same version"
            )
        } else {
            return Ok(rank);
        };
        let failure = refused(rank, sentence);
        self.hub.fail(failure.clone());
        Err(failure)
    }

    fn read(&self, mut stream: TcpStream, rank: usize) {
        let hub = &self.hub;
        loop {
            let understood = match wire::read(&mut stream) {
                Ok((Kind::Alive, _)) => Some(()),
                Ok((Kind::Call, body)) => {
                    wire::parse_call(&body).map(|(call, bytes)| hub.call(rank, call, bytes.to_vec()))
                }
                Ok((Kind::Note, body)) => wire::parse_call(&body).map(|(call, _)| hub.note(rank, call)),
                Ok((Kind::Late, _)) => {
                    hub.late(rank);
                    Some(())
                }
                Ok((Kind::Failed, body)) => {
                    wire::parse_failure(&body).map(|failure| hub.fail(RankFailure { rank, ..failure }))
                }
                Ok((Kind::Hello | Kind::Welcome | Kind::Answer, _)) => None,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => None,
                Err(error) => return self.lost(rank, &error),
            };
            if understood.is_none() {
                let sentence = format!("rank {rank} sent something that is no message of ours");
                hub.fail(RankFailure { rank, kind: RankFailureKind::Refused, sentence });
                return hub.leave(rank, RankFailureKind::Refused, String::new);
            }
        }
    }

    fn lost(&self, rank: usize, error: &io::Error) {
        let (size, timeout) = (self.hub.size(), silence(self.hub.timeout()));
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                self.hub.leave(rank, RankFailureKind::Silent, || {
                    format!("rank {rank} of {size} has said nothing for {}", seconds(timeout))
                })
            }
            _ => self.hub.leave(rank, RankFailureKind::Ended, || {
                format!("the process of rank {rank} of {size} ended before the run was over")
            }),
        }
    }
}

/// Sends the rank's messages, and signs of life between them.
fn write(mut stream: TcpStream, hub: &Hub, told: &Receiver<Told>) {
    let mut sent = wire::write(&mut stream, Kind::Welcome, &[]);
    while sent.is_ok() {
        sent = match told.recv_timeout(interval(hub.timeout())) {
            Ok(Told::Answer(bytes)) => wire::write(&mut stream, Kind::Answer, &[&bytes]),
            Ok(Told::Failed(failure)) => wire::write(&mut stream, Kind::Failed, &[&wire::failure(&failure)]),
            Err(RecvTimeoutError::Timeout) => {
                hub.tick();
                wire::write(&mut stream, Kind::Alive, &[])
            }
            Err(RecvTimeoutError::Disconnected) => break,
        };
    }
    let _ = stream.shutdown(Shutdown::Write);
}
