//! Sums of the buffers of several devices: on ragged lengths, the same bits on all ranks and in every run, and mistakes that are found.

use common::device::SimOptions;
use common::group_test;
use common::prelude::*;
use common::testing::planted::planted;
use half::f16;
use phase4_fusion::all_reduce::staged::{Protocol, Staged};
use phase4_fusion::all_reduce::{
    AllReduce, LADDER, Operands, Resident, Step, Summand, step07_resident, step08_flags_in_data, step09_tuned,
};

/// Around a vector of f32 and of f16, more than a block takes at once, and more than many blocks do.
const LENGTHS: [usize; 6] = [0, 1, 3, 301, 4099, 20_001];

/// Up to several blocks, for more devices.
const SHORT: [usize; 4] = [0, 3, 301, 2101];

/// Values of one rank, all different from those of the others.
fn values(len: usize, rank: usize) -> Vec<f32> {
    Tensor::random(&[len | 1], 900 + rank as u64).as_slice().unwrap()[..len].to_vec()
}

/// The sum of all ranks in f64, and the tolerance of a sum in f32: each of the additions rounds the sum so far.
fn expected(all: &[Vec<f64>], i: usize) -> (f64, f64) {
    let sum: f64 = all.iter().map(|values| values[i]).sum();
    let magnitude: f64 = all.iter().map(|values| values[i].abs()).sum();
    (sum, all.len() as f64 * f64::from(f32::EPSILON) / 2.0 * magnitude)
}

/// A type whose sums are compared.
trait Tested: Summand + PartialEq + std::fmt::Debug {
    /// Half the distance of neighbours, relative.
    const ROUNDING: f64;
    fn of(value: f32) -> Self;
    fn wide(self) -> f64;
}

impl Tested for f32 {
    const ROUNDING: f64 = 0.0;
    fn of(value: f32) -> f32 {
        value
    }
    fn wide(self) -> f64 {
        self.into()
    }
}

impl Tested for f16 {
    const ROUNDING: f64 = 1.0 / 2048.0;
    fn of(value: f32) -> f16 {
        f16::from_f32(value)
    }
    fn wide(self) -> f64 {
        self.into()
    }
}

/// The values of each rank.
type Wide = Vec<Vec<f64>>;

/// A buffer of each device with its own values, and those values. The memory after them is poisoned.
fn buffers<T: Tested>(streams: &[Stream], len: usize) -> Result<(Vec<Buffer<T>>, Wide)> {
    let (mut buffers, mut all) = (Vec::new(), Vec::new());
    for (rank, stream) in streams.iter().enumerate() {
        let values: Vec<T> = values(len, rank).into_iter().map(T::of).collect();
        let mut buffer = stream.alloc_poisoned(len + 5)?;
        stream.memcpy_htod(&values, &mut buffer.slice_mut(..len))?;
        buffers.push(buffer);
        all.push(values.into_iter().map(T::wide).collect());
    }
    Ok((buffers, all))
}

/// Fails unless all buffers hold exactly the sums, with the same bits.
#[track_caller]
fn check<T: Tested>(streams: &[Stream], buffers: &[Buffer<T>], all: &[Vec<f64>]) -> Result<()> {
    let len = all[0].len();
    let first = streams[0].clone_dtoh(&buffers[0])?;
    for (i, value) in first[..len].iter().enumerate() {
        let (sum, tolerance) = expected(all, i);
        let tolerance = tolerance + T::ROUNDING * (sum.abs() + tolerance);
        let difference = (value.wide() - sum).abs();
        assert!(difference <= tolerance, "value {i} of {len}: {value:?}, expected {sum} within {tolerance:e}");
    }
    for (stream, buffer) in streams.iter().zip(buffers) {
        let values = stream.clone_dtoh(buffer)?;
        assert!(
            bytemuck::cast_slice::<T, u8>(&values) == bytemuck::cast_slice::<T, u8>(&first),
            "ranks differ at {len}"
        );
        assert!(values[len..].iter().all(|value| value.wide().is_nan()), "written beyond {len}");
    }
    Ok(())
}

fn streams(group: &DeviceGroup) -> Vec<Stream> {
    group.devices().iter().map(Device::stream).collect()
}

/// The methods of summing in place.
fn ways(group: &DeviceGroup, most: usize) -> Result<[Staged; 2]> {
    Ok([
        Staged::new(group, most, &step07_resident::SOURCE, step07_resident::PROTOCOL)?,
        Staged::new(group, most, &step08_flags_in_data::SOURCE, step08_flags_in_data::PROTOCOL)?,
    ])
}

