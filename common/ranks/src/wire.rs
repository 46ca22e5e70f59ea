//! Messages between ranks in different processes: their bytes, and how to read them from a peer that is not trusted.
//!
//! A message is a byte for its kind, its length in 4 bytes, and that many bytes; numbers are little-endian. Lengths are checked
//! before memory is taken, and memory grows only with received bytes.

use std::io::{self, ErrorKind, Read, Write};

use super::call::{Call, End, Operation, ReduceOp};
use common::error::{RankFailure, RankFailureKind};
use common::secret::Secret;
use common::text::printable_lines;

/// First bytes of a connection.
const MAGIC: &[u8; 8] = b"WARPRANK";

/// Version of all messages.
const VERSION: u32 = 2;

/// Maximum bytes that a rank may bring to a call, or get from it.
pub(super) const MAX_PAYLOAD: usize = 256 << 20;

/// Maximum bytes of any other message.
const MAX_SMALL: usize = 8 << 10;

/// Maximum characters of an error's text.
const MAX_SENTENCE: usize = 4 << 10;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Hello = 1,
    Welcome,
    Alive,
    Call,
    Note,
    Late,
    Failed,
    Answer,
}

impl Kind {
    const ALL: [Kind; 8] =
        [Kind::Hello, Kind::Welcome, Kind::Alive, Kind::Call, Kind::Note, Kind::Late, Kind::Failed, Kind::Answer];

    fn limit(self) -> usize {
        match self {
            Kind::Call | Kind::Answer => MAX_PAYLOAD + MAX_SMALL,
            _ => MAX_SMALL,
        }
    }
}

/// Greeting of a connecting rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub rank: u32,
    pub size: u32,
    /// The launcher's name for the run.
    pub job: String,
    /// The program and its arguments, as a digest.
    pub program: String,
    /// Path of the values, with the version: `NCCL 2.27.5`.
    pub backend: String,
    /// The secret of the run's ranks.
    pub secret: Secret,
}

pub(super) fn write(out: &mut impl Write, kind: Kind, parts: &[&[u8]]) -> io::Result<()> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    if length > kind.limit() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "the message is too long"));
    }
    let mut head = vec![kind as u8];
    head.extend((length as u32).to_le_bytes());
    // Small messages in one piece.
    for part in parts {
        if part.len() > MAX_SMALL {
            out.write_all(&head)?;
            head.clear();
            out.write_all(part)?;
        } else {
            head.extend_from_slice(part);
        }
    }
    out.write_all(&head)?;
    out.flush()
}

/// The next message.
///
/// # Errors
/// [`ErrorKind::UnexpectedEof`] if the peer has closed the connection, [`ErrorKind::InvalidData`] for an invalid message.
pub(super) fn read(input: &mut impl Read) -> io::Result<(Kind, Vec<u8>)> {
    read_of(&Kind::ALL, input)
}

/// The first message of a connection, as [`parse_hello`] takes it. Of any other nothing is read but its head.
///
/// # Errors
/// Same as [`read`].
pub(super) fn read_hello(input: &mut impl Read) -> io::Result<Vec<u8>> {
    Ok(read_of(&[Kind::Hello], input)?.1)
}

/// The next message, which must be of one of these kinds.
fn read_of(kinds: &[Kind], input: &mut impl Read) -> io::Result<(Kind, Vec<u8>)> {
    let mut head = [0; 5];
    input.read_exact(&mut head)?;
    let [kind, length @ ..] = head;
    let kind = kinds.iter().find(|known| **known as u8 == kind);
    let length = u32::from_le_bytes(length) as usize;
    let Some(&kind) = kind.filter(|kind| length <= kind.limit()) else { return Err(ErrorKind::InvalidData.into()) };
    let mut body = Vec::new();
    input.take(length as u64).read_to_end(&mut body)?;
    if body.len() < length { Err(ErrorKind::UnexpectedEof.into()) } else { Ok((kind, body)) }
}

/// Reads numbers and texts one after the other; `None` at the end of the bytes.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn u8(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?))
    }

    /// A text on one line or several, without characters that a terminal obeys.
    fn text(&mut self) -> Option<String> {
        let length = self.u32()? as usize;
        let bytes = self.bytes(length)?;
        Some(printable_lines(&String::from_utf8_lossy(bytes)).into_owned())
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.as_bytes());
}

