//! Schedules: what queued work may run at the same time, and how long it takes if each operation takes one unit.

use std::fmt;

/// Part of a GPU that does one operation at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Copies from the host to the device.
    CopyIn,
    /// Kernels, fills, and copies inside the device.
    Compute,
    /// Copies from the device to the host.
    CopyOut,
}

impl Engine {
    /// All of them, in the order in which a chunk of data meets them.
    pub const ALL: [Engine; 3] = [Engine::CopyIn, Engine::Compute, Engine::CopyOut];

    /// Name, at most eight characters long.
    pub fn name(self) -> &'static str {
        match self {
            Engine::CopyIn => "copy in",
            Engine::Compute => "kernel",
            Engine::CopyOut => "copy out",
        }
    }
}

/// An operation, at the earliest unit in which its engine is free and all that it waits for has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The engine that does it.
    pub engine: Engine,
    /// Its place among the operations of its engine, which take turns in the order of queueing.
    pub turn: usize,
    /// The unit of time in which it runs.
    pub unit: usize,
}

/// Operations in the order in which they were queued. Printed, it is a timeline with a line per engine, on which each operation is the
/// last digit of its turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    operations: Vec<Operation>,
}

impl Schedule {
    /// Queues an operation that waits for earlier ones, given by their positions.
    pub(crate) fn queue(&mut self, engine: Engine, after: impl Iterator<Item = usize>) {
        let before = self.operations.iter().filter(|operation| operation.engine == engine);
        let (turn, free) = (before.clone().count(), before.map(|operation| operation.unit + 1).max().unwrap_or(0));
        let ready = after.map(|position| self.operations[position].unit + 1).max().unwrap_or(0);
        self.operations.push(Operation { engine, turn, unit: free.max(ready) });
    }

    /// The operations, in the order of queueing.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Number of units until the last operation has ended.
    pub fn units(&self) -> usize {
        self.operations.iter().map(|operation| operation.unit + 1).max().unwrap_or(0)
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for engine in Engine::ALL {
            let mut line = vec!['·'; self.units()];
            for operation in self.operations.iter().filter(|operation| operation.engine == engine) {
                line[operation.unit] = char::from(b'0' + (operation.turn % 10) as u8);
            }
            writeln!(f, "{:<8} {}", engine.name(), line.into_iter().collect::<String>())?;
        }
        Ok(())
    }
}