/// Sums of all lengths in each way, by one and the same set of staging buffers and flags.
fn sums_of_all_lengths<T: Tested>(group: &DeviceGroup, lengths: &[usize]) -> Result<()> {
    let streams = streams(group);
    for mut way in ways(group, lengths.iter().max().unwrap() * size_of::<T>())? {
        for &len in lengths {
            let (mut buffers, all) = buffers::<T>(&streams, len)?;
            group.synchronize()?;
            way.queue_in_place(&streams, &mut buffers.iter_mut().collect::<Vec<_>>(), len)?;
            group.synchronize()?;
            check(&streams, &buffers, &all)?;
        }
    }
    Ok(())
}

/// Every step on every length, twice: the second sum finds flags and staging as the first left them.
fn every_step(group: &DeviceGroup, lengths: &[usize]) -> Result<()> {
    steps(LADDER, group, lengths)
}

fn steps(steps: &[Step], group: &DeviceGroup, lengths: &[usize]) -> Result<()> {
    let mut operands = Operands::new(group, *lengths.iter().max().unwrap())?;
    for step in steps {
        let mut prepared = (step.method.0)(&step.source, group, *lengths.iter().max().unwrap())?;
        for &len in lengths {
            operands.reset(len)?;
            for _ in 0..2 {
                prepared.queue(&mut operands)?;
            }
            operands.check().map_err(|error| Error::Invalid(format!("step {}: {error}", step.title())))?;
        }
    }
    Ok(())
}

group_test! {
    fn every_step_on_two_devices(group, 2) {
        every_step(&group, &LENGTHS[..5])
    }

    fn every_step_on_four_devices(group, 4) {
        every_step(&group, &SHORT)
    }

    fn two_devices_sum_in_place(group, 2) {
        sums_of_all_lengths::<f32>(&group, &LENGTHS)?;
        sums_of_all_lengths::<f16>(&group, &LENGTHS)
    }

    fn four_devices_sum_in_place(group, 4) {
        sums_of_all_lengths::<f32>(&group, &SHORT)?;
        sums_of_all_lengths::<f16>(&group, &SHORT)
    }

    fn sums_follow_on_each_other_without_the_host(group, 2) {
        let streams = streams(&group);
        let len = 4099;
        for mut way in ways(&group, 4 * len)? {
            let (mut buffers, all) = buffers::<f32>(&streams, len)?;
            group.synchronize()?;
            // Each sum doubles the one before, which is exact; sums of fewer values, and of none, come between them.
            for fewer in [5, 0, 5, 0, 0] {
                way.queue_in_place(&streams, &mut buffers.iter_mut().collect::<Vec<_>>(), len)?;
                way.queue_in_place(&streams, &mut buffers.iter_mut().collect::<Vec<_>>(), fewer)?;
            }
            group.synchronize()?;
            let sums = streams[0].clone_dtoh(&buffers[0].slice(..len))?;
            for (i, sum) in sums.into_iter().enumerate() {
                let once = all[0][i] as f32 + all[1][i] as f32;
                let factor = if i < 5 { 64.0 } else { 16.0 };
                assert_eq!(sum, factor * once, "value {i}");
            }
        }
        Ok(())
    }

    fn small_sums_are_pushed_and_others_read(group, 2) {
        let streams = streams(&group);
        let most = 1024;
        let mut reduce = Resident::with_small(&group, 8 * most, 4 * most)?;
        for len in [301, most, most + 1] {
            let (mut buffers, all) = buffers::<f32>(&streams, len)?;
            group.synchronize()?;
            reduce.queue(&streams, &mut buffers.iter_mut().collect::<Vec<_>>(), len)?;
            group.synchronize()?;
            check(&streams, &buffers, &all)?;
        }
        Ok(())
    }

    /// The simulator runs one graph after the other, and says so: `a_simulated_sum_is_recorded_only_alone`.
    fn graphs_of_both_devices_are_replayed(group, 2) {
        if group.is_sim() {
            return Ok(());
        }
        let streams = streams(&group);
        let mut reduce = Resident::new(&group, 4 * 300_001)?;
        // One is pushed, the other read.
        for len in [4099, 300_001] {
            let (mut buffers, all) = buffers::<f32>(&streams, len)?;
            group.synchronize()?;
            let mut graphs = Vec::new();
            for (rank, (stream, buffer)) in streams.iter().zip(&mut buffers).enumerate() {
                let graph = stream.capture(|stream| {
                    reduce.record(rank, stream, buffer, len)?;
                    reduce.record(rank, stream, buffer, len)
                })?;
                graphs.push(graph.instantiate()?);
            }
            for _ in 0..3 {
                graphs.iter().zip(&streams).try_for_each(|(graph, stream)| graph.launch(stream))?;
            }
            group.synchronize()?;
            for (i, sum) in streams[1].clone_dtoh(&buffers[1].slice(..len))?.into_iter().enumerate() {
                let once = all[0][i] as f32 + all[1][i] as f32;
                assert_eq!(sum, 32.0 * once, "value {i} of {len}");
            }
        }
        Ok(())
    }

    fn lengths_and_ranks_that_do_not_fit_are_refused(group, 2) {
        let streams = streams(&group);
        let mut reduce = Resident::new(&group, 40)?;
        assert_eq!(reduce.most_bytes(), 48);
        let (mut buffers, _) = buffers::<f32>(&streams, 13)?;
        for len in [13, 19] {
            let error = reduce.queue(&streams, &mut buffers.iter_mut().collect::<Vec<_>>(), len).unwrap_err();
            assert_eq!(error.to_string(), format!("all-reduce: {len} values, but there is room for 12"));
        }
        let error = reduce.queue(&streams[..1], &mut buffers.iter_mut().collect::<Vec<_>>(), 3).unwrap_err();
        assert_eq!(error.to_string(), "all-reduce: 1 streams and 2 buffers for 2 devices");
        group.synchronize()
    }
}

