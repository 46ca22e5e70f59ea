//! Bulk copies: when they are made, and what they move then.

use super::atomic::combined;
use super::check::Checked;
use super::elements::{read_shared, shared_bytes, write_shared};
use super::mbarrier::{complete, invalid};
use crate::exec::state::block::Block;
use crate::exec::state::launch::{At, Launch};
use crate::exec::state::problem::Problem;
use crate::exec::state::transfers::{
    BYTES_AN_INSTRUCTION, Completes, ElementReduction, Far, Issuer, Transfer, Transfers,
};
use crate::exec::watch::monitor::Monitor;
use crate::fault::Fault;

/// Maximum number of transfers that a block may have under way before the first are made unasked.
const MAX_TRANSFERS: usize = 1 << 12;

impl Transfer {
    /// Returns the bytes that arrive in shared memory, in the order of the box.
    fn read_far(&self, block: &mut Block, launch: &Launch<'_>) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes as usize];
        let allocation = self.allocation(launch);
        match (&self.far, allocation) {
            (Far::Shared(from), _) => read_block(block, *from, &mut bytes),
            (Far::Bytes(held), _) => bytes.copy_from_slice(held),
            (Far::Response(first), _) => {
                block.transfers.refused |= first.is_none();
                let [x, y, z] = first.unwrap_or([u32::MAX; 3]);
                for (to, word) in bytes.chunks_exact_mut(4).zip([x, y, z, first.is_some().into()]) {
                    to.copy_from_slice(&word.to_le_bytes());
                }
            }
            (Far::Linear(_, offset), Some(allocation)) => allocation.read(*offset, &mut bytes),
            (Far::Tile(_, offset, tile), _) => tile.visit(|dense, from, count| {
                let part = &mut bytes[dense as usize..(dense + count) as usize];
                match (from, allocation) {
                    (Some(from), Some(allocation)) => {
                        allocation.read(offset + from, part);
                        tile.convert(part);
                    }
                    _ => tile.fill(part),
                }
            }),
            _ => {}
        }
        bytes
    }

    /// Returns the bytes that leave shared memory, in the order of the box.
    pub(crate) fn read_near(&self, block: &mut Block) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes as usize];
        match &self.far {
            Far::Tile(.., tile) if tile.is_swizzled() => {
                let unit = tile.unit() as usize;
                for (dense, chunk) in (0..).step_by(unit).zip(bytes.chunks_mut(unit)) {
                    read_block(block, tile.shared(self.at, dense), chunk);
                }
            }
            _ => read_block(block, self.at, &mut bytes),
        }
        bytes
    }

    fn write_near(&self, block: &mut Block, bytes: &[u8]) {
        let swizzled = match &self.far {
            Far::Tile(.., tile) if tile.is_swizzled() => Some(tile),
            _ => None,
        };
        if let Some(tile) = swizzled {
            let unit = tile.unit() as usize;
            for (dense, chunk) in (0..).step_by(unit).zip(bytes.chunks(unit)) {
                write_block(block, tile.shared(self.at, dense), chunk);
            }
            return;
        }
        let Some(ElementReduction { op, bytes: size, mode }) = self.reduction else {
            return write_block(block, self.at, bytes);
        };
        for (at, new) in (self.at..).step_by(size.into()).zip(bytes.chunks_exact(size.into())) {
            let memory = shared_bytes(block);
            // SAFETY: the copy's bytes were checked to be shared memory, and begin at a multiple of 16.
            unsafe {
                let old = read_shared(memory, at, size);
                write_shared(memory, at, size, combined(op, size, mode, old, word(new), 0));
            }
        }
    }

    fn write_far(&self, launch: &Launch<'_>, bytes: &[u8]) {
        let Some(allocation) = self.allocation(launch) else { return };
        let part = |dense: u64, count: u64| &bytes[dense as usize..(dense + count) as usize];
        let Some(ElementReduction { op, bytes: size, mode }) = self.reduction else {
            // Rows of a box are written whole, which may be more than the tensor has; a linear copy is one run.
            let write = |dense: u64, at: u64, count: u64| {
                let room = allocation.bytes.saturating_sub(at);
                allocation.write(at, part(dense, count.min(room)));
            };
            return match &self.far {
                Far::Tile(_, offset, tile) => tile.visit_stores(|dense, at, count| write(dense, offset + at, count)),
                _ => self.for_global(write),
            };
        };
        self.for_global(|dense, at, count| {
            for (at, new) in (at..).step_by(size.into()).zip(part(dense, count).chunks_exact(size.into())) {
                // SAFETY: the copy's bytes were checked to lie in the allocation, and elements of the box are aligned.
                unsafe { allocation.update(at, size, |old| combined(op, size, mode, old, word(new), 0)) };
            }
        });
    }
}

