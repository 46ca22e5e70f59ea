//! Order between threads: releases, acquires, barriers and the ends of blocks.

use std::sync::Arc;

use super::races::widest;
use super::shadows::bits_of;
use super::{DOUBTFUL_BYTES, Sanitiser};
use crate::exec::state::block::Block;
use crate::exec::state::clock::{Clock, join};
use crate::exec::state::copies::PendingCopy;
use crate::exec::state::handover::{Acquired, Fences, Giver, Handed, Handover};
use crate::exec::state::launch::{At, BlockIndex, Launch};
use crate::exec::state::problem::Problem;
use crate::exec::state::shadow::*;
use crate::exec::state::warp::Warp;
use crate::fault::FaultKind;
use crate::ir::{Barrier, Scope};
use crate::lanes::lanes;
use crate::limits::{Account, Use};

impl Sanitiser {
    /// Reports warps of a block that wait for each other without end: some of their lanes for the rest of the warp.
    pub(crate) fn stuck(&mut self, launch: &Launch<'_>, block: &Block) {
        let Some(shadow) = &block.shadow else { return };
        for (warp, known) in block.warps.iter().zip(&shadow.warps) {
            for Arrival { pc, mask, .. } in known.arrivals.iter().filter(|arrival| warp.live & !arrival.mask != 0) {
                let at = At { launch, block: block.index, warp: warp.number, pc: *pc };
                self.report(at, apart(launch, block.index, warp, *pc, *mask));
            }
        }
    }

    /// Called when a block ends.
    pub(crate) fn ended(&mut self, launch: &Launch<'_>, block: &Block) {
        self.undefined.forget(block.number);
        self.wgmma.forget(block.number);
        self.tmem.forget(block.number);
        let Some(shadow) = &block.shadow else { return };
        let mine = |thread: u32| u64::from(thread.wrapping_sub(shadow.first as u32 + 1)) < u64::from(shadow.threads);
        while let Some(key) = self.doubtful.keys().find(|(thread, _)| mine(*thread)).copied() {
            let races = self.doubtful.remove(&key).unwrap_or_default();
            launch.account.give(Use::Records, races.len() as u64 * DOUBTFUL_BYTES);
            self.report_all(launch, races);
        }
        shadow.places.iter().for_each(|place| self.handovers.forget(*place));
        self.left_behind(launch, block, shadow);
    }

    /// Reports accesses of its cluster to the shared memory of a block that has ended, if none of its threads knew of them: it
    /// might have exited before.
    pub(super) fn left_behind(&mut self, launch: &Launch<'_>, block: &Block, shadow: &BlockShadow) {
        if shadow.reached.is_empty() || self.handovers.missing {
            return;
        }
        for (&(warp, pc), &(moment, lane)) in &shadow.reached {
            let threads = u64::from(shadow.threads);
            let warps = threads.div_ceil(32);
            let (number, warp) = (u64::from(warp) / warps, (u64::from(warp) % warps) as u32);
            let thread = number * threads + u64::from(warp) * 32 + u64::from(lane);
            let covers = |clock: &Arc<Clock>| clock.covers(thread as u32, number as u32, moment, false);
            let own = shadow.warps.iter().flat_map(|warp| &warp.acquired).filter_map(|own| own.clock.as_ref());
            if shadow.acquired.iter().chain(own).any(covers) {
                continue;
            }
            let [x, y, z] = block.index.at;
            let message = format!(
                "access to shared memory of block ({x}, {y}, {z}), which may have exited: nothing orders the access before its end"
            );
            let at = At { launch, block: launch.block_index(number), warp, pc: pc as usize };
            self.report(at, *Problem::new(FaultKind::BlockExit, 1 << lane, message));
        }
    }

    /// Records that the lane has read others' writes there. If that does not acquire them, a fence will.
    pub(super) fn take_over(
        &mut self,
        shadow: &mut BlockShadow,
        warp: u32,
        lane: usize,
        place: Handover,
        acquires: bool,
        account: &Account<'_>,
    ) {
        let group = [shadow.number(), shadow.device];
        if self.handovers.has_room(account) {
            let to = if acquires { shadow.acquired(warp, lane, account) } else { shadow.seen(warp, lane, account) };
            self.handovers.take_over(place, group, to);
        }
    }

