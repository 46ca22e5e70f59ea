//! `tcgen05`: tensor memory and its products.

use super::modifiers::Modifiers;
use crate::ast::Operand;
use crate::ir::*;
use crate::lower::function::FunctionLowering;
use crate::lower::symbols::{Lower, invalid, unsupported};
use crate::matrix::tcgen05::{COLUMNS, CopyShape, Kind, TmemCopy, TmemMove, TmemShape};
use crate::scalar::Scalar;

/// Registers of the mask of lanes that a product does not write, per block.
const DISABLED: usize = 4;

impl<'a> FunctionLowering<'_, 'a> {
    pub(super) fn tcgen05(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let Some(action) = m.one(|name| {
            let actions = [
                "alloc",
                "dealloc",
                "relinquish_alloc_permit",
                "ld",
                "st",
                "wait::ld",
                "wait::st",
                "mma",
                "cp",
                "shift",
                "commit",
                "fence::before_thread_sync",
                "fence::after_thread_sync",
            ];
            actions.into_iter().find(|action| *action == name)
        }) else {
            return match m.0.first() {
                Some(name) => unsupported(format!("tcgen05.{name}")),
                None => invalid("tcgen05 without an action"),
            };
        };
        let pair = m.flag("cta_group::2");
        m.flag("cta_group::1");
        match action {
            "mma" => return self.tmem_product(m, pair, ops),
            "cp" => return self.tmem_copy(m, pair, ops),
            "shift" => return self.tmem_shift(m, pair, ops),
            "commit" => return self.tmem_commit(m, pair, ops),
            "ld" | "st" => return self.tmem_access(m, action == "ld", ops),
            "fence::before_thread_sync" | "fence::after_thread_sync" => {
                return self.plain(m, Op::TmemFence { after: action.ends_with("after_thread_sync") });
            }
            _ => {}
        }
        m.ignore(&["sync", "aligned", "b32"]);
        let space = m.space().unwrap_or(MemSpace::Generic);
        m.finish()?;
        let op = match (action, ops) {
            ("alloc", [to, columns]) => {
                let (to, columns) = (self.address(to, space)?, self.src(columns, Scalar::U32)?);
                TogetherOp::TmemAlloc(Box::new(TmemAlloc { to, columns, pair }))
            }
            ("dealloc", [address, columns]) => {
                let (address, columns) = (self.src(address, Scalar::B32)?, self.src(columns, Scalar::U32)?);
                TogetherOp::TmemFree { address, columns, pair }
            }
            ("relinquish_alloc_permit", []) => TogetherOp::TmemRelinquish { pair },
            ("wait::ld" | "wait::st", []) => TogetherOp::TmemWait { stores: action == "wait::st" },
            _ => return invalid(format!("tcgen05.{action} with {} operands", ops.len())),
        };
        self.together(None, op)
    }

    /// `tcgen05.ld r, [taddr] {, apart};` and `tcgen05.st [taddr] {, apart}, r;`
    fn tmem_access(&mut self, m: &mut Modifiers<'_>, load: bool, ops: &[Operand<'a>]) -> Lower<()> {
        m.ignore(&["sync", "aligned", "b32"]);
        let packed = m.flag(if load { "pack::16b" } else { "unpack::16b" });
        let repeats = m.one(|name| name.strip_prefix('x')?.parse::<u32>().ok());
        let shape = m.one(|name| {
            Some(match name {
                "32x32b" => TmemShape::By32x32,
                "16x64b" => TmemShape::By16x64,
                "16x128b" => TmemShape::By16x128,
                "16x256b" => TmemShape::By16x256,
                "16x32bx2" => TmemShape::Two16x32 { apart: 0 },
                _ => return None,
            })
        });
        m.finish()?;
        let halves = matches!(shape, Some(TmemShape::Two16x32 { .. }));
        let (registers, address, apart) = match (load, ops) {
            (true, [registers, address]) | (false, [address, registers]) if !halves => (registers, address, None),
            (true, [registers, address, Operand::Int(apart)]) | (false, [address, Operand::Int(apart), registers])
                if halves =>
            {
                (registers, address, u32::try_from(*apart).ok().filter(|apart| *apart < COLUMNS))
            }
            _ => return invalid("tcgen05.ld and tcgen05.st take registers and an address, and .16x32bx2 an offset"),
        };
        let shape = match (shape, apart) {
            (Some(TmemShape::Two16x32 { .. }), Some(apart)) => TmemShape::Two16x32 { apart },
            (Some(TmemShape::Two16x32 { .. }), None) => {
                return invalid("the offset of the second half is a number of columns");
            }
            (Some(shape), _) => shape,
            (None, _) => return invalid("tcgen05.ld and tcgen05.st have a shape"),
        };
        let Some(form) = repeats.and_then(|repeats| TmemMove::new(shape, repeats, packed)) else {
            return invalid("tcgen05.ld and tcgen05.st are repeated .x1, .x2, .x4 and so on, up to 128 registers");
        };
        let rows = self.vector(registers, Scalar::B32, form.registers(), load)?;
        let address = self.tmem_address(address)?;
        let access = Box::new(TmemAccess { form, address, rows });
        self.together(None, if load { TogetherOp::TmemLoad(access) } else { TogetherOp::TmemStore(access) })
    }

    /// `[taddr]`: 32 bits.
    fn tmem_address(&mut self, operand: &Operand<'a>) -> Lower<Address> {
        let address = self.address(operand, MemSpace::Shared)?;
        match address.base {
            Base::Row32(_) | Base::None => Ok(address),
            _ => invalid("an address in tensor memory has 32 bits"),
        }
    }

    /// `tcgen05.cp [taddr], descriptor;`
    fn tmem_copy(&mut self, m: &mut Modifiers<'_>, pair: bool, ops: &[Operand<'a>]) -> Lower<()> {
        let shape = m.one(|name| {
            Some(name.split_once('x').filter(|(lanes, _)| lanes.parse::<u32>().is_ok())?).map(|_| name.to_owned())
        });
        let lanes = m.one(|name| name.starts_with("warpx").then(|| name.to_owned()));
        let shape = match (shape.as_deref(), lanes.as_deref()) {
            (Some("128x256b"), None) => CopyShape::By128x256,
            (Some("128x128b"), None) => CopyShape::By128x128,
            (Some("4x256b"), None) => CopyShape::By4x256,
            (Some("64x128b"), Some("warpx2::02_13")) => CopyShape::By64x128Halves,
            (Some("64x128b"), Some("warpx2::01_23")) => CopyShape::By64x128Pairs,
            (Some("32x128b"), Some("warpx4")) => CopyShape::By32x128,
            _ => return invalid("tcgen05.cp has a shape, and .64x128b and .32x128b say which warps' lanes get it"),
        };
        let unpacked = match (m.flag("b8x16"), m.flag("b6x16_p32"), m.flag("b4x16_p64")) {
            (false, false, false) => None,
            (true, true, false) => Some(6),
            (true, false, true) => Some(4),
            _ => return invalid("tcgen05.cp makes .b8x16 of .b6x16_p32 or .b4x16_p64"),
        };
        m.finish()?;
        let [to, from] = ops else { return invalid("tcgen05.cp takes an address and a descriptor") };
        let copy = SharedToTmem {
            form: TmemCopy { shape, unpacked },
            to: self.tmem_address(to)?,
            from: self.src(from, Scalar::B64)?,
        };
        self.emit(Op::Tcgen05(Box::new(Tcgen05 { pair, op: Tcgen05Op::Copy(Box::new(copy)) })));
        Ok(())
    }

    /// `tcgen05.shift.down [taddr];`
    fn tmem_shift(&mut self, m: &mut Modifiers<'_>, pair: bool, ops: &[Operand<'a>]) -> Lower<()> {
        let is_down = m.flag("down");
        m.finish()?;
        let [first] = ops else { return invalid("tcgen05.shift takes an address") };
        if !is_down {
            return invalid("tcgen05.shift has .down");
        }
        let shift = TmemShift { first: self.tmem_address(first)? };
        self.emit(Op::Tcgen05(Box::new(Tcgen05 { pair, op: Tcgen05Op::Shift(Box::new(shift)) })));
        Ok(())
    }

    /// `tcgen05.mma [d], a, b, descriptor {, [scales of A], [scales of B]} {, {lanes…}}, enable-input-d {, scale-input-d};`
    fn tmem_product(&mut self, m: &mut Modifiers<'_>, pair: bool, ops: &[Operand<'a>]) -> Lower<()> {
        let kind = m.one(|name| Kind::from_name(name.strip_prefix("kind::")?));
        // Hints for operands that stay in the collector.
        m.0.retain(|name| !name.starts_with("collector::a::"));
        let is_scaled = m.flag("block_scale");
        let vectors = m.one(|name| {
            ["scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32"]
                .into_iter()
                .find(|other| *other == name)
        });
        m.finish()?;
        let Some(kind) = kind else { return unsupported("a tcgen05.mma of this kind") };
        let Some(count) = kind.scales(vectors).filter(|count| (*count > 0) == is_scaled) else {
            return invalid(
                "kinds mxf8f6f4, mxf4 and mxf4nvf4 have .block_scale and a number of scales: 1X, 2X, 2X or 4X",
            );
        };
        let [d, a, b, descriptor, rest @ ..] = ops else {
            return invalid("tcgen05.mma takes d, a, b and a descriptor");
        };
        let (scales, rest) = match rest {
            [a, b, rest @ ..] if is_scaled => (vec![self.tmem_address(a)?, self.tmem_address(b)?], rest),
            rest => (Vec::new(), rest),
        };
        let (disabled, rest) = match rest {
            [mask @ Operand::Vector(_), rest @ ..] if !is_scaled => {
                let count = if pair { 2 * DISABLED } else { DISABLED };
                (self.vector(mask, Scalar::B32, count, false)?, rest)
            }
            rest => (Vec::new(), rest),
        };
        let (accumulate, scale) = match rest {
            [accumulate] => (accumulate, 0),
            [accumulate, Operand::Int(scale @ 0..=15)] if matches!(kind, Kind::F16 | Kind::Tf32) => {
                (accumulate, *scale as u32)
            }
            _ => return invalid("tcgen05.mma takes enable-input-d, and scale-input-d of 0 to 15 for f16 and tf32"),
        };
        let product = TmemProduct {
            kind,
            d: self.tmem_address(d)?,
            a: match a {
                Operand::Address(..) => TmemA::Tmem(self.tmem_address(a)?),
                _ => TmemA::Shared(self.src(a, Scalar::B64)?),
            },
            b: self.src(b, Scalar::B64)?,
            descriptor: self.src(descriptor, Scalar::B32)?,
            disabled,
            accumulate: self.predicate(accumulate)?,
            scale,
            scales: (count, scales),
        };
        self.emit(Op::Tcgen05(Box::new(Tcgen05 { pair, op: Tcgen05Op::Multiply(Box::new(product)) })));
        Ok(())
    }

    /// `tcgen05.commit [mbar] {, mask};`
    fn tmem_commit(&mut self, m: &mut Modifiers<'_>, pair: bool, ops: &[Operand<'a>]) -> Lower<()> {
        if !m.flag("mbarrier::arrive::one") {
            return invalid("tcgen05.commit has .mbarrier::arrive::one");
        }
        let multicast = m.flag("multicast::cluster");
        let space = m.space().unwrap_or(MemSpace::Generic);
        m.flag("b64");
        m.finish()?;
        let (barrier, mask) = match (multicast, ops) {
            (false, [barrier]) => (barrier, None),
            (true, [barrier, mask]) => (barrier, Some(self.src(mask, Scalar::U16)?)),
            _ => return invalid("tcgen05.commit takes an mbarrier, and for .multicast::cluster a mask"),
        };
        let commit = TmemCommit { barrier: self.address(barrier, space)?, multicast: mask };
        self.emit(Op::Tcgen05(Box::new(Tcgen05 { pair, op: Tcgen05Op::Commit(Box::new(commit)) })));
        Ok(())
    }
}
