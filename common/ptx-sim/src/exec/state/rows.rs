//! A warp's registers, 32 lanes at a time.
//!
//! Every loop here has 32 iterations, no branches and no calls, so that the compiler turns it into vector instructions
//! of the function it is inlined into. That is why all of it is `inline(always)`: the executor's loop is compiled once
//! for the machine's baseline and once with AVX2 and FMA (see `interpret`), and these helpers become part of each.

use crate::ir::R;
use crate::lanes::each;
use crate::scalar::single::flush_tiny;
use crate::scalar::{Mode, Rounding};

/// The mode of arithmetic with `.ftz` that rounds to nearest.
const FLUSHING: Mode = Mode {
    rounding: Rounding::Nearest,
    to_integral: false,
    ftz: true,
    saturate: false,
    approx: false,
    relu: false,
    propagate_nan: false,
    xorsign_abs: false,
    immediate: 0,
};

/// 32 lanes of 4 bytes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(32))]
pub(crate) struct Row(pub [u32; 32]);

/// The rows of a function's frame. Every access is checked: the lowering counts its rows, and should it ever miscount, a
/// stranger's kernel must not reach the host's memory.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    base: *mut Row,
    shapes: *mut Shape,
    count: u32,
}

/// Layout of the addresses in a register. Accesses to one place or to neighbouring words need no gather and one check
/// for all lanes: the tiled product gains half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Shape {
    /// Not determined since the register was written.
    #[default]
    Unknown,
    /// All lanes have the same.
    Same,
    /// Each lane has the next word.
    InOrder,
    /// Neither, but eight neighbouring lanes at a time do, as in rows of a narrow block.
    Grouped,
    Scattered,
}

impl Rows {
    /// # Safety
    /// `base` and `shapes` are followed by at least `count` rows and shapes. While this is in use they are reached through
    /// copies of these pointers only (other `Rows` among them), by one thread, and not through references to them: those
    /// that the methods make end before the method does.
    pub(crate) unsafe fn new(base: *mut Row, shapes: *mut Shape, count: u32) -> Self {
        Self { base, shapes, count }
    }

    /// Layout of the addresses in a register of 4 or 8 bytes. Most are used more often than they are computed, so the
    /// answer is kept.
    #[inline(always)]
    pub(crate) fn shape(self, row: R, wide: bool) -> Shape {
        if row >= self.count {
            no_such_row(row, self.count);
        }
        // SAFETY: checked to be one of the rows.
        let shape = unsafe { &mut *self.shapes.add(row as usize) };
        if *shape == Shape::Unknown {
            *shape = if wide { shape_of(&self.get64(row)) } else { shape_of(&self.get(row).map(u64::from)) };
        }
        *shape
    }

    #[inline(always)]
    fn narrow(self, row: R) -> *mut [u32; 32] {
        if row >= self.count {
            no_such_row(row, self.count);
        }
        // SAFETY: checked to be one of the rows (see `new`).
        unsafe { &raw mut (*self.base.add(row as usize)).0 }
    }

    /// A 64-bit register: two consecutive rows, aligned as rows are.
    #[inline(always)]
    fn wide(self, row: R) -> *mut [u64; 32] {
        if row >= self.count.saturating_sub(1) {
            no_such_row(row, self.count);
        }
        // SAFETY: both rows were checked.
        unsafe { self.base.add(row as usize).cast() }
    }

    /// A row about to be written: its shape is forgotten.
    #[inline(always)]
    fn written(self, row: R) -> *mut [u32; 32] {
        let to = self.narrow(row);
        // SAFETY: `narrow` checked the row.
        unsafe { *self.shapes.add(row as usize) = Shape::default() };
        to
    }

    /// Two rows about to be written as one register.
    #[inline(always)]
    fn written_wide(self, row: R) -> *mut [u64; 32] {
        let to = self.wide(row);
        // SAFETY: `wide` checked both rows.
        unsafe { *self.shapes.add(row as usize).cast::<[Shape; 2]>() = Default::default() };
        to
    }

    #[inline(always)]
    pub(crate) fn get(self, row: R) -> [u32; 32] {
        // SAFETY: `narrow` points to a row.
        unsafe { *self.narrow(row) }
    }

    #[inline(always)]
    pub(crate) fn get64(self, row: R) -> [u64; 32] {
        // SAFETY: `wide` points to two rows.
        unsafe { *self.wide(row) }
    }

