//! Undefined bits of memory: what a kernel has stored without ever having defined it, such as the padding of a struct.
//!
//! A byte with such a bit counts as unwritten, like one that nothing was stored to. This says which of its bits are
//! undefined, so that a bit-field is defined beside others that are not, and where the value came from.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::fault::Fault;

/// Words of 4 bytes in a page.
const PAGE: u64 = 256;

type Page = Box<[Word]>;

/// Maximum number of sources; beyond, the last one stands for further ones.
const MAX_SOURCES: usize = 1 << 12;

#[derive(Clone, Copy, Debug, Default)]
struct Word {
    bits: u32,
    /// Number of the source, from 1 on; 0: none.
    source: u16,
    whole: bool,
}

/// Undefined bits of a memory's words.
#[derive(Clone, Debug, Default)]
pub(crate) struct UndefinedBits {
    /// Pages by number; one exists once an undefined value was stored there.
    pages: BTreeMap<u64, Page>,
    /// Pages of an earlier block, whose host memory has been charged.
    spare: Vec<Page>,
    sources: Vec<Arc<Fault>>,
}

/// An undefined value that is stored.
pub(crate) struct Stored<'v> {
    /// The undefined bits of each of its bytes.
    pub bits: &'v [u8],
    /// The read that brought it, as a finding.
    pub source: &'v Arc<Fault>,
    /// Whether nothing of it is defined. Otherwise it may be padding beside members of a struct.
    pub whole: bool,
}

/// A byte that an undefined value was stored to.
pub(crate) struct UndefinedByte<'u> {
    /// Number of its word, and of the byte in it.
    pub word: u64,
    pub byte: u64,
    pub bits: u8,
    pub source: &'u Arc<Fault>,
    /// As in [`Stored`].
    pub whole: bool,
}

impl UndefinedBits {
    pub(crate) fn clear(&mut self) {
        while let Some((_, page)) = self.pages.pop_first() {
            self.spare.push(page);
        }
        self.sources.clear();
    }

    /// The undefined bits of a word, and their source; `None` if no undefined value was stored there.
    pub(crate) fn word(&self, at: u64) -> Option<(u32, &Arc<Fault>)> {
        let word = self.pages.get(&(at / PAGE))?[(at % PAGE) as usize];
        Some((word.bits, self.sources.get(usize::from(word.source).checked_sub(1)?)?))
    }

    /// Records a store to `at`, where the words follow each other from `first` on in steps of `step`. `has_room` is asked for
    /// the host memory of a new page; if there is none, the value is forgotten. Returns whether it was recorded.
    pub(crate) fn store(
        &mut self,
        at: u64,
        (first, step): (u64, u64),
        stored: &Stored<'_>,
        has_room: impl Fn(u64) -> bool,
    ) -> bool {
        let known = self.sources.iter().rposition(|known| Arc::ptr_eq(known, stored.source));
        // A later launch finds the same again.
        let known = known.or_else(|| self.sources.iter().rposition(|known| known == stored.source));
        let source = known.unwrap_or_else(|| {
            if self.sources.len() < MAX_SOURCES {
                self.sources.push(Arc::clone(stored.source));
            }
            self.sources.len() - 1
        });
        let end = at + stored.bits.len() as u64;
        let mut word = at / 4;
        while word < end.div_ceil(4) {
            let number = |word: u64| first + (word - at / 4) * step;
            let here = number(word) / PAGE;
            let page = match self.pages.entry(here) {
                std::collections::btree_map::Entry::Occupied(page) => page.into_mut(),
                std::collections::btree_map::Entry::Vacant(page) => {
                    let words = match self.spare.pop() {
                        Some(mut words) => {
                            words.fill(Word::default());
                            words
                        }
                        None if has_room(PAGE * size_of::<Word>() as u64) => {
                            vec![Word::default(); PAGE as usize].into()
                        }
                        None => return false,
                    };
                    page.insert(words)
                }
            };
            while word < end.div_ceil(4) && number(word) / PAGE == here {
                let (mut known, mut bits) = (u32::MAX, 0);
                for byte in (4 * word).max(at)..(4 * word + 4).min(end) {
                    known &= !(0xff << (byte % 4 * 8));
                    bits |= u32::from(stored.bits[(byte - at) as usize]) << (byte % 4 * 8);
                }
                let place = &mut page[(number(word) % PAGE) as usize];
                let bits = place.bits & known | bits;
                *place = Word { bits, source: source as u16 + 1, whole: stored.whole };
                word += 1;
            }
        }
        true
    }

    /// The words of a range that lie in a page, in steps of `step`, which divides [`PAGE`]: number, and place in the page.
    fn steps(page: u64, words: Range<u64>, step: u64) -> impl Iterator<Item = (u64, usize)> {
        let base = page * PAGE;
        let first = words.start.max(base + words.start % step);
        (first..words.end.min(base + PAGE)).step_by(step as usize).map(move |number| (number, (number - base) as usize))
    }

    /// The pages of a range of words.
    fn pages_of(words: &Range<u64>) -> Range<u64> {
        words.start / PAGE..words.end.div_ceil(PAGE).max(words.start / PAGE)
    }

    /// Forgets what is known of words, in steps of `step`.
    pub(crate) fn forget(&mut self, words: Range<u64>, step: u64) {
        for (page, all) in self.pages.range_mut(Self::pages_of(&words)) {
            Self::steps(*page, words.clone(), step).for_each(|(_, place)| all[place] = Word::default());
        }
    }

    /// The undefined bytes of words, in steps of `step`, that an undefined value was stored to.
    pub(crate) fn bytes(&self, words: Range<u64>, step: u64) -> impl Iterator<Item = UndefinedByte<'_>> {
        let pages = self.pages.range(Self::pages_of(&words));
        let words = pages.flat_map(move |(page, all)| {
            Self::steps(*page, words.clone(), step)
                .map(|(number, place)| (number, all[place]))
                .filter(|(_, word)| word.bits != 0)
        });
        words.flat_map(move |(number, word)| {
            let bytes = word.bits.to_le_bytes().into_iter().enumerate().filter(|(_, bits)| *bits != 0);
            bytes.filter_map(move |(byte, bits)| {
                let source = self.sources.get(usize::from(word.source).checked_sub(1)?)?;
                Some(UndefinedByte { word: number, byte: byte as u64, bits, source, whole: word.whole })
            })
        })
    }
}