/// An element of at most eight bytes.
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Copies bytes out of shared memory.
pub(crate) fn read_block(block: &mut Block, at: u64, into: &mut [u8]) {
    let memory = shared_bytes(block);
    assert!(at + into.len() as u64 <= block.shared_bytes, "the copy was checked");
    // SAFETY: just asserted; nothing else refers to the block's memory, which `&mut Block` has.
    unsafe { std::ptr::copy_nonoverlapping(memory.add(at as usize), into.as_mut_ptr(), into.len()) };
}

fn write_block(block: &mut Block, at: u64, from: &[u8]) {
    let memory = shared_bytes(block);
    assert!(at + from.len() as u64 <= block.shared_bytes, "the copy was checked");
    // SAFETY: as above.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), memory.add(at as usize), from.len()) };
}

impl Block {
    /// Begins a copy that a thread of the block, or of its cluster, has asked for.
    pub(crate) fn begin_transfer<M: Monitor>(
        &mut self,
        launch: &Launch<'_>,
        monitor: &mut M,
        mut transfer: Transfer,
    ) -> Checked<()> {
        let count = self.transfers.count;
        self.transfers.count += 1;
        transfer.turns = launch.asynchrony.turns(self.number, count);
        if let Completes::Barrier { of, .. } = transfer.completes
            && of != self.rank
        {
            // Only the other block, when it waits, can be told.
            transfer.turns = None;
            self.transfers.tells_others = true;
        }
        if transfer.turns == Some(0) {
            return self.make_transfer(launch, monitor, transfer);
        }
        if self.transfers.len() >= MAX_TRANSFERS {
            let first = self.transfers.under_way.remove(0);
            self.let_go(&first);
            self.make_transfer(launch, monitor, first)?;
        }
        self.transfers.timed |= transfer.turns.is_some();
        self.arrival_bytes += Transfers::bytes_of(&transfer);
        self.transfers.under_way.push(transfer);
        Ok(())
    }

    /// Releases a transfer that is no longer under way.
    fn let_go(&mut self, transfer: &Transfer) {
        self.arrival_bytes = self.arrival_bytes.saturating_sub(Transfers::bytes_of(transfer));
    }

    /// Moves the data of a transfer, and completes its mbarrier or group.
    fn make_transfer<M: Monitor>(
        &mut self,
        launch: &Launch<'_>,
        monitor: &mut M,
        mut transfer: Transfer,
    ) -> Checked<()> {
        self.charged += transfer.bytes / BYTES_AN_INSTRUCTION + 1;
        match transfer.completes {
            Completes::Barrier { of, at } => {
                let bytes = transfer.read_far(self, launch);
                transfer.write_near(self, &bytes);
                if let Some(sanitiser) = monitor.sanitiser() {
                    sanitiser.transferred(launch, self, &mut transfer);
                }
                if of == self.rank {
                    return self.complete(launch, monitor, at, (transfer.by, transfer.bytes));
                }
            }
            Completes::Group(_) => {
                let bytes = match &transfer.held {
                    Some(_) => None,
                    None => Some(transfer.read_near(self)),
                };
                if let Some(bytes) = bytes.as_ref().or(transfer.held.as_ref()) {
                    transfer.write_far(launch, bytes);
                }
                if let Some(sanitiser) = monitor.sanitiser() {
                    sanitiser.transferred(launch, self, &mut transfer);
                }
            }
        }
        Ok(())
    }

    /// Completes a transfer's bytes on an mbarrier of the block.
    fn complete<M: Monitor>(
        &mut self,
        launch: &Launch<'_>,
        monitor: &mut M,
        barrier: u64,
        (by, bytes): (Issuer, u64),
    ) -> Checked<()> {
        let Err(message) = complete(self, barrier, bytes) else { return Ok(()) };
        let Issuer { block, warp, lane, pc, .. } = by;
        let place = launch.whereabouts(pc, block, warp, 1 << lane, "asks for the copy");
        report(launch, monitor, by, invalid(lane, barrier, message).note(place))
    }

    /// Makes the transfers that `is_due`, in their order.
    fn make_transfers<M: Monitor>(
        &mut self,
        launch: &Launch<'_>,
        monitor: &mut M,
        is_due: impl FnMut(&mut Transfer) -> bool,
    ) -> Checked<()> {
        let due: Vec<Transfer> = self.transfers.under_way.extract_if(.., is_due).collect();
        for transfer in due {
            self.let_go(&transfer);
            self.make_transfer(launch, monitor, transfer)?;
        }
        Ok(())
    }