    #[inline(always)]
    pub(crate) fn lane(self, row: R, lane: usize) -> u32 {
        // SAFETY: `narrow` points to a row.
        unsafe { (*self.narrow(row))[lane] }
    }

    /// One lane of a register of 4 or 8 bytes.
    #[inline(always)]
    pub(crate) fn lane_of(self, row: R, wide: bool, lane: usize) -> u64 {
        if wide {
            // SAFETY: `wide` points to two rows.
            unsafe { (*self.wide(row))[lane] }
        } else {
            u64::from(self.lane(row, lane))
        }
    }

    #[inline(always)]
    pub(crate) fn set_lane_of(self, row: R, wide: bool, lane: usize, value: u64) {
        // SAFETY: `wide` points to two rows, `narrow` to one.
        unsafe {
            if wide {
                (*self.written_wide(row))[lane] = value;
            } else {
                (*self.written(row))[lane] = value as u32;
            }
        }
    }

    /// Writes the lanes of `mask`.
    #[inline(always)]
    pub(crate) fn set(self, row: R, mask: u32, values: [u32; 32]) {
        // SAFETY: `narrow` points to a row.
        let to = unsafe { &mut *self.written(row) };
        if mask == u32::MAX {
            *to = values;
        } else {
            for lane in 0..32 {
                let keep = (mask >> lane & 1).wrapping_sub(1); // all ones where the lane is not in the mask
                to[lane] = to[lane] & keep | values[lane] & !keep;
            }
        }
    }

    /// Writes the lanes of `mask` of a 64-bit register.
    #[inline(always)]
    pub(crate) fn set64(self, row: R, mask: u32, values: [u64; 32]) {
        // SAFETY: `wide` points to two rows.
        let to = unsafe { &mut *self.written_wide(row) };
        if mask == u32::MAX {
            *to = values;
        } else {
            for lane in 0..32 {
                let keep = u64::from(mask >> lane & 1).wrapping_sub(1);
                to[lane] = to[lane] & keep | values[lane] & !keep;
            }
        }
    }

    #[inline(always)]
    pub(crate) fn map1(self, d: R, a: R, mask: u32, f: impl Fn(u32) -> u32) {
        let a = self.get(a);
        self.set(d, mask, each(|lane| f(a[lane])));
    }

    #[inline(always)]
    pub(crate) fn map2(self, d: R, a: R, b: R, mask: u32, f: impl Fn(u32, u32) -> u32) {
        let (a, b) = (self.get(a), self.get(b));
        self.set(d, mask, each(|lane| f(a[lane], b[lane])));
    }

    #[inline(always)]
    pub(crate) fn map3(self, d: R, [a, b, c]: [R; 3], mask: u32, f: impl Fn(u32, u32, u32) -> u32) {
        let (a, b, c) = (self.get(a), self.get(b), self.get(c));
        self.set(d, mask, each(|lane| f(a[lane], b[lane], c[lane])));
    }

    #[inline(always)]
    pub(crate) fn wide1(self, d: R, a: R, mask: u32, f: impl Fn(u64) -> u64) {
        let a = self.get64(a);
        self.set64(d, mask, each(|lane| f(a[lane])));
    }

    #[inline(always)]
    pub(crate) fn wide2(self, d: R, a: R, b: R, mask: u32, f: impl Fn(u64, u64) -> u64) {
        let (a, b) = (self.get64(a), self.get64(b));
        self.set64(d, mask, each(|lane| f(a[lane], b[lane])));
    }

    #[inline(always)]
    pub(crate) fn wide3(self, d: R, [a, b, c]: [R; 3], mask: u32, f: impl Fn(u64, u64, u64) -> u64) {
        let (a, b, c) = (self.get64(a), self.get64(b), self.get64(c));
        self.set64(d, mask, each(|lane| f(a[lane], b[lane], c[lane])));
    }

    /// 64-bit lanes shifted by 32-bit ones.
    #[inline(always)]
    pub(crate) fn shift64(self, d: R, a: R, b: R, mask: u32, f: impl Fn(u64, u32) -> u64) {
        let (a, b) = (self.get64(a), self.get(b));
        self.set64(d, mask, each(|lane| f(a[lane], b[lane])));
    }

