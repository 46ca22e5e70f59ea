//! The steps of a [`Trace`] side by side: each warp executes one instruction per step, all warps at once, and waits where it
//! has to wait for another. This shows which warp waits for which, whatever the order in which the simulator ran them.
//!
//! A warp that polls an mbarrier waits there until the last of the phase's arrivals, and until the step after its copies
//! were asked for: their immediate completion is a part of the model, like one step per instruction.

use crate::trace::{AsyncEvent, AsyncStep, Grouped, Phase, Step, StepEvent, Trace};

/// State of a warp from one step on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub start: usize,
    pub mask: u32,
    pub live: u32,
}

/// Lanes of a warp that wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub from: usize,
    pub to: usize,
    pub mask: u32,
    /// Phase, if they wait at an mbarrier rather than at a barrier.
    pub phase: Option<Phase>,
}

/// Work under way, from the step that asks for it up to the wait that completes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub from: usize,
    pub to: usize,
    pub what: FlightKind,
    /// Source line that asks for it.
    pub line: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlightKind {
    /// A bulk copy to shared memory, with its number of bytes.
    Load { phase: Phase, bytes: u64 },
    /// A group.
    Group(Grouped),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    pub number: u32,
    pub steps: Vec<Span>,
    pub waits: Vec<Wait>,
    pub flights: Vec<Flight>,
    pub live: u32,
    /// The next step.
    pub now: usize,
    pub exits: Option<usize>,
    /// The mbarrier that it asks in vain, and the start of that.
    asking: Option<Asking>,
    groups: [Groups; 3],
}

#[derive(Clone, Copy, Debug)]
struct Asking {
    phase: Phase,
    from: usize,
    /// Number of the row's earlier steps.
    steps: usize,
    mask: u32,
}

/// Work of a warp that is waited for by groups, as indices of its flights.
#[derive(Clone, Debug, Default)]
struct Groups {
    open: Option<usize>,
    /// Groups that were committed and not waited for; one may be empty.
    committed: Vec<Option<usize>>,
}

/// A barrier that released threads.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub at: usize,
    /// Rows of the warps that arrived.
    pub rows: Vec<usize>,
    /// The row of the last arrival.
    pub last: usize,
    pub line: u32,
}

pub(super) struct Model {
    pub rows: Vec<Row>,
    pub marks: Vec<Mark>,
    pub length: usize,
}

/// The phases of an mbarrier, as far as they are traced.
#[derive(Clone, Debug)]
struct Object {
    mbarrier: u64,
    /// The phase of the last event, and the ends of the latest even and the latest odd phase.
    odd: bool,
    ends: [usize; 2],
    /// Flights (row and index there) that phases wait for, by parity, and those that a wait has completed.
    flights: [Vec<(usize, usize)>; 2],
    landed: [Vec<(usize, usize)>; 2],
}

#[derive(Default)]
struct Objects(Vec<Object>);

