//! Undefined bits of a result, from those of the operands, for operations that compute registers from registers. The rules
//! are those of Valgrind's memcheck (Seward, Nethercote: "Using Valgrind to detect undefined value errors with
//! bit-precision", 2005): exact for bitwise logic, shifts and comparisons that defined bits decide; a sum is undefined
//! from its lowest undefined bit on; everything else is undefined as a whole if any operand is.

use super::Register;
use crate::exec::state::scene::Scene;
use crate::ir::*;
use crate::lanes::{each, lanes};
use crate::scalar::Relation;

/// The undefined bits of each lane. Of a register of 32 bits, or of fewer, the upper ones mean nothing.
pub(super) type Lanes = [u64; 32];

/// Tables of logical functions, as `lop3` takes them.
const AND: u8 = 0xf0 & 0xcc;
const OR: u8 = 0xf0 | 0xcc;
const XOR: u8 = 0xf0 ^ 0xcc;

/// The value of an operand and its undefined bits.
#[derive(Clone, Copy, Default)]
struct Operand {
    value: u64,
    undefined: u64,
}

impl Operand {
    /// The smallest and the largest value that it may have.
    fn range(self) -> [u64; 2] {
        [self.value & !self.undefined, self.value | self.undefined]
    }
}

/// Undefined bits of the operation's result; a predicate is undefined if any bit is.
pub(super) fn of_result(scene: &Scene<'_, '_>, op: &Op, facts: &Facts, undefined: impl Fn(Register) -> Lanes) -> Lanes {
    let rows = scene.rows;
    let bits = |row: R| undefined(Register::Row(row));
    let operands = |row: R, wide: bool| -> [Operand; 32] {
        let undefined = if row == R::MAX { [0; 32] } else { bits(row) };
        std::array::from_fn(|lane| match row {
            R::MAX => Operand::default(),
            _ if wide => Operand { value: rows.lane_of(row, true, lane), undefined: undefined[lane] },
            _ => Operand { value: rows.lane(row, lane).into(), undefined: narrowed(undefined[lane]) },
        })
    };
    let one = |a: R, f: fn(u64) -> u64| bits(a).map(f);
    let two = |a: R, b: R, wide: bool, f: &dyn Fn(Operand, Operand) -> u64| -> Lanes {
        let (a, b) = (operands(a, wide), operands(b, wide));
        each(|lane| f(a[lane], b[lane]))
    };
    let three = |table: u8, [a, b, c]: [R; 3], wide: bool| -> Lanes {
        let (a, b, c) = (operands(a, wide), operands(b, wide), operands(c, wide));
        each(|lane| logic(table, [a[lane], b[lane], c[lane]]) & if wide { u64::MAX } else { u32::MAX.into() })
    };
    // The distance is a register of 32 bits.
    let shifted = |a: R, b: R, f: &dyn Fn(u64, u32) -> u64| -> Lanes {
        let (a, b) = (bits(a), operands(b, false));
        each(|lane| if b[lane].undefined != 0 { u64::MAX } else { f(a[lane], b[lane].value as u32) })
    };
    let product = |sources: &[R], wide: bool| -> Lanes {
        let all = sources.iter().fold([0; 32], |all, row| joined(all, bits(*row)));
        all.map(|bits| upwards(if wide { bits } else { narrowed(bits) }))
    };
    let compared = |relation: Relation, a: R, b: R, wide: bool, signed: bool| -> Lanes {
        let sign = if !signed { 0 } else { 1 << if wide { 63 } else { 31 } };
        two(a, b, wide, &|a, b| u64::from(!is_decided(relation, a, b, sign)))
    };
    match op {
        Op::Mov32 { a, .. } | Op::Mov64 { a, .. } | Op::Not32 { a, .. } | Op::Not64 { a, .. } => bits(*a),
        Op::PredMov { a, .. } => undefined(Register::Predicate(*a)),
        Op::Zext64 { a, .. } | Op::Trunc32 { a, .. } => one(*a, narrowed),
        Op::Sext64 { a, .. } => one(*a, |bits| bits as i32 as u64),
        Op::Unpack32 { a, shift, mask, .. } | Op::Unpack64 { a, shift, mask, .. } => {
            bits(*a).map(|bits| bits >> shift & u64::from(*mask))
        }
        Op::Pack(pack) => {
            let part = if pack.bits >= 64 { u64::MAX } else { (1 << pack.bits) - 1 };
            pack.parts.iter().enumerate().fold([0; 32], |all, (at, row)| {
                let bits = bits(*row);
                each(|lane| all[lane] | (bits[lane] & part) << (at * usize::from(pack.bits)))
            })
        }
        Op::Selp32 { a, b, p, negated, .. } | Op::Selp64 { a, b, p, negated, .. } => {
            let chosen = scene.warp.predicate(scene.frame_predicates, *p) ^ if *negated { u32::MAX } else { 0 };
            let wide = matches!(op, Op::Selp64 { .. });
            let (a, b, p) = (operands(*a, wide), operands(*b, wide), undefined(Register::Predicate(*p)));
            each(|lane| {
                let (a, b) = (a[lane], b[lane]);
                match p[lane] {
                    0 if chosen >> lane & 1 == 1 => a.undefined,
                    0 => b.undefined,
                    _ => a.undefined | b.undefined | a.value ^ b.value,
                }
            })
        }
        Op::PredLogic { op, a, b, not_a, not_b, .. } => {
            let operand = |p: P, negated: bool, lane: usize, undefined: &Lanes| {
                let bit = scene.warp.predicate(scene.frame_predicates, p) >> lane & 1;
                Operand { value: u64::from(bit) ^ u64::from(negated), undefined: u64::from(undefined[lane] != 0) }
            };
            let (of_a, of_b) = (undefined(Register::Predicate(*a)), undefined(Register::Predicate(*b)));
            each(|lane| {
                let (a, b) = (operand(*a, *not_a, lane, &of_a), operand(*b, *not_b, lane, &of_b));
                logic(table_of(*op), [a, b, Operand::default()]) & 1
            })
        }
        Op::RowToPred { a, .. } => {
            // One defined bit that is set decides.
            operands(*a, false).map(|a| if a.value & !a.undefined != 0 { 0 } else { a.undefined })
        }

        Op::And32 { a, b, .. } => three(AND, [*a, *b, R::MAX], false),
        Op::Or32 { a, b, .. } => three(OR, [*a, *b, R::MAX], false),
        Op::Xor32 { a, b, .. } => three(XOR, [*a, *b, R::MAX], false),
        Op::And64 { a, b, .. } => three(AND, [*a, *b, R::MAX], true),
        Op::Or64 { a, b, .. } => three(OR, [*a, *b, R::MAX], true),
        Op::Xor64 { a, b, .. } => three(XOR, [*a, *b, R::MAX], true),
        Op::Lop3 { a, b, c, table, .. } => three(*table, [*a, *b, *c], false),
        Op::Shl32 { a, b, .. } => shifted(*a, *b, &|a, b| u64::from((a as u32).checked_shl(b).unwrap_or(0))),
        Op::ShrU32 { a, b, .. } => shifted(*a, *b, &|a, b| u64::from((a as u32).checked_shr(b).unwrap_or(0))),
        Op::ShrS32 { a, b, .. } => shifted(*a, *b, &|a, b| (a as i32 >> b.min(31)) as u32 as u64),
        Op::Shl64 { a, b, .. } => shifted(*a, *b, &|a, b| a.checked_shl(b).unwrap_or(0)),
        Op::ShrU64 { a, b, .. } => shifted(*a, *b, &|a, b| a.checked_shr(b).unwrap_or(0)),
        Op::ShrS64 { a, b, .. } => shifted(*a, *b, &|a, b| (a as i64 >> b.min(63)) as u64),
        Op::Add32 { a, b, .. } => two(*a, *b, false, &sum).map(narrowed),
        Op::Sub32 { a, b, .. } => two(*a, *b, false, &difference).map(narrowed),
        Op::Add64 { a, b, .. } => two(*a, *b, true, &sum),
        Op::Sub64 { a, b, .. } => two(*a, *b, true, &difference),
        Op::Neg32 { a, .. } => product(&[*a], false),
        Op::Mul32 { a, b, .. } | Op::MulWideU32 { a, b, .. } | Op::MulWideS32 { a, b, .. } => product(&[*a, *b], false),
        Op::Mad32 { a, b, c, .. } => product(&[*a, *b, *c], false),
        Op::MadWideU32 { a, b, c, .. } | Op::MadWideS32 { a, b, c, .. } => {
            joined(product(&[*a, *b], false), product(&[*c], true))
        }
        Op::Mul64 { a, b, .. } => product(&[*a, *b], true),
        Op::Mad64 { a, b, c, .. } => product(&[*a, *b, *c], true),
        Op::Cvta { a, wide, .. } => product(&[*a], *wide),

        Op::SetpU32 { cmp, a, b, .. } => compared(*cmp, *a, *b, false, false),
        Op::SetpS32 { cmp, a, b, .. } => compared(*cmp, *a, *b, false, true),
        Op::SetpU64 { cmp, a, b, .. } => compared(*cmp, *a, *b, true, false),
        Op::SetpS64 { cmp, a, b, .. } => compared(*cmp, *a, *b, true, true),
        Op::SetpFull(setp) => {
            let keep = u64::MAX >> (64 - 8 * u32::from(setp.bytes.clamp(1, 8)));
            let found = any(&[setp.a, setp.b].map(|row| bits(row).map(|bits| bits & keep)));
            let Some((op, p, negated)) = setp.combine else { return found };
            let with = scene.warp.predicate(scene.frame_predicates, p) ^ if negated { u32::MAX } else { 0 };
            let of_with = undefined(Register::Predicate(p));
            each(|lane| {
                let with = Operand { value: u64::from(with >> lane & 1), undefined: u64::from(of_with[lane] != 0) };
                // The comparison may come out either way, unless it is defined; then only the other side counts.
                let undefined = if found[lane] != 0 { 1 } else { 0 };
                let either = |value| logic(table_of(op), [Operand { value, undefined }, with, Operand::default()]) & 1;
                either(0) | either(1)
            })
        }

        Op::HalfMath(HalfMath { op, a, b, c, packed: true, .. }) => {
            let c = if *op == HalfOp::Fma { bits(*c) } else { [0; 32] };
            let all = joined(joined(bits(*a), bits(*b)), c);
            all.map(|bits| [0xffff, 0xffff_0000].into_iter().filter(|half| bits & half != 0).sum())
        }
        Op::Map(map) if map.integer => {
            let [a, b, c] = [0, 1, 2].map(|at| {
                let keep = u64::MAX >> (64 - 8 * u32::from(map.source_bytes[at].clamp(1, 8)));
                operands(map.sources[at], map.source_wide[at])
                    .map(|Operand { value, undefined }| Operand { value: value & keep, undefined: undefined & keep })
            });
            let width = if map.d_wide { u64::MAX } else { u32::MAX.into() };
            let mut result = [0; 32];
            lanes(scene.active).for_each(|lane| result[lane] = of_map(map, [a[lane], b[lane], c[lane]]) & width);
            result
        }
        Op::Carry(carry) => {
            let all = any(&[carry.a, carry.b, carry.c].map(|row| if row == R::MAX { [0; 32] } else { bits(row) }));
            if carry.carry_in { any(&[all, undefined(Register::Carry)]) } else { all }
        }
        _ => {
            let rows = facts.reads.iter().map(|row| Register::Row(*row));
            let predicates = facts.tests.iter().map(|p| Register::Predicate(*p));
            any(&[rows.chain(predicates).fold([0; 32], |all, from| joined(all, undefined(from)))])
        }
    }
}

