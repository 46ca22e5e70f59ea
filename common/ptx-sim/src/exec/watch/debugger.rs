//! Reports the work of the watched threads ([`WatchRequest`]).
//!
//! Addresses and stored values are examined before an instruction, the registers that it writes after it.

use std::collections::{BTreeSet, HashMap};

use super::touches::{Touched, allocation, touched};
use super::written::{Place, Written, name_of, shown_type, written};
use crate::exec::state::launch::Launch;
use crate::exec::state::rows::Rows;
use crate::exec::state::scene::Scene;
use crate::ir::*;
use crate::lanes::lanes;
use crate::picture::runs;
use crate::scalar::Scalar;
use crate::trace::{AccessKind, Space};
use crate::watch::*;

/// Reports the work of some threads.
pub(crate) struct Debugger {
    request: WatchRequest,
    warp: u32,
    lanes: u32,
    /// Instructions to report, and whether also where their predicate is false.
    points: HashMap<usize, bool>,
    /// Registers that an instruction of `points` writes, by their names.
    written: HashMap<usize, Vec<Written>>,
    /// Instructions that have begun and not ended.
    pending: Vec<Pending>,
    /// Set if the sink has had enough.
    over: bool,
}

/// An instruction whose registers are not written yet.
#[derive(Debug)]
struct Pending {
    pc: usize,
    /// First row of the frame: a call writes its results when its lanes are back in it.
    frame: u32,
    watched: Watched,
}

impl Debugger {
    /// The error names what is missing, and what exists.
    pub(crate) fn new(launch: &Launch<'_>, request: &WatchRequest) -> Result<Self, String> {
        let (warp, lanes) = match request.threads {
            WatchThreads::Warp(warp) => (warp, u32::MAX),
            WatchThreads::Thread([x, y, z]) => {
                let [width, height, depth] = launch.block;
                if x >= width || y >= height || z >= depth {
                    return Err(format!(
                        "there is no thread ({x}, {y}, {z}) in a block of {width} × {height} × {depth} threads"
                    ));
                }
                let number = x + width * (y + height * z);
                (number / 32, 1 << (number % 32))
            }
        };
        launch.check_place(request.block, Some(warp))?;
        let mut debugger = Self {
            request: request.clone(),
            warp,
            lanes,
            points: HashMap::new(),
            written: HashMap::new(),
            pending: Vec::new(),
            over: false,
        };
        let functions = reachable(launch);
        for point in &request.points {
            match point {
                WatchPoint::Line(line) => debugger.add_line(launch, &functions, *line)?,
                WatchPoint::Register(name) => debugger.add_register(launch, &functions, name)?,
            }
        }
        Ok(debugger)
    }

    fn add_line(&mut self, launch: &Launch<'_>, functions: &[u32], line: u32) -> Result<(), String> {
        let mut known = BTreeSet::new();
        let mut found = false;
        for function in functions {
            let function = &launch.program.functions[*function as usize];
            for pc in function.start as usize..function.end as usize {
                let site = launch.site(pc);
                if site.is_at(line) {
                    found = true;
                    self.add(launch, function, pc, true);
                }
                known.insert(site.shown_line());
            }
        }
        if found {
            return Ok(());
        }
        let below = known.range(..line).rev().take(2).collect::<Vec<_>>();
        let nearest: Vec<String> =
            below.into_iter().rev().chain(known.range(line..).take(2)).map(u32::to_string).collect();
        Err(format!("line {line} has no code; the nearest lines that have some: {}", nearest.join(", ")))
    }

