//! The modifiers of an opcode: each family takes those that it knows; the rest is reported as unknown.

use crate::ir::{BoolOp, MemSpace, Order, Scope};
use crate::lower::symbols::{Lower, invalid, unsupported};
use crate::scalar::{Rounding, Scalar};

/// The modifiers of an opcode that have not been taken yet, in order.
pub(super) struct Modifiers<'a>(pub(super) Vec<&'a str>);

impl<'a> Modifiers<'a> {
    /// Takes the modifier of that name.
    pub(super) fn flag(&mut self, name: &str) -> bool {
        match self.0.iter().position(|modifier| *modifier == name) {
            Some(at) => {
                self.0.remove(at);
                true
            }
            None => false,
        }
    }

    /// Takes any of `names`, which change nothing here.
    pub(super) fn ignore(&mut self, names: &[&str]) {
        self.0.retain(|modifier| !names.contains(modifier));
    }

    /// Takes the first modifier for which `value` returns `Some`.
    pub(super) fn one<T>(&mut self, value: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (at, found) = self.0.iter().enumerate().find_map(|(at, modifier)| Some((at, value(modifier)?)))?;
        self.0.remove(at);
        Some(found)
    }

    /// Takes the next type.
    pub(super) fn ty(&mut self) -> Lower<Scalar> {
        self.one(Scalar::declared).map_or_else(|| unsupported("an instruction without a type"), Ok)
    }

    pub(super) fn rounding(&mut self) -> Option<Rounding> {
        self.one(|name| {
            Some(match name {
                "rn" | "rni" => Rounding::Nearest,
                "rna" => Rounding::NearestAway,
                "rz" | "rzi" => Rounding::Zero,
                "rm" | "rmi" => Rounding::Down,
                "rp" | "rpi" => Rounding::Up,
                _ => return None,
            })
        })
    }

    /// Takes the logical operation.
    pub(super) fn bool_op(&mut self) -> Option<BoolOp> {
        self.one(|name| {
            Some(match name {
                "and" => BoolOp::And,
                "or" => BoolOp::Or,
                "xor" => BoolOp::Xor,
                _ => return None,
            })
        })
    }

    /// Takes the state space.
    pub(super) fn space(&mut self) -> Option<MemSpace> {
        self.one(|name| {
            Some(match name {
                "global" | "const" => MemSpace::Global,
                "shared" | "shared::cta" => MemSpace::Shared,
                "shared::cluster" => MemSpace::Cluster,
                "local" => MemSpace::Local,
                "param" | "param::entry" | "param::func" => MemSpace::Param,
                _ => return None,
            })
        })
    }

    /// Takes the place in the order of memory.
    pub(super) fn order(&mut self) -> Order {
        let named = self.one(|name| {
            Some(match name {
                "acquire" => Order::Acquire,
                "release" => Order::Release,
                "acq_rel" => Order::AcquireRelease,
                "relaxed" => Order::Relaxed,
                "volatile" => Order::Volatile,
                _ => return None,
            })
        });
        named.unwrap_or(Order::Weak)
    }

    /// The scope, which stays for [`Self::ignore_hints`] to take; `otherwise` if none is named. Volatile accesses are strong for
    /// all threads.
    pub(super) fn scope(&self, otherwise: Scope) -> Scope {
        let named = self.0.iter().find_map(|name| {
            Some(match *name {
                "cta" => Scope::Block,
                "cluster" | "gpu" | "gl" => Scope::Device,
                "sys" | "volatile" => Scope::System,
                _ => return None,
            })
        });
        named.unwrap_or(otherwise)
    }

    /// Takes cache and eviction hints, and memory scopes: without caches, and with one coherent memory, they change nothing.
    pub(super) fn ignore_hints(&mut self) {
        self.ignore(&[
            "ca", "cg", "cs", "cv", "lu", "wb", "wt", "nc", "cta", "cluster", "gpu", "sys", "weak", "mmio", "unified",
        ]);
        self.0.retain(|name| !["level::", "L1::", "L2::"].iter().any(|hint| name.starts_with(hint)));
    }

    /// Reports lengths of vectors and types that PTX does not have.
    pub(super) fn check(&self) -> Lower<()> {
        for modifier in &self.0 {
            let Some((kind, number)) = modifier.split_at_checked(1) else { continue };
            match (kind, number.parse::<u32>()) {
                ("v", Ok(count)) if !matches!(count, 2 | 4 | 8) => {
                    return invalid(format!("PTX has no .{modifier}: vectors are .v2, .v4 and .v8"));
                }
                ("b" | "f" | "s" | "u", Ok(_)) if !is_type(modifier) => {
                    return invalid(format!("PTX has no type .{modifier}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Reports remaining modifiers.
    pub(super) fn finish(&self) -> Lower<()> {
        match self.0.first() {
            None => Ok(()),
            Some(modifier) => unsupported(format!("the modifier .{modifier}")),
        }
    }
}

/// Whether the modifier is a type of PTX, of elements in a matrix or a tensor map included.
fn is_type(modifier: &str) -> bool {
    Scalar::from_name(modifier).is_some() || matches!(modifier, "b1" | "b1024" | "s2" | "s4" | "u2" | "u4")
}