fn narrowed(bits: u64) -> u64 {
    bits & u64::from(u32::MAX)
}

fn joined(a: Lanes, b: Lanes) -> Lanes {
    each(|lane| a[lane] | b[lane])
}

/// All bits of the lanes that have an undefined one.
fn any(all: &[Lanes]) -> Lanes {
    let bits = all.iter().copied().fold([0; 32], joined);
    bits.map(|bits| if bits == 0 { 0 } else { u64::MAX })
}

/// The lowest bit that is set, and all above it: as far as a carry may go.
fn upwards(bits: u64) -> u64 {
    bits | bits.wrapping_neg()
}

fn sum(a: Operand, b: Operand) -> u64 {
    let [[low_a, high_a], [low_b, high_b]] = [a.range(), b.range()];
    a.undefined | b.undefined | low_a.wrapping_add(low_b) ^ high_a.wrapping_add(high_b)
}

fn difference(a: Operand, b: Operand) -> u64 {
    let [[low_a, high_a], [low_b, high_b]] = [a.range(), b.range()];
    a.undefined | b.undefined | low_a.wrapping_sub(high_b) ^ high_a.wrapping_sub(low_b)
}

fn table_of(op: BoolOp) -> u8 {
    match op {
        BoolOp::And => AND,
        BoolOp::Or => OR,
        BoolOp::Xor => XOR,
    }
}

