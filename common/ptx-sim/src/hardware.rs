//! The rules by which hardware (Volta to Hopper) moves memory: sectors of global and local memory, banks of shared memory.
//!
//! - [`sectors`]: how many 32-byte sectors a warp's access to global memory touches;
//! - [`wavefronts`]: how many passes its access to shared memory takes;
//! - [`local_sectors`]: the same as the first for local memory, whose threads are interleaved;
//! - [`matrix_wavefronts`]: passes of `ldmatrix` and `stmatrix`.

use crate::lanes::{each, lanes, mask_of};

/// Bytes of a sector: the smallest unit that global memory moves.
pub(crate) const SECTOR: u64 = 32;

/// Bytes of a line of four sectors.
pub(crate) const LINE: u64 = 128;

/// Banks of shared memory, each a word of 4 bytes wide.
pub(crate) const BANKS: usize = 32;

/// Number of distinct values; sorts them. Those of a warp mostly rise from lane to lane already.
#[inline(always)]
pub(crate) fn distinct(values: &mut [u64]) -> u64 {
    if !values.is_sorted() {
        values.sort_unstable();
    }
    u64::from(!values.is_empty()) + values.windows(2).map(|pair| u64::from(pair[0] != pair[1])).sum::<u64>()
}

/// Number of distinct pieces of `UNIT` bytes that contain the addresses of the lanes of `mask`, which is not empty.
pub(crate) fn pieces<const UNIT: u64>(addresses: &[u64; 32], mask: u32) -> u64 {
    let first = addresses[mask.trailing_zeros() as usize];
    distinct(&mut each(|lane| if mask >> lane & 1 == 1 { addresses[lane] } else { first } / UNIT))
}

/// Sectors of global memory that a request touches: the different 32-byte pieces that hold any byte of any lane, over the
/// whole warp, however wide the lanes' accesses are. An aligned access of up to 32 bytes lies in one sector.
#[inline]
pub(crate) fn sectors(addresses: &[u64; 32], mask: u32) -> u64 {
    pieces::<SECTOR>(addresses, mask)
}

/// Sectors of an atomic: lanes that share an address take turns, and each turn touches its sectors anew.
pub(crate) fn atomic_sectors(addresses: &[u64; 32], mask: u32) -> u64 {
    let mut rest = mask;
    let mut total = 0;
    while rest != 0 {
        let mut turn = rest;
        for lane in lanes(rest) {
            let same = mask_of(|other| addresses[other] == addresses[lane]) & rest;
            if same.trailing_zeros() as usize != lane {
                turn &= !(1 << lane);
            }
        }
        total += sectors(addresses, turn);
        rest &= !turn;
    }
    total
}

/// Sectors of local memory: word w of lane l lies at word 32 w + l, so that a warp whose lanes are at one offset touches
/// 4 sectors for each word.
#[inline]
pub(crate) fn local_sectors(addresses: &[u64; 32], bytes: u64, mask: u32) -> u64 {
    let of_word = |word| pieces::<1>(&each(|lane| ((addresses[lane] / 4 + word) << 2) | (lane as u64 / 8)), mask);
    (0..bytes.div_ceil(4)).map(of_word).sum()
}

/// Wavefronts of a request to shared memory, and the minimum. The memory has 32 banks of 4 bytes, and a wavefront gets
/// one word from each; lanes that want the same word share it. A warp with accesses of 8 bytes per lane goes in two
/// halves, with 16 bytes in four quarters; one without an active lane is free. Two neighbouring groups of a load
/// (`pairs`) go as one if every lane there wants the same as its neighbour, or every lane the same as the one after its
/// neighbour; measured on an H200, stores don't.
#[inline]
pub(crate) fn wavefronts(addresses: &[u64; 32], bytes: u64, mask: u32, pairs: bool) -> [u64; 2] {
    let words = bytes.div_ceil(4).clamp(1, 8) as usize;
    let first_words = each(|lane| (addresses[lane] / 4) as u32);
    let mut total = [0; 2];
    let mut start = 0;
    while start < 32 {
        let group = served_together(&first_words, words, mask, pairs, start);
        let active = mask >> start & (u32::MAX >> (32 - group));
        if active != 0 {
            total[0] += ways(&first_words[start..start + group], words as u32, active);
            total[1] += 1;
        }
        start += group;
    }
    total
}

/// Number of lanes from `start` on that shared memory serves together, see [`wavefronts`].
pub(crate) fn served_together(first_words: &[u32; 32], words: usize, mask: u32, pairs: bool, start: usize) -> usize {
    let group = 32 / words;
    let alike = |apart: usize| {
        (start..start + 2 * group).all(|lane| {
            let both = mask >> lane & mask >> (lane ^ apart) & 1 == 1;
            !both || first_words[lane] == first_words[lane ^ apart]
        })
    };
    let pair = pairs && words > 1 && start.is_multiple_of(2 * group) && (alike(1) || alike(2));
    if pair { 2 * group } else { group }
}

/// Wavefronts of `ldmatrix` and `stmatrix`, and the minimum: each matrix of eight 16-byte rows, whose addresses eight
/// lanes give, is one wavefront if its rows lie in different banks.
#[inline]
pub(crate) fn matrix_wavefronts(addresses: &[u64; 32], matrices: usize, mask: u32) -> [u64; 2] {
    wavefronts(addresses, 16, mask & (u32::MAX >> (32 - 8 * matrices.clamp(1, 4))), false)
}

/// Maximum number of distinct words that any bank has to give, where each active lane wants `count` words from its
/// first on.
#[inline]
fn ways(first_words: &[u32], count: u32, active: u32) -> u64 {
    let first = first_words[active.trailing_zeros() as usize];
    let apart = |lane: usize| (first_words[lane] ^ first) & (active >> lane & 1).wrapping_neg();
    // one row of all banks, for most accesses
    if (0..first_words.len()).fold(0, |bits, lane| bits | apart(lane)) < 32 && first % 32 + count <= 32 {
        return 1;
    }
    // The words seen so far, chained by bank.
    const END: u8 = u8::MAX;
    let (mut words, mut next, mut used) = ([0; 32], [END; 32], 0);
    let (mut heads, mut sizes) = ([END; 32], [0u8; 32]);
    for lane in lanes(active) {
        for word in (0..count).map(|word| first_words[lane].wrapping_add(word)) {
            let bank = word as usize % 32;
            let mut at = heads[bank];
            while at != END && words[usize::from(at)] != word {
                at = next[usize::from(at)];
            }
            if at == END {
                words[used] = word;
                next[used] = heads[bank];
                heads[bank] = used as u8;
                sizes[bank] += 1;
                used += 1;
            }
        }
    }
    u64::from(sizes.into_iter().max().unwrap_or(0))
}
