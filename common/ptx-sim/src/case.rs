//! `ptx-sim case`: several launches on one device, and the expected contents of memory afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ptx_sim::{Device, DeviceConfig, Fault, Filter, LaunchConfig, LaunchError, Observe, Sampling};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::{
    Argument, Buffer, CaseOptions, Contents, Element, Map, Object, Parts, address, address_mode, addresses,
    case_argument, extent, format,
};
use crate::json::finding_json;
use crate::results::{write_failed, write_printed};
use crate::session::Session;
use crate::{Bounds, Failure, limit_among, load, save};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    ptx: PathBuf,
    #[serde(default)]
    print: Vec<String>,
    #[serde(default)]
    buffer: BTreeMap<String, Memory>,
    #[serde(default)]
    texture: BTreeMap<String, Image>,
    #[serde(default)]
    surface: BTreeMap<String, Image>,
    #[serde(default)]
    tensormap: BTreeMap<String, TensorMap>,
    #[serde(default)]
    variable: BTreeMap<String, Memory>,
    launch: Vec<Launch>,
    #[serde(default)]
    compare: Vec<Compare>,
    #[serde(default)]
    save: BTreeMap<String, PathBuf>,
}

/// Initial contents of a buffer: exactly one of the four.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Memory {
    #[serde(rename = "type")]
    element: String,
    values: Option<Vec<toml::Value>>,
    file: Option<PathBuf>,
    zeros: Option<u64>,
    unwritten: Option<u64>,
}

/// A texture, or a surface, which is not sampled.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Image {
    #[serde(rename = "type")]
    element: String,
    #[serde(default = "one")]
    channels: u32,
    extent: Vec<u32>,
    layers: Option<u32>,
    values: Option<Vec<toml::Value>>,
    file: Option<PathBuf>,
    sampling: Option<Sampled>,
}

/// A tensor map: a box of a tensor, or the pixels of im2col.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TensorMap {
    buffer: String,
    #[serde(rename = "type")]
    element: String,
    extents: Vec<u64>,
    strides: Option<Vec<u64>>,
    #[serde(rename = "box")]
    sizes: Option<Vec<u32>>,
    steps: Option<Vec<u32>>,
    lower: Option<Vec<i32>>,
    upper: Option<Vec<i32>>,
    channels: Option<u32>,
    pixels: Option<u32>,
    #[serde(default)]
    swizzle: u32,
    #[serde(default)]
    atom: u32,
    #[serde(default)]
    flip: bool,
    #[serde(default)]
    interleave: u32,
    #[serde(default)]
    nan: bool,
}

