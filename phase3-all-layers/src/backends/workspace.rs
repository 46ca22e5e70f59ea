//! Memory of activations: a forward pass is first run with only shapes, and memory is planned from its requests.
//!
//! A pass asks for [`Intermediate`]s and drops them, as Rust programs do; so the scopes of a model's code say how long each must
//! live. [`Workspace::plan`] notes them down, lets activations whose lives do not overlap share memory, and allocates it. A
//! pass that runs ([`Workspace::run`]) asks in the same order and allocates nothing.
//!
//! Memory is planned in bytes, so that activations of any element type share it. Each slot of the plan is an allocation of its own and
//! used from its start, which is aligned for every type and for vector loads (256 bytes: CUDA C++ Programming Guide, "Size and
//! Alignment Requirement"); nothing is rounded up.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bench::timing::Filler;
use common::prelude::*;

/// Number of fills queued before a profiled pass: about 1 ms, in which a hundred launches are queued.
const FILLINGS: usize = 8;

/// A result between layers: a tensor of the workspace, which goes back there when it is dropped. What is queued later on the
/// stream of the pass runs later, so that the memory can be given to another at once.
#[derive(Debug)]
pub struct Intermediate {
    tensor: Tensor,
    /// Its index in the order of the pass's requests.
    index: usize,
    state: Arc<Mutex<State>>,
}

impl Deref for Intermediate {
    type Target = Tensor;

    fn deref(&self) -> &Tensor {
        &self.tensor
    }
}

impl DerefMut for Intermediate {
    fn deref_mut(&mut self) -> &mut Tensor {
        &mut self.tensor
    }
}

impl Intermediate {
    /// Takes the tensor out.
    fn take(&mut self) -> Tensor {
        std::mem::replace(&mut self.tensor, Tensor::shape_only(&[0]))
    }
}

impl Drop for Intermediate {
    fn drop(&mut self) {
        let tensor = self.take();
        lock(&self.state).end(self.index, tensor);
    }
}

/// Lifetime of an activation, counted in requested activations.
#[derive(Clone, Copy, Debug)]
struct Life {
    values: usize,
    element: ElementType,
    /// It is requested as the `begin`-th, and dropped before the `end`-th is.
    begin: usize,
    end: usize,
}

impl Life {
    fn bytes(&self) -> usize {
        self.values * self.element.size()
    }
}

/// Memory slot of each activation.
#[derive(Debug, Default)]
struct Plan {
    lives: Vec<Life>,
    /// Slot of each activation.
    slot_of: Vec<usize>,
    /// For each slot the activation that opened it: no other activation in it has more bytes.
    slots: Vec<usize>,
}

impl Plan {
    // ANCHOR: plan
    /// The largest activations choose first: the smallest slot that is free for their whole lifetime, or a new one (greedy by
    /// size; Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).
    fn of(lives: Vec<Life>) -> Plan {
        let mut order: Vec<usize> = (0..lives.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(lives[i].bytes()));
        let mut tenants: Vec<Vec<Life>> = Vec::new();
        let mut plan = Plan { slot_of: vec![0; lives.len()], ..Plan::default() };
        for i in order {
            let life = lives[i];
            let apart = |other: &Life| other.end <= life.begin || life.end <= other.begin;
            // Slots were opened by ever smaller activations: the last that is free is the smallest.
            let slot = tenants.iter().rposition(|tenants| tenants.iter().all(apart)).unwrap_or_else(|| {
                tenants.push(Vec::new());
                plan.slots.push(i);
                plan.slots.len() - 1
            });
            tenants[slot].push(life);
            plan.slot_of[i] = slot;
        }
        Plan { lives, ..plan }
    }
    // ANCHOR_END: plan

    /// Bytes of all slots.
    fn bytes(&self) -> u64 {
        self.slots.iter().map(|&opener| self.lives[opener].bytes() as u64).sum()
    }

    /// Maximum number of bytes that live at one time: no plan needs less.
    fn floor_bytes(&self) -> u64 {
        let at = |time| self.lives.iter().filter(move |life| life.begin <= time && time < life.end);
        (0..self.lives.len()).map(|time| at(time).map(|life| life.bytes() as u64).sum()).max().unwrap_or(0)
    }
}

/// State that passes and their activations share with the workspace.
#[derive(Debug)]
struct State {
    plan: Plan,
    /// The memory; `None` while an activation has it. Empty while a pass is being planned.
    slots: Vec<Option<Tensor>>,
    /// Number of activations that the pass has requested.
    asked: usize,
}

