//! Streams: work is queued, and done when it has to be: at once, or with `--late` when the program waits for it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ptx_sim::{Arg, Device, DevicePtr, LaunchConfig, LaunchError, MemoryError, Observation, Observe};

use crate::abi::{BUILT_IN_STREAMS, Code, Handle, Outcome, PER_THREAD_STREAM, Pointer};
use crate::log::Line;
use crate::node::{add, copied};
use crate::state::{Context, State, code_of, context_of, flush, state};
use crate::tell::{locked, refused, say};
use crate::work::{Captured, Choice, Event, Function, Host, Place, Work};

static WAITING: Mutex<Waiting> = Mutex::new(Waiting { items: Vec::new(), last: 0 });

/// Held while waiting work is done: whoever waits for it waits here.
static BUSY: Mutex<()> = Mutex::new(());

/// Work that has not been done, in the order in which it was queued. Without `--late` there is none: a thread does its work itself,
/// whatever the others do.
struct Waiting {
    items: Vec<Item>,
    /// Number of the last item; they begin with 1.
    last: u64,
}

/// A piece of work in a stream: it comes after all earlier ones of the stream.
struct Item {
    number: u64,
    stream: Handle,
    context: Arc<Context>,
    work: Work,
    /// Numbers of items of other streams that come before it.
    after: Vec<u64>,
}

/// The work that a program waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    /// All of it.
    All,
    /// That of a stream so far.
    Stream(Handle),
    /// This item, and what comes before it.
    Item(u64),
}

/// When work is done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    /// In its turn in a stream.
    In(Handle),
    /// In the default stream, and before the function returns.
    Now,
}

impl From<Handle> for When {
    fn from(stream: Handle) -> Self {
        Self::In(stream)
    }
}

/// Queues work, or records it if the stream is being captured.
pub(crate) fn submit(when: impl Into<When>, work: Work) -> Outcome {
    let when = when.into();
    let stream = if let When::In(stream) = when { stream } else { 0 };
    let state = state()?;
    let context = context_of(stream)?;
    if let Some(Captured { capture, after }) = state.capture(stream)? {
        let node = add(capture.graph, work, &after)?;
        return state.set_capture(stream, Captured { capture, after: vec![node] });
    }
    if !state.options.late {
        return context.keep(run(&work, state));
    }
    let waits = matches!(when, When::Now) || state.is_pageable(&work);
    let number = push(state, stream, work, Vec::new())?;
    if waits { finish(Wanted::Item(number)) } else { Ok(()) }
}

/// Queues the recording of an event, and notes where to wait for it.
pub(crate) fn record(handle: Handle, event: &Arc<Event>, stream: Handle) -> Outcome {
    let state = state()?;
    let work = Work::Record(handle, Arc::clone(event));
    if !state.options.late {
        return run(&work, state);
    }
    *locked(&event.recorded) = None;
    *locked(&event.item) = Some(push(state, stream, work, Vec::new())?);
    Ok(())
}

/// Lets the later work of a stream wait for the last recording of an event.
pub(crate) fn wait_for(event: &Event, stream: Handle) -> Outcome {
    let item = *locked(&event.item);
    item.map_or(Ok(()), |item| push(state()?, stream, Work::Sequence(Vec::new()), vec![item]).map(|_| ()))
}

/// Queues a graph's work in a stream; as one node, if the stream is captured.
pub(crate) fn launch_graph(graph: Handle, stream: Handle) -> Outcome {
    let state = state()?;
    if state.capture(stream)?.is_some() {
        return submit(stream, Work::Graph(copied(graph, 0)?));
    }
    let graph = state.graphs.get(graph)?;
    let works = graph.order()?;
    for (target, value) in locked(&graph.conditions).iter().copied() {
        submit(stream, Work::Fill { target, value, element_bytes: 4, width: 1, rows: 1, pitch: 0 })?;
    }
    works.into_iter().try_for_each(|work| match work {
        Work::Graph(child) => launch_graph(child, stream),
        Work::Record(handle, event) => record(handle, &event, stream),
        Work::Wait(_, event) => wait_for(&event, stream),
        work => submit(stream, work),
    })
}

