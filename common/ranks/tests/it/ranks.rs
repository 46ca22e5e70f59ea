//! Ranks in the threads of one process: their exchange of values, and their common end when one fails. Processes are tested with
//! the command of phase 4.

use std::sync::MutexGuard;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::prelude::*;
use half::f16;
use ranks::{Communicator, FailureKind, Options, RankFailure, ReduceOp, Transport};

fn simulators(count: u32) -> Vec<Device> {
    common::private::sims_for_test(count).devices().to_vec()
}

fn waiting(seconds: f64) -> Options {
    Options { timeout: Duration::from_secs_f64(seconds), ..Options::default() }
}

/// Runs it on this number of simulators, and returns its failure.
fn failure(count: u32, timeout: f64, body: impl Fn(&Communicator) -> Result<()> + Sync) -> RankFailure {
    let begin = Instant::now();
    let error = ranks::run(&simulators(count), &waiting(timeout), body).unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(10), "{error}");
    match error {
        Error::Ranks(failure) => failure,
        other => panic!("{other}"),
    }
}

/// The values of a rank: sums of them are rounded, and depend on the order.
fn values(rank: usize, count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + rank * 1009 + 11) % 4099) as f32 / 1.7 - 900.0).collect()
}

fn sum(ranks: usize, count: usize) -> Vec<f32> {
    let add = |sum: Vec<f32>, rank| sum.iter().zip(values(rank, count)).map(|(a, b)| a + b).collect();
    (1..ranks).fold(values(0, count), add)
}

#[test]
fn sixteen_ranks_agree_on_every_operation() {
    const COUNT: usize = 33;
    let size = 16;
    let results = ranks::run(&simulators(16), &Options::default(), |ranks| -> Result<Vec<f32>> {
        let (stream, rank) = (ranks.device().stream(), ranks.rank());
        assert_eq!((ranks.size(), ranks.is_nccl()), (size, false));
        let own = stream.clone_htod(&values(rank, COUNT))?;
        let mut all = stream.alloc_poisoned::<f32>(size * COUNT)?;
        ranks.all_gather(&stream, &own, &mut all)?;
        let gathered: Vec<f32> = (0..size).flat_map(|rank| values(rank, COUNT)).collect();
        assert_eq!(stream.clone_dtoh(&all)?, gathered);

        // Part of a buffer, and a part of each rank.
        let mut part = stream.alloc_poisoned::<f32>(5)?;
        ranks.reduce_scatter(&stream, ReduceOp::Sum, &all.slice(..5 * size), &mut part.slice_mut(..))?;
        let expected: Vec<f32> = (0..5)
            .map(|i| {
                let value = gathered[rank * 5 + i];
                (1..size).fold(value, |sum, _| sum + value)
            })
            .collect();
        assert_eq!(stream.clone_dtoh(&part)?, expected);

        for root in [0, 7, size - 1] {
            let mut from_root = stream.clone_htod(&values(rank, 3))?;
            ranks.broadcast(&stream, root, &mut from_root)?;
            assert_eq!(stream.clone_dtoh(&from_root)?, values(root, 3));
        }
        let mut received = stream.alloc_poisoned::<f32>(COUNT)?;
        ranks.exchange(&stream, (rank + 1) % size, &own, (rank + size - 1) % size, &mut received)?;
        assert_eq!(stream.clone_dtoh(&received)?, values((rank + size - 1) % size, COUNT));
        // A chain of transfers, while the last ranks already wait in the next call.
        match rank {
            0 => ranks.send(&stream, 1, &own)?,
            1..4 => {
                ranks.recv(&stream, rank - 1, &mut received)?;
                ranks.send(&stream, rank + 1, &received)?;
            }
            4 => ranks.recv(&stream, 3, &mut received)?,
            _ => {}
        }
        if (1..=4).contains(&rank) {
            assert_eq!(stream.clone_dtoh(&received)?, values(0, COUNT));
        }
        ranks.barrier(&stream)?;
        let notes = ranks.share(&vec![rank as u8; rank])?;
        assert!((0..size).all(|rank| notes[rank] == vec![rank as u8; rank]));

        let mut largest = stream.clone_htod(&[rank as i32, -(rank as i32)])?;
        ranks.all_reduce(&stream, ReduceOp::Max, &mut largest)?;
        assert_eq!(stream.clone_dtoh(&largest)?, [15, 0]);
        let mut halves = stream.clone_htod(&[f16::from_f32(0.1); 2])?;
        ranks.all_reduce(&stream, ReduceOp::Min, &mut halves)?;
        let mut none = stream.alloc_zeros::<f32>(0)?;
        ranks.all_reduce(&stream, ReduceOp::Sum, &mut none)?;
        let mut total = own;
        ranks.all_reduce(&stream, ReduceOp::Sum, &mut total)?;
        ranks.synchronize(&stream)?;
        stream.clone_dtoh(&total)
    })
    .unwrap();
    assert!(
        results.iter().all(|result| *result == sum(size, COUNT)),
        "every rank has the bits of the sum in the ranks' order"
    );
}