fn one() -> u32 {
    1
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FilterName {
    #[default]
    Point,
    Linear,
}

/// Sampling of a texture.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Sampled {
    filter: FilterName,
    address: Vec<String>,
    normalised_coordinates: bool,
    normalised_float: bool,
    border: [f32; 4],
    linear_memory: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Launch {
    kernel: Option<String>,
    #[serde(default)]
    grid: Vec<u32>,
    #[serde(default)]
    block: Vec<u32>,
    #[serde(default)]
    cluster: Vec<u32>,
    #[serde(default)]
    shared: u32,
    #[serde(default)]
    cooperative: bool,
    #[serde(default)]
    args: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Compare {
    buffer: String,
    values: Option<Vec<toml::Value>>,
    file: Option<PathBuf>,
    #[serde(default)]
    absolute: f64,
    #[serde(default)]
    relative: f64,
}

/// Difference between a buffer and its expected contents.
#[derive(Debug)]
struct Difference {
    buffer: String,
    elements: usize,
    different: usize,
    /// First element that differs: index, value and expected value.
    first: Option<(usize, String, String)>,
    /// The largest absolute difference of two numbers, tolerated or not.
    largest: f64,
}

/// Runs all launches, then compares, prints and saves.
pub(crate) fn run(options: &CaseOptions) -> Result<ExitCode, Failure> {
    let invalid = |message: String| Failure::Case { path: options.file.display().to_string(), message };
    let bounds = Bounds::new(&options.limits);
    let text = crate::text_of(&options.file, bounds.memory)?;
    bounds.check_text(&options.file, &text)?;
    let case: Case = toml::from_str(&text).map_err(|error| invalid(error.to_string().trim_end().to_owned()))?;
    let folder = options.file.parent().unwrap_or(Path::new(""));
    let device = Device::new(DeviceConfig {
        sanitize: options.sanitize,
        strict: options.strict,
        memory_limit: bounds.memory,
        ..Default::default()
    });
    let mut session = Session::new(device, load(&folder.join(&case.ptx), &options.linked.files, bounds)?)?;
    for (name, memory) in &case.buffer {
        let (element, contents) =
            memory.contents(folder).map_err(|error| invalid(format!("buffer `{name}`: {error}")))?;
        session.add(&Buffer { name: Some(name.clone()), element, contents, shown: false, object: None }, name)?;
    }
    for (what, images) in [("texture", &case.texture), ("surface", &case.surface)] {
        for (name, image) in images {
            let image = image.buffer(name, what == "texture", folder);
            session.add(&image.map_err(|error| invalid(format!("{what} `{name}`: {error}")))?, name)?;
        }
    }
    for (name, map) in &case.tensormap {
        session.add_map(name, map.map().map_err(|error| invalid(format!("tensormap `{name}`: {error}")))?);
    }
    for (name, memory) in &case.variable {
        let (element, contents) =
            memory.contents(folder).map_err(|error| invalid(format!("variable `{name}`: {error}")))?;
        match contents {
            Contents::Bytes(bytes) => {
                session.set(name, element, bytes.len() as u64, |device, at| device.write(at, &bytes))?;
            }
            Contents::Zeros(bytes) => session.set(name, element, bytes, |device, at| device.fill(at, 0, bytes))?,
            Contents::Unwritten(_) => return Err(invalid(format!("variable `{name}`: a variable is always written"))),
        }
    }
    let mut instructions = 0;
    let mut findings = Vec::new();
    for (number, launch) in (1..).zip(&case.launch) {
        let invalid = |message| invalid(format!("launch {number}: {message}"));
        let arguments: Vec<Argument> =
            launch.args.iter().map(|text| case_argument(text, folder)).collect::<Result<_, _>>().map_err(invalid)?;
        let config = LaunchConfig {
            grid: extents(&launch.grid).map_err(invalid)?,
            block: extents(&launch.block).map_err(invalid)?,
            cluster: if launch.cluster.is_empty() { None } else { Some(extents(&launch.cluster).map_err(invalid)?) },
            non_portable_cluster: !launch.cluster.is_empty(),
            shared_bytes: launch.shared,
            budget: Some(options.budget),
            time_limit: bounds.time(),
            cooperative: launch.cooperative,
            asynchrony: options.asynchrony,
        };
        let kernel = session.kernel(launch.kernel.as_deref())?;
        let args = session.arguments(&arguments)?;
        match kernel.observe(&config, &args, &Observe::default()) {
            Ok(observation) => {
                instructions += observation.report.warp_instructions;
                findings.extend(observation.findings);
            }
            Err(LaunchError::Findings(last)) => {
                findings.extend(last);
                let printed = session.device.take_output();
                if let Some(limit) = limit_among(&findings) {
                    write_failed(&mut io::stdout().lock(), options.json, &printed, limit, Some(&findings));
                }
                return Err(Failure::Findings(findings, options.source_root.clone()));
            }
            Err(LaunchError::Fault(fault)) => {
                let printed = session.device.take_output();
                write_failed(&mut io::stdout().lock(), options.json, &printed, &fault, None);
                return Err(Failure::Fault(fault, options.source_root.clone()));
            }
            Err(error) => return Err(Failure::Usage(error)),
        }
    }
    if options.sanitize {
        findings.extend(session.device.heap_findings());
    }
    let mut compared = Vec::new();
    for compare in &case.compare {
        bounds.check()?;
        let name = &compare.buffer;
        let place = session.named(name)?;
        let expected = contents(place.element, compare.values.as_deref(), compare.file.as_deref(), folder);
        let expected = expected.map_err(|error| invalid(format!("compare `{name}`: {error}")))?;
        let found = session.read(place);
        if expected.len() != found.len() {
            let (expected, found) = (expected.len(), found.len());
            return Err(invalid(format!("compare `{name}`: {expected} bytes are expected of its {found}")));
        }
        compared.push(compare.differences(place.element, &found, &expected));
    }
    for (name, file) in &case.save {
        save(&folder.join(file), &session.read(session.named(name)?))?;
    }
    let compared_buffers = case.compare.iter().map(|compare| &compare.buffer);
    for name in compared_buffers.chain(case.save.keys()).chain(&case.print).collect::<BTreeSet<_>>() {
        session.judge([session.named(name)?], &mut findings);
    }
    report(options, &case, &session, instructions, &findings, &compared)?;
    if !findings.is_empty() {
        return Err(Failure::Findings(findings, options.source_root.clone()));
    }
    let differs = compared.iter().any(|difference| difference.different != 0);
    Ok(if differs { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn report(
    options: &CaseOptions,
    case: &Case,
    session: &Session,
    instructions: u64,
    findings: &[Fault],
    compared: &[Difference],
) -> Result<(), Failure> {
    let printed = session.device.take_output();
    let mut out = io::BufWriter::new(io::stdout().lock());
    if options.json {
        let mut object = json!({
            "compared": compared.iter().map(Difference::json).collect::<Vec<_>>(),
            "instructions": instructions,
        });
        if !printed.is_empty() {
            object["output"] = json!(printed);
        }
        if options.sanitize {
            object["findings"] = findings.iter().map(finding_json).collect();
        }
        write!(out, "{{\"buffers\":{{")?;
        let names: BTreeSet<&String> = case.print.iter().collect();
        for (at, name) in names.into_iter().enumerate() {
            write!(out, "{}{}:", if at == 0 { "" } else { "," }, json!(name))?;
            session.named(name)?.write_list(&mut out, &session.device)?;
        }
        writeln!(out, "}},{}", object.to_string().trim_start_matches('{'))?;
    } else {
        write_printed(&mut out, &printed)?;
        for name in &case.print {
            write!(out, "{name} = ")?;
            session.named(name)?.write_line(&mut out, &session.device)?;
        }
        compared.iter().try_for_each(|difference| writeln!(out, "{difference}"))?;
        if !options.sanitize && compared.iter().any(|difference| difference.different != 0) {
            writeln!(out, "with --sanitize, races and reads of memory that was never written are reported")?;
        }
    }
    out.flush()?;
    Ok(())
}

fn extents(given: &[u32]) -> Result<[u32; 3], String> {
    if given.len() > 3 {
        return Err("there are three axes: x, y and z".into());
    }
    if given.contains(&0) {
        return Err("an extent is at least 1".into());
    }
    Ok(std::array::from_fn(|axis| given.get(axis).copied().unwrap_or(1)))
}

/// The bytes of values or of a file.
fn contents(
    element: Element,
    values: Option<&[toml::Value]>,
    file: Option<&Path>,
    folder: &Path,
) -> Result<Vec<u8>, String> {
    match (values, file) {
        (Some(values), None) => {
            let bytes = |value: &toml::Value| match value {
                toml::Value::String(text) => element.bytes_of(text),
                toml::Value::Integer(_) | toml::Value::Float(_) => element.bytes_of(&value.to_string()),
                other => Err(format!("`{other}` is not a number")),
            };
            Ok(values.iter().map(bytes).collect::<Result<Vec<_>, _>>()?.concat())
        }
        (None, Some(file)) => element.file(&folder.join(file)),
        _ => Err("it needs either `values` or `file`".into()),
    }
}

impl Memory {
    fn contents(&self, folder: &Path) -> Result<(Element, Contents), String> {
        let element = Element::named(&self.element)?;
        let contents = match (self.zeros, self.unwritten, &self.values, &self.file) {
            (Some(count), None, None, None) => Contents::Zeros(element.bytes_of_count(count)?),
            (None, Some(count), None, None) => Contents::Unwritten(element.bytes_of_count(count)?),
            (None, None, values, file) => {
                Contents::Bytes(contents(element, values.as_deref(), file.as_deref(), folder)?)
            }
            _ => return Err("it needs one of `values`, `file`, `zeros` and `unwritten`".into()),
        };
        Ok((element, contents))
    }
}

impl TensorMap {
    fn map(&self) -> Result<Map, String> {
        let parts = Parts {
            sizes: self.sizes.clone(),
            strides: self.strides.clone(),
            element_strides: self.steps.clone(),
            lower: self.lower.clone(),
            upper: self.upper.clone(),
            channels: self.channels,
            pixels: self.pixels,
            swizzle: self.swizzle,
            atom: self.atom,
            flip: self.flip,
            interleave: self.interleave,
            nan: self.nan,
        };
        parts.map(address(&self.buffer)?, &self.element, self.extents.clone())
    }
}

impl Image {
    fn buffer(&self, name: &str, texture: bool, folder: &Path) -> Result<Buffer, String> {
        let element = Element::named(&self.element)?;
        let default = Sampled::default();
        let sampled = match &self.sampling {
            Some(_) if !texture => return Err("a surface is not sampled".into()),
            sampled => sampled.as_ref().unwrap_or(&default),
        };
        let modes = sampled.address.iter().map(|mode| address_mode(mode)).collect::<Result<Vec<_>, _>>()?;
        let sampling = Sampling {
            filter: match sampled.filter {
                FilterName::Point => Filter::Point,
                FilterName::Linear => Filter::Linear,
            },
            address: addresses(&modes)?,
            normalised_coordinates: sampled.normalised_coordinates,
            normalised_float: sampled.normalised_float,
            border: sampled.border,
        };
        let object = Object {
            extent: extent(&self.extent, self.layers, sampled.linear_memory)?,
            format: format(element, self.channels)?,
            sampling: texture.then_some(sampling),
        };
        let bytes = contents(element, self.values.as_deref(), self.file.as_deref(), folder)?;
        let (name, contents) = (Some(name.to_owned()), Contents::Bytes(bytes));
        Ok(Buffer { name, element, contents, shown: false, object: Some(object) })
    }
}

impl Compare {
    fn differences(&self, element: Element, found: &[u8], expected: &[u8]) -> Difference {
        let mut difference =
            Difference { buffer: self.buffer.clone(), elements: 0, different: 0, first: None, largest: 0.0 };
        for (at, (found, expected)) in element.elements(found).zip(element.elements(expected)).enumerate() {
            difference.elements += 1;
            let [a, b] = [found, expected].map(|bits| element.number(bits));
            let apart = (a - b).abs();
            let alike = found == expected || a == b || a.is_nan() && b.is_nan();
            // Neither is so of NaN.
            let tolerated = apart <= self.absolute + self.relative * b.abs();
            if !alike && apart > difference.largest {
                difference.largest = apart;
            }
            if !alike && !tolerated {
                difference.different += 1;
                difference.first.get_or_insert_with(|| (at, element.text(found), element.text(expected)));
            }
        }
        difference
    }
}

impl Difference {
    fn json(&self) -> Value {
        let first = self.first.as_ref();
        json!({
            "buffer": self.buffer,
            "elements": self.elements,
            "different": self.different,
            "first": first.map(|(at, found, expected)| json!({ "element": at, "found": found, "expected": expected })),
            "largest": self.largest,
        })
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { buffer, elements, different, first, largest } = self;
        match first {
            None if *largest == 0.0 => write!(f, "{buffer}: all {elements} elements are equal"),
            None => write!(f, "{buffer}: all {elements} elements are within tolerance; largest difference {largest:e}"),
            Some((at, found, expected)) => write!(
                f,
                "{buffer}: {different} of {elements} elements differ; the first is element {at}: {found}, expected {expected}; \
                 largest difference {largest:e}"
            ),
        }
    }
}
