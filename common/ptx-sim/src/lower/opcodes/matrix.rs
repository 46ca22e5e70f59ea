//! Matrix products and the moves of their fragments.

use super::modifiers::Modifiers;
use crate::ast::Operand;
use crate::ir::*;
use crate::lower::function::FunctionLowering;
use crate::lower::symbols::{Lower, Stop, invalid, unsupported};
use crate::matrix::{Mma, WmmaAccess};
use crate::scalar::Scalar;

impl<'a> FunctionLowering<'_, 'a> {
    /// False where the mnemonic is none of this family.
    pub(super) fn matrix(&mut self, name: &str, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<bool> {
        match name {
            "mma" => self.mma(m, ops)?,
            "wmma" => self.wmma(m, ops)?,
            "ldmatrix" | "stmatrix" => self.ldmatrix(name, m, ops)?,
            "movmatrix" => self.movmatrix(m, ops)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn mma(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let [fragments @ .., metadata, selector] = ops else { return invalid("mma takes three fragments") };
        if ops.len() != 6 {
            let mma = Mma::parse_mma(&m.0, 0).map_err(Stop::Unsupported)?;
            return self.mma_with(mma, ops, None);
        }
        let &Operand::Int(selector) = selector else { return invalid("a sparsity selector is a constant") };
        let mma = Mma::parse_mma(&m.0, selector as u64).map_err(Stop::Unsupported)?;
        self.mma_with(mma, fragments, Some(metadata))
    }

    fn mma_with(&mut self, mma: Mma, ops: &[Operand<'a>], metadata: Option<&Operand<'a>>) -> Lower<()> {
        let [d, a, b, c] = ops else { return invalid("mma takes three fragments") };
        let metadata = match metadata {
            _ if mma.is_sparse() != metadata.is_some() => {
                return invalid("mma.sp takes metadata and a sparsity selector, which other products do not");
            }
            Some(metadata) => Some(self.src(metadata, Scalar::B32)?),
            None => None,
        };
        let [nd, na, nb, nc] = mma.registers();
        let (a, wide_a) = self.fragment(a, na, false)?;
        let (b, wide_b) = self.fragment(b, nb, false)?;
        let (c, wide_c) = self.fragment(c, nc, false)?;
        let (d, wide_d) = self.fragment(d, nd, true)?;
        let wide = [wide_d, wide_a, wide_b, wide_c];
        self.together(None, TogetherOp::Mma(Box::new(MmaOp { mma, wide, d, a, b, c, metadata })))
    }

    fn wmma(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        if m.flag("mma") {
            let mma = Mma::parse_wmma(&m.0).map_err(Stop::Unsupported)?;
            return self.mma_with(mma, ops, None);
        }
        let load = m.0.first() == Some(&"load");
        let space = m.space().unwrap_or(MemSpace::Generic);
        let access = WmmaAccess::parse(&m.0).map_err(Stop::Unsupported)?;
        let (registers, address, stride) = match ops {
            [registers, address, rest @ ..] if load => (registers, address, rest.first()),
            [address, registers, rest @ ..] => (registers, address, rest.first()),
            _ => return invalid("wmma.load and wmma.store take a fragment and an address"),
        };
        let (rows, wide) = self.fragment(registers, access.registers(), load)?;
        let address = self.address(address, space)?;
        let stride = match stride {
            Some(stride) => Some(self.src(stride, Scalar::B32)?),
            None => None,
        };
        let memory = Box::new(WmmaMemory { access, address, wide, rows, stride });
        self.together(None, if load { TogetherOp::WmmaLoad(memory) } else { TogetherOp::WmmaStore(memory) })
    }

    fn movmatrix(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        m.ignore(&["sync", "aligned", "m8n8", "trans", "b16"]);
        m.finish()?;
        let [d, a] = ops else { return invalid("movmatrix takes a matrix") };
        let d = self.dst(d, Scalar::B32)?;
        let a = self.src(a, Scalar::B32)?;
        self.together(None, TogetherOp::MovMatrix { d, a })
    }

    fn ldmatrix(&mut self, name: &str, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        m.ignore(&["sync", "aligned", "m8n8", "b16"]);
        let transposed = m.flag("trans");
        let count = m.one(|name| {
            Some(match name {
                "x1" => 1,
                "x2" => 2,
                "x4" => 4,
                _ => return None,
            })
        });
        let space = m.space().unwrap_or(MemSpace::Generic);
        m.finish()?;
        let Some(count) = count else { return unsupported(format!("{name} without .x1, .x2 or .x4")) };
        let load = name == "ldmatrix";
        let (registers, address) = match ops {
            [registers, address] if load => (registers, address),
            [address, registers] => (registers, address),
            _ => return invalid(format!("{name} takes registers and an address")),
        };
        let (rows, _) = self.fragment(registers, count, load)?;
        let address = self.address(address, space)?;
        let moves = Box::new(MatrixMove { address, rows, transposed });
        self.together(None, if load { TogetherOp::LdMatrix(moves) } else { TogetherOp::StMatrix(moves) })
    }
}