fn sanitising(count: u32) -> DeviceGroup {
    DeviceGroup::sim_with(count, SimOptions { sanitize: true, ..SimOptions::default() })
}

#[test]
fn one_three_and_sixteen_devices() -> Result<()> {
    sums_of_all_lengths::<f32>(&sanitising(1), &LENGTHS)?;
    sums_of_all_lengths::<f16>(&sanitising(3), &[3, 301, 4099])?;
    sums_of_all_lengths::<f32>(&sanitising(16), &[1, 301])?;
    let error = Resident::new(&DeviceGroup::sim(17), 16).unwrap_err();
    assert!(error.is_unsupported(), "{error}");
    Ok(())
}

#[test]
fn every_step_on_one_and_three_devices() -> Result<()> {
    every_step(&sanitising(1), &[0, 1, 301])?;
    every_step(&sanitising(3), &[1, 301, 2050])
}

#[test]
fn tuned_changes_over_between_these_lengths() -> Result<()> {
    let (short, long) = (301, 17_101);
    let small = step08_flags_in_data::most_bytes(16);
    assert!(4 * short <= small && small < 4 * long);
    steps(&[step09_tuned::STEP], &sanitising(16), &[short, long])
}

/// Bytes received distinguish step 8 from step 6, copies identify the ring.
#[test]
fn tuned_takes_the_ring_for_the_largest_sums() -> Result<()> {
    let (group, most) = (sanitising(4), 2048);
    let mut operands = Operands::new(&group, most)?;
    let mut tuned = step09_tuned::Tuned::new(&group, most, [1200, 4 * most])?;
    // Of four ranks, step 8 receives the others' values with their flags, the other two half as much again as a rank has.
    let (pushed, least) = (|len: usize| 6 * 4 * len, |len: usize| 4 * len * 3 / 2);
    for (len, copies, received) in
        [(300, 0, pushed(300)), (304, 0, least(304)), (most - 16, 0, least(most - 16)), (most, 12, least(most))]
    {
        operands.reset(len)?;
        tuned.queue(&mut operands)?;
        operands.check()?;
        assert_eq!([operands.asked.copies, operands.asked.most_received()], [copies, received], "{len} values");
    }
    Ok(())
}

/// Wrong sums are not accepted as right.
#[test]
fn the_check_finds_a_wrong_sum_and_one_that_differs_between_ranks() -> Result<()> {
    let group = sanitising(2);
    let mut operands = Operands::new(&group, 8)?;
    assert!(operands.check().is_err(), "the sums are NaN");
    let step = &LADDER[2];
    let mut prepared = (step.method.0)(&step.source, &group, 8)?;
    prepared.queue(&mut operands)?;
    operands.check()?;
    let sums = operands.streams[1].clone_dtoh(&operands.sums[1])?;
    let next = f32::from_bits(sums[7].to_bits() + 1);
    operands.streams[1].memcpy_htod(&[next], &mut operands.sums[1].slice_mut(7..8))?;
    let error = operands.check().unwrap_err().to_string();
    assert_eq!(error, "all-reduce: ranks 0 and 1 have different sums");
    Ok(())
}

