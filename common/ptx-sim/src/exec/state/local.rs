//! Local memory: the frames of a warp's threads.

use std::sync::Arc;

use crate::fault::Fault;
use crate::lanes::lanes;
use crate::memory::{Stored, UndefinedBits};

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
    /// Undefined values that were stored, which leave their bytes unwritten.
    undefined: UndefinedBits,
    sanitised: bool,
}

/// Number of a thread's word for [`UndefinedBits`], where the 32 threads' words at one place follow each other: it does not
/// change when memory grows.
fn word_of(lane: usize, at: u32) -> u64 {
    u64::from(at / 4) * 32 + lane as u64
}

/// A thread's words that some of `bytes` bytes from `at` on are in, each 32 after the last.
fn words_of(lane: usize, at: u32, bytes: u32) -> std::ops::Range<u64> {
    word_of(lane, at)..u64::from((at + bytes).div_ceil(4)) * 32
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
        self.undefined.clear();
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
                self.undefined.forget(words_of(lane, at, bytes), 32);
            }
        }
    }

    /// The undefined bits of the word at `at`, and their source.
    pub(crate) fn undefined_word(&self, lane: usize, at: u32) -> Option<(u32, &Arc<Fault>)> {
        self.undefined.word(word_of(lane, at))
    }

    /// Records that the value just stored at `at` is undefined. `has_room` as for [`UndefinedBits::store`].
    pub(crate) fn store_undefined(
        &mut self,
        lane: usize,
        at: u32,
        stored: &Stored<'_>,
        has_room: impl Fn(u64) -> bool,
    ) {
        let span = self.span(lane, at, stored.bits.len());
        if self.undefined.store(at.into(), (word_of(lane, at), 32), stored, has_room) {
            self.written[span].iter_mut().zip(stored.bits).for_each(|(written, bits)| *written = *bits == 0);
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
        let (source, target) = (self.span(lane, from, bytes as usize), self.span(lane, to, bytes as usize));
        self.data.copy_within(source.clone(), target.start);
        if !self.sanitised {
            return;
        }
        self.written.copy_within(source, target.start);
        let all: Vec<(u32, u8, Arc<Fault>)> = {
            let bytes = self.undefined.bytes(words_of(lane, from, bytes), 32);
            bytes.map(|byte| ((byte.word / 32 * 4 + byte.byte) as u32, byte.bits, Arc::clone(byte.source))).collect()
        };
        for (at, bits, source) in all.into_iter().filter(|(at, ..)| (from..from + bytes).contains(at)) {
            let at = at - from + to;
            let stored = Stored { bits: &[bits], source: &source, whole: false };
            self.undefined.store(at.into(), (word_of(lane, at), 32), &stored, |_| true);
        }
    }
}
