//! Instructions become operations, a file for each family.
//!
//! A family knows its mnemonics. It takes the modifiers that it understands from [`Modifiers`], which names what is left
//! over, and emits an operation of its own ([`Op`](crate::ir::Op)) where there is one, otherwise a
//! [`Map`](crate::ir::Map) of the function of [`crate::scalar`].

mod arithmetic;
mod async_copy;
mod atomic;
mod bits;
mod compare;
mod control;
mod convert;
mod emit;
mod float;
mod integer;
mod matrix;
mod memory;
mod modifiers;
mod moves;
mod warp;

use super::function::FunctionLowering;
use super::symbols::{Lower, unsupported};
use crate::ast;
use modifiers::Modifiers;

impl<'a> FunctionLowering<'_, 'a> {
    /// Lowers an instruction: by the first family that knows its mnemonic.
    pub(super) fn opcode(&mut self, instruction: &ast::Instruction<'a>) -> Lower<()> {
        let mut parts = instruction.opcode.split('.');
        let name = parts.next().unwrap_or_default();
        let m = &mut Modifiers(parts.collect());
        let ops = instruction.operands.as_slice();
        let known = self.arithmetic(name, m, ops)?
            || self.logic(name, m, ops)?
            || self.conversion(name, m, ops)?
            || self.moves(name, m, ops)?
            || self.comparison(name, m, ops)?
            || self.memory(name, m, ops)?
            || self.atomics(name, m, ops)?
            || self.async_copies(name, m, ops)?
            || self.control(name, m, ops)?
            || self.warp(name, m, ops)?
            || self.matrix(name, m, ops)?;
        if known { Ok(()) } else { unsupported(format!("the instruction {name}")) }
    }
}