    /// Hands over what the lane may hand over of earlier work.
    pub(crate) fn hand_over(
        &mut self,
        shadow: &mut BlockShadow,
        warp: u32,
        lane: usize,
        place: Handover,
        handed: impl Into<Handed>,
        account: &Account<'_>,
    ) {
        let handed = handed.into();
        if handed == Handed::from([0; 3]) {
            return;
        }
        let mut mates = shadow.warps[warp as usize].known(lane);
        mates[lane] = self.now;
        if self.handovers.has_room(account) {
            self.release(shadow, warp, lane, place, mates, handed);
        }
    }

    pub(super) fn release(
        &mut self,
        shadow: &mut BlockShadow,
        warp: u32,
        lane: usize,
        place: Handover,
        mates: [u32; 32],
        handed: Handed,
    ) {
        let first = (shadow.first as u32).wrapping_add(warp * 32);
        let giver = Giver {
            thread: first.wrapping_add(lane as u32),
            block: shadow.number(),
            device: shadow.device,
            warp: first,
            mates,
            base: shadow.base,
            handed,
            own: shadow.warps[warp as usize].acquired.get(lane),
            common: (&shadow.acquired, shadow.acquired_at),
        };
        if self.handovers.release(place, self.now, &giver) && !matches!(place, Handover::Global(_)) {
            shadow.places.push(place);
        }
    }

    /// Records that a lane's asynchronous copy to shared memory has been waited for.
    pub(crate) fn copied(&mut self, launch: &Launch<'_>, block: &mut Block, warp: u32, copy: &PendingCopy) {
        let now = self.tick();
        let PendingCopy { lane, to, bytes, .. } = *copy;
        let at = At { launch, block: block.index, warp, pc: copy.pc };
        let Some(shadow) = &mut block.shadow else { return };
        let bits = bits_of(bytes.into());
        shadow.written[(to / 64) as usize] |= bits << (to % 64);
        let thread = shadow.thread(warp, lane);
        shadow.memory.settle(to.into(), bytes.into(), thread, now);
        self.copied_undefined(at, shadow, copy);
    }

    /// Records that a lane's asynchronous copies have been made, and that it arrives at the mbarrier at `at` in shared
    /// memory.
    pub(crate) fn arrived_after_copies(
        &mut self,
        launch: &Launch<'_>,
        block: &mut Block,
        warp: u32,
        lane: usize,
        at: u64,
    ) {
        self.tick();
        let number = block.number;
        if let Some(mut shadow) = block.shadow.take() {
            self.hand_over(&mut shadow, warp, lane, Handover::Shared(number, at), [self.now; 3], &launch.account);
            block.shadow = Some(shadow);
        }
    }

    /// Records that the lanes of `group` met at a `__syncwarp`: each now has the knowledge of the others.
    pub(crate) fn warp_met(&mut self, launch: &Launch<'_>, block: &mut Block, warp: u32, group: u32) {
        let now = self.now;
        self.tick();
        let Some(shadow) = &mut block.shadow else { return };
        shadow.begin(self.now);
        if group == u32::MAX {
            let known = &mut shadow.warps[warp as usize];
            known.mates.clear();
            known.met = now;
        } else {
            let mates = shadow.mates(warp, &launch.account);
            let mut known = [0; 32];
            for lane in lanes(group) {
                for (known, moment) in known.iter_mut().zip(mates[lane]) {
                    *known = moment.max(*known);
                }
            }
            for lane in lanes(group) {
                known[lane] = now;
            }
            for lane in lanes(group) {
                mates[lane] = known;
            }
        }
        let acquired = &mut shadow.warps[warp as usize].acquired;
        if !acquired.is_empty() {
            let mut all = None;
            lanes(group).for_each(|lane| join(&mut all, &acquired[lane].clock, self.handovers.limit()));
            for lane in lanes(group) {
                let same = match (&acquired[lane].clock, &all) {
                    (Some(own), Some(all)) => Arc::ptr_eq(own, all),
                    (own, all) => own.is_none() && all.is_none(),
                };
                if !same {
                    acquired[lane] = Acquired::of(all.clone());
                }
            }
        }
    }

    /// Called when lanes exit.
    pub(crate) fn left(&mut self, launch: &Launch<'_>, block: &mut Block, warp: u32, mask: u32) {
        if let Some(shadow) = &mut block.shadow {
            shadow.leave(warp, mask, &launch.account);
        }
    }

