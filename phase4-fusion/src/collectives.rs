//! Every operation between ranks, checked on each of them against the host's result from all ranks' inputs.
//!
//! Each rank can make the inputs of all others, so it knows the expected result. By the host the bits must be those of a sum in
//! rank order. NCCL chooses its own order: there a second run must give the same bits, and both must lie within the bound of any
//! order of additions.

use std::ops::Range;

use common::prelude::*;
use half::f16;
use ranks::{Communicator, ReduceOp, Reducible};

/// An operation, with the type of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Sum of f32.
    Sum,
    /// Sum of f16.
    SumHalves,
    /// Largest of i32.
    Max,
    /// Bytes of all.
    Gather,
    /// Parts of the sum of f32.
    Scatter,
    /// f32 of the last rank.
    Broadcast,
    /// i32, from each rank to the next.
    Ring,
    /// f64, from the first rank to the last.
    Send,
}

/// Result of an operation on one rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Bytes that a rank contributes.
    pub bytes: usize,
    /// Median of its time in the stream; `None` without a clock.
    pub ms: Option<f64>,
    /// The first wrong value, in a sentence.
    pub wrong: Option<String>,
}

/// Number of measured runs, and operations in each: enough that the first one's launch is a small part.
const REPEATS: usize = 20;
const IN_A_ROW: usize = 10;
/// Runs before them, in which NCCL establishes its remaining connections.
const WARM_UP: usize = 3;

impl Collective {
    /// All of them, in the order in which every rank must call [`Collective::run`].
    pub const ALL: [Collective; 8] = [
        Collective::Sum,
        Collective::SumHalves,
        Collective::Max,
        Collective::Gather,
        Collective::Scatter,
        Collective::Broadcast,
        Collective::Ring,
        Collective::Send,
    ];

    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Collective::Sum => "all_reduce(sum) f32",
            Collective::SumHalves => "all_reduce(sum) f16",
            Collective::Max => "all_reduce(max) i32",
            Collective::Gather => "all_gather u8",
            Collective::Scatter => "reduce_scatter(sum) f32",
            Collective::Broadcast => "broadcast f32",
            Collective::Ring => "exchange in a ring i32",
            Collective::Send => "send, recv f64",
        }
    }

    /// Runs it with `count` values per rank, twice, and on a GPU as often as a measurement needs.
    ///
    /// # Errors
    /// Same as the operations of [`Communicator`]. Wrong values are not an error, but an [`Outcome`].
    pub fn run(self, ranks: &Communicator, count: usize) -> Result<Outcome> {
        let (rank, size, last) = (ranks.rank(), ranks.size(), ranks.size() - 1);
        match self {
            Collective::Sum => self.reduce::<f32>(ranks, ReduceOp::Sum, count),
            Collective::SumHalves => self.reduce::<f16>(ranks, ReduceOp::Sum, count),
            Collective::Max => self.reduce::<i32>(ranks, ReduceOp::Max, count),
            Collective::Scatter => {
                let own_part = rank * count..(rank + 1) * count;
                let allowed = Allowed::<f32>::reduced(self, ranks, ReduceOp::Sum, own_part);
                let all = inputs(self, rank, 0..count * size);
                checked(ranks, Start::Poisoned, &all, &allowed, |stream, all, own| {
                    ranks.reduce_scatter(stream, ReduceOp::Sum, all, own)
                })
            }
            Collective::Gather => {
                let of = |rank| inputs::<u8>(self, rank, 0..count);
                let all = Allowed::exactly((0..size).flat_map(of).collect());
                checked(ranks, Start::Poisoned, &of(rank), &all, |stream, own, all| ranks.all_gather(stream, own, all))
            }
            Collective::Broadcast => {
                let of = |rank| inputs::<f32>(self, rank, 0..count);
                checked(ranks, Start::Own, &of(rank), &Allowed::exactly(of(last)), |stream, _, values| {
                    ranks.broadcast(stream, last, values)
                })
            }
            Collective::Ring => {
                let (next, before) = ((rank + 1) % size, (rank + last) % size);
                let of = |rank| inputs::<i32>(self, rank, 0..count);
                checked(ranks, Start::Own, &of(rank), &Allowed::exactly(of(before)), |stream, own, received| match size
                {
                    1 => Ok(()),
                    _ => ranks.exchange(stream, next, own, before, received),
                })
            }
            Collective::Send => {
                let of = |rank| inputs::<f64>(self, rank, 0..count);
                let expected = Allowed::exactly(of(if rank == last { 0 } else { rank }));
                checked(ranks, Start::Own, &of(rank), &expected, |stream, own, received| match rank {
                    _ if size == 1 => Ok(()),
                    0 => ranks.send(stream, last, own),
                    _ if rank == last => ranks.recv(stream, 0, received),
                    _ => Ok(()),
                })
            }
        }
    }

    fn reduce<T: Value + Reducible>(self, ranks: &Communicator, op: ReduceOp, count: usize) -> Result<Outcome> {
        let allowed = Allowed::<T>::reduced(self, ranks, op, 0..count);
        let own = inputs(self, ranks.rank(), 0..count);
        checked(ranks, Start::Own, &own, &allowed, |stream, _, values| {
            // ANCHOR: reduce
            // On every rank: its own values become the sum of all.
            ranks.all_reduce(stream, op, values)
            // ANCHOR_END: reduce
        })
    }
}

