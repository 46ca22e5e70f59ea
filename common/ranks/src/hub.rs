//! Meeting point of all ranks: it takes a call from each, compares them, does the work, and ends everyone's work if one fails.
//!
//! The hub lives in rank 0's process. Ranks in the same process call it directly; those in other processes through
//! [`super::server`], which calls it for them. Each rank has at most one call open. Nothing here waits: the rank that brings
//! the last missing call does the work of all, and the answers go out by channels.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::call::{Call, End, Operation};
use super::reduce::reduce;
use common::error::{RankFailure, RankFailureKind};

/// Message of the hub to a rank.
#[derive(Clone, Debug)]
pub(super) enum Told {
    /// The result of its call.
    Answer(Arc<Vec<u8>>),
    /// The work of all is over.
    Failed(RankFailure),
}

/// Maximum number of recorded calls by which a rank may be ahead of the others: a GPU's queue is full long before.
const NOTES: usize = 1 << 16;

pub(super) struct Hub {
    size: usize,
    timeout: Duration,
    state: Mutex<State>,
}

struct State {
    members: Vec<Member>,
    failure: Option<RankFailure>,
}

struct Member {
    /// `None` before the rank has joined, and after it has left.
    outlet: Option<Sender<Told>>,
    status: Status,
    open: Option<Open>,
    /// Recorded calls that not every rank has recorded yet.
    notes: VecDeque<Call>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Expected,
    Present,
    /// It has finished together with all others.
    Finished,
}

/// A call that waits for others.
struct Open {
    call: Call,
    bytes: Vec<u8>,
    since: Instant,
    /// For a transfer: whether it was sent, and the received bytes.
    sent: bool,
    received: Option<Vec<u8>>,
}