    /// Records a fence of lanes of a warp.
    pub(crate) fn fenced(&mut self, launch: &Launch<'_>, block: &mut Block, warp: u32, mask: u32, scope: Scope) {
        let now = self.now;
        self.tick();
        let Some(shadow) = &mut block.shadow else { return };
        shadow.begin(self.now);
        shadow.fences[..=widest(launch, scope) as usize].fill(now);
        if shadow.warps[warp as usize].seen.is_empty() {
            return;
        }
        for lane in lanes(mask) {
            let seen = std::mem::take(shadow.seen(warp, lane, &launch.account));
            if seen.clock.is_some() {
                let mut all = shadow.acquired(warp, lane, &launch.account).clock.take();
                join(&mut all, &seen.clock, self.handovers.limit());
                *shadow.acquired(warp, lane, &launch.account) = Acquired::of(all);
            }
        }
    }

    /// Called when lanes come to a barrier of the block.
    pub(crate) fn arrived(
        &mut self,
        at: At<'_>,
        block: &mut Block,
        warp: &Warp,
        barrier: &Barrier,
        id: u32,
        mask: u32,
    ) {
        let At { launch, pc, .. } = at;
        let number = block.number;
        self.tick();
        let Some(mut shadow) = block.shadow.take() else { return };
        shadow.begin(self.now);
        if barrier.aligned && mask != warp.live {
            // All threads of the warp must execute the same barrier instruction (PTX ISA, "barrier", `.aligned`). They may
            // come one after another, where the compiler made branches jump to it; `gathered` sees who came.
            let arrivals = &mut shadow.warps[warp.number as usize].arrivals;
            let again = arrivals.iter().any(|arrival| arrival.id == id && arrival.mask & mask != 0);
            if again || launch.program.code[pc].guard.predicate().is_some() {
                let problem = apart(launch, block.index, warp, pc, mask);
                self.report(at, problem);
            } else {
                arrivals.push(Arrival { id, pc, mask });
            }
        }
        if barrier.count.is_some() {
            let fences = [self.now; 3];
            self.hand_over_all(&mut shadow, warp.number, mask, Handover::Barrier(number, id), fences, &launch.account);
            self.tick();
        } else if barrier.aligned && id == 0 {
            // `__syncthreads()` in code that not all threads of the block enter (CUDA C++ Programming Guide). PTX has no such
            // rule for threads of different warps, and other barriers are written by those who know. One call may
            // have become several instructions.
            let first = *shadow.gathering.entry(id).or_insert(pc);
            let line = |pc: usize| {
                let site = launch.site(pc);
                (site.file, site.line)
            };
            let loc = |pc: usize| launch.program.places[pc].loc;
            if first != pc
                && let (Some(one), Some(other)) = (loc(first), loc(pc))
                && ((one.file, one.line) != (other.file, other.line) || line(first) != line(pc))
            {
                let message = "threads of the block wait at different barriers for each other".to_owned();
                let mut problem = Problem::new(FaultKind::BarrierDivergence, mask, message);
                problem = problem.note(launch.whereabouts(first, block.index, 0, 1, "or another came first: it waits"));
                self.report(at, *problem);
            }
        }
        block.shadow = Some(shadow);
    }

    /// Hands over the earlier work of lanes of a warp, up to the fences.
    pub(super) fn hand_over_all(
        &mut self,
        shadow: &mut BlockShadow,
        warp: u32,
        mask: u32,
        place: Handover,
        fences: Fences,
        account: &Account<'_>,
    ) {
        let mut mates = shadow.warps[warp as usize].known(mask.trailing_zeros() as usize);
        lanes(mask).for_each(|lane| mates[lane] = self.now);
        for lane in lanes(mask) {
            // What one lane tells of all is enough, but each has taken over from others by itself.
            let is_first = lane == mask.trailing_zeros() as usize;
            if !self.handovers.has_room(account) {
                break;
            }
            if is_first || shadow.warps[warp as usize].acquired.get(lane).is_some_and(|own| own.clock.is_some()) {
                self.release(shadow, warp, lane, place, mates, fences.into());
            }
        }
    }

