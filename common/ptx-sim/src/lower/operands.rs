//! Operands: registers, predicates, immediates, addresses and vectors as rows.

use super::function::FunctionLowering;
use super::module::{RESERVED_SHARED, function_address};
use super::symbols::{Lower, Register, Symbol, invalid, unsupported};
use crate::ast::Operand;
use crate::ir::*;
use crate::scalar::Scalar;

impl<'a> FunctionLowering<'_, 'a> {
    pub(super) fn constant(&mut self, value: ConstantValue, wide: bool) -> R {
        if let Some(row) = self.constants.get(&(value, wide)) {
            return *row;
        }
        let row = self.temporary(wide);
        self.constants.insert((value, wide), row);
        self.constant_list.push(Constant { row, wide, value });
        row
    }

    pub(super) fn bits(&mut self, value: u64, wide: bool) -> R {
        self.constant(ConstantValue::Bits(value), wide)
    }

    pub(super) fn register_named(&mut self, name: &'a str) -> Lower<Option<Register>> {
        if let Some((vector, element)) = name.rsplit_once('.') {
            let Some(Symbol::Register(Register::Vector { row, ty, count })) = self.lookup(vector) else {
                return Ok(None);
            };
            let index = match element {
                "x" | "r" => 0,
                "y" | "g" => 1,
                "z" | "b" => 2,
                "w" | "a" => 3,
                _ => return invalid(format!("`{name}`: a vector has elements x, y, z and w")),
            };
            if index >= count {
                return invalid(format!("`{vector}` has {count} elements"));
            }
            return Ok(Some(Register::Row { row: row + index * rows_of(ty), ty }));
        }
        Ok(match self.lookup(name) {
            Some(Symbol::Register(register)) => Some(register),
            _ => None,
        })
    }

    /// The error for an unknown name. It may be a special register that is newer than this simulator: then it ends in no
    /// number, or in one that counts no registers of the function.
    fn no_register<T>(&self, name: &str) -> Lower<T> {
        let prefix = name.trim_end_matches(|last: char| last.is_ascii_digit());
        let words = prefix.trim_start_matches('%').split('_').filter(|word| word.len() > 1).count();
        let counted = self.scopes.iter().any(|scope| scope.families.contains_key(prefix));
        if name.starts_with('%') && !counted && (name.contains('.') || prefix == name || words > 1) {
            return unsupported(format!("the special register {name}"));
        }
        invalid(format!("there is no register `{name}`"))
    }

    pub(super) fn predicate_named(&mut self, name: &'a str) -> Lower<P> {
        match self.register_named(name)? {
            Some(Register::Predicate(predicate)) => Ok(predicate),
            Some(_) => invalid(format!("`{name}` is not a predicate")),
            None => self.no_register(name),
        }
    }

    /// A source predicate: a register, negated or not, or a constant 0 or 1.
    pub(super) fn predicate(&mut self, operand: &Operand<'a>) -> Lower<(P, bool)> {
        match operand {
            Operand::Name(name) => Ok((self.predicate_named(name)?, false)),
            Operand::Not(name) => Ok((self.predicate_named(name)?, true)),
            Operand::Int(value) => {
                self.predicates += 1;
                let d = self.predicates - 1;
                self.emit_unguarded(Op::PredSet { d, value: *value != 0 });
                Ok((d, false))
            }
            _ => invalid("a predicate is expected"),
        }
    }

    /// A destination predicate; `None` for the sink `_`.
    pub(super) fn predicate_or_sink(&mut self, operand: &Operand<'a>) -> Lower<Option<P>> {
        match operand {
            Operand::Name("_") => Ok(None),
            Operand::Name(name) => self.predicate_named(name).map(Some),
            _ => invalid("a predicate register is expected"),
        }
    }

    /// A register of any type: its row and declared type.
    pub(super) fn any_register(&mut self, operand: &Operand<'a>) -> Lower<(R, Scalar)> {
        let Operand::Name(name) = operand else { return invalid("a register is expected here") };
        match self.register_named(name)? {
            Some(Register::Row { row, ty }) => Ok((row, ty)),
            Some(Register::Predicate(_)) => invalid(format!("`{name}` is a predicate")),
            Some(Register::Vector { .. }) => invalid(format!("`{name}` is a vector")),
            None => self.no_register(name),
        }
    }

    /// The destination register of a value of type `ty`; the sink `_` is a register that is never read.
    pub(super) fn dst(&mut self, operand: &Operand<'a>, ty: Scalar) -> Lower<R> {
        if matches!(operand, Operand::Name("_")) {
            return Ok(self.temporary(rows_of(ty) == 2));
        }
        let (row, declared) = self.any_register(operand)?;
        same_size(declared, ty)?;
        suits(declared, ty)?;
        Ok(row)
    }

    /// The destination register of a value of type `ty`, which may be wider (`cvt`, `ld`): its row and declared type.
    pub(super) fn relaxed_dst(&mut self, operand: &Operand<'a>, ty: Scalar) -> Lower<(R, Scalar)> {
        let (row, declared) = self.any_register(operand)?;
        wide_enough(declared, ty)?;
        suits(declared, ty)?;
        Ok((row, declared))
    }

    /// A source of type `ty`: a register, an immediate, a special register or an address.
    pub(super) fn src(&mut self, operand: &Operand<'a>, ty: Scalar) -> Lower<R> {
        if let Operand::Name(name) = operand
            && let Some(Register::Row { row, ty: declared }) = self.register_named(name)?
        {
            same_size(declared, ty)?;
            suits(declared, ty)?;
            return Ok(row);
        }
        self.value(operand, ty)
    }

    /// Like [`Self::src`], for instructions that take a register wider than their type (`cvt`, `st`).
    /// Returns the row and whether it is a 64-bit one.
    pub(super) fn relaxed_src(&mut self, operand: &Operand<'a>, ty: Scalar) -> Lower<(R, bool)> {
        if let Operand::Name(name) = operand
            && let Some(Register::Row { row, ty: declared }) = self.register_named(name)?
        {
            wide_enough(declared, ty)?;
            suits(declared, ty)?;
            return Ok((row, declared.size() == 8));
        }
        Ok((self.value(operand, ty)?, rows_of(ty) == 2))
    }

    /// A source that is not a register of the function.
    pub(super) fn value(&mut self, operand: &Operand<'a>, ty: Scalar) -> Lower<R> {
        if ty == Scalar::B128 {
            return invalid("a value of 128 bits has to be in a register");
        }
        let wide = rows_of(ty) == 2;
        let mask = if ty.size() >= 8 { u64::MAX } else { (1 << (ty.size() * 8)) - 1 };
        let bits = match operand {
            Operand::Int(_) if ty.float() => {
                return invalid(format!("an integer is no .{}: write it with a point, as 1.0, or as bits", ty.name()));
            }
            Operand::Int(value) => *value as u64 & mask,
            Operand::F32(bits) if ty == Scalar::F64 => f64::from(f32::from_bits(*bits)).to_bits(),
            Operand::F32(bits) => u64::from(*bits),
            Operand::F64(bits) if matches!(ty, Scalar::F32 | Scalar::B32) => {
                u64::from((f64::from_bits(*bits) as f32).to_bits())
            }
            Operand::F64(bits) => *bits,
            Operand::Name("WARP_SZ") => 32,
            Operand::Name(name) => return self.named_value(name, 0, wide),
            Operand::Offset(name, offset) => return self.named_value(name, *offset, wide),
            Operand::Element(array, None, index) => {
                let offset = self.element_offset(array, *index)?;
                return self.named_value(array, offset, wide);
            }
            Operand::Element(..) => return unsupported("the address of an element whose index is a register"),
            Operand::Bracket(_) => return unsupported("an operand of this form"),
            _ => return invalid("a register or a value is expected here"),
        };
        Ok(self.bits(bits, wide))
    }

    /// Bytes from the start of an array to an element.
    fn element_offset(&self, array: &str, index: i64) -> Lower<i64> {
        match self.module.elements.get(array) {
            Some(bytes) => Ok(index.wrapping_mul(i64::from(*bytes))),
            None => invalid(format!("`{array}` is not an array")),
        }
    }

    /// A special register, or the address of a variable or function.
    pub(super) fn named_value(&mut self, name: &'a str, offset: i64, wide: bool) -> Lower<R> {
        if let Some(register) = special(name) {
            let d = self.temporary(wide);
            self.emit_unguarded(Op::Special { d, register, wide });
            return Ok(d);
        }
        if let Some(part) = name.strip_prefix("%reserved_smem_offset_") {
            return self.reserved_shared(name, part, wide);
        }
        match self.lookup(name) {
            Some(Symbol::Global(index)) => Ok(self.constant(ConstantValue::Global(index, offset), wide)),
            Some(Symbol::Shared(index)) => Ok(self.constant(ConstantValue::Shared(index, offset), wide)),
            Some(Symbol::Function(index)) => Ok(self.bits(function_address(index).wrapping_add(offset as u64), wide)),
            Some(Symbol::KernelParam(at)) => Ok(self.bits(u64::from(at).wrapping_add(offset as u64), wide)),
            Some(Symbol::Frame(at, _)) => {
                let d = self.temporary(wide);
                self.emit_unguarded(Op::FrameAddress { d, offset: i64::from(at).wrapping_add(offset) as u32, wide });
                Ok(d)
            }
            Some(Symbol::Register(Register::Predicate(_))) => {
                invalid(format!("`{name}` is a predicate, and a value is expected"))
            }
            Some(Symbol::Register(_)) => invalid(format!("`{name}` cannot be used here")),
            None if name.starts_with('%') => self.no_register(name),
            None => invalid(format!("nothing is called `{name}`")),
        }
    }

    /// Shared memory that belongs to the system (PTX ISA, "%reserved_smem_offset_begin"): cooperative groups keep the
    /// barriers of tiles larger than a warp there. Here it is one more variable of the kernels that ask for it.
    fn reserved_shared(&mut self, name: &str, part: &str, wide: bool) -> Lower<R> {
        let offset = match part {
            "begin" | "0" => 0,
            "1" => RESERVED_SHARED / 2,
            "end" => RESERVED_SHARED,
            "cap" => return Ok(self.bits(RESERVED_SHARED.into(), wide)),
            _ => return unsupported(format!("the special register {name}")),
        };
        let index = self.module.reserved_shared();
        Ok(self.constant(ConstantValue::Shared(index, offset.into()), wide))
    }

    /// A device function's parameters are part of its frame; a kernel's have a space of their own.
    pub(super) fn param_space(&self, space: MemSpace) -> MemSpace {
        if space == MemSpace::Param && !self.kernel { MemSpace::Local } else { space }
    }

    /// `[base + offset]` in `space`.
    pub(super) fn address(&mut self, operand: &Operand<'a>, space: MemSpace) -> Lower<Address> {
        let (base, offset) = match operand {
            Operand::Address(base, offset) => (base, *offset),
            Operand::Element(array, None, index) => (&Some(*array), self.element_offset(array, *index)?),
            Operand::Element(_, Some(_), 1..) | Operand::Element(_, Some(_), ..0) => {
                return unsupported("an index that is a sum");
            }
            Operand::Element(array, Some(index), 0) => {
                let Address { space, base, offset: at } = self.address(&Operand::Address(Some(array), 0), space)?;
                let Base::Row64(start) = base else { return unsupported("an index into memory of this kind") };
                let (index, ty) = self.any_register(&Operand::Name(index))?;
                let bytes = self.element_offset(array, 1)?;
                let bytes = self.bits(bytes as u64, true);
                let row = self.temporary(true);
                let wide = if ty.size() == 8 {
                    index
                } else {
                    self.emit_unguarded(Op::Zext64 { d: row, a: index });
                    row
                };
                self.emit_unguarded(Op::Mul64 { d: row, a: wide, b: bytes });
                self.emit_unguarded(Op::Add64 { d: row, a: start, b: row });
                return Ok(Address { space, base: Base::Row64(row), offset: at });
            }
            Operand::Bracket(items) => {
                return unsupported(format!("an address with {} more operands in its brackets", items.len() - 1));
            }
            _ => return invalid("an address in brackets is expected"),
        };
        let Some(name) = base else { return Ok(Address { space, base: Base::None, offset }) };
        if let Some(Register::Row { row, ty }) = self.register_named(name)? {
            let base = match ty.size() {
                4 => Base::Row32(row),
                8 => Base::Row64(row),
                _ => return invalid(format!("`{name}` cannot hold an address")),
            };
            return Ok(Address { space: self.param_space(space), base, offset });
        }
        let generic = space == MemSpace::Generic;
        Ok(match self.lookup(name) {
            // An unqualified access to a variable means that variable's space.
            Some(Symbol::Shared(index)) if generic || matches!(space, MemSpace::Shared | MemSpace::Cluster) => {
                let row = self.constant(ConstantValue::Shared(index, 0), true);
                Address { space: MemSpace::Shared, base: Base::Row64(row), offset }
            }
            Some(Symbol::Global(index)) if generic || space == MemSpace::Global => {
                let row = self.constant(ConstantValue::Global(index, 0), true);
                Address { space: MemSpace::Global, base: Base::Row64(row), offset }
            }
            Some(Symbol::Frame(at, _)) if generic || matches!(space, MemSpace::Local | MemSpace::Param) => {
                Address { space: MemSpace::Local, base: Base::Frame, offset: offset.wrapping_add(i64::from(at)) }
            }
            Some(Symbol::KernelParam(at)) if generic || space == MemSpace::Param => {
                Address { space: MemSpace::Param, base: Base::None, offset: offset.wrapping_add(i64::from(at)) }
            }
            Some(_) => return invalid(format!("`{name}` is not in the instruction's state space")),
            None => return invalid(format!("nothing is called `{name}`")),
        })
    }
    pub(super) fn halves(&mut self, operand: &Operand<'a>, write: bool) -> Lower<[R; 2]> {
        match operand {
            Operand::Vector(_) => match self.vector(operand, Scalar::B64, 2, write)?[..] {
                [low, high] => Ok([low, high]),
                _ => invalid("128 bits are two registers of 64"),
            },
            _ => {
                if let Some((rows, ty)) = self.vector_register(operand)?
                    && let ([low, high], 8) = (&rows[..], ty.size())
                {
                    return Ok([*low, *high]);
                }
                let (row, ty) = self.any_register(operand)?;
                same_size(ty, Scalar::B128)?;
                Ok([row, row + 2])
            }
        }
    }
    /// The rows of `{a, b, …}` or of a vector register; a scalar where `count` is 1.
    pub(super) fn vector(&mut self, operand: &Operand<'a>, ty: Scalar, count: usize, write: bool) -> Lower<Vec<R>> {
        let one = |lowering: &mut Self, item: &Operand<'a>| {
            if write { lowering.dst(item, ty) } else { lowering.src(item, ty) }
        };
        match operand {
            Operand::Vector(items) if items.len() == count => items.iter().map(|item| one(self, item)).collect(),
            Operand::Vector(items) => invalid(format!("{count} elements are expected, not {}", items.len())),
            Operand::Name(name) => match self.register_named(name)? {
                Some(Register::Vector { row, ty: declared, count: elements }) if elements as usize == count => {
                    same_size(declared, ty)?;
                    Ok((0..elements).map(|at| row + at * rows_of(declared)).collect())
                }
                _ if count == 1 => Ok(vec![one(self, operand)?]),
                // `%tid` as a whole
                None if !write && special(&format!("{name}.w")).is_some_and(|w| w != special(name).unwrap_or(w)) => {
                    let wide = rows_of(ty) == 2;
                    let elements = ["x", "y", "z", "w"].iter().take(count);
                    let specials = elements.filter_map(|element| special(&format!("{name}.{element}")));
                    let rows = specials.map(|register| {
                        let d = self.temporary(wide);
                        self.emit_unguarded(Op::Special { d, register, wide });
                        d
                    });
                    Ok(rows.collect())
                }
                _ => invalid(format!("`{name}` is not a vector of {count}")),
            },
            _ if count == 1 => Ok(vec![one(self, operand)?]),
            _ => invalid("a vector is expected"),
        }
    }
    /// The elements of a vector register, by their first rows.
    pub(super) fn vector_register(&mut self, operand: &Operand<'a>) -> Lower<Option<(Vec<R>, Scalar)>> {
        let Operand::Name(name) = operand else { return Ok(None) };
        if special(name).is_some() {
            return Ok(None);
        }
        Ok(match self.register_named(name)? {
            Some(Register::Vector { row, ty, count }) => {
                Some(((0..count).map(|at| row + at * rows_of(ty)).collect(), ty))
            }
            _ => None,
        })
    }

    /// The registers of a fragment, and whether they are 64-bit ones.
    pub(super) fn fragment(&mut self, operand: &Operand<'a>, count: usize, write: bool) -> Lower<(Vec<R>, bool)> {
        let items: &[Operand<'a>] = match operand {
            Operand::Vector(items) => items,
            item => std::slice::from_ref(item),
        };
        if let Some((rows, ty)) = self.vector_register(operand)?
            && rows.len() == count
        {
            return Ok((rows, ty.size() == 8));
        }
        if items.len() != count {
            return invalid(format!("this fragment has {count} registers, not {}", items.len()));
        }
        let mut wide = false;
        let mut rows = Vec::with_capacity(count);
        for item in items {
            if !matches!(item, Operand::Name(_)) && !write {
                rows.push(self.value(item, Scalar::B32)?);
                continue;
            }
            let (row, ty) = self.any_register(item)?;
            wide = ty.size() == 8;
            rows.push(row);
        }
        Ok((rows, wide))
    }
}

