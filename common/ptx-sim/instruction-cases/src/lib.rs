//! The heads of the instruction tests: inputs and outputs of `ptx-sim/tests/instructions/` (large files compressed). For the tests of `ptx-sim`,
//! which run them on the simulator, and of `common`, which run them on a GPU.
//!
//! A head is a run of `//!` lines. `kernel: NAME` begins a case; the lines after it, up to the next `kernel`, belong to that
//! case. A file may hold several cases, and may name data for all of them before the first. This crate knows no backends: the
//! caller hands each [`ArgSpec`] to its device, launches, reads the `inout` and `out` buffers back in order, and gives them to
//! [`Case::check`].
//!
//! ```text
//! //! let: NAME = TYPE:LIST                     data that several cases share; stands for TYPE:LIST below
//! //! kernel: NAME                              begins a case (each case has one, even in a file of one)
//! //! grid: 1    block: 32    shared: 0         X[,Y[,Z]], and bytes of dynamic shared memory; these are the defaults
//! //! device: simulator                         not for a GPU
//! //! arg: u32:5 | in:TYPE:LIST | inout:TYPE:LIST | out:TYPE:COUNT | value:TYPE:LIST (a structure passed by value)
//! //! expect: TYPE:LIST                         one for each inout and out, in order; bits compare equal
//! //! within: 2 ulp                             of the expectation above; also `rel 2^-22.9` and `abs 2^-20.5`; `|` means that either will do
//! ```
//!
//! LIST is `1,2,3`; an item `V*N` stands for N times V, and `0x…` for the bits themselves. In an expectation `nan` is any NaN, and `_` is
//! an element whose value PTX leaves open. The least compute capability is the file's `.target`.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::GzDecoder;

/// The element types of arguments and expectations, by PTX's names. `B…` are raw bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say all
#[rustfmt::skip]
pub enum Type { U8, S8, U16, S16, U32, S32, U64, S64, F16, Bf16, F32, F64, B8, B16, B32, B64 }

