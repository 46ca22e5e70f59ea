//! Matrix instructions of a warp: products, and the moves of fragments between registers and memory.

use super::context::Context;
use super::elements::{read_lane, write_lane};
use crate::exec::state::address::addresses;
use crate::exec::state::problem::Problem;
use crate::exec::state::rows::Rows;
use crate::exec::watch::monitor::Monitor;
use crate::fault::FaultKind;
use crate::ir::*;
use crate::lanes::lanes;
use crate::matrix::{InvalidMetadata, Lanes, collect, distribute};

/// The registers of a fragment.
fn registers(rows: Rows, list: &[R], wide: bool) -> Vec<Lanes> {
    list.iter().map(|row| std::array::from_fn(|lane| rows.lane_of(*row, wide, lane))).collect()
}

fn set_registers(rows: Rows, list: &[R], wide: bool, group: u32, values: &[Lanes]) {
    for (row, values) in list.iter().zip(values) {
        if wide {
            rows.set64(*row, group, *values);
        } else {
            rows.set(*row, group, values.map(|value| value as u32));
        }
    }
}

pub(crate) fn multiply(rows: Rows, op: &MmaOp, group: u32) -> Result<(), Box<Problem>> {
    let [wide_d, wide_a, wide_b, wide_c] = op.wide;
    let a = registers(rows, &op.a, wide_a);
    let b = registers(rows, &op.b, wide_b);
    let c = registers(rows, &op.c, wide_c);
    let metadata = op.metadata.map(|row| rows.get(row).map(u64::from));
    let mut d = vec![[0; 32]; op.d.len()];
    op.mma
        .execute((&a, metadata.as_ref()), &b, &c, &mut d)
        .map_err(|InvalidMetadata { lane, message }| Problem::new(FaultKind::InvalidMetadata, 1 << lane, message))?;
    set_registers(rows, &op.d, wide_d, group, &d);
    Ok(())
}

/// First address of the matrix, the same in all lanes, and the stride in elements.
fn matrix_at<M: Monitor>(context: &mut Context<'_, '_, M>, rows: Rows, memory: &WmmaMemory, group: u32) -> (u64, u64) {
    let lane = group.trailing_zeros() as usize;
    let base = addresses(rows, context.frame_local(), &memory.address)[lane];
    let stride = memory.stride.map_or(memory.access.default_stride(), |row| u64::from(rows.lane(row, lane)));
    (base, stride)
}

pub(crate) fn wmma_load<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    memory: &WmmaMemory,
    group: u32,
) -> Result<(), Box<Problem>> {
    let (base, stride) = matrix_at(context, rows, memory, group);
    let bytes = memory.access.part_bytes();
    let mut values = vec![[0; 32]; memory.rows.len()];
    for lane in lanes(group) {
        for (register, value) in values.iter_mut().enumerate() {
            for part in 0..memory.access.parts() {
                let address = base.wrapping_add(memory.access.offset(lane, register, part, stride));
                let mut element = [0];
                let after = memory.after(register, part);
                read_lane(context, memory.address.space, lane, address, (after, bytes as u8), &mut element)?;
                value[lane] |= element[0] << (part * bytes * 8);
            }
        }
    }
    set_registers(rows, &memory.rows, memory.wide, group, &values);
    Ok(())
}

pub(crate) fn wmma_store<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    memory: &WmmaMemory,
    group: u32,
) -> Result<(), Box<Problem>> {
    let (base, stride) = matrix_at(context, rows, memory, group);
    let bytes = memory.access.part_bytes();
    let values = registers(rows, &memory.rows, memory.wide);
    for lane in lanes(group) {
        for (register, value) in values.iter().enumerate() {
            for part in 0..memory.access.parts() {
                let address = base.wrapping_add(memory.access.offset(lane, register, part, stride));
                let element = value[lane] >> (part * bytes * 8);
                let after = memory.after(register, part);
                write_lane(context, memory.address.space, lane, address, (after, bytes as u8), &[element])?;
            }
        }
    }
    Ok(())
}

/// `ldmatrix`: lane 8·i + r gives the address of row r of matrix i.
pub(crate) fn ldmatrix<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    moves: &MatrixMove,
    group: u32,
) -> Result<(), Box<Problem>> {
    let addresses = addresses(rows, context.frame_local(), &moves.address);
    let mut bytes = vec![[0; 16]; moves.rows.len() * 8];
    for (lane, row) in bytes.iter_mut().enumerate() {
        let mut words = [0; 4];
        read_lane(context, moves.address.space, lane, addresses[lane], (0, 4), &mut words)?;
        for (to, word) in row.chunks_mut(4).zip(words) {
            to.copy_from_slice(&(word as u32).to_le_bytes());
        }
    }
    let mut values = vec![[0; 32]; moves.rows.len()];
    distribute(&bytes, moves.transposed, &mut values);
    set_registers(rows, &moves.rows, false, group, &values);
    Ok(())
}

pub(crate) fn stmatrix<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    moves: &MatrixMove,
) -> Result<(), Box<Problem>> {
    let addresses = addresses(rows, context.frame_local(), &moves.address);
    let values = registers(rows, &moves.rows, false);
    let mut bytes = vec![[0; 16]; moves.rows.len() * 8];
    collect(&values, moves.transposed, &mut bytes);
    for (lane, row) in bytes.iter().enumerate() {
        let words: Vec<u64> =
            row.chunks(4).map(|word| word.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))).collect();
        write_lane(context, moves.address.space, lane, addresses[lane], (0, 4), &words)?;
    }
    Ok(())
}
