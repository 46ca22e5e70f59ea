//! Calls between ranks: operations, their values' type and number, and their names in messages.

use std::fmt;

/// Method of combining the values of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOp {
    /// Their sum.
    Sum,
    /// The smallest.
    Min,
    /// The largest.
    Max,
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReduceOp::Sum => "sum",
            ReduceOp::Min => "min",
            ReduceOp::Max => "max",
        })
    }
}

/// One end of a transfer between two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// The other rank.
    pub peer: u32,
    /// Values sent or received.
    pub count: u64,
}

/// Operation on the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Every rank waits for all others.
    Barrier,
    /// The last barrier: the ranks end.
    Finish,
    /// Every rank gets the bytes of all, which may differ in length.
    Share,
    AllReduce(ReduceOp),
    AllGather,
    ReduceScatter(ReduceOp),
    Broadcast {
        root: u32,
    },
    /// Between pairs; the others are not involved.
    Transfer {
        to: Option<End>,
        from: Option<End>,
    },
}

/// An operation with its values: it must be the same on all ranks, unless it is a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub operation: Operation,
    /// The values' type: `f32`. Empty if there are none.
    pub element: String,
    /// Bytes of a value.
    pub size: u32,
    /// Values of one rank's part: its own ones for a gather, the received ones for a scatter.
    pub count: u64,
}

impl Call {
    /// A call without values.
    pub(super) fn plain(operation: Operation) -> Call {
        Call { operation, element: String::new(), size: 0, count: 0 }
    }

    pub(super) fn is_transfer(&self) -> bool {
        matches!(self.operation, Operation::Transfer { .. })
    }

    /// Bytes that `rank` of `ranks` brings; `None` if any number is allowed, or if 64 bits cannot count them.
    pub(super) fn bytes_of(&self, rank: usize, ranks: usize) -> Option<u64> {
        let values = match self.operation {
            Operation::Share => return None,
            Operation::Barrier | Operation::Finish => 0,
            Operation::AllReduce(_) | Operation::AllGather => self.count,
            Operation::ReduceScatter(_) => self.count.checked_mul(ranks as u64)?,
            Operation::Broadcast { root } => {
                if root as usize == rank {
                    self.count
                } else {
                    0
                }
            }
            Operation::Transfer { to, .. } => to.map_or(0, |end| end.count),
        };
        values.checked_mul(u64::from(self.size))
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call { element, count, .. } = self;
        match self.operation {
            Operation::Barrier => f.write_str("a barrier"),
            Operation::Finish => f.write_str("the end of the run"),
            Operation::Share => f.write_str("an exchange of notes"),
            Operation::AllReduce(op) => write!(f, "all_reduce({op}) of {count} {element}"),
            Operation::AllGather => write!(f, "all_gather of {count} {element} per rank"),
            Operation::ReduceScatter(op) => write!(f, "reduce_scatter({op}) to {count} {element} per rank"),
            Operation::Broadcast { root } => write!(f, "broadcast of {count} {element} from rank {root}"),
            Operation::Transfer { to, from } => {
                let ends = [to.map(|end| ("send", "to", end)), from.map(|end| ("receive", "from", end))];
                for (i, (verb, preposition, end)) in ends.into_iter().flatten().enumerate() {
                    let and = if i == 0 { "" } else { " and " };
                    write!(f, "{and}{verb} {} {element} {preposition} rank {}", end.count, end.peer)?;
                }
                Ok(())
            }
        }
    }
}