/// At most [`MAX_SENTENCE`] bytes of a text.
fn cut(text: &str) -> &str {
    let end = (0..=text.len().min(MAX_SENTENCE)).rev().find(|&at| text.is_char_boundary(at));
    &text[..end.unwrap_or(0)]
}

pub(super) fn hello(hello: &Hello) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    for number in [VERSION, hello.rank, hello.size] {
        out.extend(number.to_le_bytes());
    }
    for text in [&hello.job, &hello.program, &hello.backend, hello.secret.reveal()] {
        put_text(&mut out, cut(text));
    }
    out
}

/// A greeting; `Err` with the peer's version if that is another. `None` if it is no greeting.
pub(super) fn parse_hello(bytes: &[u8]) -> Option<Result<Hello, u32>> {
    let mut fields = Fields(bytes);
    if fields.bytes(MAGIC.len())? != MAGIC {
        return None;
    }
    let version = fields.u32()?;
    if version != VERSION {
        return Some(Err(version));
    }
    let (rank, size) = (fields.u32()?, fields.u32()?);
    let [job, program, backend, secret] = [fields.text()?, fields.text()?, fields.text()?, fields.text()?];
    let hello = Hello { rank, size, job, program, backend, secret: Secret::given(secret) };
    fields.0.is_empty().then_some(Ok(hello))
}

pub(super) fn failure(failure: &RankFailure) -> Vec<u8> {
    let mut out = vec![failure.kind as u8];
    out.extend((failure.rank as u32).to_le_bytes());
    put_text(&mut out, cut(&failure.sentence));
    out
}

pub(super) fn parse_failure(bytes: &[u8]) -> Option<RankFailure> {
    use RankFailureKind::*;
    let mut fields = Fields(bytes);
    let kind = fields.u8()?;
    let kind =
        [Failed, Ended, Absent, Late, Silent, Mismatch, Stuck, Refused].into_iter().find(|k| *k as u8 == kind)?;
    Some(RankFailure { kind, rank: fields.u32()? as usize, sentence: fields.text()? })
}

/// Rank in place of a transfer's missing end.
const NOBODY: u32 = u32::MAX;

pub(super) fn call(call: &Call) -> Vec<u8> {
    let reduced = |code: u8, op: ReduceOp| (code, op as u32);
    let (code, argument) = match call.operation {
        Operation::Barrier => (0, 0),
        Operation::Finish => (1, 0),
        Operation::Share => (2, 0),
        Operation::AllReduce(op) => reduced(3, op),
        Operation::AllGather => (4, 0),
        Operation::ReduceScatter(op) => reduced(5, op),
        Operation::Broadcast { root } => (6, root),
        Operation::Transfer { .. } => (7, 0),
    };
    let mut out = vec![code];
    out.extend(argument.to_le_bytes());
    if let Operation::Transfer { to, from } = call.operation {
        for end in [to, from] {
            let End { peer, count } = end.unwrap_or(End { peer: NOBODY, count: 0 });
            out.extend(peer.to_le_bytes());
            out.extend(count.to_le_bytes());
        }
    }
    out.extend(call.size.to_le_bytes());
    out.extend(call.count.to_le_bytes());
    put_text(&mut out, &call.element);
    out
}

