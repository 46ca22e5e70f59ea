//! Pictures: their contents for kernels whose accesses are known, and that they are SVG that any page can show.

mod accesses;
mod boxes;
mod command;
mod matrices;
mod registers;
mod tensor_memory;
mod timeline;

use std::path::{Path, PathBuf};

use ptx_sim::{
    AccessKind, Arg, Device, DeviceConfig, DevicePtr, LaunchConfig, LaunchError, Module, Observe, Pick, PictureError,
    Swizzle, TensorElement, TensorMapDescriptor, Trace, TraceRequest,
};
use roxmltree::{Document, Node};

const PTX: &str = include_str!("../../kernels/trace.ptx");

/// Launches one block of a kernel with buffers of 4,096 distinct words and then the numbers given.
fn observe(
    kernel: &str,
    block: [u32; 3],
    buffers: usize,
    numbers: &[i32],
    request: TraceRequest,
) -> Result<Trace, LaunchError> {
    let device = Device::new(Default::default());
    let path = kernels().join("trace.ptx");
    let module = device.load(&Module::from_ptx(PTX, &path.display().to_string()).unwrap()).unwrap();
    let bytes: Vec<u8> = (0..4096).flat_map(|at| (at as f32).to_le_bytes()).collect();
    let mut args = Vec::new();
    for label in ["in", "out", "third"].iter().take(buffers) {
        let pointer = device.alloc(bytes.len() as u64, label).unwrap();
        device.write(pointer, &bytes).unwrap();
        args.push(Arg::from(pointer));
    }
    args.extend(numbers.iter().map(|number| Arg::from(*number)));
    let config = LaunchConfig { block, ..Default::default() };
    let observe = Observe { trace: Some(request), ..Default::default() };
    let observation = module.kernel(kernel).unwrap().observe(&config, &args, &observe)?;
    Ok(observation.trace.expect("a trace was asked for"))
}

fn trace(kernel: &str, block: [u32; 3], buffers: usize, numbers: &[i32]) -> Trace {
    observe(kernel, block, buffers, numbers, TraceRequest::default()).unwrap()
}

fn kernels() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("kernels")
}

fn read() -> Pick {
    Pick { kind: Some(AccessKind::Read), ..Pick::default() }
}

fn write() -> Pick {
    Pick { kind: Some(AccessKind::Write), ..Pick::default() }
}

fn text_of<'d>(document: &'d Document<'_>, tag: &str) -> &'d str {
    let found = document.root_element().children().find(|child| child.has_tag_name(tag));
    found.and_then(|child| child.text()).unwrap_or_default()
}

fn is<'d>(class: &'static str) -> impl Fn(&Node<'d, 'd>) -> bool {
    move |node| node.attribute("class").is_some_and(|classes| classes.split(' ').any(|one| one == class))
}

