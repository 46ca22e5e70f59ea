//! The executor's loop.
//!
//! # Vector instructions
//! The loop in `interpret` is compiled once for the machine's baseline (SSE2 on x86-64, NEON on AArch64) and, on x86-64,
//! once more with AVX2 and FMA, which is chosen at run time where the processor has them. A row of 32 lanes is four
//! AVX2 registers and one instruction each; with SSE2 it is eight, and a fused multiply-add has to be computed in f64
//! (`crate::scalar`), exactly but several times slower. NEON has fused multiply-add, so AArch64 needs no second version.

use super::arithmetic::*;
use super::async_copy::{cp_async, cp_async_wait};
use super::atomic;
use super::bulk;
use super::context::{Context, Fail, Step, Stop};
use super::control::{arrive, cluster_arrive, cluster_wait, enter, leave, leave_behind, part};
use super::load_store::{load, store};
use super::mbarrier;
use super::tcgen05;
use super::tensor;
use super::texture;
use super::together::{self, Wanted};
use super::wgmma;
use crate::exec::state::address::{is_constant, is_in_space};
use crate::exec::state::block::Block;
use crate::exec::state::cluster;
use crate::exec::state::launch::Launch;
use crate::exec::state::problem::Problem;
use crate::exec::state::scene::Scene;
use crate::exec::state::warp::{Split, State, Warp};
use crate::exec::watch::monitor::Monitor;
use crate::fault::FaultKind;
use crate::ir::*;
use crate::lanes::{each, mask_of};
use crate::scalar::half::{Bf16, F16};
use crate::scalar::single::sum_to_odd;

/// [`interpret`] in its fastest version for this machine.
pub(super) fn interpret_here<M: Monitor>(
    warp: &mut Warp,
    split: &mut Split,
    block: &mut Block,
    launch: &Launch<'_>,
    monitor: &mut M,
    turn: u32,
) -> Result<Stop, Fail> {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma,popcnt,bmi1,bmi2,lzcnt")]
        fn with_avx2<M: Monitor>(
            warp: &mut Warp,
            split: &mut Split,
            block: &mut Block,
            launch: &Launch<'_>,
            monitor: &mut M,
            turn: u32,
        ) -> Result<Stop, Fail> {
            interpret::<M, true, true>(warp, split, block, launch, monitor, turn)
        }
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
        {
            // SAFETY: the processor has been asked for each of the features.
            return unsafe { with_avx2(warp, split, block, launch, monitor, turn) };
        }
        interpret::<M, false, false>(warp, split, block, launch, monitor, turn)
    }
    #[cfg(not(target_arch = "x86_64"))]
    interpret::<M, { cfg!(target_arch = "aarch64") }, false>(warp, split, block, launch, monitor, turn)
}

