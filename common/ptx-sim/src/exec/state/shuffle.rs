//! Source lane of a shuffle.

use crate::ir::ShflMode;

/// The lane that `lane` reads from, and whether that is in range (PTX ISA, "shfl.sync").
#[inline(always)]
pub(crate) fn source_of(mode: ShflMode, lane: usize, b: u32, c: u32) -> (usize, bool) {
    let at = lane as u32;
    let (offset, clamp, segment) = (b & 31, c & 31, c >> 8 & 31);
    let max = (at & segment) | (clamp & !segment);
    let min = at & segment;
    let (source, inside) = match mode {
        ShflMode::Up => (at.wrapping_sub(offset), at as i32 - offset as i32 >= max as i32),
        ShflMode::Down => (at + offset, at + offset <= max),
        ShflMode::Bfly => (at ^ offset, at ^ offset <= max),
        ShflMode::Idx => {
            let source = min | (offset & !segment);
            (source, source <= max)
        }
    };
    (if inside { source as usize & 31 } else { lane }, inside)
}
