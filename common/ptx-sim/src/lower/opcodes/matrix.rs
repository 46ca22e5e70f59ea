//! Matrix products and the moves of their fragments.

use super::modifiers::Modifiers;
use crate::ast::Operand;
use crate::ir::*;
use crate::lower::function::FunctionLowering;
use crate::lower::symbols::{Lower, Stop, invalid, unsupported};
use crate::matrix::{Mma, Wgmma, WmmaAccess};
use crate::scalar::Scalar;

impl<'a> FunctionLowering<'_, 'a> {
    pub(super) fn mma(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
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

    pub(super) fn wmma(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
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

    pub(super) fn wgmma(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        if m.flag("mma_async") {
            return self.wgmma_multiply(m, ops);
        }
        let what = m.one(|name| ["fence", "commit_group", "wait_group"].into_iter().find(|known| *known == name));
        m.ignore(&["sync", "aligned"]);
        m.finish()?;
        let op = match (what, ops) {
            (Some("fence"), []) => TogetherOp::WgmmaFence,
            (Some("commit_group"), []) => TogetherOp::WgmmaCommit,
            (Some("wait_group"), [Operand::Int(n)]) => match u8::try_from(*n) {
                Ok(n) => TogetherOp::WgmmaWait { n },
                Err(_) => return unsupported(format!("wgmma.wait_group of {n} groups")),
            },
            _ => return invalid("wgmma of this form"),
        };
        self.together(None, op)
    }

    /// `wgmma.mma_async{.sp} d, a, b, {metadata, selector,} scale-d {, imm-scale-a, imm-scale-b {, {imm-trans-a,} imm-trans-b}};`
    fn wgmma_multiply(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        let [d, a, b, rest @ ..] = ops else { return invalid("wgmma.mma_async takes d, a and b") };
        let (metadata, selector, rest) = match rest {
            [metadata, Operand::Int(selector), rest @ ..] if m.0.contains(&"sp") => (Some(metadata), *selector, rest),
            rest => (None, 0, rest),
        };
        let wgmma = Wgmma::parse(&m.0, selector as u64).map_err(Stop::Unsupported)?;
        if wgmma.is_sparse() != metadata.is_some() {
            return invalid("wgmma.mma_async.sp takes metadata and a sparsity selector");
        }
        let [accumulate, immediates @ ..] = rest else { return invalid("wgmma.mma_async takes scale-d") };
        let in_registers = matches!(a, Operand::Vector(_));
        let mut constants = Vec::new();
        for immediate in immediates {
            let &Operand::Int(value) = immediate else { return invalid("the scales and transpositions are constants") };
            constants.push(value);
        }
        let (scales, transpositions) = match (wgmma.is_float(), wgmma.transposes(), in_registers, &constants[..]) {
            (false, _, _, []) => ([1, 1], [0, 0]),
            (true, false, _, &[a, b]) => ([a, b], [0, 0]),
            (true, true, true, &[a, b, of_b]) => ([a, b], [0, of_b]),
            (true, true, false, &[a, b, of_a, of_b]) => ([a, b], [of_a, of_b]),
            _ => {
                return invalid(format!("{} constants after scale-d do not fit this wgmma.mma_async", constants.len()));
            }
        };
        if scales.iter().any(|scale| scale.unsigned_abs() != 1) {
            return invalid("imm-scale-a and imm-scale-b are 1 or -1");
        }
        if transpositions.iter().any(|transposed| !matches!(transposed, 0 | 1)) {
            return invalid("imm-trans-a and imm-trans-b are 0 or 1");
        }
        let [of_d, of_a] = wgmma.registers();
        let a = if in_registers {
            WgmmaA::Registers(self.vector(a, Scalar::B32, of_a, false)?)
        } else {
            WgmmaA::Descriptor(self.src(a, Scalar::B64)?)
        };
        let b = self.src(b, Scalar::B64)?;
        let metadata = match metadata {
            Some(metadata) => Some(self.src(metadata, Scalar::B32)?),
            None => None,
        };
        let accumulate = self.predicate(accumulate)?;
        let d = self.vector(d, Scalar::B32, of_d, true)?;
        let op = WgmmaOp {
            wgmma,
            d,
            a,
            b,
            mn_major: transpositions.map(|transposed| transposed == 1),
            accumulate,
            negated: scales[0] != scales[1],
            metadata,
        };
        self.together(None, TogetherOp::Wgmma(Box::new(op)))
    }

    pub(super) fn movmatrix(&mut self, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
        m.ignore(&["sync", "aligned", "m8n8", "trans", "b16"]);
        m.finish()?;
        let [d, a] = ops else { return invalid("movmatrix takes a matrix") };
        let d = self.dst(d, Scalar::B32)?;
        let a = self.src(a, Scalar::B32)?;
        self.together(None, TogetherOp::MovMatrix { d, a })
    }

    pub(super) fn ldmatrix(&mut self, name: &str, m: &mut Modifiers<'_>, ops: &[Operand<'a>]) -> Lower<()> {
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
