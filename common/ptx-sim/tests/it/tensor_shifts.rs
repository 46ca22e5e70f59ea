//! `tcgen05.shift`, by the kernels of `kernels/tcgen05.cu`: every lane by an independent computation.

use ptx_sim::{Asynchrony, FaultKind};

use super::tensor_memory::Param::*;
use super::tensor_memory::{RUN, Run, drawn, launch, line, mistake};

#[test]
fn lanes_of_a_quarter_get_what_the_next_ones_have() {
    let bytes: Vec<u8> = (0..4 * 32).map(|at| at * 3 + 1).collect();
    let last_rows: Vec<u32> = bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    for (first, times) in [(0, 1), (8, 1), (3, 2), (5, 31), (4, 40)] {
        let expected: Vec<u32> = (0..128 * 16)
            .map(|at| {
                let (lane, column) = (at / 16, at % 16);
                let is_moved = (first..first + 8).contains(&column);
                match (lane / 32, lane % 32) {
                    (quarter, 31) if is_moved => last_rows[(quarter * 8 + column - first) as usize],
                    (quarter @ (0 | 2), row) if is_moved => (quarter * 32 + (row + times).min(31)) * 100 + column,
                    _ => lane * 100 + column,
                }
            })
            .collect();
        for asynchrony in [Asynchrony::Late, Asynchrony::Early] {
            let params = [In(&bytes), Out(128 * 16), Int(first), Int(times), Layout([4, 16, 0])];
            match launch("shifts", &Run { asynchrony, ..RUN }, &params) {
                Ok(found) => assert_eq!(found, expected, "{times} times from column {first} on, {asynchrony:?}"),
                Err(faults) => panic!("{}", drawn(&faults)),
            }
        }
    }
}

#[test]
fn a_pair_of_blocks_shifts_lanes_of_both() {
    let run = Run { cluster: Some(2), strict: false, ..RUN };
    let found = launch("pair_shifts", &run, &[Out(2 * 128 * 8)]).unwrap_or_else(|faults| panic!("{}", drawn(&faults)));
    for (at, word) in (0..).zip(found) {
        let (lane, column) = (at / 8 % 128, at % 8);
        let from = if (32..63).contains(&lane) { lane + 1 } else { lane };
        assert_eq!(word, from * 100 + column, "block {}, lane {lane}", at / 1024);
    }
}

#[test]
fn mistakes_with_shifts_are_found_where_they_are_made() {
    let findings = |name: &str| -> Vec<(FaultKind, &str)> {
        let faults = launch("mistaken_shift", &RUN, &[Out(128), Int(mistake(name))]).err().unwrap_or_default();
        faults.iter().map(|fault| (fault.kind, line(fault))).collect()
    };
    assert_eq!(findings("shift_is_right"), []);
    for (name, kind) in [
        ("shift_read_too_early", FaultKind::TmemInFlight),
        ("shift_stored_late", FaultKind::TmemInFlight),
        ("shift_by_another_thread", FaultKind::TmemInFlight),
        ("shift_outside", FaultKind::OutOfBounds),
        ("shift_between_quarters", FaultKind::InvalidTcgen05),
        ("shift_not_awaited", FaultKind::TmemInFlight),
    ] {
        let found = findings(name);
        let is_right = |(found, line): &(FaultKind, &str)| *found == kind && line.contains(name);
        assert!(found.iter().any(is_right) && found.iter().all(|(found, _)| *found == kind), "{name}: {found:?}");
    }
}
