//! Every operation between ranks, checked on each of them against what the host computes from all ranks' inputs.
//!
//! Each rank can make the inputs of all others, so it knows what must come out. By the host the bits must be those of a sum in the
//! order of the ranks. By NCCL the order is not ours: there a second run must give the same bits, and both lie within the bound of
//! any order of additions.

use common::prelude::*;
use common::ranks::{Communicator, ReduceOp, Reducible};
use half::f16;

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

/// What an operation gave on one rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Bytes that a rank brings to it.
    pub bytes: usize,
    /// Median of its time in the stream; `None` without a clock.
    pub ms: Option<f64>,
    /// The first value that is wrong, in a sentence.
    pub wrong: Option<String>,
}

/// Measured runs.
const REPEATS: usize = 20;
/// Runs before them, in which NCCL connects what it has not yet connected.
const WARM_UP: usize = 3;

impl Collective {
    /// All of them, in the order in which [`Collective::run`] is to be called on every rank.
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

    /// As tables call it.
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
    /// As the operations of [`Communicator`]. Wrong values are no error, but an [`Outcome`].
    pub fn run(self, ranks: &Communicator, count: usize) -> Result<Outcome> {
        let (rank, size) = (ranks.rank(), ranks.size());
        let of_all = |count: usize| -> Vec<Vec<f64>> { (0..size).map(|rank| inputs(self, rank, count)).collect() };
        match self {
            Collective::Sum => reduce::<f32>(ranks, ReduceOp::Sum, &of_all(count), f64::from(f32::EPSILON)),
            Collective::SumHalves => reduce::<f16>(ranks, ReduceOp::Sum, &of_all(count), f64::from(f16::EPSILON)),
            Collective::Max => reduce::<i32>(ranks, ReduceOp::Max, &of_all(count), 0.0),
            Collective::Scatter => {
                let all: Vec<Vec<f32>> = of_all(count * size).iter().map(|values| convert(values)).collect();
                let parts: Vec<Vec<f32>> = all.iter().map(|values| values[rank * count..][..count].to_vec()).collect();
                let allowed = Allowed::sum(&parts, f64::from(f32::EPSILON), ranks);
                checked(ranks, &all[rank], count, &allowed, |stream, all, own| {
                    ranks.reduce_scatter(stream, ReduceOp::Sum, &*all, own)
                })
            }
            Collective::Gather => {
                let all: Vec<u8> = of_all(count).concat().into_iter().map(|value| value as i32 as u8).collect();
                let own = &all[rank * count..][..count];
                checked(ranks, own, all.len(), &Allowed::exactly(&all), |stream, own, all| {
                    ranks.all_gather(stream, &*own, all)
                })
            }
            Collective::Broadcast => {
                let all = of_all(count);
                let (own, last) = (convert::<f32>(&all[rank]), convert::<f32>(&all[size - 1]));
                checked(ranks, &own, count, &Allowed::exactly(&last), |stream, own, result| {
                    stream.memcpy_dtod(&*own, result)?;
                    ranks.broadcast(stream, size - 1, result)
                })
            }
            Collective::Ring => {
                let all = of_all(count);
                let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
                let (own, received) = (convert::<i32>(&all[rank]), convert::<i32>(&all[before]));
                checked(ranks, &own, count, &Allowed::exactly(&received), |stream, own, result| match size {
                    1 => stream.memcpy_dtod(&*own, result),
                    _ => ranks.exchange(stream, next, &*own, before, result),
                })
            }
            Collective::Send => {
                let (all, last) = (of_all(count), size - 1);
                let expected = if rank == last { &all[0] } else { &all[rank] };
                checked(ranks, &all[rank], count, &Allowed::exactly(expected), |stream, own, result| {
                    stream.memcpy_dtod(&*own, result)?;
                    match rank {
                        _ if size == 1 => Ok(()),
                        0 => ranks.send(stream, last, &*own),
                        _ if rank == last => ranks.recv(stream, 0, result),
                        _ => Ok(()),
                    }
                })
            }
        }
    }
}

/// The values of a rank, in [−1000, 1000): small enough for f16, and whole numbers where types ask for them.
fn inputs(collective: Collective, rank: usize, count: usize) -> Vec<f64> {
    let seed = (collective as u64) << 32 | rank as u64;
    (0..count as u64)
        .map(|i| {
            // SplitMix64: distinct in every rank, operation and place.
            let mut bits = (seed << 24).wrapping_add(i).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((bits ^ bits >> 31) >> 11) as f64 / (1u64 << 53) as f64 * 2000.0 - 1000.0
        })
        .collect()
}

/// A type whose values are made from f64.
trait Value: DeviceElement + PartialEq {
    fn of(value: f64) -> Self;
    fn wide(self) -> f64;
}

macro_rules! value {
    ($($type:ty: $of:expr, $wide:expr;)+) => {
        $(impl Value for $type {
            fn of(value: f64) -> $type { $of(value) }
            fn wide(self) -> f64 { $wide(self) }
        })+
    };
}