    fn add_register(&mut self, launch: &Launch<'_>, functions: &[u32], name: &str) -> Result<(), String> {
        let mut known = Vec::new();
        let mut found = false;
        for function in functions {
            let function = &launch.program.functions[*function as usize];
            let names = |register: &NamedRegister| name_of(launch, register);
            let registers = || function.registers.iter().chain(&function.named_predicates);
            if registers().any(|register| names(register) == name) {
                found = true;
                for pc in function.start as usize..function.end as usize {
                    let written = written(launch, function, pc);
                    if written.iter().any(|written| written.name.split('.').next() == Some(name)) {
                        self.add(launch, function, pc, false);
                    }
                }
            }
            known.extend(registers().map(names));
        }
        if found { Ok(()) } else { Err(format!("there is no register `{name}`; {}", families(&known, name))) }
    }

    fn add(&mut self, launch: &Launch<'_>, function: &Function, pc: usize, by_line: bool) {
        *self.points.entry(pc).or_default() |= by_line;
        self.written.entry(pc).or_insert_with(|| written(launch, function, pc));
    }

    fn watches(&self, scene: &Scene<'_, '_>) -> bool {
        !self.over && scene.warp.number == self.warp && scene.block.index.at == self.request.block
    }

    pub(crate) fn issue(&mut self, scene: &Scene<'_, '_>) {
        if !self.watches(scene) {
            return;
        }
        // A barrier writes its registers when it lets its lanes go, before the next instruction of any of them.
        let ended = |pending: &Pending| pending.frame == scene.frame_rows && pending.watched.lanes & scene.mask != 0;
        while let Some(at) = self.pending.iter().position(ended) {
            self.complete(at, scene);
        }
        let Some(by_line) = self.points.get(&scene.pc).copied() else { return };
        let (on, off) = (scene.active & self.lanes, scene.mask & !scene.active & self.lanes);
        if on == 0 && (off == 0 || !by_line) {
            return;
        }
        let mut watched = self.watched(scene, if on == 0 { off } else { on });
        let jumps = matches!(scene.launch.program.code[scene.pc].op, Op::Bra { .. });
        if on == 0 {
            watched
                .effects
                .push(if jumps { "goes on: its predicate is false" } else { "off: its predicate is false" }.into());
            self.tell(&watched);
            return;
        }
        if jumps {
            watched.effects.push(match off {
                0 => "jumps".to_owned(),
                off => format!("jumps; {} go on", crate::picture::lanes_in_words(off)),
            });
        }
        for access in touched(scene) {
            watched.effects.extend(reach(scene, &access, on));
        }
        if self.written.get(&scene.pc).is_none_or(Vec::is_empty) {
            self.tell(&watched);
        } else {
            self.pending.push(Pending { pc: scene.pc, frame: scene.frame_rows, watched });
        }
    }

    pub(crate) fn after(&mut self, scene: &Scene<'_, '_>) {
        if self.pending.is_empty() || !self.watches(scene) {
            return;
        }
        let ended = |pending: &Pending| pending.pc == scene.pc && pending.watched.lanes & scene.active != 0;
        while let Some(at) = self.pending.iter().position(ended) {
            self.complete(at, scene);
        }
    }

    /// Reports unfinished instructions of the launch: the one at fault, or one that waits forever.
    pub(crate) fn finish(mut self) {
        for Pending { mut watched, .. } in std::mem::take(&mut self.pending) {
            watched.effects.push("did not end".into());
            self.tell(&watched);
        }
    }

    fn complete(&mut self, at: usize, scene: &Scene<'_, '_>) {
        let Pending { pc, mut watched, .. } = self.pending.remove(at);
        for register in self.written.get(&pc).into_iter().flatten() {
            let value = |lane: usize| match register.place {
                Place::Predicate(_) => {
                    let text = (register.place.bits(scene, lane) == 1).to_string();
                    Value { number: Number::Text, text, before: String::new() }
                }
                Place::Row(_, ty) => value_of(scene, ty, register.place.bits(scene, lane)),
            };
            let values: Vec<_> = lanes(watched.lanes).map(|lane| (lane, value(lane))).collect();
            watched.effects.push(format!("{} = {}", register.name, collapsed(&values)));
        }
        self.tell(&watched);
    }

