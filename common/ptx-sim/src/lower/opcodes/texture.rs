//! Textures and surfaces, by the handles of objects.

use super::modifiers::Modifiers;
use crate::ast::Operand;
use crate::ir::*;
use crate::lower::function::FunctionLowering;
use crate::lower::symbols::{Lower, Register, invalid, unsupported};
use crate::scalar::Scalar;
use crate::texture::Geometry;

impl<'a> FunctionLowering<'_, 'a> {
    /// Whether a handle is that of a variable of an opaque type: each type has a bit, as in the code that ptxas generates
    /// for it. Handles of objects have none.
    pub(super) fn istypep(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let bit = m.one(|name| {
            Some(match name {
                "texref" => 61,
                "samplerref" => 62,
                "surfref" => 63,
                _ => return None,
            })
        });
        let Some(shift) = bit else { return invalid("istypep asks for .texref, .samplerref or .surfref") };
        m.finish()?;
        let [p, a] = ops else { return invalid("istypep takes a predicate and a handle") };
        let a = self.src(a, Scalar::U64)?;
        let Some(p) = self.predicate_or_sink(p)? else { return Ok(()) };
        let held = self.temporary(false);
        self.emit(Op::Unpack64 { d: held, a, shift, mask: 1 });
        self.emit(Op::RowToPred { d: p, a: held });
        Ok(())
    }

    fn geometry(&self, m: &mut Modifiers<'_>) -> Lower<Geometry> {
        match m.one(Geometry::named) {
            Some(geometry) => Ok(geometry),
            None => match m.0.iter().find(|name| ["2dms", "a2dms"].contains(name)) {
                Some(geometry) => unsupported(format!("the texture geometry .{geometry}")),
                None => invalid("a texture or surface needs its geometry"),
            },
        }
    }

    /// The register of a handle.
    fn handle(&mut self, operand: &Operand<'a>) -> Lower<R> {
        let name = match operand {
            Operand::Name(name) | Operand::Address(Some(name), 0) => *name,
            _ => return invalid("a texture or surface is a register"),
        };
        match self.register_named(name)? {
            Some(Register::Row { row, ty }) if ty.size() == 8 => Ok(row),
            Some(_) => invalid(format!("`{name}` is not a handle, which has 64 bits")),
            None => unsupported("textures and surfaces by name"),
        }
    }

    /// `[handle, {coordinates}]`: the handle, the layer and the coordinates.
    fn place(&mut self, operand: &Operand<'a>, geometry: Geometry, ty: Scalar) -> Lower<(R, Option<R>, Vec<R>)> {
        let (handle, coordinates) = match operand {
            Operand::Bracket(parts) => match parts.as_slice() {
                [handle, coordinates] => (handle, coordinates),
                [_, _, _] => return unsupported("a sampler apart from its texture"),
                _ => return invalid("a texture or surface has coordinates"),
            },
            _ => return invalid("a texture or surface stands in brackets, with its coordinates"),
        };
        let items = match coordinates {
            Operand::Vector(items) => items.as_slice(),
            item => std::slice::from_ref(item),
        };
        let needed = geometry.dimensions() + usize::from(geometry.is_layered());
        // Three coordinates stand in a vector of four.
        if items.len() != needed.next_power_of_two() {
            return invalid(format!("the geometry .{} does not have {} coordinates", geometry.name(), items.len()));
        }
        let handle = self.handle(handle)?;
        let mut items = items[..needed].iter();
        let layer = match items.next() {
            Some(layer) if geometry.is_layered() => Some(self.src(layer, Scalar::U32)?),
            Some(first) => {
                let first = self.src(first, ty)?;
                let rest = items.map(|item| self.src(item, ty)).collect::<Lower<Vec<_>>>()?;
                return Ok((handle, None, std::iter::once(first).chain(rest).collect()));
            }
            None => None,
        };
        let coordinates = items.map(|item| self.src(item, ty)).collect::<Lower<Vec<_>>>()?;
        Ok((handle, layer, coordinates))
    }

    /// The four destinations of a read, and the type of its coordinates, from the types left among the modifiers.
    fn texel(&mut self, m: &mut Modifiers<'_>, d: &Operand<'a>) -> Lower<([R; 4], Scalar)> {
        if !m.flag("v4") {
            return unsupported("a read of a texture without .v4");
        }
        let (result, coordinate) = (m.ty()?, m.ty()?);
        m.finish()?;
        if !matches!(result, Scalar::F32 | Scalar::S32 | Scalar::U32) {
            return unsupported(format!("a read of a texture as .{}", result.name()));
        }
        if !matches!(coordinate, Scalar::F32 | Scalar::S32) {
            return invalid(format!("coordinates of .{}", coordinate.name()));
        }
        let items = match d {
            Operand::Vector(items) if items.len() == 4 => items,
            Operand::Pair(..) => return unsupported("a predicate that says whether texels are resident"),
            _ => return invalid("a read of a texture has four destinations"),
        };
        let mut rows = [R::MAX; 4];
        for (row, item) in rows.iter_mut().zip(items) {
            if !matches!(item, Operand::Name("_")) {
                *row = self.dst(item, result)?;
            }
        }
        Ok((rows, coordinate))
    }

    pub(super) fn tex(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        // There is one level: whatever level or gradient is asked for, it is the one.
        let level = match (m.flag("base"), m.flag("level"), m.flag("grad")) {
            (_, false, false) => 0,
            (false, true, false) => 1,
            (false, false, true) => 2,
            _ => return invalid("a read of a texture has one of .base, .level and .grad"),
        };
        let geometry = self.geometry(m)?;
        let [d, place, rest @ ..] = ops else { return invalid("tex takes destinations and a texture") };
        let (rows, coordinate) = self.texel(m, d)?;
        if rest.len() < level {
            return invalid("the level or the gradients are missing");
        }
        if rest.len() > level {
            return unsupported("an offset or a depth to compare with");
        }
        let (handle, layer, coordinates) = self.place(place, geometry, coordinate)?;
        let integer = coordinate == Scalar::S32;
        self.emit(Op::Texture(Box::new(TextureOp {
            handle,
            geometry,
            layer,
            coordinates,
            integer,
            gathered: None,
            rows,
        })));
        Ok(())
    }

    pub(super) fn tld4(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let channel = m.one(|name| ["r", "g", "b", "a"].iter().position(|channel| *channel == name));
        let Some(channel) = channel else { return invalid("tld4 names a channel") };
        let geometry = self.geometry(m)?;
        if geometry.dimensions() != 2 {
            return invalid("tld4 reads textures of two dimensions");
        }
        let [d, place, rest @ ..] = ops else { return invalid("tld4 takes destinations and a texture") };
        let (rows, coordinate) = self.texel(m, d)?;
        if coordinate != Scalar::F32 {
            return invalid("the coordinates of tld4 are .f32");
        }
        if !rest.is_empty() {
            return unsupported("an offset or a depth to compare with");
        }
        let (handle, layer, coordinates) = self.place(place, geometry, coordinate)?;
        let gathered = Some(channel as u8);
        self.emit(Op::Texture(Box::new(TextureOp {
            handle,
            geometry,
            layer,
            coordinates,
            integer: false,
            gathered,
            rows,
        })));
        Ok(())
    }

    pub(super) fn object_query(&mut self, name: &str, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let surface = name == "suq";
        let property = m.one(|name| {
            Some(match name {
                "width" => ObjectProperty::Width,
                "height" => ObjectProperty::Height,
                "depth" => ObjectProperty::Depth,
                "array_size" => ObjectProperty::Layers,
                "num_mipmap_levels" | "num_samples" if !surface => ObjectProperty::One,
                "normalized_coords" if !surface => ObjectProperty::NormalisedCoordinates,
                _ => return None,
            })
        });
        m.flag("b32");
        m.finish()?;
        let Some(property) = property else { return invalid("a query asks for something") };
        let [d, handle] = ops else { return invalid("a query takes a destination and an object") };
        let d = self.dst(d, Scalar::B32)?;
        let handle = self.handle(handle)?;
        self.emit(Op::Query(Box::new(ObjectQuery { d, handle, surface, property })));
        Ok(())
    }

    pub(super) fn surface(&mut self, name: &str, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        if m.flag("p") {
            return unsupported("an access of a surface by its format, .p");
        }
        m.flag("b");
        m.ignore(&["ca", "cg", "cs", "cv", "wb", "wt"]);
        let outside = m.one(|name| {
            Some(match name {
                "trap" => Outside::Trap,
                "clamp" => Outside::Clamp,
                "zero" => Outside::Zero,
                _ => return None,
            })
        });
        let Some(outside) = outside else { return invalid("a surface needs .trap, .clamp or .zero") };
        let geometry = self.geometry(m)?;
        if geometry.is_cube() {
            return invalid("a surface has no faces of cubes: they are layers");
        }
        if name == "sured" {
            return self.surface_reduction(m, ops, geometry, outside);
        }
        let count = m.one(|name| ["", "v1", "v2", "", "v4"].iter().position(|vector| *vector == name)).unwrap_or(1);
        let ty = m.ty()?;
        m.finish()?;
        if !matches!(ty, Scalar::B8 | Scalar::B16 | Scalar::B32 | Scalar::B64) || ty.size() as usize * count > 16 {
            return invalid("an access of a surface has at most 16 bytes of .b8, .b16, .b32 or .b64");
        }
        let (place, data) = match ops {
            [data, place] if name == "suld" => (place, data),
            [place, data] => (place, data),
            _ => return invalid(format!("{name} takes a surface and registers")),
        };
        let items = match data {
            Operand::Vector(items) => items.as_slice(),
            item => std::slice::from_ref(item),
        };
        if items.len() != count {
            return invalid(format!("{count} elements are expected, not {}", items.len()));
        }
        let (mut rows, mut wide) = (Vec::with_capacity(count), None);
        for item in items {
            if name == "suld" && matches!(item, Operand::Name("_")) {
                rows.push(R::MAX);
                continue;
            }
            let (row, is_wide) = if name == "suld" {
                let (row, declared) = self.relaxed_dst(item, ty)?;
                (row, declared.size() == 8)
            } else {
                self.relaxed_src(item, ty)?
            };
            if wide.is_some_and(|wide| wide != is_wide) {
                return invalid("the elements' registers differ in size");
            }
            wide = Some(is_wide);
            rows.push(row);
        }
        let wide = wide.unwrap_or(ty.size() == 8);
        let action =
            if name == "suld" { SurfaceAction::Load { rows, wide } } else { SurfaceAction::Store { rows, wide } };
        self.emit_surface(place, geometry, outside, (ty, count), action)
    }

    fn surface_reduction(
        &mut self,
        m: &mut Modifiers<'_>,
        ops: &[Operand<'a>],
        geometry: Geometry,
        outside: Outside,
    ) -> Lower<()> {
        let name = m.one(|name| ["add", "min", "max", "and", "or"].into_iter().find(|known| *known == name));
        let ty = m.ty()?;
        m.finish()?;
        let op = match (name, ty) {
            (Some("add"), Scalar::U32 | Scalar::S32 | Scalar::U64) => AtomOp::Add,
            (Some("min"), Scalar::U32 | Scalar::U64) => AtomOp::MinU,
            (Some("min"), Scalar::S32 | Scalar::S64) => AtomOp::MinS,
            (Some("max"), Scalar::U32 | Scalar::U64) => AtomOp::MaxU,
            (Some("max"), Scalar::S32 | Scalar::S64) => AtomOp::MaxS,
            (Some("and"), Scalar::B32) => AtomOp::And,
            (Some("or"), Scalar::B32) => AtomOp::Or,
            _ => return invalid("there is no such reduction of a surface"),
        };
        if geometry.is_layered() {
            return invalid("a reduction of a surface has no layers");
        }
        let [place, a] = ops else { return invalid("sured takes a surface and a value") };
        let action = SurfaceAction::Reduce { op, a: self.src(a, ty)? };
        self.emit_surface(place, geometry, outside, (ty, 1), action)
    }

    /// Emits an action on `count` elements of a type, at a place of a surface.
    fn emit_surface(
        &mut self,
        place: &Operand<'a>,
        geometry: Geometry,
        outside: Outside,
        (ty, count): (Scalar, usize),
        action: SurfaceAction,
    ) -> Lower<()> {
        let (handle, layer, coordinates) = self.place(place, geometry, Scalar::S32)?;
        let (bytes, count) = (ty.size() as u8, count as u8);
        self.emit(Op::Surface(Box::new(SurfaceOp {
            handle,
            geometry,
            layer,
            coordinates,
            outside,
            bytes,
            count,
            action,
        })));
        Ok(())
    }
}