value! {
    f32: |value| value as f32, f64::from;
    f64: |value| value, |value| value;
    f16: f16::from_f64, f64::from;
    i32: |value| value as i32, f64::from;
    u8: |value| value as u8, f64::from;
}

fn convert<T: Value>(values: &[f64]) -> Vec<T> {
    values.iter().map(|value| T::of(*value)).collect()
}

/// What must come out, and how far from it a value may be.
struct Allowed<T> {
    expected: Vec<T>,
    /// `None`: these bits.
    bound: Option<Vec<f64>>,
}

impl<T: Value> Allowed<T> {
    fn exactly(expected: &[T]) -> Allowed<T> {
        Allowed { expected: expected.to_vec(), bound: None }
    }
}

impl<T: Value + Reducible> Allowed<T> {
    /// The parts' sum in the order of the ranks; NCCL's is as far from the exact one as additions in any order may be:
    /// (n − 1)·u·Σ|x|, for both.
    fn sum(parts: &[Vec<T>], epsilon: f64, ranks: &Communicator) -> Allowed<T> {
        let expected = reduced(ReduceOp::Sum, parts);
        let magnitude = |i: usize| parts.iter().map(|part| part[i].wide().abs()).sum::<f64>();
        let bound =
            |i| 2.0 * (parts.len() - 1) as f64 * epsilon / 2.0 * magnitude(i) * (1.0 + parts.len() as f64 * epsilon);
        let bound = ranks.is_nccl().then(|| (0..expected.len()).map(bound).collect());
        Allowed { expected, bound }
    }
}

fn reduced<T: Reducible>(op: ReduceOp, parts: &[Vec<T>]) -> Vec<T> {
    let mut parts = parts.iter();
    let mut all = parts.next().cloned().unwrap_or_default();
    for part in parts {
        all.iter_mut().zip(part).for_each(|(all, value)| *all = T::combine(op, *all, *value));
    }
    all
}

fn reduce<T: Value + Reducible>(
    ranks: &Communicator,
    op: ReduceOp,
    inputs: &[Vec<f64>],
    epsilon: f64,
) -> Result<Outcome> {
    let parts: Vec<Vec<T>> = inputs.iter().map(|values| convert(values)).collect();
    let allowed = match op {
        ReduceOp::Sum => Allowed::sum(&parts, epsilon, ranks),
        _ => Allowed::exactly(&reduced(op, &parts)),
    };
    let own = &parts[ranks.rank()];
    checked(ranks, own, own.len(), &allowed, |stream, own, result| {
        stream.memcpy_dtod(&*own, result)?;
        ranks.all_reduce(stream, op, result)
    })
}

/// Runs it twice into a poisoned buffer of `count` values, and compares.
fn checked<T: Value>(
    ranks: &Communicator,
    own: &[T],
    count: usize,
    allowed: &Allowed<T>,
    operation: impl Fn(&Stream, &Buffer<T>, &mut Buffer<T>) -> Result<()>,
) -> Result<Outcome> {
    let stream = ranks.device().stream();
    let source = stream.clone_htod(own)?;
    let mut runs = Vec::new();
    for _ in 0..2 {
        let mut result = stream.alloc_poisoned(count)?;
        operation(&stream, &source, &mut result)?;
        ranks.synchronize(&stream)?;
        runs.push(stream.clone_dtoh(&result)?);
    }
    let bytes = |run: &[T]| bytemuck::cast_slice::<T, u8>(run).to_vec();
    let wrong = if bytes(&runs[0]) != bytes(&runs[1]) {
        Some("a second run gave other bits".to_owned())
    } else {
        allowed.first_wrong(&runs[0])
    };
    let ms = if ranks.device().is_sim() {
        None
    } else {
        let mut result = stream.alloc_poisoned(count)?;
        let mut samples = Vec::new();
        for run in 0..WARM_UP + REPEATS {
            ranks.barrier(&stream)?;
            let begin = stream.record_event()?;
            operation(&stream, &source, &mut result)?;
            let end = stream.record_event()?;
            ranks.synchronize(&stream)?;
            if run >= WARM_UP {
                samples.push(f64::from(begin.elapsed_ms(&end)?));
            }
        }
        samples.sort_by(f64::total_cmp);
        Some(samples[samples.len() / 2])
    };
    Ok(Outcome { bytes: size_of_val(own), ms, wrong })
}

impl<T: Value> Allowed<T> {
    fn first_wrong(&self, found: &[T]) -> Option<String> {
        let far = |i: usize| {
            let (expected, value) = (self.expected[i], found[i]);
            match &self.bound {
                None => bytemuck::bytes_of(&expected) != bytemuck::bytes_of(&value),
                // A NaN is never near.
                Some(bound) => !((value.wide() - expected.wide()).abs() <= bound[i]),
            }
        };
        let at = (0..self.expected.len()).find(|i| far(*i))?;
        Some(format!("value {at} is {} instead of {}", found[at].wide(), self.expected[at].wide()))
    }
}
