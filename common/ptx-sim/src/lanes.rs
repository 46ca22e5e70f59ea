//! The 32 lanes of a warp: values by lane, and masks with a bit for each.
//!
//! The loops have 32 iterations, no branches and no calls, so that the compiler turns them into vector instructions of
//! the function they are inlined into.

/// `f` of each lane. `std::array::from_fn` would do if it were always inlined.
#[inline(always)]
pub(crate) fn each<T: Copy + Default>(f: impl Fn(usize) -> T) -> [T; 32] {
    let mut values = [T::default(); 32];
    for (lane, value) in values.iter_mut().enumerate() {
        *value = f(lane);
    }
    values
}

/// The lanes for which `f` holds.
#[inline(always)]
pub(crate) fn mask_of(f: impl Fn(usize) -> bool) -> u32 {
    let mut mask = 0;
    for lane in 0..32 {
        mask |= u32::from(f(lane)) << lane;
    }
    mask
}

/// The lanes of `mask`, lowest first.
#[inline]
pub(crate) fn lanes(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let lane = mask.trailing_zeros();
            mask &= mask - 1;
            lane as usize
        })
    })
}

/// The lanes of `mask` for which `f` holds; it is not called for others.
#[inline]
pub(crate) fn lanes_where(mask: u32, mut f: impl FnMut(usize) -> bool) -> u32 {
    lanes(mask).fold(0, |found, lane| found | u32::from(f(lane)) << lane)
}