/// Checks that a picture is well formed, meets the needs of accessibility and both colour schemes, and contains
/// `expected`.
#[track_caller]
fn shows(svg: &str, expected: &str) {
    let document = Document::parse(svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
    let root = document.root_element();
    assert_eq!(root.tag_name().name(), "svg");
    assert_eq!(root.attribute("role"), Some("img"));
    let size: Vec<f64> = root.attribute("viewBox").unwrap().split(' ').map(|text| text.parse().unwrap()).collect();
    assert!(size[2] <= 900.0 && size[3] <= 1200.0, "{size:?}");
    assert!(!text_of(&document, "title").is_empty());
    let description = text_of(&document, "desc");
    assert!(description.contains(expected), "{description}");
    assert!(!svg.contains("<script") && !svg.contains("href"), "{svg}");

    // Each colour is there for light and dark, by the system and by the themes of mdBook.
    let style = text_of(&document, "style");
    let (light, rest) = style.split_once("\n@media(prefers-color-scheme:dark){").expect("a dark sheet");
    let themes: Vec<&str> = rest.lines().collect();
    let [dark, light_themes, dark_themes] = themes.as_slice() else { panic!("{style}") };
    for node in document.descendants() {
        let Some(classes) = node.attribute("class") else { continue };
        for class in classes.split(' ') {
            let of_text = ["h", "s", "n", "t", "c", "m", "e", "l", "ptx-picture"].contains(&class);
            let rule = format!(".ptx-picture .{class}{{");
            for (name, sheet) in [("light", light), ("dark", dark), ("", light_themes), ("", dark_themes)] {
                assert!(of_text || sheet.contains(&rule), "{class} has no {name} colour");
            }
        }
        // Nothing leaves the picture on the left or right.
        if node.has_tag_name("rect") && node.attribute("x").is_some() {
            let number = |name: &str| node.attribute(name).unwrap().parse::<f64>().unwrap();
            assert!(number("x") >= 0.0 && number("x") + number("width") <= size[2] + 0.01, "{node:?}");
            assert!(number("y") + number("height") <= size[3] && number("width") > 0.0, "{node:?}");
        }
    }
    for theme in [".light", ".rust", ".coal", ".navy", ".ayu"] {
        assert!(light_themes.contains(theme) || dark_themes.contains(theme), "{theme}");
    }
}

fn marked(svg: &str, tag: &str, class: &'static str) -> usize {
    let document = Document::parse(svg).unwrap();
    document.descendants().filter(|node| node.has_tag_name(tag)).filter(|node| is(class)(node)).count()
}

fn titles(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap();
    let titles = document.descendants().filter(|node| node.has_tag_name("title")).filter_map(|node| node.text());
    titles.map(str::to_owned).collect()
}

const F16: [u16; 11] = [0xc500, 0xc400, 0xc200, 0xc000, 0xbc00, 0x0000, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500]; // -5 to 5

/// A block of `kernels/pipeline.cu` with an A of 50 rows and a B of 32, both of 200 columns, whose product is checked.
fn pipeline(sanitize: bool, request: TraceRequest) -> Trace {
    let device = Device::new(DeviceConfig { sanitize, ..Default::default() });
    let path = kernels().join("pipeline.ptx");
    let module = Module::from_ptx(include_str!("../../kernels/pipeline.ptx"), &path.display().to_string()).unwrap();
    let kernel = device.load(&module).unwrap().kernel("pipeline").unwrap();
    let number = |at: usize| at * 7 % 11;
    let buffer = |label: &str, rows: usize| {
        let bytes: Vec<u8> = (0..200 * rows).flat_map(|at| F16[number(at)].to_le_bytes()).collect();
        let pointer = device.alloc(bytes.len() as u64, label).unwrap();
        device.write(pointer, &bytes).unwrap();
        pointer
    };
    let map = |pointer, rows: u64, size: u32| {
        let plain = TensorMapDescriptor::tiled(TensorElement::F16, pointer, &[200, rows], &[64, size]);
        Arg::from(&TensorMapDescriptor { swizzle: Swizzle::Bytes128, ..plain }.encode().unwrap())
    };
    let out = device.alloc(64 * 32 * 4, "out").unwrap();
    let args = [map(buffer("a", 50), 50, 64), map(buffer("b", 32), 32, 32), Arg::from(out), Arg::from(200)];
    let config = LaunchConfig { block: [160, 1, 1], ..Default::default() };
    let observe = Observe { trace: Some(request), ..Default::default() };
    let observation = kernel.observe(&config, &args, &observe).unwrap();
    assert!(observation.findings.is_empty(), "{:?}", observation.findings);
    let mut bytes = vec![0; 64 * 32 * 4];
    device.read(out, &mut bytes).unwrap();
    for (at, bytes) in bytes.chunks_exact(4).enumerate() {
        let (row, column) = (at / 32, at % 32);
        let value = |at: usize| number(at) as f32 - 5.0;
        let products = (0..200).map(|k| value(row * 200 + k) * value(column * 200 + k));
        let expected = if row < 50 { products.sum() } else { 0.0 };
        assert_eq!(f32::from_le_bytes(bytes.try_into().unwrap()), expected, "{row}, {column}");
    }
    observation.trace.unwrap()
}

/// One warp that executes the instructions, each in a step of its own.
fn alone(body: &str) -> Trace {
    alone_with(body, |_| Vec::new())
}

/// The same, with memory at `from` that begins with these bytes.
fn alone_with(body: &str, bytes: impl FnOnce(DevicePtr) -> Vec<u8>) -> Trace {
    let ptx = format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 from) {{\n\
         .reg .b64 %rd<3>; .reg .b32 %r<5>; .reg .pred %p<3>;\n.shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 full;\n\
         ld.param.b64 %rd1, [from]; mov.b32 %r1, tile; mov.b32 %r2, full;\n{body}\nret;\n}}\n"
    );
    let device = Device::new(Default::default());
    let module = device.load(&Module::from_ptx(&ptx, "k.ptx").unwrap()).unwrap();
    let from = device.alloc(1024, "from").unwrap();
    device.write(from, &bytes(from)).unwrap();
    let args = [Arg::from(from)];
    let config = LaunchConfig::default();
    let observe = Observe { trace: Some(TraceRequest::default()), ..Default::default() };
    module.kernel("k").unwrap().observe(&config, &args, &observe).unwrap().trace.unwrap()
}

#[test]
fn source_text_is_escaped_and_may_be_given() {
    let source = "\n\n\n\nif (a < b && c > \"d\") \u{1}x;\n";
    let request = TraceRequest { source: Some(source.into()), ..Default::default() };
    let svg = observe("copies", [32, 1, 1], 2, &[32], request).unwrap().sectors(&read()).unwrap();
    shows(&svg, "4 sectors");
    assert!(svg.contains("if (a &lt; b &amp;&amp; c &gt; &quot;d&quot;) x;"), "{svg}");
}

#[test]
fn the_same_launch_gives_the_same_bytes() {
    let pictures = || {
        let rounds = trace("rounds", [128, 1, 1], 1, &[5]);
        let product = trace("multiplies", [32, 1, 1], 3, &[]);
        [rounds.timeline(), rounds.banks(&read()), product.fragment(&Pick::default()), product.sectors(&read())]
    };
    assert_eq!(pictures(), pictures());
}

#[test]
fn what_is_not_there_is_an_error_that_says_what_is() {
    let copies = trace("copies", [32, 1, 1], 2, &[32]);
    let at = |line| Pick { line: Some(line), ..Pick::default() };
    let error = copies.sectors(&at(1)).unwrap_err();
    assert_eq!(error.to_string(), "there is no global access at line 1; lines that have some, and how many: 5 (2)");
    let error = copies.banks(&at(5)).unwrap_err();
    assert!(matches!(&error, PictureError::Nothing { lines, .. } if lines.is_empty()), "{error}");
    let error = copies.sectors(&Pick { nth: 3, ..at(5) }).unwrap_err();
    assert_eq!(error, PictureError::Nth { found: 2, nth: 3, missed: 0 });
    assert!(copies.sectors(&Pick { nth: 0, ..at(5) }).is_err());
    for request in
        [TraceRequest { block: [1, 0, 0], ..Default::default() }, TraceRequest { warp: Some(1), ..Default::default() }]
    {
        let error = observe("copies", [32, 1, 1], 2, &[32], request).unwrap_err();
        assert!(matches!(error, LaunchError::Observe { .. }), "{error}");
    }
}