impl Objects {
    fn of(&mut self, mbarrier: u64) -> &mut Object {
        let at = self.0.iter().position(|known| known.mbarrier == mbarrier).unwrap_or_else(|| {
            let nothing = || [Vec::new(), Vec::new()];
            self.0.push(Object { mbarrier, odd: false, ends: [0; 2], flights: nothing(), landed: nothing() });
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    /// Records an event up to `time` that a phase waits for.
    fn happens(&mut self, phase: Phase, time: usize) -> &mut Object {
        let object = self.of(phase.mbarrier);
        let end = &mut object.ends[usize::from(phase.odd)];
        // An event of the other parity than the last one's is of a new phase.
        *end = if object.odd == phase.odd { (*end).max(time) } else { time };
        object.odd = phase.odd;
        object
    }
}

/// Lanes of a step: a jump concerns also those that do not take it.
fn ran(step: &Step) -> u32 {
    if step.event == StepEvent::Branch { step.mask } else { step.active }
}

pub(super) fn model(trace: &Trace) -> Model {
    let threads: u32 = trace.threads.iter().product();
    let mut rows: Vec<Row> = Vec::new();
    let mut numbers: Vec<u32> = trace.steps.iter().map(|step| step.warp).collect();
    numbers.sort_unstable();
    numbers.dedup();
    for number in numbers {
        let lanes = threads.saturating_sub(number * 32).min(32);
        let live = if lanes == 32 { u32::MAX } else { (1 << lanes) - 1 };
        rows.push(Row { number, live, ..Row::default() });
    }
    let row_of = |rows: &[Row], warp: u32| rows.binary_search_by_key(&warp, |row| row.number).ok();
    // For each barrier: which warps came, when, and whether they wait.
    let mut arrived: Vec<(u32, usize, usize, u32, bool, u32)> = Vec::new();
    let mut marks = Vec::new();
    let mut objects = Objects::default();
    let mut releases = trace.releases.iter().peekable();
    let mut events = trace.asynchronous.iter().peekable();
    for at in 0..=trace.steps.len() {
        while let Some(release) = releases.next_if(|release| release.at == at) {
            let here = |(barrier, ..): &(u32, usize, usize, u32, bool, u32)| *barrier == release.barrier;
            let all: Vec<_> = arrived.iter().copied().filter(here).collect();
            arrived.retain(|one| !here(one));
            let Some(last) = all.iter().max_by_key(|(_, _, when, ..)| *when) else { continue };
            let (_, last_row, when, .., line) = *last;
            let mut came: Vec<usize> = all.iter().map(|(_, row, ..)| *row).collect();
            came.sort_unstable();
            came.dedup();
            for (_, row, from, mask, waits, _) in &all {
                if *waits {
                    rows[*row].waits.push(Wait { from: *from, to: when, mask: *mask, phase: None });
                    rows[*row].now = rows[*row].now.max(when);
                }
            }
            marks.push(Mark { at: when, rows: came, last: last_row, line });
        }
        let Some(step) = trace.steps.get(at) else { break };
        let mut of_step: Vec<&AsyncStep> = Vec::new();
        while let Some(event) = events.next_if(|event| event.step == at) {
            of_step.push(event);
        }
        let Some(index) = row_of(&rows, step.warp) else { continue };
        let line = trace.sites[step.site as usize].shown_line();
        let row = &mut rows[index];
        ask(row, &mut objects, step, &of_step);
        row.steps.push(Span { start: row.now, mask: ran(step), live: row.live });
        row.now += 1;
        for event in &of_step {
            follow(&mut rows, index, &mut objects, event.event, line);
        }
        let row = &mut rows[index];
        match step.event {
            StepEvent::None | StepEvent::Branch => {}
            StepEvent::Arrive { barrier, waits } => arrived.push((barrier, index, row.now, step.active, waits, line)),
            StepEvent::Exit => {
                row.live &= !step.active;
                if row.live == 0 {
                    row.exits = Some(row.now);
                }
            }
        }
    }
    let length = rows.iter().map(|row| row.now).max().unwrap_or(1);
    // What nobody waited for is under way up to the end.
    for flight in rows.iter_mut().flat_map(|row| &mut row.flights) {
        flight.to = flight.to.min(length);
    }
    Model { rows, marks, length }
}

/// Removes the vain queries of an mbarrier, and puts a wait in their place.
fn ask(row: &mut Row, objects: &mut Objects, step: &Step, events: &[&AsyncStep]) {
    let question = events.iter().find_map(|event| match event.event {
        AsyncEvent::Asks { phase, over } => Some((phase, over)),
        _ => None,
    });
    let Some((phase, over)) = question else {
        // Between two questions a warp may branch, sleep and count, and do nothing that others see.
        let harmless = matches!(step.event, StepEvent::None | StepEvent::Branch) && events.is_empty();
        if row.asking.is_some_and(|asking| !harmless || ran(step) & !asking.mask != 0) {
            row.asking = None;
        }
        return;
    };
    if let Some(asking) = row.asking.take_if(|asking| asking.phase == phase) {
        row.steps.truncate(asking.steps);
        row.now = asking.from;
    }
    if !over {
        row.asking = Some(Asking { phase, from: row.now, steps: row.steps.len(), mask: step.mask });
        return;
    }
    let end = objects.of(phase.mbarrier).ends[usize::from(phase.odd)];
    if end > row.now {
        row.waits.push(Wait { from: row.now, to: end, mask: step.active, phase: Some(phase) });
        row.now = end;
    }
}

/// Follows the step's part in asynchronous work; it has been counted.
fn follow(rows: &mut [Row], index: usize, objects: &mut Objects, event: AsyncEvent, line: u32) {
    let row = &mut rows[index];
    let now = row.now;
    let parity = |phase: Phase| usize::from(phase.odd);
    match event {
        AsyncEvent::Loads { phase, bytes } => {
            let what = FlightKind::Load { phase, bytes };
            row.flights.push(Flight { from: now - 1, to: usize::MAX, what, line });
            objects.happens(phase, now).flights[parity(phase)].push((index, row.flights.len() - 1));
        }
        AsyncEvent::Begins(work) => {
            if row.groups[work as usize].open.is_none() {
                let what = FlightKind::Group(work);
                row.flights.push(Flight { from: now - 1, to: usize::MAX, what, line });
                row.groups[work as usize].open = Some(row.flights.len() - 1);
            }
        }
        AsyncEvent::Commits(work) => {
            let groups = &mut row.groups[work as usize];
            groups.committed.push(groups.open.take());
        }
        AsyncEvent::Waits { work, pending } => {
            let groups = &mut row.groups[work as usize];
            let keep = pending.map_or(0, |pending| pending as usize);
            let done = groups.committed.len().saturating_sub(keep);
            let mut all: Vec<usize> = groups.committed.drain(..done).flatten().collect();
            if pending.is_none() {
                all.extend(groups.open.take());
            }
            all.into_iter().for_each(|flight| row.flights[flight].to = now);
        }
        AsyncEvent::Arrives(phase) => {
            objects.happens(phase, now);
        }
        AsyncEvent::ArrivesWhenCopied(phase) => {
            let groups = &mut row.groups[Grouped::Copies as usize];
            let copies = groups.open.take().into_iter().chain(groups.committed.drain(..).flatten());
            let object = objects.happens(phase, now);
            object.flights[parity(phase)].extend(copies.map(|flight| (index, flight)));
        }
        AsyncEvent::Asks { over: false, .. } => {}
        AsyncEvent::Asks { phase, over: true } => {
            let object = objects.of(phase.mbarrier);
            let fresh = std::mem::take(&mut object.flights[parity(phase)]);
            if !fresh.is_empty() {
                object.landed[parity(phase)] = fresh;
            }
            // The first of several warps that wait completes them.
            for (row, flight) in &object.landed[parity(phase)] {
                let flight = &mut rows[*row].flights[*flight];
                flight.to = flight.to.min(now.max(flight.from + 1));
            }
        }
    }
}