/// The executor's loop: at most `turn` instructions of one split. `FMA`: `f32::mul_add` is one instruction here; `AVX2`:
/// the loop is compiled for a processor that has it.
#[inline(always)]
fn interpret<M: Monitor, const FMA: bool, const AVX2: bool>(
    warp: &mut Warp,
    split: &mut Split,
    block: &mut Block,
    launch: &Launch<'_>,
    monitor: &mut M,
    turn: u32,
) -> Result<Stop, Fail> {
    let code = launch.program.code.as_slice();
    let mut pc = split.pc as usize;
    let mut mask = split.mask;
    let mut rows = warp.frame_rows(split.frame);
    let mut base = split.frame.predicates;
    let mut executed = 0u32;
    monitor.enters(block, warp, split);
    let mut turn = turn; // work that costs more than an instruction shortens it
    let mut lane_count = 0u64;
    macro_rules! predicate {
        ($p:expr) => {
            warp.predicates[(base + $p) as usize]
        };
    }
    macro_rules! set_predicate {
        ($p:expr, $active:expr, $value:expr) => {{
            let value = $value;
            let bits = &mut predicate!($p);
            *bits = *bits & !$active | value & $active;
        }};
    }
    macro_rules! context {
        () => {
            Context { warp: &mut *warp, block: &mut *block, launch, frame: split.frame, monitor: &mut *monitor, pc }
        };
    }
    macro_rules! scene {
        ($active:expr) => {
            Scene {
                launch,
                block: &*block,
                warp: &*warp,
                rows,
                frame_rows: split.frame.rows,
                frame_predicates: base,
                frame_local: split.frame.local,
                pc,
                mask,
                active: $active,
            }
        };
    }
    // Leaves the loop with the split up to date.
    let result = loop {
        if executed >= turn {
            break Ok(Stop::Quantum);
        }
        // The lowering ends every function with an instruction that does not fall through, and checks every target.
        let inst = &code[pc];
        let active = match inst.guard.predicate() {
            None => mask,
            Some((p, negated)) => {
                let bits = predicate!(p);
                mask & if negated { !bits } else { bits }
            }
        };
        executed += 1;
        lane_count += u64::from(active.count_ones());
        if !matches!(inst.op, Op::Join) {
            monitor.issue(&scene!(active));
        }
        if active == 0 {
            pc += 1;
            continue;
        }
        match &inst.op {
            Op::Mov32 { d, a } => {
                rows.map1(*d, *a, active, |a| a);
                if warp.multiplies {
                    wgmma::copied(warp, block, launch, split.frame, [*d, *a], active);
                }
            }
            Op::Mov64 { d, a } => rows.wide1(*d, *a, active, |a| a),
            Op::Special { d, register, wide } => {
                let clock = warp.clock + u64::from(executed);
                special(&context!(), rows, *d, *register, *wide, active, clock);
            }
            Op::FrameAddress { d, offset, wide } => {
                let address = split.frame.local + offset;
                if *wide {
                    rows.set64(*d, active, [u64::from(address); 32]);
                } else {
                    rows.set(*d, active, [address; 32]);
                }
            }
            Op::Stack(stack) => match warp.stack(launch, split.frame, *stack, active) {
                Err(problem) => break Err(problem),
                Ok(cost) => {
                    block.charged += cost;
                    turn = turn.saturating_sub(u32::try_from(cost).unwrap_or(u32::MAX));
                }
            },
            Op::Unpack32 { d, a, shift, mask } => rows.map1(*d, *a, active, |a| a >> shift & mask),
            Op::Unpack64 { d, a, shift, mask } => {
                let a = rows.get64(*a);
                rows.set(*d, active, each(|lane| (a[lane] >> shift) as u32 & mask));
            }
            Op::Pack(pack) => run_pack(rows, pack, active),
            Op::Sext64 { d, a } => {
                let a = rows.get(*a);
                rows.set64(*d, active, each(|lane| i64::from(a[lane] as i32) as u64));
            }
            Op::Zext64 { d, a } => {
                let a = rows.get(*a);
                rows.set64(*d, active, each(|lane| u64::from(a[lane])));
            }
            Op::Trunc32 { d, a } => {
                let a = rows.get64(*a);
                rows.set(*d, active, each(|lane| a[lane] as u32));
            }

            Op::Add32 { d, a, b } => rows.map2(*d, *a, *b, active, u32::wrapping_add),
            Op::Sub32 { d, a, b } => rows.map2(*d, *a, *b, active, u32::wrapping_sub),
            Op::Mul32 { d, a, b } => rows.map2(*d, *a, *b, active, u32::wrapping_mul),
            Op::MulHiU32 { d, a, b } => {
                rows.map2(*d, *a, *b, active, |a, b| (u64::from(a).wrapping_mul(u64::from(b)) >> 32) as u32);
            }
            Op::MulHiS32 { d, a, b } => {
                rows.map2(*d, *a, *b, active, |a, b| (signed(a).wrapping_mul(signed(b)) >> 32) as u32);
            }
            Op::Mad32 { d, a, b, c } => {
                rows.map3(*d, [*a, *b, *c], active, |a, b, c| a.wrapping_mul(b).wrapping_add(c));
            }
            Op::And32 { d, a, b } => rows.map2(*d, *a, *b, active, |a, b| a & b),
            Op::Or32 { d, a, b } => rows.map2(*d, *a, *b, active, |a, b| a | b),
            Op::Xor32 { d, a, b } => rows.map2(*d, *a, *b, active, |a, b| a ^ b),
            Op::Not32 { d, a } => rows.map1(*d, *a, active, |a| !a),
            Op::Lop3 { d, a, b, c, table } => lop3(rows, *d, [*a, *b, *c], *table, active),
            Op::Shl32 { d, a, b } => rows.map2(*d, *a, *b, active, |a, b| if b > 31 { 0 } else { a << (b & 31) }),
            Op::ShrU32 { d, a, b } => rows.map2(*d, *a, *b, active, |a, b| if b > 31 { 0 } else { a >> (b & 31) }),
            Op::ShrS32 { d, a, b } => rows.map2(*d, *a, *b, active, |a, b| ((a as i32) >> b.min(31)) as u32),
            Op::MinU32 { d, a, b } => rows.map2(*d, *a, *b, active, u32::min),
            Op::MinS32 { d, a, b } => rows.map2(*d, *a, *b, active, |a, b| (a as i32).min(b as i32) as u32),
            Op::MaxU32 { d, a, b } => rows.map2(*d, *a, *b, active, u32::max),
            Op::MaxS32 { d, a, b } => rows.map2(*d, *a, *b, active, |a, b| (a as i32).max(b as i32) as u32),
            Op::Neg32 { d, a } => rows.map1(*d, *a, active, u32::wrapping_neg),

            Op::MulWideU32 { d, a, b } => {
                rows.widen2(*d, *a, *b, active, |a, b| u64::from(a).wrapping_mul(u64::from(b)));
            }
            Op::MulWideS32 { d, a, b } => {
                rows.widen2(*d, *a, *b, active, |a, b| signed(a).wrapping_mul(signed(b)) as u64);
            }
            Op::MadWideU32 { d, a, b, c } => {
                let (a, b, c) = (rows.get(*a), rows.get(*b), rows.get64(*c));
                let f = |lane: usize| u64::from(a[lane]).wrapping_mul(u64::from(b[lane])).wrapping_add(c[lane]);
                rows.set64(*d, active, each(f));
            }
            Op::MadWideS32 { d, a, b, c } => {
                let (a, b, c) = (rows.get(*a), rows.get(*b), rows.get64(*c));
                let f = |lane: usize| (signed(a[lane]).wrapping_mul(signed(b[lane])) as u64).wrapping_add(c[lane]);
                rows.set64(*d, active, each(f));
            }
            Op::Add64 { d, a, b } => rows.wide2(*d, *a, *b, active, u64::wrapping_add),
            Op::Sub64 { d, a, b } => rows.wide2(*d, *a, *b, active, u64::wrapping_sub),
            Op::Mul64 { d, a, b } => rows.wide2(*d, *a, *b, active, u64::wrapping_mul),
            Op::Mad64 { d, a, b, c } => {
                rows.wide3(*d, [*a, *b, *c], active, |a, b, c| a.wrapping_mul(b).wrapping_add(c));
            }
            Op::And64 { d, a, b } => rows.wide2(*d, *a, *b, active, |a, b| a & b),
            Op::Or64 { d, a, b } => rows.wide2(*d, *a, *b, active, |a, b| a | b),
            Op::Xor64 { d, a, b } => rows.wide2(*d, *a, *b, active, |a, b| a ^ b),
            Op::Not64 { d, a } => rows.wide1(*d, *a, active, |a| !a),
            Op::Shl64 { d, a, b } => rows.shift64(*d, *a, *b, active, |a, b| if b > 63 { 0 } else { a << (b & 63) }),
            Op::ShrU64 { d, a, b } => rows.shift64(*d, *a, *b, active, |a, b| if b > 63 { 0 } else { a >> (b & 63) }),
            Op::ShrS64 { d, a, b } => rows.shift64(*d, *a, *b, active, |a, b| ((a as i64) >> b.min(63)) as u64),

            Op::Video(video) => run_video(rows, video, active),
            Op::Carry(carry) => warp.carry = run_carry(rows, carry, warp.carry, active),

            Op::AddF32 { d, a, b, ftz } => rows.f32_2(*d, *a, *b, active, *ftz, |a, b| a + b),
            Op::SubF32 { d, a, b, ftz } => rows.f32_2(*d, *a, *b, active, *ftz, |a, b| a - b),
            Op::MulF32 { d, a, b, ftz } => {
                rows.f32_3(*d, [*a, *b, *b], active, *ftz, |a, b, _| a * b, |a, b, _| a * b);
            }
            Op::FmaF32 { d, a, b, c, ftz } => {
                rows.f32_3(*d, [*a, *b, *c], active, *ftz, fma::<FMA>, |a, b, c| sum_to_odd(a * b, c));
            }
            Op::DivF32 { d, a, b } => rows.f32_2(*d, *a, *b, active, false, |a, b| a / b),
            Op::SqrtF32 { d, a } => rows.f32_1(*d, *a, active, f32::sqrt),
            Op::MinF32 { d, a, b, ftz } => rows.f32_2(*d, *a, *b, active, *ftz, min),
            Op::MaxF32 { d, a, b, ftz } => rows.f32_2(*d, *a, *b, active, *ftz, |a, b| -min(-a, -b)),
            Op::HalfMath(HalfMath { op, d, a, b, c, bfloat, packed }) => {
                if *bfloat {
                    half_math::<Bf16>(rows, *op, *d, [*a, *b, *c], *packed, active);
                } else {
                    half_math::<F16>(rows, *op, *d, [*a, *b, *c], *packed, active);
                }
            }
            Op::AddF64 { d, a, b } => run_f64(rows, crate::scalar::double::add, *d, [*a, *b, *b], active),
            Op::SubF64 { d, a, b } => run_f64(rows, crate::scalar::double::sub, *d, [*a, *b, *b], active),
            Op::MulF64 { d, a, b } => run_f64(rows, crate::scalar::double::mul, *d, [*a, *b, *b], active),
            Op::FmaF64 { d, a, b, c } => run_f64(rows, crate::scalar::double::fma, *d, [*a, *b, *c], active),
            Op::S32ToF32 { d, a } => rows.map1(*d, *a, active, |a| (a as i32 as f32).to_bits()),
            Op::U32ToF32 { d, a } => rows.map1(*d, *a, active, |a| (a as f32).to_bits()),
            Op::F32ToS32 { d, a } => rows.map1(*d, *a, active, |a| f32::from_bits(a) as i32 as u32),
            Op::Map(map) => run_map(rows, map, active),

            Op::SetpU32 { cmp, d, a, b } => {
                set_predicate!(*d, active, compare(*cmp, rows.get(*a), rows.get(*b), |x: u32| x));
            }
            Op::SetpS32 { cmp, d, a, b } => {
                set_predicate!(*d, active, compare(*cmp, rows.get(*a), rows.get(*b), |x: u32| x as i32));
            }
            Op::SetpU64 { cmp, d, a, b } => {
                set_predicate!(*d, active, compare(*cmp, rows.get64(*a), rows.get64(*b), |x: u64| x));
            }
            Op::SetpS64 { cmp, d, a, b } => {
                set_predicate!(*d, active, compare(*cmp, rows.get64(*a), rows.get64(*b), |x: u64| x as i64));
            }
            Op::SetpF32 { cmp, d, a, b } => {
                set_predicate!(*d, active, compare(*cmp, rows.get(*a), rows.get(*b), f32::from_bits));
            }
            Op::SetpFull(setp) => set_full(&mut context!(), rows, setp, active),
            Op::PredSet { d, value } => set_predicate!(*d, active, if *value { u32::MAX } else { 0 }),
            Op::PredMov { d, a, negated } => {
                let bits = predicate!(*a);
                set_predicate!(*d, active, if *negated { !bits } else { bits });
            }
            Op::PredLogic { op, d, a, b, not_a, not_b } => {
                let a = if *not_a { !predicate!(*a) } else { predicate!(*a) };
                let b = if *not_b { !predicate!(*b) } else { predicate!(*b) };
                set_predicate!(*d, active, logic(*op, a, b));
            }
            Op::Selp32 { d, a, b, p, negated } => {
                let choose = predicate!(*p) ^ if *negated { u32::MAX } else { 0 };
                let (a, b) = (rows.get(*a), rows.get(*b));
                let f = |lane: usize| {
                    let not = (choose >> lane & 1).wrapping_sub(1);
                    a[lane] & !not | b[lane] & not
                };
                rows.set(*d, active, each(f));
            }
            Op::Selp64 { d, a, b, p, negated } => {
                let choose = predicate!(*p) ^ if *negated { u32::MAX } else { 0 };
                let (a, b) = (rows.get64(*a), rows.get64(*b));
                let f = |lane: usize| if choose >> lane & 1 == 1 { a[lane] } else { b[lane] };
                rows.set64(*d, active, each(f));
            }
            Op::RowToPred { d, a } => {
                let a = rows.get(*a);
                set_predicate!(*d, active, mask_of(|lane| a[lane] != 0));
            }

            Op::Load(access) => {
                if let Err(problem) = load::<M, AVX2>(&mut context!(), rows, access, active) {
                    break Err(problem);
                }
            }
            Op::Store(access) => {
                // A thread's own memory is only for itself; a volatile variable there counts what it does.
                warp.busy |=
                    !matches!(access.address.space, MemSpace::Param | MemSpace::Local) || access.order != Order::Weak;
                if let Err(problem) = store::<M, AVX2>(&mut context!(), rows, access, active) {
                    break Err(problem);
                }
            }
            Op::Atomic(atomic) => {
                if let Err(problem) = atomic::atomic(&mut context!(), rows, atomic, active) {
                    break Err(problem);
                }
            }
            Op::Texture(op) => {
                warp.busy = true;
                if let Err(problem) = texture::read(&mut context!(), rows, op, active) {
                    break Err(problem);
                }
            }
            Op::Surface(op) => {
                warp.busy = true;
                if let Err(problem) = texture::access(&mut context!(), rows, op, active) {
                    break Err(problem);
                }
            }
            Op::Query(query) => {
                if let Err(problem) = texture::query(&mut context!(), rows, query, active) {
                    break Err(problem);
                }
            }
            Op::Mbarrier(op) => match mbarrier::mbarrier(&mut context!(), rows, op, active) {
                Err(problem) => break Err(problem),
                Ok(false) => {}
                Ok(true) => {
                    monitor.after(&scene!(active));
                    pc += 1;
                    break Ok(Stop::Yield);
                }
            },
            Op::CpAsync(copy) => {
                warp.busy = true;
                if let Err(problem) = cp_async(&mut context!(), rows, copy, active) {
                    break Err(problem);
                }
            }
            Op::CpAsyncCommit => warp.copies.commit(active),
            Op::CpAsyncWait { n } => turn = turn.saturating_sub(cp_async_wait(&mut context!(), *n, active)),
            Op::Bulk(op) => {
                warp.busy = true;
                if let Err(problem) = bulk::bulk(&mut context!(), rows, op, active) {
                    break Err(problem);
                }
            }
            Op::BulkCommit => warp.copies.commit_bulk(active),
            Op::BulkWait { n, read } => {
                warp.busy = true;
                match bulk::wait(&mut context!(), *n, *read, active) {
                    Ok(cost) => turn = turn.saturating_sub(cost),
                    Err(problem) => break Err(problem),
                }
            }
            Op::Tcgen05(op) => {
                warp.busy = true;
                if let Err(problem) = tcgen05::ask(&mut context!(), rows, op, active) {
                    break Err(problem);
                }
            }
            Op::TmemFence { .. } => {}
            Op::ReplaceMap(op) => {
                warp.busy = true;
                if let Err(problem) = tensor::replace(&mut context!(), rows, op, active) {
                    break Err(problem);
                }
            }
            Op::CopyMap(op) => {
                warp.busy = true;
                if let Err(problem) = tensor::copy(&mut context!(), rows, op, active) {
                    break Err(problem);
                }
            }
            Op::ProxyFence => {
                if let Some(sanitiser) = monitor.sanitiser() {
                    sanitiser.fenced_proxy(block, warp.number, active);
                }
            }
            Op::Fence { scope } => {
                std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
                if let Some(sanitiser) = monitor.sanitiser() {
                    sanitiser.fenced(launch, block, warp.number, active, *scope);
                }
            }
            Op::Cvta { d, a, wide, delta } => {
                if *wide {
                    rows.wide1(*d, *a, active, |a| a.wrapping_add(*delta));
                } else {
                    rows.map1(*d, *a, active, |a| a.wrapping_add(*delta as u32));
                }
            }
            Op::IsSpace { d, a, wide, space, constant } => {
                let address = |lane| rows.lane_of(*a, *wide, lane);
                let found = if *constant {
                    mask_of(|lane| is_constant(launch, address(lane)))
                } else {
                    mask_of(|lane| is_in_space(address(lane), *space))
                };
                set_predicate!(*d, active, found);
            }
            Op::Nop => {}
            Op::MapShared { d, a, rank, wide } => {
                if let Err(problem) = map_shared(&mut context!(), rows, [*d, *a, *rank], *wide, active) {
                    break Err(problem);
                }
            }
            Op::RankOf { d, a, wide } => {
                rows.set(*d, active, each(|lane| cluster::rank_of(block, rows.lane_of(*a, *wide, lane))));
            }

            Op::Bra { target, join } => {
                let rest = mask & !active;
                if rest != 0 {
                    split.mask = mask;
                    let meeting = part(warp, split, *join);
                    warp.splits.push(Split { pc: pc as u32 + 1, mask: rest, join: meeting, ..split.clone() });
                    split.join = meeting;
                    mask = active;
                }
                pc = *target as usize;
                continue;
            }
            Op::Join => {
                // a mark of the lowering, not an instruction of the kernel
                executed -= 1;
                lane_count -= u64::from(active.count_ones());
                if warp.meets(split.join, pc as u32, split.callers.len())
                    && let Some(join) = &mut warp.joins[split.join as usize]
                {
                    join.arrived |= mask;
                    let parent = join.parent;
                    if join.arrived == join.expected {
                        mask = join.expected;
                        warp.joins[split.join as usize] = None;
                    } else if launch.is_loose(pc) {
                        mask = std::mem::take(&mut join.arrived);
                        join.expected &= !mask;
                    } else {
                        break Ok(Stop::Gone);
                    }
                    split.join = parent;
                }
            }
            Op::BrxIdx(brx) => {
                let index = rows.get(brx.index);
                let past = mask_of(|lane| index[lane] as usize >= brx.targets.len()) & active;
                if past != 0 {
                    let value = index[past.trailing_zeros() as usize];
                    let message = format!("index {value} of a jump table with {} targets", brx.targets.len());
                    break Err(Problem::new(FaultKind::InvalidBranch, past, message));
                }
                split.mask = mask;
                let mut rest = active;
                let target_of = |lane: u32| brx.targets[index[lane as usize] as usize];
                let first = target_of(rest.trailing_zeros());
                let mut meeting = split.join;
                let mut together = 0;
                while rest != 0 {
                    let target = target_of(rest.trailing_zeros());
                    let same = mask_of(|lane| rest >> lane & 1 == 1 && target_of(lane as u32) == target);
                    rest &= !same;
                    if target == first {
                        together = same;
                        if rest != 0 {
                            meeting = part(warp, split, brx.join);
                        }
                    } else {
                        warp.splits.push(Split { pc: target, mask: same, join: meeting, ..split.clone() });
                    }
                }
                split.join = meeting;
                mask = together;
                pc = first as usize;
                continue;
            }
            Op::Call(call) => {
                warp.busy |= !matches!(call.callee, Callee::Function(_));
                split.pc = pc as u32;
                split.mask = mask;
                match enter(&mut context!(), rows, split, call) {
                    Err(problem) => break Err(problem),
                    Ok(cost) => {
                        turn = turn.saturating_sub(cost);
                        pc = split.pc as usize;
                        mask = split.mask;
                        rows = warp.frame_rows(split.frame);
                        base = split.frame.predicates;
                        monitor.enters(block, warp, split);
                        continue;
                    }
                }
            }
            Op::Ret => {
                // the registers of the function are about to go
                if warp.multiplies {
                    match wgmma::complete_all(&mut context!()) {
                        Err(problem) => break Err(problem),
                        Ok(Step::Done) => {}
                        Ok(_) => {
                            split.state = State::Warpgroup;
                            break Ok(Stop::Wait);
                        }
                    }
                }
                split.mask = mask;
                leave(&mut context!(), split);
                monitor.enters(block, warp, split);
                pc = split.pc as usize;
                rows = warp.frame_rows(split.frame);
                base = split.frame.predicates;
                continue;
            }
            Op::Exit => {
                warp.busy = true;
                block.live -= active.count_ones();
                block.barriers_touched = true;
                block.cluster_touched = true;
                if let Some(sanitiser) = monitor.sanitiser() {
                    sanitiser.left(launch, block, warp.number, active);
                }
                warp.exit_lanes(active);
                mask &= !active;
                if mask == 0 {
                    break Ok(Stop::Gone);
                }
            }
            Op::Trap => break Err(Problem::new(FaultKind::Trap, active, "the kernel executed a trap")),
            Op::SetRegisters { count, increases } => {
                warp.busy = true;
                if !block.pool.set(warp, *count, *increases) {
                    leave_behind(warp, split, pc, mask, active);
                    mask = active;
                    split.state = State::Registers;
                    break Ok(Stop::Wait);
                }
            }
            Op::Nanosleep => {
                warp.polled += 1;
                pc += 1;
                break Ok(Stop::Yield);
            }
            Op::Activemask { d } => rows.set(*d, active, [active; 32]),
            Op::Barrier(barrier) => {
                warp.busy = true;
                if let Err(problem) = arrive(&mut context!(), rows, barrier, active) {
                    break Err(problem);
                }
                if barrier.kind != BarrierKind::Arrive {
                    leave_behind(warp, split, pc, mask, active);
                    mask = active;
                    split.state = State::Barrier(rows.lane(barrier.id, active.trailing_zeros() as usize));
                    break Ok(Stop::Wait);
                }
            }
            Op::ClusterArrive { releases } => {
                warp.busy = true;
                if let Err(problem) = cluster_arrive(&mut context!(), *releases, active) {
                    break Err(problem);
                }
            }
            Op::ClusterWait => match cluster_wait(&mut context!(), active) {
                Err(problem) => break Err(problem),
                Ok(0) => {}
                Ok(pending) => {
                    leave_behind(warp, split, pc, mask, pending);
                    mask = pending;
                    split.state = State::Barrier(CLUSTER_BARRIER);
                    break Ok(Stop::Wait);
                }
            },
            Op::Together(op) => match together::missing(&mut context!(), rows, op, active) {
                Err(problem) => break Err(problem),
                Ok(None) => match together::execute(&mut context!(), op, active) {
                    Err(problem) => break Err(problem),
                    // Those without a mask are products, and moves to and from shared memory.
                    Ok(Step::Done) => warp.busy |= op.members.is_none(),
                    Ok(Step::WaitForWarps) => {
                        leave_behind(warp, split, pc, mask, active);
                        mask = active;
                        split.state = State::Warpgroup;
                        break Ok(Stop::Wait);
                    }
                    Ok(Step::Again) => break Ok(Stop::Yield),
                },
                Ok(Some(Wanted { lanes, members })) => {
                    leave_behind(warp, split, pc, mask, active);
                    if lanes != active {
                        // They have another mask, and so others to wait for.
                        let rest = Split { pc: pc as u32, mask: active & !lanes, ..split.clone() };
                        warp.splits.push(rest);
                    }
                    mask = lanes;
                    split.state = State::Together { members };
                    break Ok(Stop::Wait);
                }
            },
            Op::Unsupported => {
                break Err(Problem::new(FaultKind::Trap, active, "the simulator does not know this instruction"));
            }
        }
        monitor.after(&scene!(active));
        pc += 1;
    };
    split.pc = pc as u32;
    split.mask = mask;
    warp.clock += u64::from(executed);
    block.counts.warp_instructions += u64::from(executed);
    block.counts.lane_instructions += lane_count;
    result.map_err(|mut problem| {
        // A call that failed may have been entered already.
        problem.calls = split.calls().into_iter().skip_while(|call| *call == pc as u32).collect();
        (problem, pc)
    })
}
