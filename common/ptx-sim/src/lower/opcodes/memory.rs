//! Loads and stores, addresses, and fences.

use super::emit::operand;
use super::modifiers::Modifiers;
use crate::ast::Operand;
use crate::ir::*;
use crate::lower::function::FunctionLowering;
use crate::lower::symbols::{Lower, Register, Symbol, invalid, unsupported};
use crate::scalar::Scalar;

impl<'a> FunctionLowering<'_, 'a> {
    /// `prefetch`, `discard` and the like, which no program can see the effect of.
    pub(super) fn hint(&mut self, m: &mut Modifiers<'_>) -> Lower<()> {
        m.space();
        m.ignore_hints();
        m.ignore(&["L1", "L2", "tensormap"]);
        self.plain(m, Op::Nop)
    }

    pub(super) fn fence(&mut self, m: &mut Modifiers<'_>) -> Lower<()> {
        let proxy = m.flag("proxy");
        let ordered = ["sc", "acq_rel", "acquire", "release"].into_iter().filter(|order| m.flag(order)).count() != 0;
        let initialised = m.flag("mbarrier_init");
        let of_copies = m.0.iter().any(|name| name.starts_with("async"));
        m.0.retain(|name| !name.starts_with("sync_restrict::"));
        if proxy {
            m.ignore(&["alias", "async", "async::generic", "generic", "tensormap::generic", "tensormap"]);
            m.ignore(&["async::global", "async::shared::cta", "async::shared::cluster"]);
            m.ignore(&["global", "shared::cta", "shared::cluster"]);
        }
        // `fence.mbarrier_init` is for the cluster, which counts as the device.
        let scope = if initialised { Scope::Device } else { m.scope(Scope::Block) };
        m.ignore(&["cta", "cluster", "gpu", "gl", "sys"]);
        // Every access goes to one memory: between proxies there is nothing to order, but a sanitiser looks for the fence.
        if proxy && !ordered {
            return self.plain(m, if of_copies { Op::ProxyFence } else { Op::Nop });
        }
        self.plain(m, Op::Fence { scope })
    }

    /// Without caches, a policy is a number that no access uses.
    pub(super) fn create_policy(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let converts = m.flag("cvt");
        m.ignore(&["fractional", "range", "global", "L2", "b64"]);
        m.ignore_hints();
        m.finish()?;
        let d = self.dst(operand(ops, 0)?, Scalar::B64)?;
        let a = if converts { self.src(operand(ops, 1)?, Scalar::B64)? } else { self.bits(1, true) };
        self.emit(Op::Mov64 { d, a });
        Ok(())
    }

    fn access(
        &mut self,
        m: &mut Modifiers<'_>,
        address: &Operand<'a>,
        data: &Operand<'a>,
        load: bool,
    ) -> Lower<Access> {
        check_order(m, load)?;
        let scope = m.scope(Scope::Device);
        let order = m.order();
        let read_only = m.flag("nc");
        let space = m.space().unwrap_or(MemSpace::Generic);
        let param = space == MemSpace::Param;
        // All parameters are the kernel's own, and NVRTC 13.0 leaves bytes out of a parameter's mask whose registers it uses.
        let used = if param { u32::MAX } else { self.used };
        m.ignore_hints();
        let count = m
            .one(|name| match name {
                "v2" => Some(2u8),
                "v4" => Some(4),
                "v8" => Some(8),
                _ => None,
            })
            .unwrap_or(1);
        let ty = m.ty()?;
        m.finish()?;
        if !is_stored(ty) {
            return invalid(format!(
                "memory holds no .{0}: an access is of bits (.b{1}), integers, .f32 or .f64",
                ty.name(),
                ty.bits().max(8)
            ));
        }
        let most = if self.target.capability < 100 { 16 } else { 32 };
        if ty.size() * u32::from(count) > most {
            return invalid(format!("an access takes at most {most} bytes of each lane on this .target"));
        }
        if ty == Scalar::B128 {
            if count != 1 {
                return unsupported("vectors of 128-bit registers");
            }
            let address = self.address(address, space)?;
            let [low, high] = self.halves(data, load)?;
            let mut rows = [R::MAX; 8];
            rows[..2].copy_from_slice(&[low, high]);
            return Ok(Access {
                address,
                bytes: 8,
                count: 2,
                rows,
                wide: true,
                signed: false,
                narrow: false,
                used,
                param,
                order,
                scope,
                plain: false,
                read_only,
            });
        }
        let address = self.address(address, space)?;
        let mut rows = [R::MAX; 8];
        let items: Vec<&Operand<'a>> = match data {
            Operand::Vector(items) => items.iter().collect(),
            item => vec![item],
        };
        let vector_register = match data {
            Operand::Name(name) if count > 1 => self.register_named(name)?,
            _ => None,
        };
        // ptxas does not look at the kind of registers that a vector is loaded into.
        let kind = if count == 1 { ty } else { Scalar::of_bytes(ty.size()) };
        let mut wide = None;
        let mut narrow = false;
        if let Some(Register::Vector { row, ty: declared, count: elements }) = vector_register {
            if elements != u32::from(count) {
                return invalid("the vector register has another number of elements");
            }
            for at in 0..elements {
                rows[at as usize] = row + at * rows_of(declared);
            }
            wide = Some(declared.size() == 8);
            narrow = declared.size() == 2;
        } else {
            if items.len() != usize::from(count) {
                return invalid(format!("{count} elements are expected, not {}", items.len()));
            }
            for (row, item) in rows.iter_mut().zip(items) {
                if load && matches!(item, Operand::Name("_")) {
                    continue;
                }
                let (found, is_wide) = if load {
                    let (found, declared) = self.relaxed_dst(item, kind)?;
                    narrow = declared.size() == 2;
                    (found, declared.size() == 8)
                } else {
                    self.relaxed_src(item, ty)?
                };
                if wide.is_some_and(|wide| wide != is_wide) {
                    return invalid("the elements' registers differ in size");
                }
                wide = Some(is_wide);
                *row = found;
            }
        }
        let wide = wide.unwrap_or(ty.size() == 8);
        Ok(Access {
            address,
            bytes: ty.size() as u8,
            count,
            rows,
            wide,
            signed: ty.signed(),
            narrow,
            used,
            param,
            order,
            scope,
            plain: ty.size() == 4 && !wide && order == Order::Weak && used == u32::MAX,
            read_only,
        })
    }

    pub(super) fn load(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        // a fourth operand is a cache policy
        let access = self.access(m, operand(ops, 1)?, operand(ops, 0)?, true)?;
        self.emit(Op::Load(Box::new(access)));
        Ok(())
    }

    pub(super) fn store(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        if m.0.first() == Some(&"async") {
            return self.words_async(m, ops, false);
        }
        if let Some(Operand::Address(Some(name), _)) = ops.first()
            && let Some(Symbol::KernelParam(_)) = self.lookup(name)
        {
            return invalid(format!("`{name}` is a parameter of the kernel, which can only be read"));
        }
        let access = self.access(m, operand(ops, 0)?, operand(ops, 1)?, false)?;
        self.emit(Op::Store(Box::new(access)));
        Ok(())
    }

    pub(super) fn cvta(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let to = m.flag("to");
        let Some(space) = m.space() else { return unsupported("cvta of this state space") };
        let ty = m.ty()?;
        m.finish()?;
        let [d, a] = ops else { return invalid("cvta takes a destination and a source") };
        let d = self.dst(d, ty)?;
        let a = self.src(a, ty)?;
        let window = window(self.param_space(space));
        let delta = if to { window.wrapping_neg() } else { window };
        self.emit(Op::Cvta { d, a, wide: ty.size() == 8, delta });
        Ok(())
    }

    pub(super) fn isspacep(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let constant = m.flag("const");
        let space = if constant { Some(MemSpace::Global) } else { m.space() };
        let Some(space) = space else { return unsupported("isspacep of this state space") };
        m.finish()?;
        let [p, a] = ops else { return invalid("isspacep takes a predicate and an address") };
        let Some(d) = self.predicate_or_sink(p)? else { return Ok(()) };
        let (a, wide) = match a {
            Operand::Name(_) => {
                let (row, ty) = self.any_register(a)?;
                (row, ty.size() == 8)
            }
            _ => (self.value(a, Scalar::B64)?, true),
        };
        self.emit(Op::IsSpace { d, a, wide, space, constant });
        Ok(())
    }
}