fn same_size(declared: Scalar, ty: Scalar) -> Lower<()> {
    if declared.size() == ty.size() {
        return Ok(());
    }
    invalid(format!("a .{} register cannot hold the instruction's .{}", declared.name(), ty.name()))
}

fn wide_enough(declared: Scalar, ty: Scalar) -> Lower<()> {
    if declared.size() >= ty.size() {
        return Ok(());
    }
    invalid(format!("a .{} register cannot hold .{}, which is wider", declared.name(), ty.name()))
}

/// Whether a register of a declared type may be an operand of an instruction's: integers are not computed in registers of
/// floats, nor floats in those of integers, while bits go everywhere (PTX ISA, "Operand Type Checking"). Packed types count
/// as bits.
fn suits(declared: Scalar, ty: Scalar) -> Lower<()> {
    use Scalar::*;
    let is_float = |ty| matches!(ty, F16 | F32 | F64);
    let fits = match ty {
        F16 | F32 | F64 => declared == ty || !is_float(declared) && declared != F16x2 && !declared.is_integer(),
        Bf16 | Bf16x2 | Tf32 => !declared.float() && !declared.is_integer(),
        F16x2 | U16x2 | S16x2 => !is_float(declared) && !declared.is_integer(),
        B8 | B16 | B32 | B64 | B128 => true,
        _ => !is_float(declared),
    };
    if fits {
        return Ok(());
    }
    invalid(format!("a .{} register cannot be used where the instruction has a .{}", declared.name(), ty.name()))
}

