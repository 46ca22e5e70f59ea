//! When asynchronous copies are made. PTX leaves that open between their instruction and the wait for them, and a kernel
//! must be right for all of it: this module, and no other, decides it.

/// When asynchronous copies (`cp.async`, `cp.async.bulk` and its kin) and products (`wgmma`) are made: all are legal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asynchrony {
    /// As late as PTX allows: when a wait asks for them, or the block ends. A kernel that does not wait reads the old
    /// contents.
    #[default]
    Late,
    /// At once.
    Early,
    /// At some later turn of the block, derived from the number: the same for the same number.
    Seeded(u64),
}

/// Maximum turns of the block's warps before a copy is made.
const TURNS: u64 = 16;

impl std::fmt::Display for Asynchrony {
    /// In the format that [`std::str::FromStr`] parses.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Late => f.write_str("late"),
            Self::Early => f.write_str("early"),
            Self::Seeded(seed) => write!(f, "seed={seed}"),
        }
    }
}

impl std::str::FromStr for Asynchrony {
    type Err = &'static str;

    /// `late`, `early` or `seed=N`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match (text, text.strip_prefix("seed=").map(str::parse)) {
            ("late", _) => Ok(Self::Late),
            ("early", _) => Ok(Self::Early),
            (_, Some(Ok(seed))) => Ok(Self::Seeded(seed)),
            _ => Err("it is late, early or seed=N"),
        }
    }
}

impl Asynchrony {
    /// Turns of the block's warps after which copy number `count` of a block is made, unless something waits for it first;
    /// 0: at once. `None`: only when something waits.
    pub(crate) fn turns(self, block: u64, count: u64) -> Option<u32> {
        match self {
            Self::Late => None,
            Self::Early => Some(0),
            Self::Seeded(seed) => Some((mixed(seed ^ mixed(block ^ mixed(count))) % TURNS) as u32),
        }
    }
}

/// A pseudo-random number (SplitMix64).
fn mixed(from: u64) -> u64 {
    let mut bits = from.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_decide_when_copies_are_made() {
        assert_eq!((Asynchrony::Late.turns(1, 2), Asynchrony::Early.turns(1, 2)), (None, Some(0)));
        let turns = |seed: u64| (0..100).map(|count| Asynchrony::Seeded(seed).turns(3, count)).collect::<Vec<_>>();
        assert_eq!(turns(5), turns(5));
        assert_ne!(turns(5), turns(6));
        assert!((0..16).all(|turn| turns(5).contains(&Some(turn))));
    }
}
