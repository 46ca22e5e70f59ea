//! Registers that the bytes of a load or store come to or are from.

use std::ops::Range;

use crate::ir::*;

/// Bytes of one register that an instruction moves to or from memory: at most eight.
pub(crate) struct Piece {
    /// The first of them among the bytes that a lane's access reaches.
    pub from: u64,
    pub bytes: u64,
    pub row: R,
    /// The lane whose register it is: of a matrix, not the one that gives the address.
    pub lane: usize,
    /// Its lowest bit in the register.
    pub shift: u32,
}

/// Whether the instruction loads registers.
pub(crate) fn is_load(op: &Op) -> bool {
    match op {
        Op::Load(_) => true,
        Op::Together(together) => matches!(together.op, TogetherOp::LdMatrix(_) | TogetherOp::WmmaLoad(_)),
        _ => false,
    }
}

/// The registers of a load or store, and the bytes of each. A register of 16 bytes is two of 8.
fn registers(op: &Op) -> (&[R], u64) {
    match op {
        Op::Load(access) | Op::Store(access) => (&access.rows[..access.count.into()], access.bytes.into()),
        Op::Together(together) => match &together.op {
            TogetherOp::LdMatrix(moves) | TogetherOp::StMatrix(moves) => (&moves.rows, 4),
            TogetherOp::WmmaLoad(memory) | TogetherOp::WmmaStore(memory) => {
                (&memory.rows, if memory.wide { 8 } else { 4 })
            }
            _ => (&[], 1),
        },
        _ => (&[], 1),
    }
}

/// The rows of a load's or store's registers.
pub(super) fn rows(op: &Op) -> impl Iterator<Item = R> {
    let (rows, bytes) = registers(op);
    let rows = rows.iter().copied().filter(|row| *row != R::MAX);
    rows.flat_map(move |row| [Some(row), (bytes == 16).then_some(row + 2)]).flatten()
}

/// The registers of the bytes that a lane's access reaches, which are those of `range` among all that the instruction moves for
/// it. Bytes for the sink `_` are in none.
pub(crate) fn pieces(op: &Op, lane: usize, range: Range<u64>) -> impl Iterator<Item = Piece> {
    let (rows, bytes) = registers(op);
    let matrix = match op {
        Op::Together(together) => match &together.op {
            TogetherOp::LdMatrix(moves) | TogetherOp::StMatrix(moves) => Some(moves.transposed),
            _ => None,
        },
        _ => None,
    };
    let grain = if matrix.is_some() { 2 } else { bytes.min(8) };
    (range.start / grain..range.end.div_ceil(grain)).filter_map(move |number| {
        let first = number * grain;
        let (start, end) = (first.max(range.start), (first + grain).min(range.end));
        let (row, lane, shift) = match matrix {
            // Lane 8·i + r gives the address of row r of matrix i, of eight halves.
            Some(transposed) => {
                let place = [lane % 8, number as usize];
                let [row, column] = if transposed { [place[1], place[0]] } else { place };
                (*rows.get(lane / 8)?, row * 4 + column / 2, column as u32 % 2 * 16)
            }
            None => (rows.get((first / bytes) as usize)?.checked_add((first % bytes / 4) as R)?, lane, 0),
        };
        let piece = Piece {
            from: start - range.start,
            bytes: end - start,
            row,
            lane,
            shift: shift + 8 * (start - first) as u32,
        };
        (row != R::MAX).then_some(piece)
    })
}