/// A call, and the bytes that follow it.
pub(super) fn parse_call(bytes: &[u8]) -> Option<(Call, &[u8])> {
    let mut fields = Fields(bytes);
    let (code, argument) = (fields.u8()?, fields.u32()?);
    let op = || [ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max].into_iter().find(|op| *op as u32 == argument);
    let operation = match code {
        0 => Operation::Barrier,
        1 => Operation::Finish,
        2 => Operation::Share,
        3 => Operation::AllReduce(op()?),
        4 => Operation::AllGather,
        5 => Operation::ReduceScatter(op()?),
        6 => Operation::Broadcast { root: argument },
        7 => {
            let mut end = || {
                let (peer, count) = (fields.u32()?, fields.u64()?);
                Some((peer != NOBODY).then_some(End { peer, count }))
            };
            Operation::Transfer { to: end()?, from: end()? }
        }
        _ => return None,
    };
    let (size, count, element) = (fields.u32()?, fields.u64()?, fields.text()?);
    Some((Call { operation, element, size, count }, fields.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: Kind, parts: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, kind, parts).unwrap();
        out
    }

    fn calls() -> Vec<Call> {
        let (to, from) = (Some(End { peer: 1, count: 5 }), Some(End { peer: 2, count: 1 << 40 }));
        let with = |operation| Call { operation, element: "f32".to_owned(), size: 4, count: 7 };
        vec![
            Call::plain(Operation::Barrier),
            Call::plain(Operation::Finish),
            Call::plain(Operation::Share),
            with(Operation::AllReduce(ReduceOp::Max)),
            with(Operation::AllGather),
            with(Operation::ReduceScatter(ReduceOp::Min)),
            with(Operation::Broadcast { root: 3 }),
            with(Operation::Transfer { to, from: None }),
            with(Operation::Transfer { to: None, from }),
            with(Operation::Transfer { to, from }),
        ]
    }

    #[test]
    fn what_is_written_is_read_again() {
        for one in calls() {
            let bytes = [&call(&one)[..], b"payload"].concat();
            assert_eq!(parse_call(&bytes), Some((one, &b"payload"[..])));
        }
        let greeting = Hello {
            rank: 1,
            size: 2,
            job: "j".into(),
            program: "p".into(),
            backend: "host".into(),
            secret: Secret::given("s"),
        };
        assert_eq!(parse_hello(&hello(&greeting)), Some(Ok(greeting)));
        let sentence = RankFailure { rank: 7, kind: RankFailureKind::Late, sentence: "too late".into() };
        assert_eq!(parse_failure(&failure(&sentence)), Some(sentence));
        for length in [0, 3, MAX_SMALL, MAX_SMALL + 1, 100_000] {
            let body = vec![7; length];
            let (kind, read) = read(&mut &message(Kind::Answer, &[b"ab", &body, b"c"])[..]).unwrap();
            assert_eq!((kind, read.len(), read.last()), (Kind::Answer, length + 3, Some(&b'c')));
        }
    }

    #[test]
    fn whatever_a_stranger_sends_is_refused() {
        let refused = |bytes: &[u8]| read(&mut &bytes[..]).unwrap_err().kind();
        assert_eq!(refused(b""), ErrorKind::UnexpectedEof);
        assert_eq!(refused(b"GET / HTTP/1.1\r\n\r\n"), ErrorKind::InvalidData);
        // A message that is long, and no greeting.
        let answer = message(Kind::Answer, &[&[7; 100]]);
        assert_eq!(read_hello(&mut &answer[..]).unwrap_err().kind(), ErrorKind::InvalidData);
        // More than any message has, and more than this kind has: nothing is allocated.
        assert_eq!(refused(&[Kind::Answer as u8, 255, 255, 255, 255]), ErrorKind::InvalidData);
        assert_eq!(refused(&[Kind::Hello as u8, 0, 0, 1, 0]), ErrorKind::InvalidData);
        // A length that does not come.
        assert_eq!(refused(&[Kind::Answer as u8, 0, 0, 0, 8, 1, 2, 3]), ErrorKind::UnexpectedEof);
        // Everything cut short, and every byte changed: no panic, and no claimed length is believed.
        let messages = [
            calls().iter().map(call).collect::<Vec<_>>(),
            vec![failure(&RankFailure { rank: 1, kind: RankFailureKind::Stuck, sentence: "s".into() })],
        ];
        for bytes in messages.concat() {
            for end in 0..bytes.len() {
                assert!(parse_call(&bytes[..end]).is_none_or(|(call, _)| call.element.len() < 8));
                let _ = (parse_failure(&bytes[..end]), parse_hello(&bytes[..end]));
                let mut changed = bytes.clone();
                changed[end] ^= 0xFF;
                let _ = (parse_call(&changed), parse_failure(&changed), parse_hello(&changed));
            }
        }
        let other = Hello {
            rank: 1,
            size: 2,
            job: String::new(),
            program: String::new(),
            backend: String::new(),
            secret: Secret::given(""),
        };
        let mut version = hello(&other);
        version[8] = 9;
        assert_eq!(parse_hello(&version), Some(Err(9)));
    }

    #[test]
    fn a_sentence_is_cut_and_cannot_command_a_terminal() {
        let long =
            RankFailure { rank: 0, kind: RankFailureKind::Failed, sentence: format!("\u{1b}[2J{}", "ä".repeat(9000)) };
        let read = parse_failure(&failure(&long)).unwrap().sentence;
        assert!(read.starts_with("\\u{1b}[2Jä") && read.len() < MAX_SENTENCE + 20, "{}", read.len());
    }
}