    /// Called when lanes arrive at the barrier of the block's cluster.
    pub(crate) fn cluster_arrived(
        &mut self,
        launch: &Launch<'_>,
        block: &mut Block,
        warp: u32,
        mask: u32,
        releases: bool,
    ) {
        self.tick();
        let Some(mut shadow) = block.shadow.take() else { return };
        shadow.begin(self.now);
        let fences = if releases { [self.now; 3] } else { shadow.fences };
        if mask != 0 && fences != [0; 3] {
            let place = Handover::Cluster(block.cluster);
            self.hand_over_all(&mut shadow, warp, mask, place, fences, &launch.account);
        }
        self.tick();
        block.shadow = Some(shadow);
    }

    /// Called when the barrier of the block's cluster, at which lanes waited, is complete.
    pub(crate) fn cluster_waited(&mut self, launch: &Launch<'_>, block: &mut Block, warp: u32, mask: u32) {
        let Some(mut shadow) = block.shadow.take() else { return };
        for lane in lanes(mask) {
            self.take_over(&mut shadow, warp, lane, Handover::Cluster(block.cluster), true, &launch.account);
        }
        block.shadow = Some(shadow);
    }

    /// Called when a barrier is full; its warps still wait there.
    pub(crate) fn gathered(&mut self, launch: &Launch<'_>, block: &mut Block, warps: &[Warp], id: u32) {
        let Some(mut shadow) = block.shadow.take() else { return };
        for (warp, known) in warps.iter().zip(&mut shadow.warps) {
            if known.arrivals.is_empty() {
                continue;
            }
            let came: Vec<Arrival> = known.arrivals.iter().filter(|arrival| arrival.id == id).copied().collect();
            known.arrivals.retain(|arrival| arrival.id != id);
            let Some(first) = came.first() else { continue };
            let all = came.iter().fold(0, |all, arrival| all | arrival.mask);
            let at = At { launch, block: block.index, warp: warp.number, pc: first.pc };
            if let Some(other) = came.iter().find(|arrival| arrival.pc != first.pc) {
                let mut problem = apart(launch, block.index, warp, first.pc, first.mask);
                problem.notes =
                    vec![launch.whereabouts(other.pc, block.index, warp.number, other.mask, "is at another barrier,")];
                self.report(at, problem);
            } else if warp.live & !all != 0 {
                self.report(at, apart(launch, block.index, warp, first.pc, all));
            }
        }
        block.shadow = Some(shadow);
    }

    /// Called when a barrier has released waiting lanes; `all`: it is one for the whole block.
    pub(crate) fn released(
        &mut self,
        launch: &Launch<'_>,
        block: &mut Block,
        warp: u32,
        lanes_here: u32,
        id: u32,
        all: bool,
    ) {
        if all || !self.handovers.has_room(&launch.account) {
            return;
        }
        let place = Handover::Barrier(block.number, id);
        if let Some(shadow) = &mut block.shadow {
            let group = [shadow.number(), shadow.device];
            for lane in lanes(lanes_here) {
                self.handovers.take_over(place, group, shadow.acquired(warp, lane, &launch.account));
            }
        }
    }

    /// Called when a barrier is full and has released its threads.
    pub(crate) fn completed(&mut self, block: &mut Block, id: u32, all: bool) {
        let now = self.now;
        self.tick();
        let Some(shadow) = &mut block.shadow else { return };
        shadow.begin(self.now);
        shadow.gathering.remove(&id);
        if all {
            shadow.base = now;
            for warp in &mut shadow.warps {
                warp.forget_mates();
                for acquired in warp.acquired.drain(..).filter(|acquired| acquired.clock.is_some()) {
                    join(&mut shadow.acquired, &acquired.clock, self.handovers.limit());
                    shadow.acquired_at = now;
                }
            }
        }
    }
}

/// Lanes that came to a barrier without the rest of their warp.
pub(super) fn apart(launch: &Launch<'_>, block: BlockIndex, warp: &Warp, pc: usize, mask: u32) -> Problem {
    let (here, all) = (mask.count_ones(), warp.live.count_ones());
    let message = format!("the barrier is reached by {here} of the {all} threads of the warp, apart from the rest");
    let mut problem = Problem::new(FaultKind::BarrierDivergence, mask, message);
    if let Some((elsewhere, lanes)) = warp.elsewhere(pc) {
        problem = problem.note(launch.whereabouts(elsewhere, block, warp.number, lanes, "is"));
    }
    *problem
}