impl Hub {
    /// A hub for this number of ranks, which wait for one another for `timeout`.
    pub(super) fn new(size: usize, timeout: Duration) -> Arc<Hub> {
        let member = || Member { outlet: None, status: Status::Expected, open: None, notes: VecDeque::new() };
        let members = (0..size).map(|_| member()).collect();
        Arc::new(Hub { size, timeout, state: Mutex::new(State { members, failure: None }) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No step below leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Failure that ended the work, if any.
    pub(super) fn failure(&self) -> Option<RankFailure> {
        self.lock().failure.clone()
    }

    /// Adds the rank, and returns the channel of its messages.
    ///
    /// # Errors
    /// If it has joined before, or if the work is over.
    pub(super) fn join(&self, rank: usize) -> Result<Receiver<Told>, RankFailure> {
        let mut state = self.lock();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        let refused = |sentence| RankFailure { rank, kind: RankFailureKind::Refused, sentence };
        let size = self.size;
        let Some(member) = state.members.get_mut(rank) else {
            return Err(refused(format!("rank {rank} of {size} does not exist")));
        };
        if member.status != Status::Expected {
            return Err(refused(format!("two processes say that they are rank {rank} of {size}")));
        }
        let (sender, receiver) = channel();
        member.status = Status::Present;
        member.outlet = Some(sender);
        Ok(receiver)
    }

    /// True once every rank has joined.
    pub(super) fn is_complete(&self) -> bool {
        self.lock().members.iter().all(|member| member.status != Status::Expected)
    }

    /// Takes a rank's call with the bytes that it brings.
    pub(super) fn call(&self, rank: usize, call: Call, bytes: Vec<u8>) {
        let mut state = self.lock();
        if state.failure.is_some() {
            return;
        }
        if let Err(sentence) = self.accept(&state, rank, &call, &bytes) {
            return state.fail(RankFailure { rank, kind: RankFailureKind::Refused, sentence });
        }
        state.members[rank].open = Some(Open { call, bytes, since: Instant::now(), sent: false, received: None });
        state.advance();
    }

    /// Checks a call for errors that do not depend on the others. A rank in another process is not trusted to be ours.
    fn accept(&self, state: &State, rank: usize, call: &Call, bytes: &[u8]) -> Result<(), String> {
        if state.members[rank].open.is_some() {
            return Err(format!("rank {rank} calls {call} before its last call was answered"));
        }
        let is_rank = |peer: u32| (peer as usize) < self.size;
        let known = match call.operation {
            Operation::Broadcast { root } => is_rank(root),
            Operation::Transfer { to, from } => {
                let other = |end: End| is_rank(end.peer) && end.peer as usize != rank;
                (to.is_some() || from.is_some()) && [to, from].into_iter().flatten().all(other)
            }
            _ => true,
        };
        if !known {
            return Err(format!("rank {rank} calls {call}, which names itself or a rank that does not exist"));
        }
        if call.operation != Operation::Share && call.bytes_of(rank, self.size) != Some(bytes.len() as u64) {
            return Err(format!("rank {rank} calls {call} with {} bytes", bytes.len()));
        }
        Ok(())
    }

    /// Compares a call whose values take another path with those of the other ranks. No rank waits for it.
    pub(super) fn note(&self, rank: usize, call: Call) {
        let mut state = self.lock();
        if call.is_transfer() || state.failure.is_some() {
            return;
        }
        let at = state.members[rank].notes.len();
        if at >= NOTES {
            let sentence = format!("rank {rank} is {NOTES} calls ahead of another");
            return state.fail(RankFailure { rank, kind: RankFailureKind::Refused, sentence });
        }
        let other = state.members.iter().position(|member| member.notes.get(at).is_some_and(|other| *other != call));
        if let Some(other) = other {
            let theirs = state.members[other].notes[at].to_string();
            return state.fail(mismatch((other, theirs), (rank, call.to_string())));
        }
        state.members[rank].notes.push_back(call);
        if state.members.iter().all(|member| !member.notes.is_empty()) {
            state.members.iter_mut().for_each(|member| drop(member.notes.pop_front()));
        }
    }

    /// Called if a rank has waited for the timeout for its recorded calls: reports the rank that is behind.
    pub(super) fn late(&self, rank: usize) {
        let mut state = self.lock();
        let ahead = state.members.iter().map(|member| member.notes.len()).max().unwrap_or_default();
        let behind: Vec<usize> = (0..self.size).filter(|&rank| state.members[rank].notes.len() < ahead).collect();
        let seconds = seconds(self.timeout);
        let (at_fault, sentence) = match behind.first() {
            Some(&first) => {
                let missing =
                    state.members.iter().find_map(|member| member.notes.get(state.members[first].notes.len()));
                let what = missing.map_or("its next call".to_owned(), Call::to_string);
                (first, format!("rank {rank} waits in {what}, but {} did not come within {seconds}", name(&behind)))
            }
            None => (
                rank,
                format!(
                    "what rank {rank} queued did not end within {seconds}, and no rank is behind in its collectives: is there a send \
                     without its recv, or a kernel that takes longer?"
                ),
            ),
        };
        state.fail(RankFailure { rank: at_fault, kind: RankFailureKind::Late, sentence });
    }

    /// Fails if a rank has waited for too long. To be called regularly.
    pub(super) fn tick(&self) {
        let mut state = self.lock();
        let waits = |member: &Member| member.open.as_ref().map(|open| open.since);
        let Some((rank, since)) = (0..self.size)
            .filter_map(|rank| Some((rank, waits(&state.members[rank])?)))
            .min_by_key(|(_, since)| *since)
        else {
            return;
        };
        if since.elapsed() < self.timeout || state.failure.is_some() {
            return;
        }
        let of_status = |status: Status| -> Vec<usize> {
            (0..self.size).filter(|&rank| state.members[rank].status == status).collect()
        };
        let absent = of_status(Status::Expected);
        let seconds = seconds(self.timeout);
        let (kind, at_fault, sentence) = if let Some(&first) = absent.first() {
            let sentence = format!("{} of {} did not come within {seconds}", name(&absent), self.size);
            (RankFailureKind::Absent, first, sentence)
        } else {
            let (rank, peers) = state.behind(rank);
            let call = state.open(rank).map_or(String::new(), |open| open.call.to_string());
            let sentence = format!("rank {rank} waits in {call}, but {} did not come within {seconds}", name(&peers));
            (RankFailureKind::Late, peers.first().copied().unwrap_or(rank), sentence)
        };
        state.fail(RankFailure { rank: at_fault, kind, sentence });
    }

    /// Sends no more messages to ranks.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.members.iter_mut().for_each(|member| member.outlet = None);
        let sentence = "rank 0 ended before the run was over".to_owned();
        state.failure.get_or_insert(RankFailure { rank: 0, kind: RankFailureKind::Ended, sentence });
    }

    /// Ends the work of all. The first failure counts.
    pub(super) fn fail(&self, failure: RankFailure) {
        self.lock().fail(failure);
    }

    /// Removes a rank that is gone: a failure, unless it has finished. `why` describes its end.
    pub(super) fn leave(&self, rank: usize, kind: RankFailureKind, why: impl FnOnce() -> String) {
        let mut state = self.lock();
        let member = &mut state.members[rank];
        member.outlet = None;
        if member.status == Status::Present {
            state.fail(RankFailure { rank, kind, sentence: why() });
        }
    }
}

impl State {
    fn fail(&mut self, failure: RankFailure) {
        if self.failure.is_some() {
            return;
        }
        for member in &mut self.members {
            member.open = None;
            if let Some(outlet) = &member.outlet {
                // Whoever no longer listens has an end of its own.
                let _ = outlet.send(Told::Failed(failure.clone()));
            }
        }
        self.failure = Some(failure);
    }

    fn open(&self, rank: usize) -> Option<&Open> {
        self.members[rank].open.as_ref()
    }

    /// The ranks that the open call of `rank` still waits for.
    fn awaited(&self, rank: usize) -> Vec<usize> {
        let Some(open) = self.open(rank) else { return Vec::new() };
        match open.call.operation {
            Operation::Transfer { to, from } => {
                let to = to.filter(|_| !open.sent);
                let from = from.filter(|_| open.received.is_none());
                [to, from].into_iter().flatten().map(|end| end.peer as usize).collect()
            }
            _ => (0..self.members.len()).filter(|&other| self.open(other).is_none()).collect(),
        }
    }

    /// Follows those who wait, from `rank` on, to one whose awaited ranks wait for nobody: that rank, and these.
    fn behind(&self, rank: usize) -> (usize, Vec<usize>) {
        let (mut rank, mut seen) = (rank, vec![rank]);
        loop {
            let awaited = self.awaited(rank);
            let (waiting, idle): (Vec<usize>, Vec<usize>) =
                awaited.iter().partition(|&&peer| self.open(peer).is_some());
            match waiting.into_iter().find(|peer| !seen.contains(peer)) {
                Some(next) if idle.is_empty() => {
                    seen.push(next);
                    rank = next;
                }
                _ => return (rank, if idle.is_empty() { awaited } else { idle }),
            }
        }
    }

    fn answer(&mut self, rank: usize, bytes: Arc<Vec<u8>>) {
        self.members[rank].open = None;
        if let Some(outlet) = &self.members[rank].outlet {
            let _ = outlet.send(Told::Answer(bytes));
        }
    }

    /// Does the work of all open calls that are complete.
    fn advance(&mut self) {
        match self.transfers().and_then(|()| self.collective()) {
            Err(failure) => self.fail(failure),
            Ok(()) => self.look_for_a_dead_end(),
        }
    }

    /// Passes sent values to the ranks that wait for them.
    fn transfers(&mut self) -> Result<(), RankFailure> {
        for from in 0..self.members.len() {
            let Some(Open { call, sent: false, .. }) = self.open(from) else { continue };
            let Operation::Transfer { to: Some(end), .. } = call.operation else { continue };
            let to = end.peer as usize;
            let Some(Open { call: other, received: None, .. }) = self.open(to) else { continue };
            let Operation::Transfer { from: Some(expected), .. } = other.operation else { continue };
            if expected.peer as usize != from {
                continue;
            }
            if expected.count != end.count || call.element != other.element || call.size != other.size {
                return Err(mismatch((from, call.to_string()), (to, other.to_string())));
            }
            let bytes = self.members[from].open.as_mut().map(|open| {
                open.sent = true;
                std::mem::take(&mut open.bytes)
            });
            if let Some(open) = &mut self.members[to].open {
                open.received = bytes;
            }
            self.end_of_transfer(from);
            self.end_of_transfer(to);
        }
        Ok(())
    }

    fn end_of_transfer(&mut self, rank: usize) {
        let Some(open) = &mut self.members[rank].open else { return };
        let Operation::Transfer { to, from } = open.call.operation else { return };
        if (to.is_none() || open.sent) && (from.is_none() || open.received.is_some()) {
            let received = open.received.take().unwrap_or_default();
            self.answer(rank, Arc::new(received));
        }
    }

    /// Compares the ranks' calls, and does their work once all have arrived.
    fn collective(&mut self) -> Result<(), RankFailure> {
        let ranks = self.members.len();
        let calls = || (0..ranks).filter_map(|rank| Some((rank, self.open(rank)?)));
        let mut collectives = calls().filter(|(_, open)| !open.call.is_transfer());
        let Some((first, Open { call, .. })) = collectives.next() else { return Ok(()) };
        if let Some((other, open)) = collectives.find(|(_, open)| open.call != *call) {
            return Err(mismatch((first, call.to_string()), (other, open.call.to_string())));
        }
        if calls().filter(|(_, open)| !open.call.is_transfer()).count() < ranks {
            return Ok(());
        }
        let call = call.clone();
        let parts: Vec<&[u8]> = calls().map(|(_, open)| &*open.bytes).collect();
        let impossible = || RankFailure {
            rank: first,
            kind: RankFailureKind::Refused,
            sentence: format!("{call} is not possible on the host: it cannot combine values of that type"),
        };
        let to_all = |bytes: Vec<u8>| {
            let same = Arc::new(bytes);
            (0..ranks).map(|_| same.clone()).collect::<Vec<_>>()
        };
        let answers = match call.operation {
            Operation::Barrier | Operation::Finish | Operation::Transfer { .. } => to_all(Vec::new()),
            Operation::Share => to_all(framed(&parts)),
            Operation::AllReduce(op) => to_all(reduce(&call.element, op, &parts).ok_or_else(impossible)?),
            Operation::AllGather => to_all(parts.concat()),
            Operation::Broadcast { root } => to_all(parts[root as usize].to_vec()),
            Operation::ReduceScatter(op) => {
                let all = reduce(&call.element, op, &parts).ok_or_else(impossible)?;
                let part = all.len() / ranks;
                (0..ranks).map(|rank| Arc::new(all[rank * part..][..part].to_vec())).collect()
            }
        };
        for (rank, answer) in answers.into_iter().enumerate() {
            if call.operation == Operation::Finish {
                self.members[rank].status = Status::Finished;
            }
            self.answer(rank, answer);
        }
        Ok(())
    }

    /// Detects a dead end: every rank waits and none can go on.
    fn look_for_a_dead_end(&mut self) {
        let calls: Vec<String> = (0..self.members.len())
            .filter_map(|rank| Some(format!("rank {rank} waits in {}", self.open(rank)?.call)))
            .collect();
        if calls.len() < self.members.len() {
            return;
        }
        const SHOWN: usize = 4;
        let mut sentence = format!("no rank can go on: {}", calls[..calls.len().min(SHOWN)].join(", "));
        if calls.len() > SHOWN {
            sentence.push_str(", …");
        }
        self.fail(RankFailure { rank: 0, kind: RankFailureKind::Stuck, sentence });
    }
}

fn mismatch((one, theirs): (usize, String), (other, its): (usize, String)) -> RankFailure {
    let (first, second) = if one < other { ((one, theirs), (other, its)) } else { ((other, its), (one, theirs)) };
    RankFailure {
        rank: second.0,
        kind: RankFailureKind::Mismatch,
        sentence: format!(
            "the ranks do not agree: rank {} calls {}, rank {} calls {}",
            first.0, first.1, second.0, second.1
        ),
    }
}

/// `rank 3`, `ranks 1 and 2`, `ranks 1, 2, 3 and 12 others`.
fn name(ranks: &[usize]) -> String {
    const SHOWN: usize = 4;
    let listed = |ranks: &[usize]| ranks.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    match ranks {
        [] => "a rank".to_owned(),
        [one] => format!("rank {one}"),
        _ if ranks.len() > SHOWN => format!("ranks {} and {} others", listed(&ranks[..SHOWN]), ranks.len() - SHOWN),
        [most @ .., last] => format!("ranks {} and {last}", listed(most)),
    }
}

/// `30 s`, `1.5 s`.
pub(super) fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

/// The parts with their lengths, for [`unframed`].
fn framed(parts: &[&[u8]]) -> Vec<u8> {
    let lengths = parts.iter().flat_map(|part| (part.len() as u64).to_le_bytes());
    lengths.chain(parts.iter().flat_map(|part| part.iter().copied())).collect()
}

/// The parts of [`framed`]; `None` for other bytes.
pub(super) fn unframed(bytes: &[u8], parts: usize) -> Option<Vec<Vec<u8>>> {
    let (lengths, mut rest) = bytes.split_at_checked(parts.checked_mul(8)?)?;
    let mut all = Vec::with_capacity(parts);
    for length in lengths.chunks_exact(8) {
        let length = u64::from_le_bytes(length.try_into().ok()?);
        let (part, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        all.push(part.to_vec());
        rest = after;
    }
    rest.is_empty().then_some(all)
}

#[cfg(test)]
mod tests {
    use super::super::call::ReduceOp;
    use super::*;

    fn sum(count: u64) -> Call {
        Call { operation: Operation::AllReduce(ReduceOp::Sum), element: "f32".to_owned(), size: 4, count }
    }

    /// A hub with all ranks, and their channels of messages.
    fn hub(ranks: usize, timeout: Duration) -> (Arc<Hub>, Vec<Receiver<Told>>) {
        let hub = Hub::new(ranks, timeout);
        let told = (0..ranks).map(|rank| hub.join(rank).unwrap()).collect();
        (hub, told)
    }

    /// Calls that only the hub compares, while their values go from GPU to GPU.
    #[test]
    fn noted_calls_are_compared_however_far_one_rank_is_ahead() {
        let (hub, told) = hub(3, Duration::from_secs(60));
        for count in 0..100 {
            hub.note(2, sum(count));
        }
        for count in 0..50 {
            hub.note(0, sum(count));
            // Transfers have no place in the order of all.
            let to = Some(End { peer: 1, count: 1 });
            hub.note(0, Call { operation: Operation::Transfer { to, from: None }, ..sum(0) });
        }
        hub.note(1, sum(0));
        assert_eq!(hub.failure(), None);
        hub.note(0, sum(51));
        let sentence =
            "the ranks do not agree: rank 0 calls all_reduce(sum) of 51 f32, rank 2 calls all_reduce(sum) of 50 f32";
        let failure = hub.failure().unwrap();
        assert_eq!((failure.kind, failure.sentence.as_str()), (RankFailureKind::Mismatch, sentence));
        for told in told {
            assert!(matches!(told.try_recv(), Ok(Told::Failed(same)) if same == failure));
        }
    }

    #[test]
    fn of_noted_calls_that_do_not_end_the_rank_is_named_that_is_behind() {
        let late = |notes: [u64; 3]| {
            let (hub, _told) = hub(3, Duration::from_secs(2));
            (0..3).for_each(|rank| (0..notes[rank]).for_each(|count| hub.note(rank, sum(count))));
            hub.late(0);
            let RankFailure { rank, kind, sentence } = hub.failure().unwrap();
            assert_eq!(kind, RankFailureKind::Late);
            (rank, sentence)
        };
        let waits = "rank 0 waits in all_reduce(sum) of 4 f32, but";
        assert_eq!(late([5, 4, 5]), (1, format!("{waits} rank 1 did not come within 2 s")));
        assert_eq!(late([5, 4, 4]), (1, format!("{waits} ranks 1 and 2 did not come within 2 s")));
        let (rank, sentence) = late([5, 5, 5]);
        assert!(rank == 0 && sentence.contains("no rank is behind in its collectives"), "{sentence}");
    }

    /// Rank 0 waits for rank 2, which waits for rank 1, which does nothing: a suspended process, for instance.
    #[test]
    fn the_rank_is_named_that_the_others_wait_for_in_the_end() {
        let end = |peer| Some(End { peer, count: 1 });
        let transfer = |to, from| Call { operation: Operation::Transfer { to, from }, ..sum(0) };
        let (hub, _told) = hub(4, Duration::from_millis(20));
        hub.call(0, transfer(None, end(2)), Vec::new());
        hub.call(2, transfer(end(3), end(1)), vec![0; 4]);
        hub.call(3, transfer(None, end(2)), Vec::new());
        std::thread::sleep(Duration::from_millis(30));
        hub.tick();
        let RankFailure { rank, kind, sentence } = hub.failure().unwrap();
        assert_eq!((rank, kind), (1, RankFailureKind::Late));
        assert!(sentence.starts_with("rank 2 waits in ") && sentence.contains("rank 1 did not come"), "{sentence}");
    }

    /// A rank in another process may send anything.
    #[test]
    fn calls_that_cannot_be_are_refused() {
        let end = |peer| Some(End { peer, count: 1 });
        let transfer = |to, from| Call { operation: Operation::Transfer { to, from }, ..sum(0) };
        let broadcast = |root| Call { operation: Operation::Broadcast { root }, ..sum(2) };
        let huge = Call { operation: Operation::ReduceScatter(ReduceOp::Max), ..sum(u64::MAX / 4) };
        for (call, bytes) in [
            (sum(2), 4),
            (sum(u64::MAX), 8),
            (huge, 8),
            (broadcast(2), 0),
            (broadcast(u32::MAX), 0),
            (transfer(None, None), 0),
            (transfer(end(1), None), 4),
            (transfer(None, end(7)), 0),
            (Call::plain(Operation::Barrier), 1),
        ] {
            let (hub, _told) = hub(2, Duration::from_secs(60));
            hub.call(1, call.clone(), vec![0; bytes]);
            let failure = hub.failure().unwrap();
            assert_eq!((failure.rank, failure.kind), (1, RankFailureKind::Refused), "{call:?}");
        }
        let (hub, _told) = hub(2, Duration::from_secs(60));
        for _ in 0..2 {
            hub.call(1, Call::plain(Operation::Barrier), Vec::new());
        }
        assert_eq!(hub.failure().unwrap().sentence, "rank 1 calls a barrier before its last call was answered");
        // A type of no known arithmetic, from both: none can be combined.
        let (hub, _told) = self::hub(2, Duration::from_secs(60));
        (0..2).for_each(|rank| hub.call(rank, Call { element: "Pair".to_owned(), ..sum(1) }, vec![0; 4]));
        assert!(hub.failure().unwrap().sentence.contains("it cannot combine values of that type"));
        assert_eq!(unframed(&framed(&[b"ab", b"", b"c"]), 3), Some(vec![b"ab".to_vec(), vec![], b"c".to_vec()]));
        for bytes in [&[0; 23][..], &[0xFF; 24], &[0; 25]] {
            assert_eq!(unframed(bytes, 3), None);
        }
    }
}