    fn watched(&self, scene: &Scene<'_, '_>, lanes: u32) -> Watched {
        let thread = match self.request.threads {
            WatchThreads::Thread(thread) => Some(thread),
            WatchThreads::Warp(_) => None,
        };
        Watched {
            block: self.request.block,
            thread,
            warp: self.warp,
            lanes,
            site: scene.launch.site(scene.pc),
            effects: Vec::new(),
        }
    }

    fn tell(&mut self, watched: &Watched) {
        if !self.over {
            self.over = !self.request.sink.tell(watched);
        }
    }
}

/// The kernel's function and all that it may call.
fn reachable(launch: &Launch<'_>) -> Vec<u32> {
    let functions = &launch.program.functions;
    let mut found = vec![launch.kernel.function];
    let mut seen = vec![false; functions.len()];
    seen[launch.kernel.function as usize] = true;
    let (mut next, mut any_called) = (0, false);
    while let Some(function) = found.get(next).map(|at| &functions[*at as usize]) {
        let first_time = function.calls_indirectly && !std::mem::replace(&mut any_called, true);
        let all = if first_time { functions.len() as u32 } else { 0 };
        let any = (0..all).filter(|at| !functions[*at as usize].kernel);
        for called in function.calls.iter().copied().chain(any) {
            if !std::mem::replace(&mut seen[called as usize], true) {
                found.push(called);
            }
        }
        next += 1;
    }
    found
}

/// "did you mean `%r5`? It has %p1 to %p4, %r1 to %r33."
fn families(known: &[&str], asked: &str) -> String {
    let mut families: Vec<(&str, Vec<u32>)> = Vec::new();
    let mut others: Vec<&str> = Vec::new();
    for name in known {
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        match name[prefix.len()..].parse() {
            Ok(number) => match families.iter_mut().find(|(known, _)| *known == prefix) {
                Some((_, numbers)) => numbers.push(number),
                None => families.push((prefix, vec![number])),
            },
            Err(_) => others.push(name),
        }
    }
    families.sort_unstable();
    let list = families.iter().map(|(prefix, numbers)| {
        let (least, most) = (numbers.iter().min().copied(), numbers.iter().max().copied());
        let (least, most) = (least.unwrap_or(0), most.unwrap_or(0));
        if least == most { format!("{prefix}{least}") } else { format!("{prefix}{least} to {prefix}{most}") }
    });
    let list: Vec<String> = list.chain(others.iter().take(8).map(|name| (*name).to_owned())).collect();
    let with_percent = format!("%{asked}");
    let meant =
        if known.contains(&with_percent.as_str()) { format!("did you mean `{with_percent}`? ") } else { String::new() };
    if list.is_empty() {
        format!("{meant}the kernel uses no registers")
    } else {
        format!("{meant}the kernel uses {}", list.join(", "))
    }
}

/// A lane's value, and how several of them are reported together.
#[derive(Clone, Debug)]
struct Value {
    number: Number,
    text: String,
    /// Text before the number: "`in` + ".
    before: String,
}