impl State {
    fn end(&mut self, index: usize, tensor: Tensor) {
        match self.plan.slot_of.get(index) {
            Some(&slot) => self.slots[slot] = Some(tensor),
            None => self.plan.lives[index].end = self.asked,
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // A panic elsewhere leaves nothing half done here.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A forward pass: layers request memory for their results from it, and queue their work.
#[derive(Debug)]
pub struct Pass {
    /// `None` while the pass is being planned.
    stream: Option<Stream>,
    state: Arc<Mutex<State>>,
    /// Work queued so far, with an event after each; `None` in a pass that is not profiled.
    marks: Option<RefCell<Vec<(&'static str, Event)>>>,
    attempt: RefCell<Attempt>,
}

/// Whether a pass continues when its work cannot be queued.
#[derive(Debug, Default)]
enum Attempt {
    /// It ends.
    #[default]
    None,
    /// It continues.
    Going,
    /// It continues without queueing anything, because of this error.
    Failed(Error),
}

impl Pass {
    fn new(stream: Option<&Stream>, state: Arc<Mutex<State>>) -> Pass {
        Pass { stream: stream.cloned(), state, marks: None, attempt: RefCell::default() }
    }

    /// Memory for a result of this shape, in f32 and NCHW. Its contents are undefined.
    ///
    /// # Errors
    /// As [`Pass::intermediate_of`].
    pub fn intermediate(&self, shape: &[usize]) -> Result<Intermediate> {
        self.intermediate_of(shape, ElementType::F32, MemoryFormat::Nchw)
    }

    /// [`Pass::intermediate`] for any element type and format.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the pass requests anything else than when it was planned, or holds an activation longer;
    /// [`Error::Shape`] if the format is NHWC and there are not 4 dimensions.
    pub fn intermediate_of(&self, shape: &[usize], element: ElementType, format: MemoryFormat) -> Result<Intermediate> {
        let shape_only = Tensor::shape_only_of(shape, element, format)?;
        let bytes = shape.iter().try_fold(element.size(), |bytes, &side| bytes.checked_mul(side));
        if bytes.is_none() {
            return Err(Error::shape("a forward pass", ShapeError::Overflow(shape.to_vec())));
        }
        let values = shape_only.len();
        let mut state = lock(&self.state);
        let index = state.asked;
        state.asked += 1;
        let tensor = if self.stream.is_none() {
            state.plan.lives.push(Life { values, element, begin: index, end: usize::MAX });
            shape_only
        } else {
            let planned = state.plan.lives.get(index).map(|life| (life.values, life.element));
            if planned != Some((values, element)) {
                let planned =
                    planned.map_or("nothing was".to_owned(), |(values, element)| format!("{values} {element} were"));
                return Err(Error::Invalid(format!(
                    "activation {index} of the pass is {element} of the shape {shape:?}, and {planned} planned there"
                )));
            }
            let slot = state.plan.slot_of[index];
            let held = || Error::Invalid(format!("the memory of activation {index} {shape:?} is still in use"));
            state.slots[slot].take().ok_or_else(held)?.recycle_of(shape, element, format)?
        };
        Ok(Intermediate { tensor, index, state: self.state.clone() })
    }

    /// Runs `work`, which queues launches and copies of a `kind` of layer, unless the pass is only being planned.
    ///
    /// # Errors
    /// Errors of `work`.
    pub fn queue(&self, kind: &'static str, work: impl FnOnce(&Stream) -> Result<()>) -> Result<()> {
        let Some(stream) = &self.stream else { return Ok(()) };
        if matches!(*self.attempt.borrow(), Attempt::Failed(_)) {
            return Ok(());
        }
        if let Err(error) = work(stream) {
            let mut attempt = self.attempt.borrow_mut();
            if matches!(*attempt, Attempt::None) {
                return Err(error);
            }
            *attempt = Attempt::Failed(error);
            return Ok(());
        }
        if let Some(marks) = &self.marks {
            marks.borrow_mut().push((kind, stream.record_event()?));
        }
        Ok(())
    }

    /// Runs `work`. If a part of it cannot be queued, that and everything after it is left out, but still requests its memory: a
    /// pass must request what was planned. The error is returned with the result, whose contents are then undefined.
    ///
    /// # Errors
    /// Errors of `work` that do not come from queueing.
    pub fn attempt<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<(T, Option<Error>)> {
        let outer = self.attempt.replace(Attempt::Going);
        let result = work();
        match self.attempt.replace(outer) {
            Attempt::Failed(error) => Ok((result?, Some(error))),
            Attempt::None | Attempt::Going => Ok((result?, None)),
        }
    }
}

/// Share of the layers of one kind in a pass.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// The kind passed to [`Pass::queue`].
    pub kind: &'static str,
    /// Number of times such a layer was queued.
    pub launches: usize,
    /// Milliseconds by events, on a GPU.
    pub ms: Option<f64>,
    /// Instructions counted by lane, on the simulator.
    pub lane_instructions: Option<u64>,
}

/// The memory of the activations of one forward pass, for inputs of the planned shapes.
#[derive(Debug)]
pub struct Workspace {
    state: Arc<Mutex<State>>,
}

impl Workspace {
    /// Runs `forward` without queueing anything, and allocates the memory that it requests.
    ///
    /// # Errors
    /// Errors of `forward`; [`Error::OutOfMemory`] with the plan's total, before anything is allocated, if the device does not
    /// have that much left.
    pub fn plan(device: &Device, forward: impl FnOnce(&Pass) -> Result<()>) -> Result<Workspace> {
        let state = State { plan: Plan::default(), slots: Vec::new(), asked: 0 };
        let pass = Pass::new(None, Arc::new(Mutex::new(state)));
        forward(&pass)?;
        let lives = std::mem::take(&mut lock(&pass.state).plan.lives);
        let plan = Plan::of(lives);
        let (memory, requested) = (device.memory(), plan.bytes());
        if requested > memory.free {
            return Err(Error::OutOfMemory {
                device: device.short_name(),
                requested,
                free: memory.free,
                total: memory.total,
                in_use: memory.in_use,
            });
        }
        let slot = |&opener: &usize| {
            let Life { values, element, .. } = plan.lives[opener];
            Tensor::empty_of(device, &[values], element, MemoryFormat::Nchw).map(Some)
        };
        let slots = plan.slots.iter().map(slot).collect::<Result<_>>()?;
        Ok(Workspace { state: Arc::new(Mutex::new(State { plan, slots, asked: 0 })) })
    }

    /// Queues `forward` on `stream`, which is always the same or joined with the previous one.
    ///
    /// # Errors
    /// Errors of `forward`; as [`Pass::intermediate`].
    pub fn run<T>(&mut self, stream: &Stream, forward: impl FnOnce(&Pass) -> Result<T>) -> Result<T> {
        forward(&self.pass(stream))
    }

    /// A pass that is queued on `stream` as by [`Workspace::run`], for several workspaces whose passes take turns. The next one
    /// begins when the results of this one are dropped.
    pub fn pass(&mut self, stream: &Stream) -> Pass {
        lock(&self.state).asked = 0;
        Pass::new(Some(stream), self.state.clone())
    }

    /// [`Workspace::run`], and the share of each kind of layer, in order of first use.
    ///
    /// # Errors
    /// Same as there.
    pub fn profile(&mut self, stream: &Stream, forward: impl FnOnce(&Pass) -> Result<()>) -> Result<Vec<Share>> {
        lock(&self.state).asked = 0;
        // A GPU that is busy with something else does not wait for the host between the layers.
        // It lives as long as the pass: freeing it would wait for it.
        let mut filler = if stream.device().is_sim() { None } else { Some(Filler::new(stream)?) };
        if let Some(filler) = &mut filler {
            (0..FILLINGS).try_for_each(|_| filler.fill(stream))?;
        }
        let mut before = stream.record_event()?;
        let pass = Pass { marks: Some(RefCell::default()), ..Pass::new(Some(stream), self.state.clone()) };
        forward(&pass)?;
        stream.synchronize()?;
        let mut shares: Vec<Share> = Vec::new();
        for (kind, event) in pass.marks.map(RefCell::into_inner).unwrap_or_default() {
            let position = shares.iter().position(|share| share.kind == kind).unwrap_or_else(|| {
                shares.push(Share { kind, launches: 0, ms: None, lane_instructions: None });
                shares.len() - 1
            });
            let share = &mut shares[position];
            share.launches += 1;
            match before.counts_until(&event) {
                Some(counts) => *share.lane_instructions.get_or_insert(0) += counts.lane_instructions,
                None => *share.ms.get_or_insert(0.0) += f64::from(before.elapsed_ms(&event)?),
            }
            before = event;
        }
        Ok(shares)
    }

    /// Bytes of the planned memory, all of which is allocated.
    pub fn bytes(&self) -> u64 {
        lock(&self.state).plan.bytes()
    }

    /// Maximum bytes of the activations that live at one time: what the best plan could need.
    pub fn floor_bytes(&self) -> u64 {
        lock(&self.state).plan.floor_bytes()
    }
}

#[cfg(test)]
mod tests {
    use common::tensor::{Element, F8E4M3, bf16, f16};

    use super::*;

    /// An activation filled with copies of one value.
    fn filled<T: Element>(pass: &Pass, shape: &[usize], format: MemoryFormat, value: f64) -> Result<Intermediate> {
        let mut activation = pass.intermediate_of(shape, T::TYPE, format)?;
        let values = vec![T::from_f64(value); activation.len()];
        pass.queue("fill", |stream| stream.memcpy_htod(&values, activation.buffer_of_mut::<T>(format)?))?;
        Ok(activation)
    }

    /// Fails unless that value is still everywhere in it.
    fn check<T: Element>(pass: &Pass, activation: &Intermediate, value: f64) -> Result<()> {
        pass.queue("check", |stream| {
            let values = stream.clone_dtoh(activation.buffer_of::<T>(activation.format())?)?;
            assert_eq!(values, vec![T::from_f64(value); activation.len()], "{:?}", T::TYPE);
            Ok(())
        })
    }

    #[test]
    fn activations_of_all_types_share_memory_that_is_planned_in_bytes() {
        use MemoryFormat::{Nchw, Nhwc};
        let device = common::private::sim_for_test();
        let stream = device.stream();
        let forward = |pass: &Pass| {
            let single = filled::<f32>(pass, &[3, 5], Nchw, 1.5)?;
            let half = filled::<f16>(pass, &[1, 3, 2, 5], Nhwc, 2.5)?;
            check::<f32>(pass, &single, 1.5)?;
            drop(single);
            let integers = filled::<i32>(pass, &[15], Nchw, -7.0)?;
            let brain = filled::<bf16>(pass, &[7], Nchw, 0.5)?;
            check::<f16>(pass, &half, 2.5)?;
            check::<i32>(pass, &integers, -7.0)?;
            check::<bf16>(pass, &brain, 0.5)?;
            drop((half, integers, brain));
            let eighth = filled::<F8E4M3>(pass, &[61], Nchw, 0.25)?;
            let bytes = filled::<i8>(pass, &[59], Nchw, 3.0)?;
            check::<F8E4M3>(pass, &eighth, 0.25)?;
            check::<i8>(pass, &bytes, 3.0)
        };
        let mut workspace = Workspace::plan(&device, forward).unwrap();
        // 61 bytes: f8e4m3, then f32 and i32 of 60 bytes in turn. 60 bytes: f16 beside them, then i8. 14 bytes: bf16.
        assert_eq!(workspace.bytes(), 61 + 60 + 14);
        assert_eq!(workspace.floor_bytes(), 60 + 60 + 14);
        let taken = device.memory().in_use;
        for _ in 0..2 {
            workspace.run(&stream, forward).unwrap();
        }
        assert_eq!(device.memory().in_use, taken);
    }

    #[test]
    fn a_pass_that_asks_for_something_else_is_refused() {
        let device = common::private::sim_for_test();
        let ask = |pass: &Pass, element| pass.intermediate_of(&[8], element, MemoryFormat::Nchw).map(drop);
        let mut workspace = Workspace::plan(&device, |pass| ask(pass, ElementType::F16)).unwrap();
        let mut message = |element, times: usize| {
            let run = workspace.run(&device.stream(), |pass| (0..times).try_for_each(|_| ask(pass, element)));
            run.unwrap_err().to_string()
        };
        assert_eq!(
            message(ElementType::BF16, 1),
            "activation 0 of the pass is bf16 of the shape [8], and 8 f16 were planned there"
        );
        assert_eq!(
            message(ElementType::F16, 2),
            "activation 1 of the pass is f16 of the shape [8], and nothing was planned there"
        );
        let huge =
            |pass: &Pass| pass.intermediate_of(&[usize::MAX / 2], ElementType::I32, MemoryFormat::Nchw).map(drop);
        let error = Workspace::plan(&device, huge).unwrap_err();
        assert!(error.to_string().starts_with("a forward pass: the shape"), "{error}");
    }
}