impl Type {
    #[rustfmt::skip]
    const NAMES: [(&'static str, Type); 16] = [
        ("u8", Type::U8), ("s8", Type::S8), ("u16", Type::U16), ("s16", Type::S16), ("u32", Type::U32), ("s32", Type::S32),
        ("u64", Type::U64), ("s64", Type::S64), ("f16", Type::F16), ("bf16", Type::Bf16), ("f32", Type::F32), ("f64", Type::F64),
        ("b8", Type::B8), ("b16", Type::B16), ("b32", Type::B32), ("b64", Type::B64),
    ];

    fn parse(name: &str) -> Result<Type, String> {
        let found = Self::NAMES.iter().find(|(text, _)| *text == name);
        found.map(|&(_, ty)| ty).ok_or_else(|| format!("`{name}` is no type"))
    }

    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Type::U8 | Type::S8 | Type::B8 => 1,
            Type::U16 | Type::S16 | Type::F16 | Type::Bf16 | Type::B16 => 2,
            Type::U32 | Type::S32 | Type::F32 | Type::B32 => 4,
            Type::U64 | Type::S64 | Type::F64 | Type::B64 => 8,
        }
    }

    fn is_float(self) -> bool {
        matches!(self, Type::F16 | Type::Bf16 | Type::F32 | Type::F64)
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - 8 * self.size())
    }

    /// The value of `bits`, exact for every type but 64-bit integers.
    fn value(self, bits: u64) -> f64 {
        match self {
            Type::F16 => half::f16::from_bits(bits as u16).to_f64(),
            Type::Bf16 => half::bf16::from_bits(bits as u16).to_f64(),
            Type::F32 => f64::from(f32::from_bits(bits as u32)),
            Type::F64 => f64::from_bits(bits),
            Type::S8 => f64::from(bits as i8),
            Type::S16 => f64::from(bits as i16),
            Type::S32 => f64::from(bits as i32),
            Type::S64 => bits as i64 as f64,
            _ => bits as f64,
        }
    }

    /// The distance of neighbouring floats at `value`.
    fn ulp(self, value: f64) -> f64 {
        let (mantissa, lowest) = match self {
            Type::F16 => (10, -24),
            Type::Bf16 => (7, -133),
            Type::F32 => (23, -149),
            Type::F64 => (52, -1074),
            _ => return 1.0,
        };
        let exponent = ((value.to_bits() >> 52) & 0x7ff) as i32 - 1023;
        2f64.powi((exponent - mantissa).max(lowest))
    }

    /// The bits that `text` stands for and, of a float, the value before it was rounded to this type.
    fn literal(self, text: &str) -> Result<(u64, f64), String> {
        let wrong = || format!("`{text}` is no {self}");
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if let Some(hex) = text.strip_prefix("0x") {
            let bits = u64::from_str_radix(hex, 16).map_err(|_| wrong())?;
            return if bits & !self.mask() == 0 { Ok((bits, self.value(bits))) } else { Err(wrong()) };
        }
        if self.is_float() {
            // `f64::from_str` reads nan and inf too. f32 is read directly, since rounding twice could move it.
            let value: f64 = text.parse().map_err(|_| wrong())?;
            let bits = match self {
                Type::F16 => u64::from(half::f16::from_f64(value).to_bits()),
                Type::Bf16 => u64::from(half::bf16::from_f64(value).to_bits()),
                Type::F32 => u64::from(text.parse::<f32>().map_err(|_| wrong())?.to_bits()),
                _ => value.to_bits(),
            };
            return Ok((bits, value));
        }
        let magnitude: u64 = digits.parse().map_err(|_| wrong())?;
        let fits = match self {
            Type::S8 | Type::S16 | Type::S32 | Type::S64 => magnitude <= (self.mask() >> 1) + u64::from(negative),
            _ => !negative && magnitude <= self.mask(),
        };
        let bits = if negative { magnitude.wrapping_neg() } else { magnitude } & self.mask();
        if fits { Ok((bits, self.value(bits))) } else { Err(wrong()) }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Self::NAMES.iter().find(|(_, ty)| ty == self);
        f.write_str(found.map_or("?", |(text, _)| text))
    }
}

/// One kernel parameter.
#[derive(Clone, Debug)]
pub enum ArgSpec {
    /// Passed by value: these bytes.
    Value(Vec<u8>),
    /// A pointer to a buffer of these bytes; the kernel only reads it.
    In(Vec<u8>),
    /// A pointer to a buffer of these bytes, read back and checked.
    InOut(Vec<u8>),
    /// A pointer to a buffer of this many bytes, read back and checked. Fill it with [`POISON`] first.
    Out(usize),
}

/// The byte that an `out` buffer holds before the launch, so that an element which no thread wrote shows.
pub const POISON: u8 = 0xa5;

/// Expected contents of one `inout` or `out` buffer after the launch.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// The type of the elements.
    pub ty: Type,
    elements: Vec<Element>,
    bounds: Vec<Bound>,
}

#[derive(Clone, Copy, Debug)]
enum Element {
    Exactly { bits: u64, value: f64 },
    AnyNan,
    Open,
}

#[derive(Clone, Copy, Debug)]
enum Bound {
    Ulp(f64),
    Relative(f64),
    Absolute(f64),
}

impl Bound {
    fn holds(self, ty: Type, got: f64, expected: f64) -> bool {
        let limit = match self {
            Bound::Ulp(count) => count * ty.ulp(expected),
            Bound::Relative(bound) => bound * expected.abs(),
            Bound::Absolute(bound) => bound,
        };
        (got - expected).abs() <= limit
    }
}