#[test]
fn one_rank_is_a_world_too() {
    let twice = |ranks: &Communicator| -> Result<Vec<u8>> {
        let stream = ranks.device().stream();
        let mut values = stream.clone_htod(&[200u8, 3])?;
        ranks.all_reduce(&stream, ReduceOp::Sum, &mut values)?;
        assert!(ranks.send(&stream, 0, &values).is_err() && ranks.broadcast(&stream, 1, &mut values).is_err());
        stream.clone_dtoh(&values)
    };
    assert_eq!(ranks::run(&simulators(1), &Options::default(), twice).unwrap(), [[200, 3]]);
    let alone = ranks::run_in(&ranks::World::alone(), &Device::sim(), &Options::default(), twice);
    assert_eq!(alone.unwrap(), [200, 3]);
    let none = ranks::run(&[], &Options::default(), twice).unwrap_err();
    assert_eq!(none.to_string(), "0 devices: ranks are 1 to 1024");
}

#[test]
fn what_one_rank_fails_with_is_returned_and_told_to_the_others() {
    let told = AtomicUsize::new(0);
    let error = ranks::run(&simulators(3), &waiting(5.0), |ranks| -> Result<()> {
        let stream = ranks.device().stream();
        ranks.barrier(&stream)?;
        if ranks.rank() == 1 {
            drop(stream.alloc_uninit::<u8>(ranks.device().memory().total as usize + 1)?);
        }
        let error = ranks.barrier(&stream).unwrap_err().to_string();
        assert!(error.starts_with("rank 1 of 3 failed: out of memory on sim:1: "), "{error}");
        told.fetch_add(1, Ordering::Relaxed);
        // It stays so.
        assert_eq!(ranks.barrier(&stream).unwrap_err().to_string(), error);
        ranks.barrier(&stream)
    })
    .unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    assert_eq!(told.into_inner(), 2);
}

#[test]
fn a_thread_that_panics_or_leaves_early_ends_the_others() {
    let found = failure(4, 20.0, |ranks| {
        assert!(ranks.rank() != 2, "a planned mistake");
        ranks.barrier(&ranks.device().stream())
    });
    assert_eq!((found.rank, found.kind), (2, FailureKind::Ended));
    assert!(found.sentence.starts_with("rank 2 of 4 panicked: a planned mistake"), "{found}");
    let found = failure(3, 20.0, |ranks| {
        let stream = ranks.device().stream();
        if ranks.rank() == 0 {
            Ok(())
        } else {
            ranks.all_reduce(&stream, ReduceOp::Sum, &mut stream.clone_htod(&[1.0f32])?)
        }
    });
    assert_eq!(found.kind, FailureKind::Mismatch);
    assert!(found.sentence.contains("rank 0 calls the end of the run, rank "), "{found}");
}