/// The special register of that name.
pub(super) fn special(name: &str) -> Option<Special> {
    let (base, element) = match name.rsplit_once('.') {
        Some((base, "x")) => (base, 0),
        Some((base, "y")) => (base, 1),
        Some((base, "z")) => (base, 2),
        Some((base, "w")) => (base, 3),
        _ => (name, 0),
    };
    Some(match base {
        "%tid" => Special::Tid(element),
        "%ntid" => Special::Ntid(element),
        "%ctaid" => Special::Ctaid(element),
        "%nctaid" => Special::Nctaid(element),
        "%laneid" => Special::LaneId,
        "%warpid" => Special::WarpId,
        "%nwarpid" => Special::NWarpId,
        "%lanemask_eq" => Special::LanemaskEq,
        "%lanemask_lt" => Special::LanemaskLt,
        "%lanemask_le" => Special::LanemaskLe,
        "%lanemask_gt" => Special::LanemaskGt,
        "%lanemask_ge" => Special::LanemaskGe,
        "%smid" => Special::SmId,
        "%nsmid" => Special::NSmId,
        "%gridid" => Special::GridId,
        "%clock" => Special::Clock,
        "%clock_hi" => Special::ClockHi,
        "%clock64" => Special::Clock64,
        "%globaltimer" => Special::GlobalTimer,
        "%globaltimer_lo" => Special::GlobalTimerLo,
        "%globaltimer_hi" => Special::GlobalTimerHi,
        "%dynamic_smem_size" => Special::DynamicSharedSize,
        "%total_smem_size" | "%aggr_smem_size" => Special::TotalSharedSize,
        "%clusterid" => Special::ClusterId(element),
        "%nclusterid" => Special::ClusterCount(element),
        "%cluster_ctaid" => Special::ClusterCtaid(element),
        "%cluster_nctaid" => Special::ClusterNctaid(element),
        "%is_explicit_cluster" => Special::ExplicitCluster,
        "%cluster_ctarank" => Special::ClusterRank,
        "%cluster_nctarank" => Special::ClusterBlocks,
        "%current_graph_exec" => Special::Fixed(0),
        // where the driver leaves the address of a cooperative launch's barrier
        "%envreg1" => Special::Workspace(true),
        "%envreg2" => Special::Workspace(false),
        // Counters of performance monitors; PTX does not say what of.
        "%pm0" | "%pm1" | "%pm2" | "%pm3" | "%pm4" | "%pm5" | "%pm6" | "%pm7" => Special::Fixed(0),
        "%pm0_64" | "%pm1_64" | "%pm2_64" | "%pm3_64" | "%pm4_64" | "%pm5_64" | "%pm6_64" | "%pm7_64" => {
            Special::Fixed(0)
        }
        _ if base.strip_prefix("%envreg").is_some_and(|number| number.parse::<u8>().is_ok()) => Special::Fixed(0),
        _ => return None,
    })
}