/// One launch and its expected results.
#[derive(Clone, Debug)]
pub struct Case {
    /// `file::kernel`, for reports.
    pub name: String,
    /// The file without its extension.
    pub file: String,
    /// The whole source; cases of one file share it, so a runner may load it once.
    pub ptx: Arc<str>,
    /// The `.entry` to launch.
    pub kernel: String,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// The kernel's parameters in order.
    pub args: Vec<ArgSpec>,
    /// One for each `InOut` and `Out` of `args`, in order.
    pub expect: Vec<Expectation>,
    /// Minimum compute capability, such as `80`.
    pub min_sm: u32,
    /// Whether only the simulator can run it.
    pub simulator_only: bool,
}

impl Case {
    /// Compares the `inout` and `out` buffers, read back in order, with what the head expects.
    ///
    /// # Errors
    /// Lists every element that differs (the first eight of each buffer), in hex and as a value.
    pub fn check(&self, outputs: &[Vec<u8>]) -> Result<(), String> {
        if outputs.len() != self.expect.len() {
            return Err(format!("{}: {} buffers read back, {} expected", self.name, outputs.len(), self.expect.len()));
        }
        let mut report = String::new();
        for (buffer, (expect, bytes)) in self.expect.iter().zip(outputs).enumerate() {
            expect.compare(buffer, bytes, &mut report);
        }
        if report.is_empty() { Ok(()) } else { Err(format!("{}:{report}", self.name)) }
    }
}

impl Expectation {
    fn compare(&self, buffer: usize, bytes: &[u8], report: &mut String) {
        const SHOWN: usize = 8;
        let size = self.ty.size();
        if bytes.len() != self.elements.len() * size {
            *report +=
                &format!("\n  buffer {buffer}: {} bytes, {} {} expected", bytes.len(), self.elements.len(), self.ty);
            return;
        }
        let mut wrong = 0;
        for (index, (element, chunk)) in self.elements.iter().zip(bytes.chunks_exact(size)).enumerate() {
            let mut word = [0; 8];
            word[..size].copy_from_slice(chunk);
            let got = u64::from_le_bytes(word);
            if self.matches(*element, got) {
                continue;
            }
            wrong += 1;
            if wrong <= SHOWN {
                *report += &format!("\n  buffer {buffer}, element {index}: expected ");
                *report += &match *element {
                    Element::Exactly { bits, value } if !self.bounds.is_empty() => {
                        format!("{:#0w$x} ({value:e} within {:?})", bits, self.bounds, w = 2 * size + 2)
                    }
                    Element::Exactly { bits, .. } => self.show(bits),
                    _ => "a NaN".into(),
                };
                *report += &format!(", got {}", self.show(got));
            }
        }
        if wrong > SHOWN {
            *report += &format!("\n  buffer {buffer}: {wrong} of {} elements differ", self.elements.len());
        }
    }

    fn matches(&self, expected: Element, got: u64) -> bool {
        let value_got = self.ty.value(got);
        match expected {
            Element::Open => true,
            Element::AnyNan => value_got.is_nan(),
            Element::Exactly { bits, value } => {
                got == bits
                    || (value.is_finite() && self.bounds.iter().any(|bound| bound.holds(self.ty, value_got, value)))
            }
        }
    }

    fn show(&self, bits: u64) -> String {
        let width = 2 * self.ty.size() + 2;
        match self.ty {
            Type::U64 => format!("{bits:#0width$x} ({bits})"),
            Type::S64 => format!("{bits:#0width$x} ({})", bits as i64),
            Type::B8 | Type::B16 | Type::B32 | Type::B64 => format!("{bits:#0width$x}"),
            ty if ty.is_float() => format!("{bits:#0width$x} ({:e})", ty.value(bits)),
            ty => format!("{bits:#0width$x} ({})", ty.value(bits)),
        }
    }
}

/// Folder of the cases.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/instructions")
}