#[test]
fn ranks_that_do_not_agree_are_both_named() {
    type Misuse = fn(&Communicator, &Stream) -> Result<()>;
    let calls: [(&str, Misuse); 5] = [
        ("all_reduce(sum) of 3 f32", |ranks, stream| {
            let count = if ranks.rank() == 1 { 4 } else { 3 };
            ranks.all_reduce(stream, ReduceOp::Sum, &mut stream.alloc_zeros::<f32>(count)?)
        }),
        ("all_reduce(min) of 3 f32", |ranks, stream| {
            let op = if ranks.rank() == 1 { ReduceOp::Max } else { ReduceOp::Min };
            ranks.all_reduce(stream, op, &mut stream.alloc_zeros::<f32>(3)?)
        }),
        ("broadcast of 2 u8 from rank 0", |ranks, stream| {
            ranks.broadcast(stream, ranks.rank().min(1), &mut stream.alloc_zeros::<u8>(2)?)
        }),
        ("all_gather of 1 i32 per rank", |ranks, stream| match ranks.rank() {
            1 => ranks.all_gather(stream, &stream.alloc_zeros::<u32>(1)?, &mut stream.alloc_zeros::<u32>(2)?),
            _ => ranks.all_gather(stream, &stream.alloc_zeros::<i32>(1)?, &mut stream.alloc_zeros::<i32>(2)?),
        }),
        ("send 3 f32 to rank 1", |ranks, stream| match ranks.rank() {
            1 => ranks.recv(stream, 0, &mut stream.alloc_zeros::<f32>(2)?),
            _ => ranks.send(stream, 1, &stream.alloc_zeros::<f32>(3)?),
        }),
    ];
    for (of_rank_0, call) in calls {
        let found = failure(2, 20.0, |ranks| call(ranks, &ranks.device().stream()));
        assert_eq!((found.rank, found.kind), (1, FailureKind::Mismatch), "{found}");
        let sentence = format!("the ranks do not agree: rank 0 calls {of_rank_0}, rank 1 calls ");
        assert!(found.sentence.starts_with(&sentence) && !found.sentence.ends_with(of_rank_0), "{found}");
    }
}

#[test]
fn ranks_that_wait_for_each_other_are_told_at_once() {
    let found = failure(3, 20.0, |ranks| {
        let stream = ranks.device().stream();
        let one = stream.alloc_zeros::<f32>(1)?;
        match ranks.rank() {
            2 => ranks.barrier(&stream),
            rank => ranks.send(&stream, 1 - rank, &one),
        }
    });
    assert_eq!(found.kind, FailureKind::Stuck);
    assert_eq!(
        found.sentence,
        "no rank can go on: rank 0 waits in send 1 f32 to rank 1, rank 1 waits in send 1 f32 to rank 0, rank 2 waits in a barrier"
    );
}

#[test]
fn a_rank_that_is_late_ends_all_in_the_stated_time() {
    let begin = Instant::now();
    let found = failure(3, 0.5, |ranks| {
        let stream = ranks.device().stream();
        if ranks.rank() == 2 {
            std::thread::sleep(Duration::from_millis(2000));
            let error = ranks.barrier(&stream).unwrap_err();
            assert!(error.to_string().contains("rank 2 did not come"), "{error}");
            return Err(error);
        }
        let error = ranks.barrier(&stream).unwrap_err();
        let time = begin.elapsed().as_secs_f64();
        assert!((0.5..1.9).contains(&time), "{time} s");
        Err(error)
    });
    assert_eq!((found.rank, found.kind), (2, FailureKind::Late));
    assert!(found.sentence.ends_with("waits in a barrier, but rank 2 did not come within 0.5 s"), "{found}");
}

#[test]
fn wrong_arguments_are_refused_by_the_rank_itself() {
    let other = Device::sim();
    ranks::run(&simulators(2), &Options::default(), |ranks| -> Result<()> {
        let stream = ranks.device().stream();
        let (own, mut all) = (stream.alloc_zeros::<f32>(3)?, stream.alloc_zeros::<f32>(5)?);
        let said = |result: Result<()>| result.unwrap_err().to_string();
        assert_eq!(
            said(ranks.all_gather(&stream, &own, &mut all)),
            "all_gather: 2 ranks with 3 values each make no array of 5"
        );
        assert_eq!(said(ranks.broadcast(&stream, 2, &mut all)), "there is no rank 2: there are 2");
        let rank = ranks.rank();
        let itself = format!("rank {rank} sends to itself: copy inside the device instead");
        assert_eq!(said(ranks.send(&stream, rank, &own)), itself);
        let elsewhere = said(ranks.all_reduce(&other.stream(), ReduceOp::Sum, &mut all));
        assert!(elsewhere.contains("the stream is one of sim, but the rank works on sim:"), "{elsewhere}");
        Ok(())
    })
    .unwrap();
    let nccl = Options { transport: Transport::Nccl, ..Options::default() };
    let error = ranks::run(&simulators(2), &nccl, |_| -> Result<()> { Ok(()) }).unwrap_err();
    assert!(error.is_unsupported() && error.to_string().starts_with("NCCL is not possible on sim:"), "{error}");
}