/// The steps' bytes and hand-overs are those of the α–β model, for values that parts divide evenly.
#[test]
fn steps_ask_for_the_bytes_and_hand_overs_of_the_model() -> Result<()> {
    let (ranks, len) = (4, 4096);
    let group = DeviceGroup::sim(4);
    let bytes = 4 * len;
    let (all, least) = ((ranks - 1) * bytes, 2 * (ranks - 1) * bytes / ranks);
    let meeting = ranks * (ranks - 1);
    // Launches, copies, waits, bytes into rank 0.
    let expected = [
        ("gather", [1, 3, 3 * meeting, all]),
        ("ring", [ranks * 3, ranks * 3, 2 * meeting + 5 * ranks, least]),
        ("one shot", [ranks, 0, 2 * meeting, all]),
        ("two shots", [2 * ranks, 0, 3 * meeting, least]),
        ("flags", [ranks, 0, 0, all]),
        ("two shots by flags", [ranks, 0, 0, least]),
        ("resident", [ranks, 0, 0, all]),
        ("flags in the data", [ranks, 0, 0, 2 * all]),
        ("tuned", [ranks, 0, 0, 2 * all]),
    ];
    let mut operands = Operands::new(&group, len)?;
    for (step, (name, expected)) in LADDER.iter().zip(expected) {
        operands.reset(len)?;
        (step.method.0)(&step.source, &group, len)?.queue(&mut operands)?;
        let asked = &operands.asked;
        assert_eq!(step.name, name);
        assert_eq!([asked.launches, asked.copies, asked.waits, asked.most_received()], expected, "{name}");
    }
    Ok(())
}

/// Sums in place, one after the other, each of the previous sums; returns whether all are right. `None` without NVRTC.
fn changed_kernel_is_right(way: Result<Staged>, group: &DeviceGroup, len: usize, sums: usize) -> Option<Result<bool>> {
    let attempt = || -> Result<bool> {
        let (streams, mut way) = (streams(group), way?);
        let (mut buffers, mut all) = buffers::<f32>(&streams, len)?;
        for _ in 0..sums {
            group.synchronize()?;
            way.queue_in_place(&streams, &mut buffers.iter_mut().collect::<Vec<_>>(), len)?;
            if std::panic::catch_unwind(|| check(&streams, &buffers, &all)).is_err() {
                return Ok(false);
            }
            let sum = streams[0].clone_dtoh(&buffers[0].slice(..len))?;
            all = vec![sum.into_iter().map(f64::from).collect(); streams.len()];
        }
        Ok(true)
    };
    match attempt() {
        Err(Error::CompilerMissing { .. }) => None,
        right => Some(right),
    }
}

/// Errors that the sanitiser, or the check, must find in kernels that wait for other devices.
#[test]
fn planted_mistakes_are_found() -> Result<()> {
    let meeting = (&step07_resident::SOURCE, step07_resident::PROTOCOL);
    let pushing = (&step08_flags_in_data::SOURCE, step08_flags_in_data::PROTOCOL);
    let mistakes = [
        (meeting, "flags are raised for one device only", "st.release.sys.global", "st.release.gpu.global"),
        (meeting, "flags are awaited for one device only", "ld.acquire.sys.global", "ld.acquire.gpu.global"),
        (meeting, "nothing is waited for", "    meet(flags, epoch, rank, ranks);", ""),
        (meeting, "flags stay raised", "unsigned epoch = state->launches + 1;", "unsigned epoch = 1;"),
        (pushing, "values are pushed for one device only", "st.relaxed.sys.global", "st.relaxed.gpu.global"),
        (pushing, "values are polled for one device only", "ld.relaxed.sys.global", "ld.relaxed.gpu.global"),
        (pushing, "values are pushed by weak stores", "st.relaxed.sys.global", "st.global"),
        (pushing, "epochs are not checked", "while (!complete);", "while (false);"),
        (pushing, "all sums have one epoch", " / MAX_BLOCKS + 1", " * 0 + 1"),
    ];
    for ((source, protocol), mistake, right, wrong) in mistakes {
        let group = sanitising(2);
        let way = Staged::new(&group, 4 * 301, &planted(source, right, wrong), protocol);
        match changed_kernel_is_right(way, &group, 301, 2) {
            None => println!("{mistake}: skipped, since a changed kernel takes NVRTC"),
            Some(Err(Error::Findings { .. } | Error::Fault { .. })) => {}
            Some(Err(other)) => panic!("{mistake}: {other}"),
            Some(Ok(right)) => assert!(!right, "{mistake}: not found"),
        }
    }
    Ok(())
}

/// Whether the kernels of a method are right with another constant in them.
#[track_caller]
fn stays_right(source: &KernelSource, protocol: Protocol, right: &str, other: &str) -> Result<()> {
    let group = sanitising(2);
    let way = Staged::new(&group, 4 * 3001, &planted(source, right, other), protocol);
    match changed_kernel_is_right(way, &group, 1301, 6) {
        None => println!("{other}: skipped, since a changed kernel takes NVRTC"),
        Some(right) => assert!(right?, "{other}"),
    }
    Ok(())
}