    /// 32-bit lanes to 64-bit ones.
    #[inline(always)]
    pub(crate) fn widen2(self, d: R, a: R, b: R, mask: u32, f: impl Fn(u32, u32) -> u64) {
        let (a, b) = (self.get(a), self.get(b));
        self.set64(d, mask, each(|lane| f(a[lane], b[lane])));
    }

    #[inline(always)]
    pub(crate) fn f32_1(self, d: R, a: R, mask: u32, f: impl Fn(f32) -> f32) {
        self.map1(d, a, mask, |a| canonical(f(f32::from_bits(a))));
    }

    #[inline(always)]
    pub(crate) fn f32_2(self, d: R, a: R, b: R, mask: u32, ftz: bool, f: impl Fn(f32, f32) -> f32) {
        if ftz {
            self.map2(d, a, b, mask, |a, b| flush(canonical(f(flushed(a), flushed(b)))));
        } else {
            let (a, b) = (self.get(a), self.get(b));
            self.set(d, mask, all_canonical(each(|lane| f(f32::from_bits(a[lane]), f32::from_bits(b[lane])))));
        }
    }

    /// `f` rounds what `exact` has in f64, a sum's last bit sticky: with `.ftz` that decides whether a result is tiny.
    #[inline(always)]
    pub(crate) fn f32_3(
        self,
        d: R,
        sources: [R; 3],
        mask: u32,
        ftz: bool,
        f: impl Fn(f32, f32, f32) -> f32,
        exact: impl Fn(f64, f64, f64) -> f64,
    ) {
        let [a, b, c] = sources.map(|row| self.get(row));
        if !ftz {
            let [a, b, c] = [a, b, c].map(|row| row.map(f32::from_bits));
            self.set(d, mask, all_canonical(each(|lane| f(a[lane], b[lane], c[lane]))));
            return;
        }
        let [a, b, c] = [a, b, c].map(|row| row.map(flushed));
        let mut values = each(|lane| f(a[lane], b[lane], c[lane]));
        if any(|lane| values[lane].abs() == f32::MIN_POSITIVE) {
            for (lane, value) in values.iter_mut().enumerate() {
                *value = flush_tiny(FLUSHING, *value, exact(a[lane].into(), b[lane].into(), c[lane].into()));
            }
        }
        self.set(d, mask, all_canonical(values).map(flush));
    }
}

/// A function of its own that takes values: `assert!` would take addresses, and keep its operands in memory.
#[cold]
#[inline(never)]
fn no_such_row(row: R, count: u32) -> ! {
    panic!("row {row} of {count}");
}

#[inline(always)]
fn shape_of(addresses: &[u64; 32]) -> Shape {
    let (mut apart, mut displaced) = ([0; 4], [0; 4]);
    for (at, group) in addresses.as_chunks::<8>().0.iter().enumerate() {
        for lane in 0..8 {
            apart[at] |= group[lane] ^ group[0];
            displaced[at] |= group[lane] ^ group[0].wrapping_add(lane as u64 * 4);
        }
    }
    let follow = |step: u64| (1..4).all(|at| addresses[at * 8] == addresses[0].wrapping_add(step * at as u64));
    if apart == [0; 4] && follow(0) {
        Shape::Same
    } else if displaced == [0; 4] && follow(32) {
        Shape::InOrder
    } else if (0..4).all(|at| apart[at] == 0 || displaced[at] == 0) {
        Shape::Grouped
    } else {
        Shape::Scattered
    }
}

/// The bits of a result, NaN made canonical as hardware makes it.
#[inline(always)]
fn canonical(x: f32) -> u32 {
    if x.is_nan() { 0x7fff_ffff } else { x.to_bits() }
}

/// [`canonical`] of all lanes. A NaN is rare, so one check covers all lanes: a product in registers gains 7 %.
#[inline(always)]
fn all_canonical(values: [f32; 32]) -> [u32; 32] {
    if any(|lane| values[lane].is_nan()) {
        each(|lane| canonical(values[lane]))
    } else {
        each(|lane| values[lane].to_bits())
    }
}

/// Whether `f` holds for a lane; checked for two lanes at a time.
#[inline(always)]
fn any(f: impl Fn(usize) -> bool) -> bool {
    let mut any = false;
    for lane in 0..16 {
        any |= f(lane) | f(lane + 16);
    }
    any
}