/// All GPUs, or `None` after printing why the test is skipped: there are fewer than two, or no NCCL.
fn gpus_with_nccl(test: &str) -> Option<(DeviceGroup, MutexGuard<'static, ()>)> {
    let (_, alone) = common::private::gpus_for_test(test, 2)?;
    if let Err(tried) = common::probe::Library::Nccl.open() {
        println!("{test}: skipped, since NCCL is absent: {tried}");
        return None;
    }
    Some((DeviceGroup::open(DeviceChoice::Cuda(0), None).ok()?, alone))
}

/// By NCCL, over all GPUs: the sum is as near to the exact one as additions in any order, and a second run gives the same bits.
#[test]
fn nccl_adds_within_the_bound_and_repeats_its_bits_cuda() {
    let Some((gpus, _alone)) = gpus_with_nccl("nccl_adds_within_the_bound_and_repeats_its_bits") else { return };
    const COUNT: usize = 100_003;
    let size = gpus.len();
    let options = Options { transport: Transport::Nccl, ..Options::default() };
    let run = || {
        ranks::run(gpus.devices(), &options, |ranks| -> Result<Vec<f32>> {
            let stream = ranks.device().stream();
            assert!(ranks.is_nccl());
            let own = values(ranks.rank(), COUNT);
            let mut sum = stream.clone_htod(&own)?;
            ranks.all_reduce(&stream, ReduceOp::Sum, &mut sum)?;
            // In parts it is the same sum.
            let mut padded = stream.alloc_zeros::<f32>(COUNT.next_multiple_of(size))?;
            stream.memcpy_htod(&own, &mut padded.slice_mut(..COUNT))?;
            let mut part = stream.alloc_poisoned::<f32>(padded.len() / size)?;
            ranks.reduce_scatter(&stream, ReduceOp::Sum, &padded, &mut part)?;
            let mut parts = stream.alloc_poisoned::<f32>(padded.len())?;
            ranks.all_gather(&stream, &part, &mut parts)?;
            ranks.synchronize(&stream)?;
            let (sum, parts) = (stream.clone_dtoh(&sum)?, stream.clone_dtoh(&parts)?);
            for found in [&sum, &parts] {
                for (i, found) in found[..COUNT].iter().enumerate() {
                    let of = |rank| f64::from(values(rank, i + 1)[i]);
                    // Only some: `values` makes all before it.
                    if i % 9973 == 0 {
                        let exact: f64 = (0..size).map(of).sum();
                        let bound = (size - 1) as f64
                            * f64::from(f32::EPSILON)
                            * (0..size).map(|rank| of(rank).abs()).sum::<f64>();
                        assert!((f64::from(*found) - exact).abs() <= bound, "value {i}: {found} instead of {exact}");
                    }
                }
            }
            Ok(sum)
        })
        .unwrap()
    };
    let (first, second) = (run(), run());
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert!(first.iter().all(|values| bits(values) == bits(&first[0])), "every rank has the same bits");
    assert_eq!(bits(&first[0]), bits(&second[0]), "the same GPUs give the same bits");
}

/// A rank that fails, and one that never calls: the others' streams end, and so do plain waits for them.
#[test]
fn nccl_ends_with_the_rank_that_fails_cuda() {
    let Some((gpus, _alone)) = gpus_with_nccl("nccl_ends_with_the_rank_that_fails") else { return };
    for late in [false, true] {
        let begin = Instant::now();
        let options = Options { transport: Transport::Nccl, timeout: Duration::from_secs(10), ..Options::default() };
        let error = ranks::run(gpus.devices(), &options, |ranks| -> Result<()> {
            let stream = ranks.device().stream();
            let mut values = stream.clone_htod(&[1.0f32; 1000])?;
            ranks.all_reduce(&stream, ReduceOp::Sum, &mut values)?;
            ranks.synchronize(&stream)?;
            if ranks.rank() == 1 {
                if !late {
                    return Err(Error::Invalid("a planned mistake".to_owned()));
                }
                std::thread::sleep(Duration::from_secs(13));
            }
            ranks.all_reduce(&stream, ReduceOp::Sum, &mut values)?;
            // A wait that knows nothing of other ranks.
            let _ = stream.synchronize();
            ranks.synchronize(&stream)
        })
        .unwrap_err()
        .to_string();
        let expected = if late { "but rank 1 did not come within 10 s" } else { "a planned mistake" };
        assert!(error.contains(expected), "{error}");
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    }
}
