//! Sums over ranks, with the operations that follow them: the one launch of a plan that other ranks take part in.

use super::launch::Work;
use super::layout::nowhere;
use super::prelude::*;
use crate::gemm::Activation;
use crate::models::parameters::scale_shift;

/// A sum over ranks that a rank's pass has come to: all ranks' terms are added, finished and stored on each.
#[derive(Debug)]
pub struct RankSum<'p> {
    /// This rank's.
    pub terms: Intermediate,
    /// Added last, of the shape of `terms`; a rank's own.
    pub image: Option<Flowing<'p>>,
    /// Intermediate of the result, of the shape and type of `terms`.
    pub y: Intermediate,
    /// Applied to each sum before.
    pub finish: &'p Finish,
}

/// Applied to each sum over ranks before it is stored: activation(scale · sum + shift).
#[derive(Debug, Default)]
pub struct Finish {
    /// \[C'\] of f32, times each channel.
    pub scale: Option<Tensor>,
    /// \[C'\] of f32, added to each channel.
    pub shift: Option<Tensor>,
    /// Applied to the result so far.
    pub activation: Activation,
}

impl Planner<'_> {
    /// A sum over ranks of the results of the operations before it, and the operations after it: in the same launch, where values lie
    /// channels last.
    pub(super) fn rank_sum(&mut self, node: &Node, at: usize, ranks: usize) -> Result<PlacedValue> {
        let (first, rest) = (&node.operations[..at], &node.operations[at + 1..]);
        let with_of =
            |operations: &[Operation]| node.with.clone().filter(|_| operations.iter().any(Operation::takes_two));
        let terms = match first {
            [] => self.value(node.x.source).clone(),
            first => self.launches_of(&Node { operations: first.to_vec(), x: node.x.clone(), with: with_of(first) })?,
        };
        let place = terms.last().or_else(|| terms.places.first().cloned()).ok_or_else(nowhere)?;
        let (finish, with, done) = match self.finish(rest, &place.form, with_of(rest))? {
            Some((finish, with)) => (finish, with, rest.len()),
            None => (Finish::default(), None, 0),
        };
        let description = Description::of(&node.operations[at..][..1 + done], format!("{ranks} ranks' terms"));
        let place = self.push_work(description, Work::RankSum(Box::new(finish)), place.operand(), with, place.form);
        let sum = PlacedValue { places: vec![place], ..terms };
        if done == rest.len() {
            return Ok(sum);
        }
        // Planned as if the sum were an input.
        let x = Operand { source: Source::Input(self.inputs.len()), shape: sum.shape.clone() };
        self.inputs.push(sum);
        let value = self.launches_of(&Node { operations: rest.to_vec(), x, with: with_of(rest) });
        self.inputs.pop();
        value
    }

    /// All operations that follow a sum as a part of its launch, with the operand that it adds; `None` if it does not do all of them.
    fn finish(
        &mut self,
        operations: &[Operation],
        form: &Form,
        with: Option<Operand>,
    ) -> Result<Option<(Finish, Option<LaunchOperand>)>> {
        let spec = EpilogueSpec::of(operations).ok().filter(|_| form.format == MemoryFormat::Nhwc);
        let Some(EpilogueSpec { norm: Some(norm), activation, addition }) = spec else { return Ok(None) };
        let image = match (addition, with, self.cores()) {
            _ if activation == Activation::None => return Ok(None),
            (None, None, _) => None,
            (Some(Addition::AfterActivation), Some(with), Some(cores)) => match self.image_last(&cores, &with)? {
                Some(place) if place.form == *form => Some(place.operand()),
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        let [scale, shift] = self.scale_and_shift(scale_shift(norm, None)?, None, form.shape[1])?;
        Ok(Some((Finish { scale, shift, activation }, image)))
    }
}