/// Names, without `.ptx`, and texts of the `.ptx` and `.ptx.gz` files in `folder`, by name.
///
/// # Errors
/// A file that cannot be read.
pub fn texts(folder: &Path) -> Result<Vec<(String, String)>, String> {
    let read = |path: &Path| -> io::Result<Option<(String, String)>> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let (stem, compressed) = match (name.strip_suffix(".ptx"), name.strip_suffix(".ptx.gz")) {
            (Some(stem), _) => (stem, false),
            (None, Some(stem)) => (stem, true),
            (None, None) => return Ok(None),
        };
        let file = File::open(path)?;
        let text = if compressed { io::read_to_string(GzDecoder::new(file)) } else { io::read_to_string(file) }?;
        Ok(Some((stem.to_owned(), text)))
    };
    let in_folder = |error| format!("{}: {error}", folder.display());
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(in_folder)? {
        let path = entry.map_err(in_folder)?.path();
        texts.extend(read(&path).map_err(|error| format!("{}: {error}", path.display()))?);
    }
    texts.sort();
    Ok(texts)
}

/// All cases of the files in `folder`, in the order of their names.
///
/// # Errors
/// A file that cannot be read, or a head that is wrong, with file and line.
pub fn load(folder: &Path) -> Result<Vec<Case>, String> {
    let cases: Result<Vec<_>, _> = texts(folder)?.iter().map(|(stem, source)| parse(stem, source)).collect();
    Ok(cases?.concat())
}

/// The cases of one file; `stem` is what reports call it.
///
/// # Errors
/// The first wrong line of a head.
pub fn parse(stem: &str, source: &str) -> Result<Vec<Case>, String> {
    let ptx: Arc<str> = source.into();
    let target = source.lines().find_map(|line| line.trim().strip_prefix(".target sm_"));
    let digits = |text: &str| text.trim_end_matches(|last: char| !last.is_ascii_digit()).parse().ok();
    let min_sm = target.and_then(digits).ok_or_else(|| format!("{stem}: no `.target sm_NN`"))?;
    let mut named: Vec<(String, String)> = Vec::new();
    let mut cases: Vec<Case> = Vec::new();
    for (index, line) in source.lines().enumerate() {
        let Some(text) = line.trim().strip_prefix("//!") else { continue };
        let at = |error: String| format!("{stem}.ptx:{}: {error}", index + 1);
        let (key, value) = text.split_once(':').ok_or_else(|| at("a head line is `key: value`".into()))?;
        let (key, value) = (key.trim(), value.trim());
        match key {
            "let" => {
                let (name, list) = value.split_once('=').ok_or_else(|| at("`let: NAME = TYPE:LIST`".into()))?;
                named.push((name.trim().into(), list.trim().into()));
            }
            "kernel" => cases.push(Case {
                name: format!("{stem}::{value}"),
                file: stem.into(),
                ptx: ptx.clone(),
                kernel: value.into(),
                grid: [1; 3],
                block: [32, 1, 1],
                shared: 0,
                args: Vec::new(),
                expect: Vec::new(),
                min_sm,
                simulator_only: false,
            }),
            _ => {
                let case = cases.last_mut().ok_or_else(|| at("`kernel:` comes first".into()))?;
                case.head_line(key, value, &named).map_err(at)?;
            }
        }
    }
    for case in &cases {
        let buffers = case.args.iter().filter(|arg| matches!(arg, ArgSpec::InOut(_) | ArgSpec::Out(_))).count();
        if buffers != case.expect.len() || buffers == 0 {
            return Err(format!("{}: {buffers} inout and out buffers, {} expectations", case.name, case.expect.len()));
        }
    }
    if cases.is_empty() { Err(format!("{stem}.ptx has no `//! kernel:`")) } else { Ok(cases) }
}

