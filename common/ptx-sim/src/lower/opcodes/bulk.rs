//! Bulk copies, of linear memory and of boxes of tensors, and the maps that describe tensors.

use super::atomic::atomic_op;
use super::emit::operand;
use super::modifiers::Modifiers;
use crate::ast::Operand;
use crate::ir::*;
use crate::lower::function::FunctionLowering;
use crate::lower::symbols::{Lower, invalid, unsupported};
use crate::scalar::{Mode, Scalar};

impl<'a> FunctionLowering<'_, 'a> {
    /// `cp.async.bulk`, `cp.reduce.async.bulk`, their forms for tensors, and their groups.
    pub(super) fn bulk(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let reduces = m.flag("reduce");
        m.ignore(&["async", "bulk"]);
        if m.flag("commit_group") {
            return self.plain(m, Op::BulkCommit);
        }
        if m.flag("wait_group") {
            let Some(Operand::Int(n)) = ops.first() else { return invalid("wait_group takes a number") };
            let n = u32::try_from(*n).unwrap_or(u32::MAX);
            let read = m.flag("read");
            return self.plain(m, Op::BulkWait { n, read });
        }
        let prefetch = m.flag("prefetch");
        if prefetch {
            m.flag("L2");
        }
        let hinted = m.0.contains(&"L2::cache_hint");
        let dimensions = if m.flag("tensor") {
            let found = m.one(|name| ["1d", "2d", "3d", "4d", "5d"].iter().position(|known| *known == name));
            let Some(found) = found else { return invalid("a copy of a tensor says how many dimensions it has") };
            Some(found + 1)
        } else {
            None
        };
        let (to, from) = if prefetch { (None, m.space()) } else { (m.space(), m.space()) };
        let route = match (to, from) {
            (None, Some(MemSpace::Global)) => Route::Prefetch,
            (Some(MemSpace::Shared | MemSpace::Cluster), Some(MemSpace::Global)) => Route::GlobalToShared,
            (Some(MemSpace::Shared | MemSpace::Cluster), Some(MemSpace::Shared)) => Route::SharedToShared,
            (Some(MemSpace::Global), Some(MemSpace::Shared)) => Route::SharedToGlobal,
            _ => return invalid("a bulk copy is between global and shared memory, or within shared memory"),
        };
        let im2col = m.flag("im2col") || m.flag("im2col_no_offs");
        m.flag("tile");
        let by_rows = m.flag(if route == Route::SharedToGlobal { "tile::scatter4" } else { "tile::gather4" });
        let mode = match (im2col, by_rows) {
            (true, true) => return invalid("a copy in im2col mode takes no single rows"),
            (true, false) => TensorMode::Im2col,
            (false, true) => TensorMode::Rows,
            (false, false) => TensorMode::Tile,
        };
        let on_barrier = m.flag("mbarrier::complete_tx::bytes");
        let in_group = m.flag("bulk_group");
        let is_right = match route {
            Route::GlobalToShared | Route::SharedToShared => on_barrier && !in_group,
            Route::SharedToGlobal => in_group && !on_barrier,
            Route::Prefetch => !in_group && !on_barrier,
        };
        if !is_right {
            return invalid(
                "a copy to shared memory completes on an mbarrier (.mbarrier::complete_tx::bytes), one to global memory in a group (.bulk_group)",
            );
        }
        let multicast = m.flag("multicast::cluster");
        let pair = m.flag("cta_group::2");
        m.flag("cta_group::1");
        m.ignore_hints();
        let reduction = if reduces { Some(self.reduction(m, dimensions.is_some())?) } else { None };
        m.finish()?;
        let mut rest = ops;
        if hinted {
            let Some((policy, before)) = rest.split_last() else { return invalid("the cache policy is missing") };
            self.src(policy, Scalar::B64)?;
            rest = before;
        }
        let mask = if multicast {
            let Some((mask, before)) = rest.split_last() else { return invalid("the mask of blocks is missing") };
            rest = before;
            Some(Multicast::Mask(self.src(mask, Scalar::B16)?))
        } else {
            None
        };
        let bulk = match dimensions {
            Some(dimensions) => self.tensor_copy(route, dimensions, mode, rest)?,
            None => self.linear_copy(route, rest)?,
        };
        if reduction.is_some() && !matches!(route, Route::SharedToGlobal | Route::SharedToShared) {
            return invalid("cp.reduce.async.bulk reads shared memory");
        }
        self.emit(Op::Bulk(Box::new(Bulk { multicast: mask, reduction, pair, ..bulk })));
        Ok(())
    }

    /// The operation of `cp.reduce.async.bulk`, with the type of its elements unless it is the tensor's.
    fn reduction(&mut self, m: &mut Modifiers<'_>, tensor: bool) -> Lower<Reduction> {
        const NAMES: [(&str, TensorReduction); 8] = [
            ("add", TensorReduction::Add),
            ("min", TensorReduction::Min),
            ("max", TensorReduction::Max),
            ("inc", TensorReduction::Inc),
            ("dec", TensorReduction::Dec),
            ("and", TensorReduction::And),
            ("or", TensorReduction::Or),
            ("xor", TensorReduction::Xor),
        ];
        let Some((name, op)) = m.one(|name| NAMES.into_iter().find(|(known, _)| *known == name)) else {
            return invalid("cp.reduce.async.bulk names an operation");
        };
        if tensor {
            return Ok(Reduction::Tensor(op));
        }
        m.flag("noftz");
        let ty = m.ty()?;
        let op = atomic_op(name, ty)?;
        if !matches!(ty.size(), 2 | 4 | 8) || ty.size() == 2 && !ty.float() {
            return invalid(format!("cp.reduce.async.bulk of .{}", ty.name()));
        }
        let mode = Mode { ftz: ty == Scalar::F32 && name == "add", ..Mode::default() };
        Ok(Reduction::Elements { op, bytes: ty.size() as u8, mode })
    }

    fn linear_copy(&mut self, route: Route, ops: &[Operand<'a>]) -> Lower<Bulk> {
        let form = || invalid("a bulk copy takes addresses, a size and, to shared memory, an mbarrier");
        let (to, from, bytes, barrier) = match (route, ops) {
            (Route::Prefetch, [from, bytes]) => (from, from, bytes, None),
            (Route::SharedToGlobal, [to, from, bytes]) => (to, from, bytes, None),
            (Route::GlobalToShared | Route::SharedToShared, [to, from, bytes, barrier]) => {
                (to, from, bytes, Some(barrier))
            }
            _ => return form(),
        };
        let (shared, other) = match route {
            Route::GlobalToShared => (self.address(to, MemSpace::Cluster)?, self.address(from, MemSpace::Global)?),
            Route::SharedToShared => (self.address(to, MemSpace::Cluster)?, self.address(from, MemSpace::Shared)?),
            Route::SharedToGlobal => (self.address(from, MemSpace::Shared)?, self.address(to, MemSpace::Global)?),
            Route::Prefetch => {
                let from = self.address(from, MemSpace::Global)?;
                (from, from)
            }
        };
        let shape = BulkShape::Bytes(self.src(bytes, Scalar::U32)?);
        let barrier = barrier.map(|barrier| self.address(barrier, MemSpace::Cluster)).transpose()?;
        Ok(Bulk { route, shared, other, shape, barrier, pair: false, multicast: None, reduction: None })
    }

    fn tensor_copy(&mut self, route: Route, dimensions: usize, mode: TensorMode, ops: &[Operand<'a>]) -> Lower<Bulk> {
        let im2col = mode == TensorMode::Im2col;
        if mode == TensorMode::Rows && dimensions != 2 {
            return invalid("single rows are copied of tensors of two dimensions");
        }
        let (shared, place, barrier, rest) = match (route, ops) {
            (Route::GlobalToShared, [to, place, barrier, rest @ ..]) => (Some(to), place, Some(barrier), rest),
            (Route::SharedToGlobal, [place, from, rest @ ..]) => (Some(from), place, None, rest),
            (Route::Prefetch, [place, rest @ ..]) => (None, place, None, rest),
            _ => return invalid("a copy of a tensor takes an address, a map with coordinates and an mbarrier"),
        };
        let Operand::Bracket(parts) = place else {
            return invalid("a tensor's map stands in brackets, with coordinates");
        };
        let [map, coordinates] = parts.as_slice() else {
            return invalid("a tensor's map stands in brackets, with coordinates");
        };
        let map = match map {
            Operand::Name(name) => self.address(&Operand::Address(Some(name), 0), MemSpace::Generic)?,
            map => self.address(map, MemSpace::Generic)?,
        };
        let items = match coordinates {
            Operand::Vector(items) => items.as_slice(),
            item => std::slice::from_ref(item),
        };
        let expected = if mode == TensorMode::Rows { 5 } else { dimensions };
        if items.len() != expected {
            return invalid(format!("{expected} coordinates are expected, not {}", items.len()));
        }
        let coordinates = items.iter().map(|item| self.src(item, Scalar::S32)).collect::<Lower<Vec<_>>>()?;
        let offsets = match rest {
            [] => Vec::new(),
            [Operand::Vector(items)] if im2col => {
                items.iter().map(|item| self.src(item, Scalar::U16)).collect::<Lower<Vec<_>>>()?
            }
            [item] if im2col => vec![self.src(item, Scalar::U16)?],
            _ => return invalid("a copy of a tensor has more operands than it takes"),
        };
        if im2col && dimensions < 3 {
            return invalid("a copy in im2col mode has three to five dimensions");
        }
        if im2col && route != Route::SharedToGlobal && offsets.len() != dimensions - 2 {
            return invalid(format!("{} offsets are expected, not {}", dimensions - 2, offsets.len()));
        }
        let barrier = barrier.map(|barrier| self.address(barrier, MemSpace::Cluster)).transpose()?;
        let shared = match shared {
            Some(shared) if route == Route::SharedToGlobal => self.address(shared, MemSpace::Shared)?,
            Some(shared) => self.address(shared, MemSpace::Cluster)?,
            None => map,
        };
        let shape = BulkShape::Tensor { coordinates, offsets, mode };
        Ok(Bulk { route, shared, other: map, shape, barrier, pair: false, multicast: None, reduction: None })
    }

    /// `st.async`, and `red.async` with an operation: registers to shared memory of the cluster.
    pub(super) fn words_async(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>], reduces: bool) -> Lower<()> {
        m.flag("async");
        m.ignore(&["weak", "relaxed"]);
        m.ignore_hints();
        // One's own shared memory is part of the cluster's.
        if matches!(m.space(), Some(MemSpace::Global)) || !m.flag("mbarrier::complete_tx::bytes") {
            return unsupported("an asynchronous store to global memory");
        }
        let count = m.one(|name| ["v2", "v4"].into_iter().position(|known| known == name)).map_or(1, |at| 2 << at);
        let (reduction, ty) = if reduces {
            let Some(op) = m
                .one(|name| ["inc", "dec", "min", "max", "add", "and", "or", "xor"].into_iter().find(|op| *op == name))
            else {
                return invalid("red.async names an operation");
            };
            let ty = m.ty()?;
            (Some(Reduction::Elements { op: atomic_op(op, ty)?, bytes: ty.size() as u8, mode: Mode::default() }), ty)
        } else {
            (None, m.ty()?)
        };
        m.finish()?;
        if !matches!(ty.size(), 4 | 8) || reduces && (ty.float() || count != 1) {
            return invalid(format!("{}.async of .{}", if reduces { "red" } else { "st" }, ty.name()));
        }
        let [to, values, barrier] = ops else {
            return invalid("an asynchronous store takes an address, a value and an mbarrier");
        };
        let shared = self.address(to, MemSpace::Cluster)?;
        let barrier = Some(self.address(barrier, MemSpace::Cluster)?);
        let rows = match values {
            Operand::Vector(items) if items.len() == count => {
                items.iter().map(|item| self.src(item, ty)).collect::<Lower<_>>()?
            }
            item if count == 1 => vec![self.src(item, ty)?],
            _ => return invalid(format!("{count} values are expected")),
        };
        let shape = BulkShape::Words { rows, wide: ty.size() == 8, bytes: ty.size() as u8 };
        let route = Route::SharedToShared;
        self.emit(Op::Bulk(Box::new(Bulk {
            route,
            shared,
            other: shared,
            shape,
            barrier,
            pair: false,
            multicast: None,
            reduction,
        })));
        Ok(())
    }

    /// `tensormap.replace` and `tensormap.cp_fenceproxy`.
    pub(super) fn tensor_map(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        if m.flag("cp_fenceproxy") {
            m.ignore(&["tensormap::generic", "release", "cta", "cluster", "gpu", "sys", "sync", "aligned"]);
            if m.space() != Some(MemSpace::Global) || m.space() != Some(MemSpace::Shared) {
                return invalid("tensormap.cp_fenceproxy copies from shared to global memory");
            }
            m.finish()?;
            let [to, from, Operand::Int(128)] = ops else {
                return invalid("tensormap.cp_fenceproxy takes two addresses and 128, the bytes of a map");
            };
            let to = self.address(to, MemSpace::Global)?;
            let from = self.address(from, MemSpace::Shared)?;
            self.emit(Op::CopyMap(Box::new(CopyMap { to, from })));
            return Ok(());
        }
        if !m.flag("replace") {
            return unsupported("tensormap of this kind");
        }
        m.ignore(&["tile", "b1024"]);
        let field = m.one(|name| {
            Some(match name {
                "global_address" => MapField::GlobalAddress,
                "rank" => MapField::Rank,
                "box_dim" => MapField::BoxDim(0),
                "global_dim" => MapField::GlobalDim(0),
                "global_stride" => MapField::GlobalStride(0),
                "element_stride" => MapField::ElementStride(0),
                "elemtype" => MapField::Element,
                "interleave_layout" => MapField::Interleave,
                "swizzle_mode" => MapField::Swizzle,
                "fill_mode" => MapField::Fill,
                "swizzle_atomicity" => MapField::SwizzleAtomicity,
                _ => return None,
            })
        });
        let Some(field) = field else { return unsupported("tensormap.replace of this field") };
        let space = m.space().unwrap_or(MemSpace::Generic);
        let ty = m.ty()?;
        m.finish()?;
        let map = self.address(operand(ops, 0)?, space)?;
        let number = |limit: u8| match ops.get(1) {
            Some(Operand::Int(at)) if (0..i128::from(limit)).contains(at) => Ok(*at as u8),
            _ => invalid(format!("the dimension is a number from 0 to {}", limit - 1)),
        };
        let (field, value) = match field {
            MapField::BoxDim(_) => (MapField::BoxDim(number(5)?), operand(ops, 2)?),
            MapField::GlobalDim(_) => (MapField::GlobalDim(number(5)?), operand(ops, 2)?),
            MapField::GlobalStride(_) => (MapField::GlobalStride(number(4)?), operand(ops, 2)?),
            MapField::ElementStride(_) => (MapField::ElementStride(number(5)?), operand(ops, 2)?),
            field => (field, operand(ops, 1)?),
        };
        let value = (self.src(value, ty)?, ty.size() == 8);
        self.emit(Op::ReplaceMap(Box::new(ReplaceMap { map, field, value })));
        Ok(())
    }
}