    /// Makes the transfers that the phase of the mbarrier at `at` waits for, all of whose arrivals have come. `is_over`
    /// says whether the phase is over.
    pub(crate) fn make_transfers_of_barrier<M: Monitor>(
        &mut self,
        launch: &Launch<'_>,
        monitor: &mut M,
        at: u64,
        is_over: impl Fn(&mut Self) -> bool,
    ) -> Checked<()> {
        let its = Completes::Barrier { of: self.rank, at };
        let is_its = |transfer: &Transfer| transfer.completes == its;
        while let Some(first) = self.transfers.under_way.iter().position(is_its)
            && !is_over(self)
        {
            let transfer = self.transfers.under_way.remove(first);
            self.let_go(&transfer);
            self.make_transfer(launch, monitor, transfer)?;
        }
        for rank in 0..self.peers.len() {
            while self.peers[rank].transfers.tells_others
                && let Some(first) = self.peers[rank].transfers.under_way.iter().position(is_its)
                && !is_over(self)
            {
                let peer = &mut self.peers[rank];
                let transfer = peer.transfers.under_way.remove(first);
                peer.let_go(&transfer);
                let told = (transfer.by, transfer.bytes);
                peer.make_transfer(launch, monitor, transfer)?;
                if let Some(shadow) = &mut self.shadow {
                    shadow.received(&told.0);
                }
                self.complete(launch, monitor, at, told)?;
            }
        }
        Ok(())
    }

    /// `cp.async.bulk.wait_group` of a thread that has committed that number of groups: completes all but the latest `n`;
    /// `read`: only their sources have to have been read.
    pub(crate) fn wait_for_groups<M: Monitor>(
        &mut self,
        launch: &Launch<'_>,
        monitor: &mut M,
        (warp, lane): (u32, usize),
        committed: u32,
        (n, read): (u32, bool),
    ) -> Checked<()> {
        let first = committed.saturating_sub(n);
        let is_due = |transfer: &Transfer| {
            transfer.is_of(warp, lane) && matches!(transfer.completes, Completes::Group(group) if group < first)
        };
        if !read {
            return self.make_transfers(launch, monitor, |transfer| is_due(transfer));
        }
        let mut all = std::mem::take(&mut self.transfers.under_way);
        for transfer in all.iter_mut().filter(|transfer| transfer.held.is_none() && is_due(transfer)) {
            self.charged += transfer.bytes / BYTES_AN_INSTRUCTION + 1;
            let before = Transfers::bytes_of(transfer);
            transfer.held = Some(transfer.read_near(self));
            if let Some(sanitiser) = monitor.sanitiser() {
                sanitiser.source_read(launch, self, transfer);
            }
            self.arrival_bytes += Transfers::bytes_of(transfer) - before;
        }
        self.transfers.under_way = all;
        Ok(())
    }

    /// Called when a warp of the block is about to get a turn: makes the transfers whose time has come.
    #[inline(always)]
    pub(crate) fn pass_time<M: Monitor>(&mut self, launch: &Launch<'_>, monitor: &mut M) -> Result<(), Box<Fault>> {
        if self.transfers.timed { self.pass_time_of_transfers(launch, monitor) } else { Ok(()) }
    }

    #[inline(never)]
    fn pass_time_of_transfers<M: Monitor>(&mut self, launch: &Launch<'_>, monitor: &mut M) -> Result<(), Box<Fault>> {
        let mut left = false;
        let is_due = |transfer: &mut Transfer| match &mut transfer.turns {
            Some(0) => true,
            Some(turns) => {
                *turns -= 1;
                left = true;
                false
            }
            None => false,
        };
        let made = self.make_transfers(launch, monitor, is_due);
        self.transfers.timed = left;
        self.at_fault(launch, made)
    }

    /// Makes all transfers that are left at the end of the block.
    pub(crate) fn finish_transfers<M: Monitor>(
        &mut self,
        launch: &Launch<'_>,
        monitor: &mut M,
    ) -> Result<(), Box<Fault>> {
        if self.transfers.under_way.is_empty() {
            return Ok(());
        }
        if let Some(sanitiser) = monitor.sanitiser() {
            sanitiser.never_awaited(launch, self);
        }
        let made = self.make_transfers(launch, monitor, |_| true);
        self.at_fault(launch, made)
    }

    /// A problem outside the instruction that is being executed.
    pub(crate) fn at_fault(&self, launch: &Launch<'_>, made: Checked<()>) -> Result<(), Box<Fault>> {
        made.map_err(|problem| {
            let first = launch.program.functions[launch.kernel.function as usize].start as usize;
            Box::new(launch.fault(*problem, first, self.index, 0))
        })
    }
}

/// Hands a problem of a transfer to the sanitiser, which goes on; without a sanitiser it is an error.
pub(crate) fn report<M: Monitor>(
    launch: &Launch<'_>,
    monitor: &mut M,
    by: Issuer,
    problem: Box<Problem>,
) -> Checked<()> {
    let Issuer { block, warp, pc, .. } = by;
    match monitor.sanitiser() {
        Some(sanitiser) => {
            sanitiser.report(At { launch, block, warp, pc }, *problem);
            Ok(())
        }
        None => Err(problem),
    }
}