/// Does all the work that the program waits for.
pub(crate) fn finish(wanted: Wanted) -> Outcome {
    let state = state()?;
    let _busy = locked(&BUSY);
    let done = take(wanted).into_iter().map(|item| item.context.keep(run(&item.work, state)));
    done.fold(Ok(()), Outcome::and)
}

/// Appends an item, and returns its number.
fn push(state: &State, stream: Handle, work: Work, mut after: Vec<u64>) -> Outcome<u64> {
    let context = context_of(stream)?;
    let mut waiting = locked(&WAITING);
    // The default stream and those that block meet: neither runs beside the other.
    let apart = |one: Handle, other: Handle| {
        is_default(one) == is_default(other) || state.is_apart(one) || state.is_apart(other)
    };
    let mut seen = BTreeSet::new();
    let others = waiting.items.iter().rev().filter(|item| !apart(stream, item.stream) && seen.insert(item.stream));
    after.extend(others.map(|item| item.number));
    waiting.last += 1;
    let number = waiting.last;
    waiting.items.push(Item { number, stream, context, work, after });
    Ok(number)
}

/// Takes the wanted items out, with those that come before them.
fn take(wanted: Wanted) -> Vec<Item> {
    let mut waiting = locked(&WAITING);
    let (mut streams, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    match wanted {
        Wanted::All => return std::mem::take(&mut waiting.items),
        Wanted::Stream(stream) => streams.insert(stream),
        Wanted::Item(number) => numbers.insert(number),
    };
    let mut taken = Vec::new();
    for at in (0..waiting.items.len()).rev() {
        let item = &waiting.items[at];
        if streams.contains(&item.stream) || numbers.contains(&item.number) {
            streams.insert(item.stream);
            numbers.extend(&item.after);
            taken.push(waiting.items.remove(at));
        }
    }
    taken.reverse();
    taken
}

/// Whether this is the default stream, by one of its names.
fn is_default(stream: Handle) -> bool {
    BUILT_IN_STREAMS.contains(&stream) && stream != PER_THREAD_STREAM
}

/// Does the work now.
fn run(work: &Work, state: &State) -> Outcome {
    match work {
        Work::Launch { function, config, params } => launch(state, function, config, &params.args()),
        Work::Copy(copy) => copy.each_row()?.try_for_each(|(to, from)| copy_row(state, to, from, copy.width_bytes)),
        Work::Fill { target, value, element_bytes, width, rows, pitch } => (0..*rows)
            .try_for_each(|row| fill(state, target.wrapping_add((row * pitch) as u64), *value, *element_bytes, *width)),
        Work::Call { function, data } => {
            // SAFETY: the program gave us the function to be called with this argument.
            unsafe { function(data.0.cast()) };
            Ok(())
        }
        Work::Free(pointer) => state.free(*pointer),
        Work::Record(_, event) => {
            *locked(&event.recorded) = Some(Instant::now());
            Ok(())
        }
        Work::Allocate { .. } | Work::Wait(..) => Ok(()),
        Work::Sequence(works) => works.iter().try_for_each(|work| run(work, state)),
        Work::Graph(graph) => state.graphs.get(*graph)?.order()?.iter().try_for_each(|work| run(work, state)),
        Work::If { condition, choice, bodies } => choose(state, *condition, *choice, bodies),
    }
}

/// Runs the graph that a condition chooses.
fn choose(state: &State, condition: Pointer, choice: Choice, bodies: &[Handle]) -> Outcome {
    loop {
        let mut value = [0; 4];
        state.device.read(DevicePtr(condition), &mut value).map_err(|error| refused(&error))?;
        let value = u32::from_le_bytes(value);
        let chosen = match choice {
            Choice::Switch => value as usize,
            Choice::If | Choice::While => usize::from(value == 0),
        };
        if let Some(body) = bodies.get(chosen) {
            run(&Work::Graph(*body), state)?;
        }
        if choice != Choice::While || value == 0 {
            return Ok(());
        }
    }
}

fn launch(state: &State, function: &Function, config: &LaunchConfig, args: &[Arg]) -> Outcome {
    let options = &state.options;
    let time_limit = options.time_limit.map(|seconds| Duration::from_secs(seconds.into()));
    let config = LaunchConfig { asynchrony: options.asynchrony, time_limit, ..*config };
    let observe = Observe { profile: state.options.profile, ..Observe::default() };
    ended(state, &state.device, function.kernel.observe(&config, args, &observe))
}

/// Prints what a launch on `device` has printed and found.
pub(crate) fn ended(state: &State, device: &Device, observed: Result<Observation, LaunchError>) -> Outcome {
    flush(device);
    match observed {
        Ok(observation) => {
            state.tell(&observation.findings);
            observation.profile.iter().for_each(|profile| state.log(&Line::Launch(profile.into())));
            Ok(())
        }
        Err(LaunchError::Fault(fault)) => {
            state.tell(std::slice::from_ref(&fault));
            Err(code_of(fault.kind))
        }
        Err(LaunchError::Findings(findings)) => {
            state.tell(&findings);
            let limit = findings.iter().find(|finding| finding.kind.is_limit());
            limit.map_or(Ok(()), |finding| Err(code_of(finding.kind)))
        }
        Err(error) => {
            say(&error.to_string());
            Err(Code::INVALID_VALUE)
        }
    }
}

/// Copies a row, mapping by mapping.
fn copy_row(state: &State, to: Place, from: Place, bytes: usize) -> Outcome {
    let mut done = 0;
    while done < bytes {
        let (to, from) = (to.offset(done), from.offset(done));
        let piece = (bytes - done).min(state.at_once(to)).min(state.at_once(from));
        copy_bytes(state, to, from, piece)?;
        done += piece;
    }
    Ok(())
}

fn copy_bytes(state: &State, to: Place, from: Place, bytes: usize) -> Outcome {
    let device = &state.device;
    match (to, from) {
        (Place::Device(to), Place::Device(from)) => {
            device.copy(DevicePtr(to), DevicePtr(from), bytes as u64).map_err(|error| refused(&error))
        }
        (Place::Device(to), Place::Host(Host(from))) => {
            if from.is_null() {
                return Err(Code::INVALID_VALUE);
            }
            // SAFETY: the program promises `bytes` readable bytes there.
            let bytes = unsafe { std::slice::from_raw_parts(from, bytes) };
            device.write(DevicePtr(to), bytes).map_err(|error| refused(&error))
        }
        (Place::Host(Host(to)), Place::Device(from)) => {
            if to.is_null() {
                return Err(Code::INVALID_VALUE);
            }
            // SAFETY: the program promises `bytes` writable bytes there, which nobody else uses meanwhile.
            let target = unsafe { std::slice::from_raw_parts_mut(to, bytes) };
            match device.read(DevicePtr(from), target) {
                Err(MemoryError::Undefined(findings)) => {
                    state.tell(&findings);
                    device.define(DevicePtr(from), bytes as u64).map_err(|error| refused(&error))
                }
                read => read.map_err(|error| refused(&error)),
            }
        }
        (Place::Host(Host(to)), Place::Host(Host(from))) => {
            if to.is_null() || from.is_null() {
                return Err(Code::INVALID_VALUE);
            }
            // SAFETY: the program promises both; the ranges may overlap.
            unsafe { std::ptr::copy(from, to, bytes) };
            Ok(())
        }
    }
}

/// Fills a row, mapping by mapping.
fn fill(state: &State, target: Pointer, value: u32, element_bytes: usize, count: usize) -> Outcome {
    let mut done = 0;
    while done < count {
        let target = target + (done * element_bytes) as u64;
        let at_once = state.at_once(Place::Device(target)) / element_bytes;
        let piece = (count - done).min(at_once.max(1));
        fill_elements(state, target, value, element_bytes, piece)?;
        done += piece;
    }
    Ok(())
}

fn fill_elements(state: &State, target: Pointer, value: u32, element_bytes: usize, count: usize) -> Outcome {
    let bytes = value.to_le_bytes();
    let element = &bytes[..element_bytes];
    let done = if element.iter().all(|byte| *byte == element[0]) {
        state.device.fill(DevicePtr(target), element[0], (count * element_bytes) as u64)
    } else {
        state.device.write(DevicePtr(target), &element.repeat(count))
    };
    done.map_err(|error| refused(&error))
}
