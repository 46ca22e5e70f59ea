//! Computations of the executor's loop: inlined into it where kernels spend their time, called elsewhere.

use super::check::Checked;
use super::context::Context;
use crate::exec::state::cluster::{code_of, code_of_rank};
use crate::exec::state::problem::Problem;
use crate::exec::state::rows::Rows;
use crate::exec::watch::monitor::Monitor;
use crate::fault::FaultKind;
use crate::ir::*;
use crate::lanes::{each, lanes, lanes_where, mask_of};
use crate::scalar::Relation;
use crate::scalar::half::Half;

#[inline(always)]
pub(crate) fn signed(a: u32) -> i64 {
    i64::from(a as i32)
}

#[inline(always)]
pub(crate) fn fma<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { f32::from_bits(crate::scalar::single::fma_f32_soft(a, b, c)) }
}

/// The smaller; a number rather than NaN, and -0 rather than +0.
#[inline(always)]
pub(crate) fn min(a: f32, b: f32) -> f32 {
    let smaller = if a == b {
        f32::from_bits(a.to_bits() | b.to_bits())
    } else if a < b {
        a
    } else {
        b
    };
    if a.is_nan() {
        b
    } else if b.is_nan() {
        a
    } else {
        smaller
    }
}

/// Each operation is a fused multiply-add of both halves, which the compiler turns into vector instructions: a kernel
/// of pairs runs 5.8 times as fast as lane by lane.
#[inline(always)]
pub(crate) fn half_math<H: Half>(rows: Rows, op: HalfOp, d: R, [a, b, c]: [R; 3], packed: bool, mask: u32) {
    const SIGNS: u32 = 0x8000_8000;
    let one = H::narrow(1.0) as u32 * 0x1_0001;
    let [a, b, c] = match op {
        HalfOp::Add => [rows.get(a), [one; 32], rows.get(b)],
        HalfOp::Sub => [rows.get(a), [one; 32], rows.get(b).map(|b| b ^ SIGNS)],
        // Adding -0 changes nothing, not even the sign of zero.
        HalfOp::Mul => [rows.get(a), rows.get(b), [SIGNS; 32]],
        HalfOp::Fma => [rows.get(a), rows.get(b), rows.get(c)],
    };
    let keep = if packed { u32::MAX } else { 0xffff };
    // A loop, not a closure: that one is too large for the compiler to inline, and so to vectorise.
    let mut values = [0; 32];
    for lane in 0..32 {
        let high = fused::<H>(a[lane] >> 16, b[lane] >> 16, c[lane] >> 16);
        values[lane] = (high << 16 | fused::<H>(a[lane], b[lane], c[lane])) & keep;
    }
    rows.set(d, mask, values);
}

/// `a × b + c` of the lower halves.
#[inline(always)]
pub(crate) fn fused<H: Half>(a: u32, b: u32, c: u32) -> u32 {
    H::narrow(H::fused(
        H::widen(u64::from(a & 0xffff)),
        H::widen(u64::from(b & 0xffff)),
        H::widen(u64::from(c & 0xffff)),
    )) as u32
}

#[inline(always)]
pub(crate) fn logic(op: BoolOp, a: u32, b: u32) -> u32 {
    match op {
        BoolOp::And => a & b,
        BoolOp::Or => a | b,
        BoolOp::Xor => a ^ b,
    }
}

/// The lanes for which the comparison holds, of registers that `value` reads.
#[inline(always)]
pub(crate) fn compare<T: Copy, V: PartialOrd>(
    relation: Relation,
    a: [T; 32],
    b: [T; 32],
    value: impl Fn(T) -> V,
) -> u32 {
    match relation {
        Relation::Eq => mask_of(|lane| value(a[lane]) == value(b[lane])),
        Relation::Ne => mask_of(|lane| value(a[lane]) != value(b[lane])),
        Relation::Lt => mask_of(|lane| value(a[lane]) < value(b[lane])),
        Relation::Le => mask_of(|lane| value(a[lane]) <= value(b[lane])),
        Relation::Gt => mask_of(|lane| value(a[lane]) > value(b[lane])),
        Relation::Ge => mask_of(|lane| value(a[lane]) >= value(b[lane])),
    }
}

#[inline(always)]
pub(crate) fn lop3(rows: Rows, d: R, sources: [R; 3], table: u8, mask: u32) {
    let has = |bit: u8| if table >> bit & 1 == 1 { u32::MAX } else { 0 };
    let [t0, t1, t2, t3, t4, t5, t6, t7] = std::array::from_fn(|bit| has(bit as u8));
    rows.map3(d, sources, mask, |a, b, c| {
        let low = (!b & !c & t0) | (!b & c & t1) | (b & !c & t2) | (b & c & t3);
        let high = (!b & !c & t4) | (!b & c & t5) | (b & !c & t6) | (b & c & t7);
        !a & low | a & high
    });
}