/// The values of a rank at these indices, from [−1000, 1000): small enough for f16, and whole numbers for integer types.
fn inputs<T: Value>(collective: Collective, rank: usize, places: Range<usize>) -> Vec<T> {
    let seed = (collective as u64) << 56 | (rank as u64) << 40;
    let value = |place: usize| {
        // SplitMix64: distinct in every rank, operation and place.
        let mut bits = (seed + place as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        T::of(((bits ^ bits >> 31) >> 11) as f64 / (1u64 << 53) as f64 * 2000.0 - 1000.0)
    };
    places.map(value).collect()
}

/// A type whose values are made from f64.
trait Value: DeviceElement + PartialEq {
    /// Unit round-off; 0 for integers.
    const ROUND_OFF: f64;
    fn of(value: f64) -> Self;
    fn wide(self) -> f64;
}

macro_rules! value {
    ($($type:ty: $round_off:expr, $of:expr, $wide:expr;)+) => {
        $(impl Value for $type {
            const ROUND_OFF: f64 = $round_off;
            fn of(value: f64) -> $type { $of(value) }
            fn wide(self) -> f64 { $wide(self) }
        })+
    };
}

value! {
    f32: f32::EPSILON as f64 / 2.0, |value| value as f32, f64::from;
    f64: f64::EPSILON / 2.0, |value| value, |value| value;
    f16: 1.0 / 2048.0, f16::from_f64, f64::from;
    i32: 0.0, |value| value as i32, f64::from;
    u8: 0.0, |value| value as i32 as u8, f64::from;
}

/// Expected values, and their tolerance.
struct Allowed<T> {
    expected: Vec<T>,
    /// `None`: exactly these bits.
    bound: Option<Vec<f64>>,
}

impl<T: Value> Allowed<T> {
    fn exactly(expected: Vec<T>) -> Allowed<T> {
        Allowed { expected, bound: None }
    }

    fn first_wrong(&self, found: &[T]) -> Option<String> {
        let is_wrong = |i: &usize| {
            let (expected, value) = (self.expected[*i], found[*i]);
            match &self.bound {
                None => bytemuck::bytes_of(&expected) != bytemuck::bytes_of(&value),
                Some(bound) => {
                    // A NaN is never near.
                    let is_near = (value.wide() - expected.wide()).abs() <= bound[*i];
                    !is_near
                }
            }
        };
        let at = (0..self.expected.len()).find(is_wrong)?;
        Some(format!("value {at} is {} instead of {}", found[at].wide(), self.expected[at].wide()))
    }
}

impl<T: Value + Reducible> Allowed<T> {
    /// All ranks' values at these indices, combined in rank order. NCCL adds in another order: each of the two is within (n −
    /// 1)·u·Σ|x| of the exact sum, if products of u are neglected; a factor of 1 + n·u covers those.
    fn reduced(collective: Collective, ranks: &Communicator, op: ReduceOp, places: Range<usize>) -> Allowed<T> {
        let mut expected = inputs::<T>(collective, 0, places.clone());
        let mut magnitudes: Vec<f64> = expected.iter().map(|value| value.wide().abs()).collect();
        for rank in 1..ranks.size() {
            let values = inputs::<T>(collective, rank, places.clone());
            for ((sum, magnitude), value) in expected.iter_mut().zip(&mut magnitudes).zip(values) {
                *sum = T::combine(op, *sum, value);
                *magnitude += value.wide().abs();
            }
        }
        let n = ranks.size() as f64;
        let factor = 2.0 * (n - 1.0) * T::ROUND_OFF * (1.0 + n * T::ROUND_OFF);
        let is_exact = op != ReduceOp::Sum || !ranks.is_nccl();
        let bound = (!is_exact).then(|| magnitudes.into_iter().map(|magnitude| factor * magnitude).collect());
        Allowed { expected, bound }
    }
}

/// Initial contents of the buffer that an operation writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// NaN, or −1.
    Poisoned,
    /// The rank's own values.
    Own,
}

/// Runs it twice, and compares.
fn checked<T: Value>(
    ranks: &Communicator,
    start: Start,
    own: &[T],
    allowed: &Allowed<T>,
    operation: impl Fn(&Stream, &Buffer<T>, &mut Buffer<T>) -> Result<()>,
) -> Result<Outcome> {
    let stream = ranks.device().stream();
    let source = stream.clone_htod(own)?;
    let begin = || match start {
        Start::Poisoned => stream.alloc_poisoned(allowed.expected.len()),
        Start::Own => stream.clone_dtod(&source),
    };
    let run = || {
        let mut result = begin()?;
        operation(&stream, &source, &mut result)?;
        ranks.synchronize(&stream)?;
        stream.clone_dtoh(&result)
    };
    let (first, second) = (run()?, run()?);
    let wrong = if bytemuck::cast_slice::<T, u8>(&first) == bytemuck::cast_slice::<T, u8>(&second) {
        allowed.first_wrong(&first)
    } else {
        Some("a second run gave other bits".to_owned())
    };
    let ms = if ranks.device().is_sim() {
        None
    } else {
        let mut result = begin()?;
        Some(milliseconds(ranks, &stream, || operation(&stream, &source, &mut result))?)
    };
    Ok(Outcome { bytes: size_of_val(own), ms, wrong })
}

/// Milliseconds of one operation: the median of several runs of consecutive operations, which all ranks begin together. Every
/// rank runs the same number, so that no time limit ends it.
fn milliseconds(ranks: &Communicator, stream: &Stream, mut operation: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut samples = Vec::with_capacity(REPEATS);
    for run in 0..WARM_UP + REPEATS {
        ranks.barrier(stream)?;
        let begin = stream.record_event()?;
        for _ in 0..IN_A_ROW {
            operation()?;
        }
        let end = stream.record_event()?;
        ranks.synchronize(stream)?;
        if run >= WARM_UP {
            samples.push(f64::from(begin.elapsed_ms(&end)?) / IN_A_ROW as f64);
        }
    }
    samples.sort_by(f64::total_cmp);
    Ok(samples[REPEATS / 2])
}