/// Epochs count up to 2³² and begin again, and every 2³⁰ sums all lines are pushed: here after a few.
#[test]
fn epochs_wrap_around() -> Result<()> {
    for (right, sooner) in [(" / MAX_BLOCKS + 1", " / MAX_BLOCKS - 3"), ("REFRESH = 1u << 30", "REFRESH = 4")] {
        stays_right(&step08_flags_in_data::SOURCE, step08_flags_in_data::PROTOCOL, right, sooner)?;
    }
    Ok(())
}

#[test]
fn threads_of_few_blocks_take_several_turns() -> Result<()> {
    let (right, fewer) = ("MAX_BLOCKS = 128", "MAX_BLOCKS = 1");
    stays_right(&step07_resident::SOURCE, step07_resident::PROTOCOL, right, fewer)?;
    stays_right(&step08_flags_in_data::SOURCE, step08_flags_in_data::PROTOCOL, right, fewer)
}

/// Progress of a rank: its current sum, and for each of its lines the number of accesses done, first pushes, then reads.
type Progress = (usize, Vec<usize>);

/// Whether ranks that push lines to each other, in some order of their accesses, overwrite one that has not been read. Each sum
/// has its own number of lines, and uses one of the halves in turns. Tries every order.
fn lines_can_be_lost(ranks: usize, halves: usize, lines: &[usize]) -> bool {
    let others = ranks - 1;
    // The access to a peer among those to all.
    let turn = |rank: usize, peer: usize| (peer + ranks - rank) % ranks - 1;
    let begin = |sum: usize| (sum, vec![0; lines.get(sum).copied().unwrap_or(0)]);
    let past =
        |(at, done): &Progress, sum: usize, line: usize, access: usize| *at > sum || *at == sum && done[line] > access;
    let mut open: Vec<Vec<Progress>> = vec![vec![begin(0); ranks]];
    let mut seen = std::collections::HashSet::new();
    while let Some(state) = open.pop() {
        if !seen.insert(state.clone()) {
            continue;
        }
        for rank in 0..ranks {
            let (sum, done) = &state[rank];
            let mut go_on = |rank_next: Progress| {
                let mut next = state.clone();
                next[rank] = rank_next;
                open.push(next);
            };
            if *sum < lines.len() && done.iter().all(|done| *done == 2 * others) {
                go_on(begin(sum + 1));
            }
            for (line, &access) in done.iter().enumerate().filter(|(_, access)| **access < 2 * others) {
                let peer = (rank + access % others + 1) % ranks;
                let there = &state[peer];
                if access < others {
                    let before = (0..*sum).rev().find(|before| (sum - before) % halves == 0 && lines[*before] > line);
                    if before.is_some_and(|before| !past(there, before, line, others + turn(peer, rank))) {
                        return true;
                    }
                } else if !past(there, *sum, line, turn(peer, rank)) {
                    continue;
                }
                let mut done = done.clone();
                done[line] += 1;
                go_on((*sum, done));
            }
        }
    }
    false
}

/// Two halves of staging memory are needed, and a sum of no values must not take its turn.
#[test]
fn two_halves_are_enough_and_one_is_not() {
    assert!(!lines_can_be_lost(2, 2, &[2, 1, 2, 1, 2]));
    assert!(!lines_can_be_lost(3, 2, &[1, 1, 2]));
    assert!(lines_can_be_lost(2, 1, &[1, 1]));
    assert!(lines_can_be_lost(2, 2, &[1, 0, 1]));
}

#[test]
fn a_simulated_sum_is_recorded_only_alone() -> Result<()> {
    let group = sanitising(1);
    let stream = group.devices()[0].stream();
    let mut reduce = Resident::new(&group, 16)?;
    let mut values = stream.clone_htod(&[1.0f32, 2.0, 3.0])?;
    let graph = stream.capture(|stream| reduce.record(0, stream, &mut values, 3))?.instantiate()?;
    (0..3).try_for_each(|_| graph.launch(&stream))?;
    assert_eq!(stream.clone_dtoh(&values)?, [1.0, 2.0, 3.0]);
    let group = sanitising(2);
    let stream = group.devices()[0].stream();
    let error = Resident::new(&group, 16)?.record(0, &stream, &mut stream.alloc_zeros::<f32>(1)?, 1).unwrap_err();
    assert!(error.is_unsupported(), "{error}");
    Ok(())
}