#[inline(never)]
pub(crate) fn special<M: Monitor>(
    context: &Context<'_, '_, M>,
    rows: Rows,
    d: R,
    register: Special,
    wide: bool,
    mask: u32,
    clock: u64,
) {
    let Context { warp, block, launch, .. } = context;
    let axis = |extents: [u32; 3], axis: u8| u64::from(extents.get(usize::from(axis)).copied().unwrap_or(0));
    let nanoseconds = || launch.started.elapsed().as_nanos() as u64;
    let by_lane = |values: [u32; 32]| {
        if wide {
            rows.set64(d, mask, values.map(u64::from));
        } else {
            rows.set(d, mask, values);
        }
    };
    let value = match register {
        Special::Tid(at) => return by_lane(warp.threads.get(usize::from(at)).copied().unwrap_or_default()),
        Special::LaneId => return by_lane(each(|lane| lane as u32)),
        Special::LanemaskEq => return by_lane(each(|lane| 1 << lane)),
        Special::LanemaskLt => return by_lane(each(|lane| (1 << lane) - 1)),
        Special::LanemaskLe => return by_lane(each(|lane| u32::MAX >> (31 - lane))),
        Special::LanemaskGt => return by_lane(each(|lane| !(u32::MAX >> (31 - lane)))),
        Special::LanemaskGe => return by_lane(each(|lane| u32::MAX << lane)),
        Special::Ntid(at) => axis(launch.block, at),
        Special::Ctaid(at) => axis(block.index.at, at),
        Special::Nctaid(at) => axis(launch.grid, at),
        Special::WarpId => u64::from(warp.number),
        Special::NWarpId => u64::from(launch.threads().div_ceil(32)),
        Special::SmId | Special::GridId => 0,
        Special::NSmId => 1,
        Special::Clock => clock & 0xffff_ffff,
        Special::ClockHi => clock >> 32,
        Special::Clock64 => clock,
        Special::GlobalTimer => nanoseconds(),
        Special::GlobalTimerLo => nanoseconds() & 0xffff_ffff,
        Special::GlobalTimerHi => nanoseconds() >> 32,
        Special::DynamicSharedSize => u64::from(launch.dynamic_shared),
        Special::TotalSharedSize => u64::from(launch.shared_bytes()),
        Special::Workspace(upper) => {
            launch.member(block.index.device).workspace >> if upper { 32 } else { 0 } & 0xffff_ffff
        }
        Special::ClusterId(at) => axis(std::array::from_fn(|axis| block.index.at[axis] / launch.cluster[axis]), at),
        Special::ClusterCount(at) => axis(launch.clusters(), at),
        Special::ClusterCtaid(at) => axis(launch.index_in_cluster(block.index.at), at),
        Special::ClusterNctaid(at) => axis(launch.cluster, at),
        Special::ClusterRank => u64::from(block.rank),
        Special::ClusterBlocks => u64::from(launch.cluster_blocks()),
        Special::ExplicitCluster => u64::from(launch.explicit_cluster),
        Special::Fixed(value) => u64::from(value),
    };
    if wide {
        rows.set64(d, mask, [value; 32]);
    } else {
        rows.set(d, mask, [value as u32; 32]);
    }
}

#[inline(never)]
pub(crate) fn run_pack(rows: Rows, pack: &Pack, mask: u32) {
    let part_mask = if pack.bits >= 64 { u64::MAX } else { (1 << pack.bits) - 1 };
    for lane in lanes(mask) {
        let parts = pack.parts.iter().enumerate();
        let value = parts.fold(0, |value, (at, part)| {
            value | (rows.lane_of(*part, pack.part_wide, lane) & part_mask) << (at * usize::from(pack.bits))
        });
        rows.set_lane_of(pack.d, pack.d_wide, lane, value);
    }
}

#[inline(never)]
pub(crate) fn run_video(rows: Rows, inst: &VideoInst, mask: u32) {
    let source = |row: R| if row == R::MAX { [0; 32] } else { rows.get(row) };
    let [a, b, c] = inst.sources.map(source);
    rows.set(inst.d, mask, each(|lane| inst.video.compute(a[lane], b[lane], c[lane])));
}

#[inline(never)]
pub(crate) fn run_carry(rows: Rows, carry: &Carry, flags: u32, mask: u32) -> u32 {
    let mut flags = flags;
    for lane in lanes(mask) {
        let source = |row: R| if row == R::MAX { 0 } else { rows.lane_of(row, carry.wide, lane) };
        let carry_in = carry.carry_in.then_some(flags >> lane & 1 == 1);
        let (value, carry_out) = (carry.f)(carry_in, source(carry.a), source(carry.b), source(carry.c));
        if carry.carry_out {
            flags = flags & !(1 << lane) | u32::from(carry_out) << lane;
        }
        rows.set_lane_of(carry.d, carry.wide, lane, value);
    }
    flags
}