/// Bits of a logical function that come out as 0 for some values of the undefined bits and as 1 for others.
fn logic(table: u8, operands: [Operand; 3]) -> u64 {
    let mut possible = [0; 2];
    for index in 0..8u8 {
        let can_be = |at: usize| {
            let Operand { value, undefined } = operands[at];
            undefined | if index >> (2 - at) & 1 == 1 { value } else { !value }
        };
        possible[usize::from(table >> index & 1)] |= can_be(0) & can_be(1) & can_be(2);
    }
    possible[0] & possible[1]
}

/// Whether a comparison comes out alike for all values of the undefined bits. `sign`: the sign bit, if the values have one.
fn is_decided(relation: Relation, a: Operand, b: Operand, sign: u64) -> bool {
    if a.undefined | b.undefined == 0 {
        return true;
    }
    if matches!(relation, Relation::Eq | Relation::Ne) {
        return (a.value ^ b.value) & !(a.undefined | b.undefined) != 0;
    }
    // In the order of unsigned values, where signed ones change their sign bits.
    let [a, b] = [a, b].map(|operand| Operand { value: operand.value ^ sign, ..operand }.range());
    relation.holds(a[0], b[1]) == relation.holds(a[1], b[0])
}

/// Undefined bits of a function of integers whose form is not known: all that change when one undefined bit does. That is
/// exact where bits are only moved (`prmt`, `bfe`, `bfi`, `shf`, `brev`, `cvt`).
fn of_map(map: &Map, operands: [Operand; 3]) -> u64 {
    if operands.iter().all(|operand| operand.undefined == 0) {
        return 0;
    }
    let values = operands.map(|operand| operand.value);
    let result = map.apply(values);
    let mut changed = 0;
    for (at, operand) in operands.iter().enumerate() {
        let mut rest = operand.undefined;
        while rest != 0 {
            let mut values = values;
            values[at] ^= rest & rest.wrapping_neg();
            changed |= result ^ map.apply(values);
            rest &= rest - 1;
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn some(value: u64, undefined: u64) -> Operand {
        Operand { value, undefined }
    }

    #[test]
    fn defined_bits_decide_logic() {
        let nothing = Operand::default();
        assert_eq!(logic(AND, [some(0, 0xff), some(0x0f, 0), nothing]), 0x0f);
        assert_eq!(logic(OR, [some(0, 0xff), some(0x0f, 0), nothing]), 0xf0);
        assert_eq!(logic(XOR, [some(0, 0xf0), some(0xff, 0x01), nothing]), 0xf1);
        // A bit that is chosen by another.
        assert_eq!(logic(0xca, [some(0xff00, 0), some(0, 0x1010), some(0, 0x0101)]), 0x1001);
    }

    #[test]
    fn sums_are_undefined_from_the_lowest_undefined_bit_as_far_as_carries_go() {
        assert_eq!(sum(some(0, 0xf0), some(3, 0)), 0xf0);
        assert_eq!(sum(some(0, 0xf0), some(0x10, 0)), 0x1f0);
        assert_eq!(difference(some(0x100, 0), some(0, 0xf0)), 0x1f0);
        assert_eq!(upwards(0b100), !0b11);
    }

    #[test]
    fn comparisons_that_no_undefined_bit_changes_are_defined() {
        let sign = 1 << 31;
        assert!(is_decided(Relation::Lt, some(0, 0xff), some(0x100, 0), 0));
        assert!(!is_decided(Relation::Lt, some(0, 0x1ff), some(0x100, 0), 0));
        assert!(is_decided(Relation::Ge, some(sign, 0xff), some(0, 0), sign));
        assert!(!is_decided(Relation::Ge, some(0, sign), some(0, 0), sign));
        assert!(is_decided(Relation::Ne, some(1, 0xf0), some(2, 0), 0));
        assert!(!is_decided(Relation::Eq, some(1, 0xf0), some(1, 0), 0));
    }
}
