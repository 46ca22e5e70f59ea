//! The registers that an instruction writes, by the names that they have in the PTX: for the debugger and for a trace.

use crate::exec::state::launch::Launch;
use crate::exec::state::scene::Scene;
use crate::ir::*;
use crate::scalar::Scalar;

/// A register that an instruction writes.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    /// Name in the PTX; an element of a vector as `%v.x`.
    pub name: String,
    pub place: Place,
}

/// Place of its lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Predicate(P),
    Row(R, Scalar),
}

impl Place {
    /// The bits of a lane there; a predicate has one.
    pub(crate) fn bits(self, scene: &Scene<'_, '_>, lane: usize) -> u64 {
        match self {
            Place::Predicate(p) => u64::from(scene.warp.predicate(scene.frame_predicates, p) >> lane & 1),
            Place::Row(row, ty) => {
                let bits = scene.rows.lane_of(row, ty.size() >= 8, lane);
                // A row has room for four bytes.
                if ty.size() < 4 { bits & ((1 << (8 * ty.size())) - 1) } else { bits }
            }
        }
    }
}

/// The function that contains the instruction at `pc`.
pub(crate) fn function_at<'l>(launch: &Launch<'l>, pc: usize) -> Option<&'l Function> {
    let functions = &launch.program.functions;
    let after = functions.partition_point(|function| function.start as usize <= pc);
    after.checked_sub(1).map(|at| &functions[at])
}

/// The name that a register has in the PTX.
pub(crate) fn name_of<'l>(launch: &Launch<'l>, register: &NamedRegister) -> &'l str {
    launch.source.get(register.name.start as usize..register.name.end as usize).unwrap_or_default()
}

/// "register `%f5`", of the function that contains the instruction at `pc`.
pub(crate) fn register_name(launch: &Launch<'_>, pc: usize, row: R) -> String {
    match function_at(launch, pc).and_then(|function| function.register_of(row)) {
        Some(register) => format!("register `{}`", name_of(launch, register)),
        None => "a register".to_owned(),
    }
}

/// The named registers that an instruction writes. Unnamed ones are the lowering's own helpers.
pub(crate) fn written(launch: &Launch<'_>, function: &Function, pc: usize) -> Vec<Written> {
    let facts = launch.program.code[pc].op.facts();
    let site = launch.site(pc);
    let mut found = Vec::new();
    let mut add = |name: String, place: Place| found.push(Written { name, place });
    for p in facts.sets {
        if let Some(register) = function.predicate_of(p) {
            add(name_of(launch, register).to_owned(), Place::Predicate(p));
        }
    }
    for row in facts.writes {
        let Some(register) = function.register_of(row) else { continue };
        let element = (row - register.at) / register.rows();
        let name = name_of(launch, register);
        let name = match register.count {
            1 => name.to_owned(),
            _ => format!("{name}.{}", ["x", "y", "z", "w"][element.min(3) as usize]),
        };
        add(name, Place::Row(row, shown_type(&site.instruction, register.ty)));
    }
    found
}

/// Display type of a register: its own type, unless that is bits only and the instruction knows better.
pub(crate) fn shown_type(instruction: &str, declared: Scalar) -> Scalar {
    if !matches!(declared, Scalar::B16 | Scalar::B32 | Scalar::B64) {
        return declared;
    }
    let opcode = instruction.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or_default();
    let mut types = opcode.trim_end_matches(';').split('.').skip(1).filter_map(Scalar::declared);
    let Some(ty) = types.find(|ty| *ty != Scalar::Pred) else { return declared };
    match (ty, declared) {
        _ if ty.size() == declared.size() => ty,
        (Scalar::F16, Scalar::B32) => Scalar::F16x2,
        (Scalar::Bf16, Scalar::B32) => Scalar::Bf16x2,
        // A result wider than the operands, or a load of fewer bytes.
        _ if ty.size() > declared.size() || ty.float() => declared,
        (_, Scalar::B16) => {
            if ty.signed() {
                Scalar::S16
            } else {
                Scalar::U16
            }
        }
        (Scalar::B8 | Scalar::B16 | Scalar::B32, _) => declared,
        (_, Scalar::B32) => {
            if ty.signed() {
                Scalar::S32
            } else {
                Scalar::U32
            }
        }
        _ => {
            if ty.signed() {
                Scalar::S64
            } else {
                Scalar::U64
            }
        }
    }
}
