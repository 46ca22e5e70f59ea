//! A rank's connection to the [`Hub`]: a call in the same process, a connection to rank 0's otherwise.

use std::io;
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::call::Call;
use super::hub::{Hub, Told, seconds};
use super::server::{interval, lock, prepare, silence};
use super::wire::{self, Hello, Kind};
use super::world::Meeting;
use common::error::{RankFailure, RankFailureKind};

type Result<T> = std::result::Result<T, RankFailure>;

/// The connection of one rank.
pub(super) struct Line {
    rank: usize,
    size: usize,
    timeout: Duration,
    told: Mutex<Receiver<Told>>,
    end: End,
}

enum End {
    Hub(Arc<Hub>),
    Connection(Connection),
}

struct Connection {
    out: Arc<Mutex<TcpStream>>,
    failure: Arc<Mutex<Option<RankFailure>>>,
    reader: Option<JoinHandle<()>>,
    /// Ends the thread that sends signs of life when dropped.
    alive: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Line {
    /// To a hub in this process.
    pub(super) fn to_hub(hub: &Arc<Hub>, rank: usize) -> Result<Line> {
        let told = Mutex::new(hub.join(rank)?);
        Ok(Line { rank, size: hub.size(), timeout: hub.timeout(), told, end: End::Hub(hub.clone()) })
    }

    /// To rank 0 in another process, which may not listen yet.
    pub(super) fn connect(meeting: &Meeting, hello: &Hello, timeout: Duration) -> Result<Line> {
        let absent = |reason: &str| RankFailure {
            rank: 0,
            kind: RankFailureKind::Absent,
            sentence: format!("rank 0 did not come to {meeting} within {}: {reason}", seconds(timeout)),
        };
        let end = Instant::now() + timeout;
        let mut stream = loop {
            match attempt(meeting, hello, timeout, end) {
                Ok(stream) => break stream,
                Err(Refusal::Failure(failure)) => return Err(failure),
                Err(Refusal::Reason(reason)) if Instant::now() >= end => return Err(absent(&reason)),
                Err(Refusal::Reason(_)) => thread::sleep(Duration::from_millis(20)),
            }
        };
        let broken = |error: io::Error| absent(&error.to_string());
        prepare(&stream, timeout).map_err(broken)?;
        let out = Arc::new(Mutex::new(stream.try_clone().map_err(broken)?));
        let (sender, told) = channel();
        let failure = Arc::new(Mutex::new(None));
        let reader = thread::spawn({
            let failure = failure.clone();
            move || read(&mut stream, &sender, &failure, timeout)
        });
        let (stop, stopped) = channel();
        let alive = thread::spawn({
            let out = out.clone();
            move || {
                while stopped.recv_timeout(interval(timeout)) == Err(RecvTimeoutError::Timeout) {
                    // If it fails, the reader learns it too.
                    let _ = wire::write(&mut *lock(&out), Kind::Alive, &[]);
                }
            }
        });
        let connection = Connection { out, failure, reader: Some(reader), alive: Some((stop, alive)) };
        let (rank, size) = (hello.rank as usize, hello.size as usize);
        Ok(Line { rank, size, timeout, told: Mutex::new(told), end: End::Connection(connection) })
    }

    pub(super) fn rank(&self) -> usize {
        self.rank
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Failure that has ended the work of all, as far as it is known here.
    pub(super) fn failure(&self) -> Option<RankFailure> {
        match &self.end {
            End::Hub(hub) => hub.failure(),
            End::Connection(connection) => lock(&connection.failure).clone(),
        }
    }

    /// Takes part in a call with these bytes, and waits for the result.
    pub(super) fn call(&self, call: Call, bytes: Vec<u8>) -> Result<Arc<Vec<u8>>> {
        // Asked first: an old answer cannot come, since no call is open.
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        match &self.end {
            End::Hub(hub) => hub.call(self.rank, call, bytes),
            End::Connection(_) => self.send(Kind::Call, &[&wire::call(&call), &bytes]),
        }
        let told = lock(&self.told);
        let begin = Instant::now();
        loop {
            match told.recv_timeout(interval(self.timeout)) {
                Ok(Told::Answer(bytes)) => return Ok(bytes),
                Ok(Told::Failed(failure)) => return Err(failure),
                Err(RecvTimeoutError::Disconnected) => return Err(self.failure().unwrap_or_else(|| self.no_answer())),
                Err(RecvTimeoutError::Timeout) => match &self.end {
                    End::Hub(hub) => hub.tick(),
                    // Rank 0 looks at the time; this is for one that does not.
                    End::Connection(_) if begin.elapsed() > silence(self.timeout) * 2 => return Err(self.no_answer()),
                    End::Connection(_) => {}
                },
            }
        }
    }

    fn no_answer(&self) -> RankFailure {
        let sentence = format!("rank 0 of {} does not answer", self.size);
        RankFailure { rank: 0, kind: RankFailureKind::Silent, sentence }
    }

    /// Sends a call whose values take another path, to be compared with those of the other ranks.
    #[cfg(feature = "cuda")]
    pub(super) fn note(&self, call: Call) {
        match &self.end {
            End::Hub(hub) => hub.note(self.rank, call),
            End::Connection(_) => self.send(Kind::Note, &[&wire::call(&call)]),
        }
    }

    /// Reports that recorded calls did not end in time.
    #[cfg(feature = "cuda")]
    pub(super) fn late(&self) {
        match &self.end {
            End::Hub(hub) => hub.late(self.rank),
            End::Connection(_) => self.send(Kind::Late, &[]),
        }
    }

    /// Ends the work of all.
    pub(super) fn fail(&self, kind: RankFailureKind, sentence: String) {
        let failure = RankFailure { rank: self.rank, kind, sentence };
        match &self.end {
            End::Hub(hub) => hub.fail(failure),
            End::Connection(connection) => {
                self.send(Kind::Failed, &[&wire::failure(&failure)]);
                lock(&connection.failure).get_or_insert(failure);
            }
        }
    }

    fn send(&self, kind: Kind, parts: &[&[u8]]) {
        if let End::Connection(Connection { out, failure, .. }) = &self.end
            && wire::write(&mut *lock(out), kind, parts).is_err()
        {
            // The reader knows better, if it has read the end of the connection.
            thread::sleep(Duration::from_millis(20));
            lock(failure).get_or_insert_with(ended);
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        match &mut self.end {
            End::Hub(hub) => {
                let (rank, size) = (self.rank, self.size);
                hub.leave(rank, RankFailureKind::Ended, || {
                    format!("rank {rank} of {size} ended before the run was over")
                });
            }
            End::Connection(connection) => {
                if let Some((stop, alive)) = connection.alive.take() {
                    drop(stop);
                    let _ = alive.join();
                }
                let out = lock(&connection.out);
                let _ = out.shutdown(Shutdown::Write);
                // Rank 0 closes its side when it has read our end; a connection closed before takes back what was written.
                if let Some(reader) = connection.reader.take() {
                    let end = Instant::now() + Duration::from_secs(1);
                    while !reader.is_finished() && Instant::now() < end {
                        thread::sleep(Duration::from_millis(1));
                    }
                    let _ = out.shutdown(Shutdown::Both);
                    let _ = reader.join();
                }
            }
        }
    }
}

/// Reason why there is no connection: final, or to be retried.
enum Refusal {
    Failure(RankFailure),
    Reason(String),
}

fn attempt(
    meeting: &Meeting,
    hello: &Hello,
    timeout: Duration,
    end: Instant,
) -> std::result::Result<TcpStream, Refusal> {
    let again = |error: io::Error| Refusal::Reason(error.to_string());
    let addresses = (meeting.host.as_str(), meeting.port).to_socket_addrs().map_err(again)?;
    let mut reason = format!("{} has no address", meeting.host);
    for address in addresses {
        let left =
            end.saturating_duration_since(Instant::now()).clamp(Duration::from_millis(10), Duration::from_secs(2));
        let mut stream = match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => stream,
            Err(error) => {
                reason = error.to_string();
                continue;
            }
        };
        // A port that nobody listens at can be connected with itself, and then nobody else can have it.
        if stream.local_addr().ok() == stream.peer_addr().ok() {
            reason = "nobody listens there".to_owned();
            continue;
        }
        prepare(&stream, timeout).map_err(again)?;
        stream.set_read_timeout(Some(left)).map_err(again)?;
        wire::write(&mut stream, Kind::Hello, &[&wire::hello(hello)]).map_err(again)?;
        let (kind, body) = wire::read(&mut stream).unwrap_or((Kind::Alive, Vec::new()));
        match (kind, wire::parse_failure(&body)) {
            (Kind::Welcome, _) => return Ok(stream),
            (Kind::Failed, Some(failure)) => return Err(Refusal::Failure(failure)),
            _ => reason = "what listens there is not rank 0 of this program".to_owned(),
        }
    }
    Err(Refusal::Reason(reason))
}

fn ended() -> RankFailure {
    let sentence = "the process of rank 0 ended before the run was over".to_owned();
    RankFailure { rank: 0, kind: RankFailureKind::Ended, sentence }
}

/// Passes on rank 0's messages, until it closes the connection.
fn read(stream: &mut TcpStream, told: &Sender<Told>, failure: &Mutex<Option<RankFailure>>, timeout: Duration) {
    let fail = |reason: RankFailure| {
        let first = lock(failure).get_or_insert(reason).clone();
        let _ = told.send(Told::Failed(first));
    };
    loop {
        match wire::read(stream) {
            Ok((Kind::Alive, _)) => {}
            Ok((Kind::Answer, bytes)) => drop(told.send(Told::Answer(Arc::new(bytes)))),
            Ok((Kind::Failed, body)) => match wire::parse_failure(&body) {
                Some(reason) => fail(reason),
                None => return fail(ended()),
            },
            Ok(_) => return fail(ended()),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                let sentence = format!("rank 0 has said nothing for {}", seconds(silence(timeout)));
                return fail(RankFailure { rank: 0, kind: RankFailureKind::Silent, sentence });
            }
            Err(_) => return fail(ended()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::call::Operation;
    use super::super::server::Server;
    use super::*;
    use common::secret::Secret;

    const TIMEOUT: Duration = Duration::from_millis(300);

    fn hello(rank: u32) -> Hello {
        let (job, program, backend) = ("job".to_owned(), "program".to_owned(), "NCCL 2.27.5".to_owned());
        Hello { rank, size: 2, job, program, backend, secret: Secret::given("secret") }
    }

    /// A hub with a server, on rank 0.
    fn rank_0() -> (Meeting, Arc<Hub>, Line, Server) {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (meeting, hub) = (Meeting { host: "127.0.0.1".to_owned(), port }, Hub::new(2, TIMEOUT));
        let line = Line::to_hub(&hub, 0).unwrap();
        let server = Server::listen(&meeting, hub.clone(), hello(0)).unwrap();
        (meeting, hub, line, server)
    }

    fn refused(meeting: &Meeting, hello: &Hello) -> RankFailure {
        Line::connect(meeting, hello, TIMEOUT).err().unwrap()
    }

    #[test]
    fn another_run_is_sent_away_and_another_version_ends_all() {
        let (meeting, hub, _line, _server) = rank_0();
        let said = refused(&meeting, &Hello { job: "other".to_owned(), ..hello(1) });
        assert_eq!(said.sentence, "rank 0 at this address belongs to the run `job`, not `other`");
        assert_eq!(hub.failure(), None);
        let said = refused(&meeting, &Hello { secret: Secret::given("guessed"), ..hello(1) });
        assert_eq!(
            said.sentence,
            "rank 1 does not know the secret of rank 0: both need the same WARP_RANK_SECRET, or none"
        );
        assert_eq!(hub.failure(), None);
        let said = refused(&meeting, &Hello { backend: "NCCL 2.28.3".to_owned(), ..hello(1) });
        let sentence =
            "rank 1 exchanges values by NCCL 2.28.3, rank 0 by NCCL 2.27.5: all need the same, in the same version";
        assert_eq!((said.rank, said.kind, said.sentence.as_str()), (1, RankFailureKind::Refused, sentence));
        assert_eq!(hub.failure(), Some(said));
    }

    #[test]
    fn another_protocol_and_a_second_rank_of_the_same_number_are_refused() {
        let (meeting, _hub, line, _server) = rank_0();
        let mut greeting = wire::hello(&hello(1));
        greeting[8] = 77;
        let mut stranger = TcpStream::connect(("127.0.0.1", meeting.port)).unwrap();
        wire::write(&mut stranger, Kind::Hello, &[&greeting]).unwrap();
        let (kind, body) = wire::read(&mut stranger).unwrap();
        assert_eq!(kind, Kind::Failed);
        assert!(wire::parse_failure(&body).unwrap().sentence.contains("a rank speaks version 77 of the protocol"));
        let said = refused(&meeting, &hello(0));
        assert_eq!(said.sentence, "two processes say that they are rank 0 of 2");
        // The one that is meant comes all the same.
        let barrier = || Call::plain(Operation::Barrier);
        let one = Line::connect(&meeting, &hello(1), TIMEOUT).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| one.call(barrier(), Vec::new()).unwrap());
            line.call(barrier(), Vec::new()).unwrap();
        });
    }

    /// Connections that say nothing, that begin a long message, or that say what no rank says, more of them than are kept at a time.
    #[test]
    fn strangers_keep_no_rank_out_and_take_no_memory() {
        let (meeting, hub, line, _server) = rank_0();
        let idle: Vec<TcpStream> = (0..200)
            .map(|at| {
                let mut stranger = TcpStream::connect(("127.0.0.1", meeting.port)).unwrap();
                let head = [Kind::Call as u8, 0, 0, 0, 8];
                let said: &[u8] = [&[], &head[..], b"GET / HTTP/1.1\r\n\r\n"][at % 3];
                io::Write::write_all(&mut stranger, said).unwrap();
                stranger
            })
            .collect();
        // One that begins a call without a greeting is not read on.
        let mut long = TcpStream::connect(("127.0.0.1", meeting.port)).unwrap();
        long.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
        let _ = io::Write::write_all(&mut long, &[Kind::Call as u8, 0, 0, 0, 8]);
        let refused = (0..64).any(|_| io::Write::write_all(&mut long, &[7; 1 << 20]).is_err());
        assert!(refused, "64 MiB were read");
        let one = Line::connect(&meeting, &hello(1), Duration::from_secs(5)).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| one.call(Call::plain(Operation::Barrier), Vec::new()).unwrap());
            line.call(Call::plain(Operation::Barrier), Vec::new()).unwrap();
        });
        assert_eq!(hub.failure(), None);
        drop(idle);
    }

    /// A host without power closes nothing, and says nothing.
    #[test]
    fn a_peer_that_falls_silent_is_missed() {
        let (meeting, hub, line, _server) = rank_0();
        let mut silent = TcpStream::connect(("127.0.0.1", meeting.port)).unwrap();
        wire::write(&mut silent, Kind::Hello, &[&wire::hello(&hello(1))]).unwrap();
        assert_eq!(wire::read(&mut silent).unwrap().0, Kind::Welcome);
        let begin = Instant::now();
        while hub.failure().is_none() && begin.elapsed() < silence(TIMEOUT) * 2 {
            thread::sleep(Duration::from_millis(5));
        }
        let failure = line.call(Call::plain(Operation::Barrier), Vec::new()).unwrap_err();
        assert_eq!((failure.rank, failure.kind), (1, RankFailureKind::Silent));
        assert_eq!(failure.sentence, "rank 1 of 2 has said nothing for 2.3 s");
        assert!(begin.elapsed() >= TIMEOUT);
    }

    /// An invalid message ends the run: it comes from a peer that was let in.
    #[test]
    fn a_peer_that_talks_nonsense_ends_all() {
        for message in [&b"\x04\x02\0\0\0ab"[..], b"\x08\0\0\0\0", b"\xFF\xFF\xFF\xFF\xFF"] {
            let (meeting, hub, _line, _server) = rank_0();
            let mut peer = TcpStream::connect(("127.0.0.1", meeting.port)).unwrap();
            wire::write(&mut peer, Kind::Hello, &[&wire::hello(&hello(1))]).unwrap();
            assert_eq!(wire::read(&mut peer).unwrap().0, Kind::Welcome);
            io::Write::write_all(&mut peer, message).unwrap();
            let begin = Instant::now();
            while hub.failure().is_none() && begin.elapsed() < silence(TIMEOUT) {
                thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(hub.failure().unwrap().rank, 1);
        }
    }
}