/// Reports modifiers of order, scope and space that do not go together (PTX ISA, "ld" and "st").
fn check_order(m: &Modifiers<'_>, load: bool) -> Lower<()> {
    let one_of = |names: &[&'static str]| names.iter().copied().find(|name| m.0.contains(name));
    let order = one_of(&["relaxed", "acquire", "release", "acq_rel"]);
    let scope = one_of(&["cta", "cluster", "gpu", "sys"]);
    let instruction = if load { "ld" } else { "st" };
    match (order, scope) {
        (Some(order), _) if !(order == "relaxed" || order == if load { "acquire" } else { "release" }) => {
            return invalid(format!("{instruction} has no .{order}"));
        }
        (Some(order), None) => {
            return invalid(format!("{instruction}.{order} needs a scope: .cta, .cluster, .gpu or .sys"));
        }
        (None, Some(scope)) => return invalid(format!("a scope, .{scope}, needs an order, such as .relaxed")),
        _ => {}
    }
    if !load && let Some(space) = one_of(&["const", "nc"]) {
        return invalid(format!("st has no .{space}: such memory is only read"));
    }
    if one_of(&["nc"]).is_some()
        && (one_of(&["global"]).is_none() || order.is_some() || one_of(&["volatile"]).is_some())
    {
        return invalid(".nc is for plain loads of .global memory");
    }
    Ok(())
}

/// Whether `ld` and `st` take the type.
fn is_stored(ty: Scalar) -> bool {
    use Scalar::*;
    ty.is_integer() || matches!(ty, B8 | B16 | B32 | B64 | B128 | F32 | F64)
}