impl Value {
    /// Whether both read the same. The numbers are not compared: NaN is not equal to itself.
    fn is_like(&self, other: &Self) -> bool {
        (&self.text, &self.before) == (&other.text, &other.before)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Int(i128),
    Float(f64),
    Text,
}

/// A register's bits in the format of a type.
fn value_of(scene: &Scene<'_, '_>, ty: Scalar, bits: u64) -> Value {
    let float = |value: f64, text: String| Value { number: Number::Float(value), text, before: String::new() };
    let half = |bits: u64| half::f16::from_bits(bits as u16).to_f32();
    let brain = |bits: u64| half::bf16::from_bits(bits as u16).to_f32();
    let text = |text: String| Value { number: Number::Text, text, before: String::new() };
    let hex = text(format!("{bits:#x}"));
    let int = |value: i128| Value { number: Number::Int(value), text: value.to_string(), before: String::new() };
    match ty {
        Scalar::F16 => float(half(bits).into(), format!("{:?}", half(bits))),
        Scalar::Bf16 => float(brain(bits).into(), format!("{:?}", brain(bits))),
        Scalar::F32 | Scalar::Tf32 => {
            let value = f32::from_bits(bits as u32);
            float(value.into(), format!("{value:?}"))
        }
        Scalar::F64 => float(f64::from_bits(bits), format!("{:?}", f64::from_bits(bits))),
        Scalar::F16x2 => text(format!("({:?}, {:?})", half(bits), half(bits >> 16))),
        Scalar::Bf16x2 => text(format!("({:?}, {:?})", brain(bits), brain(bits >> 16))),
        Scalar::U64 | Scalar::S64 | Scalar::B64 => match allocation(scene, bits) {
            Some(found) => Value {
                number: Number::Int(i128::from(bits - found.base)),
                text: (bits - found.base).to_string(),
                before: format!("`{}` + ", found.label),
            },
            None if ty == Scalar::S64 && (bits as i64).unsigned_abs() >> 32 == 0 => int((bits as i64).into()),
            None if bits >> 32 == 0 => int(bits.into()),
            None => hex,
        },
        Scalar::S32 => int((bits as i32).into()),
        Scalar::S16 => int((bits as i16).into()),
        Scalar::S8 => int((bits as i8).into()),
        // An index is small; the bits of a float or of packed halves are not.
        Scalar::B32 if bits >> 24 != 0 => hex,
        _ => int(bits.into()),
    }
}

/// The values of lanes in as few words as possible: equal ones once, a progression by its ends.
fn collapsed(values: &[(usize, Value)]) -> String {
    let mut parts: Vec<(u32, String)> = Vec::new();
    let mut at = 0;
    while at < values.len() {
        let rest = &values[at..];
        let first = &rest[0].1;
        let equal = rest.iter().take_while(|(_, value)| value.is_like(first)).count();
        let steps = progression(rest);
        let (length, text) = if equal >= steps || steps < 4 {
            (equal, format!("{}{}", first.before, first.text))
        } else {
            let (second, last) = (&rest[1].1, &rest[steps - 1].1);
            (steps, format!("{}{}, {} … {}", first.before, first.text, second.text, last.text))
        };
        let lanes = rest[..length].iter().fold(0, |mask, (lane, _)| mask | 1 << lane);
        // Lanes that have the same value as earlier ones are listed with those.
        match parts.iter_mut().find(|(_, known)| *known == text) {
            Some((known, _)) => *known |= lanes,
            None => parts.push((lanes, text)),
        }
        at += length;
    }
    if let [(_, text)] = parts.as_slice() {
        return text.clone();
    }
    if parts.len() > 6 {
        let all: Vec<&str> = values.iter().map(|(_, value)| value.text.as_str()).collect();
        let before = &values[0].1.before;
        if values.iter().all(|(_, value)| value.before == *before) {
            return format!("{before}[{}]", all.join(" "));
        }
    }
    let lanes = |mask: u32| {
        let runs = runs(mask).into_iter();
        let text = runs.map(|(a, b)| if a == b { a.to_string() } else { format!("{a}–{b}") });
        text.collect::<Vec<_>>().join(",")
    };
    let parts: Vec<String> = parts.iter().map(|(mask, text)| format!("{}: {text}", lanes(*mask))).collect();
    format!("{{{}}}", parts.join("; "))
}

/// Number of values, from the first on, of adjacent lanes that differ by the same amount.
fn progression(values: &[(usize, Value)]) -> usize {
    let difference = |at: usize| -> Option<Number> {
        let ((a_lane, a), (b_lane, b)) = (&values[at], values.get(at + 1)?);
        if *b_lane != a_lane + 1 || a.before != b.before {
            return None;
        }
        match (a.number, b.number) {
            (Number::Int(a), Number::Int(b)) => Some(Number::Int(b - a)),
            (Number::Float(a), Number::Float(b)) => Some(Number::Float(b - a)),
            _ => None,
        }
    };
    let Some(step) = difference(0) else { return 1 };
    1 + (0..values.len()).take_while(|at| difference(*at) == Some(step)).count()
}

/// "reads `in` + 20 (0x7f0000000014)", "writes `tile` + 0, 4 … 124: 1.0, 2.0 … 32.0".
fn reach(scene: &Scene<'_, '_>, access: &Touched, on: u32) -> Option<String> {
    let mut first = 0u32; // a lane that touches several places is listed by its first
    let mut places = Vec::new();
    for touch in access.touches.iter().filter(|touch| on >> touch.lane & 1 == 1) {
        if first >> touch.lane & 1 == 0 {
            first |= 1 << touch.lane;
            places.push((usize::from(touch.lane), located(scene, access.space, touch.address)));
        }
    }
    let (lane, place) = places.first()?;
    let at = collapsed(&places);
    let address = match access.touches.iter().find(|touch| usize::from(touch.lane) == *lane) {
        Some(touch) if places.len() == 1 && place.number != Number::Text => format!(" ({:#x})", touch.address),
        _ => String::new(),
    };
    let verb = match (access.kind, access.space) {
        (AccessKind::Read, _) | (AccessKind::Copy, Space::Global | Space::Constant) => "reads",
        (AccessKind::Write, _) => "writes",
        (AccessKind::Bulk, space) => match &scene.launch.program.code[scene.pc].op {
            Op::Bulk(bulk) if (bulk.route == Route::SharedToGlobal) == (space == Space::Shared) => "will read",
            _ => "will write",
        },
        (AccessKind::Copy, _) => "will write",
        (AccessKind::Atomic, _) => "updates",
    };
    let stored = match &scene.launch.program.code[scene.pc].op {
        Op::Store(store) => stored(scene, store, on),
        _ => String::new(),
    };
    Some(format!("{verb} {at}{address}{stored}"))
}

/// Value that a store is about to write: ": 3.5".
fn stored(scene: &Scene<'_, '_>, store: &Access, on: u32) -> String {
    let ty = shown_type(&scene.launch.site(scene.pc).instruction, Scalar::of_bytes(store.bytes.into()));
    let keep = if store.bytes >= 8 { u64::MAX } else { (1 << (store.bytes * 8)) - 1 };
    let rows: &Rows = &scene.rows;
    let element = |row: &R| {
        let value = |lane| value_of(scene, ty, rows.lane_of(*row, store.wide, lane) & keep);
        collapsed(&lanes(on).map(|lane| (lane, value(lane))).collect::<Vec<_>>())
    };
    let elements: Vec<String> = store.rows.iter().take(store.count.into()).map(element).collect();
    format!(": {}", elements.join(", "))
}

/// An address, relative to the variable that contains it.
fn located(scene: &Scene<'_, '_>, space: Space, address: u64) -> Value {
    let (name, start) = match space {
        Space::Global | Space::Constant => match allocation(scene, address) {
            Some(found) => (format!("`{}`", found.label), found.base),
            None => {
                let text = format!("{address:#x}");
                return Value { number: Number::Text, text, before: String::new() };
            }
        },
        Space::Shared => {
            let variables = scene.launch.shared_variables();
            let holds =
                |(_, start, bytes): &(&str, u32, u32)| address.wrapping_sub((*start).into()) < u64::from(*bytes);
            let found = variables.into_iter().find(holds);
            found.map_or(("shared memory".to_owned(), 0), |(name, start, _)| (format!("`{name}`"), start.into()))
        }
        Space::Local => ("local memory".to_owned(), 0),
    };
    let offset = address - start;
    Value { number: Number::Int(offset.into()), text: offset.to_string(), before: format!("{name} + ") }
}