impl Case {
    fn head_line(&mut self, key: &str, value: &str, named: &[(String, String)]) -> Result<(), String> {
        match key {
            "device" if value == "simulator" => self.simulator_only = true,
            "grid" => self.grid = extent(value)?,
            "block" => self.block = extent(value)?,
            "shared" => self.shared = value.parse().map_err(|_| format!("`{value}` is no number of bytes"))?,
            "arg" => self.args.push(argument(value, named)?),
            "expect" => {
                let (ty, items) = typed(value, named)?;
                let elements = expand(items, |item| match item {
                    "_" => Ok(Element::Open),
                    "nan" => Ok(Element::AnyNan),
                    item => ty.literal(item).map(|(bits, value)| Element::Exactly { bits, value }),
                })?;
                self.expect.push(Expectation { ty, elements, bounds: Vec::new() });
            }
            "within" => {
                let expect = self.expect.last_mut().ok_or("`within` comes after `expect`")?;
                expect.bounds = value.split('|').map(|text| bound(text.trim())).collect::<Result<_, _>>()?;
            }
            _ => return Err(format!("`{key}` is no key of a head")),
        }
        Ok(())
    }
}

fn extent(text: &str) -> Result<[u32; 3], String> {
    let mut extent = [1; 3];
    for (axis, number) in text.split(',').enumerate() {
        let slot = extent.get_mut(axis).ok_or_else(|| format!("`{text}` has more than three axes"))?;
        *slot = number.trim().parse().map_err(|_| format!("`{number}` is no extent"))?;
    }
    Ok(extent)
}

fn bound(text: &str) -> Result<Bound, String> {
    let number = |text: &str| -> Result<f64, String> {
        let wrong = |_| format!("`{text}` is no bound");
        match text.strip_prefix("2^") {
            Some(exponent) => Ok(exponent.parse::<f64>().map_err(wrong)?.exp2()),
            None => text.parse().map_err(wrong),
        }
    };
    match text.split_once(' ') {
        Some((count, "ulp")) => Ok(Bound::Ulp(number(count)?)),
        Some(("rel", limit)) => Ok(Bound::Relative(number(limit)?)),
        Some(("abs", limit)) => Ok(Bound::Absolute(number(limit)?)),
        _ => Err(format!("`{text}` is no bound")),
    }
}

/// Splits `TYPE:LIST`, or the name of a `let`.
fn typed<'a>(text: &'a str, named: &'a [(String, String)]) -> Result<(Type, &'a str), String> {
    let text = named.iter().find(|(name, _)| name == text).map_or(text, |(_, list)| list);
    let (ty, list) =
        text.split_once(':').ok_or_else(|| format!("`{text}` is neither TYPE:LIST nor the name of a `let`"))?;
    Ok((Type::parse(ty)?, list))
}

fn expand<T: Clone>(list: &str, item: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    let mut out = Vec::new();
    for text in list.split(',').map(str::trim) {
        let (text, count) = match text.split_once('*') {
            Some((text, count)) => (text, count.parse().map_err(|_| format!("`{count}` is no count"))?),
            None => (text, 1),
        };
        out.extend(std::iter::repeat_n(item(text)?, count));
    }
    Ok(out)
}

fn argument(text: &str, named: &[(String, String)]) -> Result<ArgSpec, String> {
    let (kind, rest) = text.split_once(':').ok_or_else(|| format!("`{text}` is no argument"))?;
    if kind == "out" {
        let (ty, count) = rest.split_once(':').ok_or("`out:TYPE:COUNT`")?;
        let count: usize = count.parse().map_err(|_| format!("`{count}` is no count"))?;
        return Ok(ArgSpec::Out(count * Type::parse(ty)?.size()));
    }
    let bytes = |text| -> Result<Vec<u8>, String> {
        let (ty, items) = typed(text, named)?;
        let words = expand(items, |item| ty.literal(item))?;
        Ok(words.iter().flat_map(|(bits, _)| bits.to_le_bytes()[..ty.size()].to_vec()).collect())
    };
    match kind {
        "in" => Ok(ArgSpec::In(bytes(rest)?)),
        "inout" => Ok(ArgSpec::InOut(bytes(rest)?)),
        "value" => Ok(ArgSpec::Value(bytes(rest)?)),
        _ => Ok(ArgSpec::Value(bytes(text)?)),
    }
}
