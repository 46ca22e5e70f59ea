//! Local memory: the frames of a warp's threads.

use crate::lanes::lanes;

/// Local memory of a warp's 32 threads, each with the same number of bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Local {
    /// Bytes per thread that any frame has reached so far: an access beyond is out of bounds.
    pub(crate) bytes: u32,
    /// Allocated bytes per thread.
    capacity: u32,
    data: Vec<u8>,
    /// Whether each byte was ever written; empty unless a sanitiser asks.
    written: Vec<bool>,
    sanitised: bool,
}

impl Local {
    pub(crate) fn reset(&mut self, bytes: u32, sanitised: bool) {
        self.bytes = bytes;
        self.capacity = bytes;
        self.data.clear();
        self.data.resize(bytes as usize * 32, 0);
        self.sanitised = sanitised;
        self.written.clear();
        self.written.resize(if sanitised { self.data.len() } else { 0 }, false);
    }

    /// Additional host memory that [`Self::grow`] takes, in bytes.
    pub(crate) fn growth(&self, bytes: u32) -> u64 {
        if bytes <= self.capacity {
            return 0;
        }
        let more = bytes.max(self.capacity.saturating_mul(2)) - self.capacity;
        u64::from(more) * 32 * if self.sanitised { 2 } else { 1 }
    }

    /// Makes room for `bytes` bytes per thread and keeps the contents.
    pub(crate) fn grow(&mut self, bytes: u32) {
        self.bytes = self.bytes.max(bytes);
        if bytes <= self.capacity {
            return;
        }
        let new = bytes.max(self.capacity.saturating_mul(2));
        fn spread<T: Copy + Default>(old: &[T], bytes: u32, new: u32) -> Vec<T> {
            let mut all = vec![T::default(); new as usize * 32];
            if bytes != 0 {
                for (from, to) in old.chunks(bytes as usize).zip(all.chunks_mut(new as usize)) {
                    to[..from.len()].copy_from_slice(from);
                }
            }
            all
        }
        self.data = spread(&self.data, self.capacity, new);
        if self.sanitised {
            self.written = spread(&self.written, self.capacity, new);
        }
        self.capacity = new;
    }

    #[inline]
    fn span(&self, lane: usize, at: u32, bytes: usize) -> std::ops::Range<usize> {
        assert!(at as usize + bytes <= self.bytes as usize, "local memory of {} bytes", self.bytes);
        let start = lane * self.capacity as usize + at as usize;
        start..start + bytes
    }

    /// Marks the bytes at `at` as unwritten: they are those of a new frame, or no longer a frame's.
    pub(crate) fn forget(&mut self, mask: u32, at: u32, bytes: u32) {
        if self.sanitised {
            for lane in lanes(mask) {
                let span = self.span(lane, at, bytes as usize);
                self.written[span].fill(false);
            }
        }
    }

    /// Marks the bytes at `at` as written, whatever they hold.
    pub(crate) fn assume_written(&mut self, lane: usize, at: u32, bytes: usize) {
        if self.sanitised {
            let span = self.span(lane, at, bytes);
            self.written[span].fill(true);
        }
    }

    /// Whether all those bytes were written, as far as a sanitiser keeps track.
    pub(crate) fn is_written(&self, lane: usize, at: u32, bytes: usize) -> bool {
        !self.sanitised || self.written[self.span(lane, at, bytes)].iter().all(|written| *written)
    }

    #[inline]
    pub(crate) fn read(&self, lane: usize, at: u32, into: &mut [u8]) {
        into.copy_from_slice(&self.data[self.span(lane, at, into.len())]);
    }

    #[inline]
    pub(crate) fn write(&mut self, lane: usize, at: u32, from: &[u8]) {
        let span = self.span(lane, at, from.len());
        if self.sanitised {
            self.written[span.clone()].fill(true);
        }
        self.data[span].copy_from_slice(from);
    }

    pub(crate) fn copy(&mut self, lane: usize, from: u32, to: u32, bytes: u32) {
        let (from, to) = (self.span(lane, from, bytes as usize), self.span(lane, to, bytes as usize));
        if self.sanitised {
            self.written.copy_within(from.clone(), to.start);
        }
        self.data.copy_within(from, to.start);
    }
}
