//! The generator's source of randomness: the same on every platform, permanently.

/// SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators").
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `count`.
    pub(super) fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.bits()) * count as u128) >> 64) as usize
    }

    /// True in `chance` of 100 cases.
    pub(super) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub(super) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// An integer of `bits` bits: arbitrary, small, next to a power of two, or at the end of a range.
    pub(super) fn integer(&mut self, bits: u32) -> u64 {
        let value = match self.below(6) {
            0 | 1 => self.bits(),
            2 => self.bits() % 70,
            3 => (self.bits() % 70).wrapping_neg(),
            4 => (1u64 << self.below(bits as usize)).wrapping_add(self.bits() % 3).wrapping_sub(1),
            _ => self.pick(&[0, 1, u64::MAX, 1 << (bits - 1), (1 << (bits - 1)) - 1, 0x80, 0xff, 0x8000]),
        };
        value & u64::MAX >> (64 - bits)
    }

    /// A binary float of this format: of any magnitude, near 1, with few digits, subnormal, or special.
    pub(super) fn float(&mut self, exponent_bits: u32, fraction_bits: u32) -> u64 {
        let (bias, top) = ((1 << (exponent_bits - 1)) - 1, (1u64 << exponent_bits) - 1);
        let (whole, fraction) = ((1u64 << fraction_bits) - 1, self.bits() & ((1 << fraction_bits) - 1));
        let near = bias - 6 + self.bits() % 13;
        let magnitude = match self.below(10) {
            0..=2 => ((self.bits() % top) << fraction_bits) | fraction,
            3..=5 => near << fraction_bits | fraction,
            6 => near << fraction_bits | fraction & !(whole >> 3),
            7 => fraction,
            8 => self.pick(&[0, 1, whole, whole + 1, bias << fraction_bits, (top << fraction_bits) - 1]),
            // Infinity, the canonical NaN, and NaNs with a payload, signalling ones too.
            _ => top << fraction_bits | self.pick(&[0, 0, whole, fraction]),
        };
        magnitude | (self.bits() & 1) << (exponent_bits + fraction_bits)
    }
}

/// FNV-1a of 64 bits, over any number of pieces.
#[derive(Clone, Copy)]
pub(super) struct Hash(u64);

impl Hash {
    pub(super) fn new() -> Hash {
        Hash(0xcbf2_9ce4_8422_2325)
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    }

    pub(super) fn hex(self) -> String {
        format!("{:016x}", self.0)
    }
}