#[inline(never)]
pub(crate) fn run_f64(rows: Rows, f: crate::scalar::LaneFn, d: R, [a, b, c]: [R; 3], mask: u32) {
    rows.wide3(d, [a, b, c], mask, |a, b, c| f(crate::scalar::Mode::default(), a, b, c));
}

#[inline(never)]
pub(crate) fn run_map(rows: Rows, map: &Map, mask: u32) {
    let source = |at: usize| {
        let (row, bytes) = (map.sources[at], map.source_bytes[at]);
        let keep = if bytes == 8 { u64::MAX } else { (1 << (bytes * 8)) - 1 };
        match row {
            R::MAX => [0; 32],
            row if map.source_wide[at] => rows.get64(row).map(|value| value & keep),
            row => rows.get(row).map(|value| u64::from(value) & keep),
        }
    };
    let [a, b, c] = [source(0), source(1), source(2)];
    let mut values = [0; 32];
    for lane in lanes(mask) {
        values[lane] = map.apply([a[lane], b[lane], c[lane]]);
    }
    if map.d_wide {
        rows.set64(map.d, mask, values);
    } else {
        rows.set(map.d, mask, values.map(|value| value as u32));
    }
}

#[inline(never)]
pub(crate) fn set_full<M: Monitor>(context: &mut Context<'_, '_, M>, rows: Rows, setp: &SetpFull, mask: u32) {
    let combine = setp.combine.map(|(op, p, negated)| {
        let bits = *context.predicate(p);
        (op, if negated { !bits } else { bits })
    });
    let compared = |half: u32| {
        let wide = setp.bytes == 8;
        let width = if setp.bytes == 8 { u64::MAX } else { (1 << (setp.bytes * 8)) - 1 };
        mask_of(|lane| {
            let value = |row| (rows.lane_of(row, wide, lane) & width) >> (half * 16);
            mask >> lane & 1 == 1 && (setp.compare)(setp.ftz, value(setp.a), value(setp.b))
        })
    };
    let combined = |found: u32| combine.map_or(found, |(op, with)| logic(op, found, with));
    let mut write = |p: Option<P>, bits: u32| {
        if let Some(p) = p {
            let to = context.predicate(p);
            *to = *to & !mask | bits & mask;
        }
    };
    match setp.result {
        SetResult::Predicates { p, q } => {
            let found = compared(0);
            write(p, combined(found));
            write(q, combined(!found));
        }
        SetResult::PredicatePair { p, q } => {
            let halves = [halves_compared(rows, setp, mask, 0), halves_compared(rows, setp, mask, 1)];
            write(p, combined(halves[0]));
            write(q, combined(halves[1]));
        }
        SetResult::Row { d, when_true } => {
            let found = combined(compared(0));
            rows.set(d, mask, each(|lane| if found >> lane & 1 == 1 { when_true } else { 0 }));
        }
        SetResult::RowPair { d, when_true } => {
            let low = combined(halves_compared(rows, setp, mask, 0));
            let high = combined(halves_compared(rows, setp, mask, 1));
            let f = |lane: usize| {
                let half = |bits: u32| if bits >> lane & 1 == 1 { u32::from(when_true) } else { 0 };
                half(low) | half(high) << 16
            };
            rows.set(d, mask, each(f));
        }
    }
}

/// Comparison of one half of pairs of halves.
pub(crate) fn halves_compared(rows: Rows, setp: &SetpFull, mask: u32, half: u32) -> u32 {
    mask_of(|lane| {
        let value = |row| u64::from(rows.lane(row, lane) >> (half * 16) & 0xffff);
        mask >> lane & 1 == 1 && (setp.compare)(setp.ftz, value(setp.a), value(setp.b))
    })
}

/// `mapa`
#[inline(never)]
pub(crate) fn map_shared<M: Monitor>(
    context: &mut Context<'_, '_, M>,
    rows: Rows,
    [d, a, rank]: [R; 3],
    wide: bool,
    mask: u32,
) -> Checked<()> {
    let blocks = context.launch.cluster_blocks();
    let beyond = lanes_where(mask, |lane| rows.lane(rank, lane) >= blocks);
    if beyond != 0 {
        let rank = rows.lane(rank, beyond.trailing_zeros() as usize);
        let message = format!("there is no block of rank {rank} in a cluster of {blocks}");
        context.report(Problem::new(FaultKind::OutOfBounds, beyond, message))?;
    }
    for lane in lanes(mask & !beyond) {
        let address = rows.lane_of(a, wide, lane);
        let rank = rows.lane(rank, lane);
        // The block's own addresses stay as they are.
        let own = context.block.own_code;
        let code = if rank == context.block.rank { own } else { code_of_rank(context.launch, rank) };
        rows.set_lane_of(d, wide, lane, address ^ (code_of(address) ^ code) << CLUSTER_RANK);
    }
    Ok(())
}
