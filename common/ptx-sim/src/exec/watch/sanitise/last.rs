//! The last write of a place, for a thread that waits there.

use super::Sanitiser;
use crate::exec::state::block::Block;
use crate::exec::state::launch::Launch;
use crate::exec::state::problem::Earlier;
use crate::exec::state::shadow::*;
use crate::memory::Allocation;

impl Sanitiser {
    /// The last write of a place in an allocation, or in the block's shared memory; `None` if this launch has not written it.
    pub(crate) fn last_write(
        &mut self,
        launch: &Launch<'_>,
        block: &mut Block,
        allocation: Option<&Allocation>,
        [offset, bytes]: [u64; 2],
    ) -> Option<Earlier> {
        let mut shadow = block.shadow.take()?;
        let mut own = std::mem::take(&mut shadow.memory);
        let memory = match allocation {
            None => Some(&mut own),
            Some(allocation) => self.global.index(allocation, &launch.account).map(|index| &mut self.global.all[index]),
        };
        let last = memory.and_then(|memory| {
            let since = memory.since;
            let there = memory.touch(offset, bytes, &launch.account);
            let cells = if there { memory.open(&shadow, [offset, bytes], &launch.account) } else { None }?;
            let writes = cells.iter().map(|cell| cell[0]).filter(|write| write[1] > since && write[2] & WRITE != 0);
            let last = writes.max_by_key(|write| write[1])?;
            let [thread, _, place] = last;
            Some(Earlier {
                what: super::access_name(last),
                thread: u64::from(thread - 1),
                pc: (place >> FLAGS) as usize,
            })
        });
        shadow.memory = own;
        block.shadow = Some(shadow);
        last
    }
}