/// Subnormals become zero of the same sign.
#[inline(always)]
fn flush(bits: u32) -> u32 {
    if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits }
}

#[inline(always)]
fn flushed(bits: u32) -> f32 {
    f32::from_bits(flush(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_told_apart() {
        let start = 0x7f00_0000_0010u64;
        let by_lane = |f: fn(u64) -> u64| each(|lane| start.wrapping_add(f(lane as u64)));
        assert_eq!(shape_of(&by_lane(|_| 0)), Shape::Same);
        assert_eq!(shape_of(&by_lane(|lane| lane * 4)), Shape::InOrder);
        assert_eq!(shape_of(&by_lane(|lane| lane / 16 * 1024)), Shape::Grouped);
        assert_eq!(shape_of(&by_lane(|lane| lane / 8 * 1024 + lane % 8 * 4)), Shape::Grouped);
        assert_eq!(shape_of(&by_lane(|lane| if lane < 8 { 0 } else { lane * 4 })), Shape::Grouped);
        assert_eq!(shape_of(&by_lane(|lane| lane * 8)), Shape::Scattered);
        for odd in 0..32 {
            let displaced = |step: u64| each(|lane| start + lane as u64 * step + u64::from(lane == odd));
            assert_eq!(shape_of(&displaced(0)), Shape::Scattered, "lane {odd}");
            assert_eq!(shape_of(&displaced(4)), Shape::Scattered, "lane {odd}");
        }
    }

    #[test]
    fn a_write_makes_the_shape_unknown() {
        let (mut memory, mut shapes) = ([Row::default(); 3], [Shape::default(); 3]);
        // SAFETY: three rows and three shapes, used by nothing else.
        let rows = unsafe { Rows::new(memory.as_mut_ptr(), shapes.as_mut_ptr(), 3) };
        let in_order = each(|lane| lane as u32 * 4);
        rows.set(2, u32::MAX, in_order);
        assert_eq!((rows.shape(0, true), rows.shape(2, false)), (Shape::Same, Shape::InOrder));
        rows.set64(0, u32::MAX, in_order.map(u64::from));
        assert_eq!(rows.shape(0, true), Shape::InOrder);
        rows.set_lane_of(0, true, 31, 0);
        rows.set(2, 1 << 31, [0; 32]);
        assert_eq!((rows.shape(0, true), rows.shape(2, false)), (Shape::Scattered, Shape::Scattered));
    }

    /// Two `Rows` of one warp in turn, and the warp itself between them: what Miri is to see (README.md).
    #[test]
    fn rows_share_their_warp() {
        use crate::exec::state::warp::{Frame, Warp};
        let mut warp = Warp::default();
        warp.set_rows(4);
        let outer = warp.frame_rows(Frame::default());
        let inner = warp.frame_rows(Frame { rows: 1, ..Frame::default() });
        outer.set(1, u32::MAX, each(|lane| lane as u32 * 4));
        inner.map1(1, 0, u32::MAX, |value| value + 1);
        assert_eq!(outer.shape(1, false), Shape::InOrder);
        warp.number += 1;
        let again = warp.frame_rows(Frame::default());
        again.set64(2, 1 << 31, [u64::MAX; 32]);
        outer.f32_2(3, 1, 2, 0xffff, false, |a, b| a + b);
        assert_eq!((inner.lane(0, 3), outer.lane(2, 3), inner.lane(1, 3)), (12, 13, 13));
        assert_eq!((outer.lane_of(2, true, 31), inner.shape(0, false)), (u64::MAX, Shape::InOrder));
    }

    #[test]
    fn rows_that_are_not_there_are_refused() {
        let (mut memory, mut shapes) = ([Row::default(); 2], [Shape::default(); 2]);
        // SAFETY: two rows and two shapes, used by nothing else.
        let rows = unsafe { Rows::new(memory.as_mut_ptr(), shapes.as_mut_ptr(), 2) };
        let rows = std::panic::AssertUnwindSafe(rows);
        let refused = |f: fn(Rows)| std::panic::catch_unwind(|| f(*rows)).is_err();
        assert!(refused(|rows| rows.set(2, 1, [0; 32])));
        assert!(refused(|rows| rows.set64(1, 1, [0; 32])));
        assert!(refused(|rows| _ = rows.shape(2, false)));
        assert!(refused(|rows| _ = rows.shape(1, true)));
    }
}
