//! Pictures: their contents for kernels whose accesses are known, and that they are SVG that any page can show.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ptx_sim::{
    AccessKind, Arg, AsyncEvent, Device, DeviceConfig, DevicePtr, Grouped, LaunchConfig, LaunchError, Module, Observe,
    Pick, PictureError, Space, StepEvent, Swizzle, TensorElement, TensorMapDescriptor, TensorWindow, Trace,
    TraceRequest,
};
use roxmltree::{Document, Node};

const PTX: &str = include_str!("../kernels/trace.ptx");

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

#[test]
fn a_coalesced_copy_moves_what_it_asks_for() {
    let trace = trace("copies", [32, 1, 1], 2, &[32]);
    let svg = trace.sectors(&read()).unwrap();
    shows(&svg, "Warp 0, lanes 0–31: read of 4 bytes each. 4 sectors (128 bytes) for 128 bytes; ideal: 4 sectors.");
    assert_eq!((marked(&svg, "path", "wire"), marked(&svg, "rect", "edge")), (32, 0));
    assert!(svg.contains("if (i &lt; n) out[i] = in[i];"), "the line of the source: {svg}");
    shows(&trace.sectors(&write()).unwrap(), "write of 4 bytes each. 4 sectors");
    // Only some lanes.
    let trace = observe("copies", [32, 1, 1], 2, &[20], TraceRequest::default()).unwrap();
    shows(&trace.sectors(&read()).unwrap(), "lanes 0–19: read of 4 bytes each. 3 sectors (96 bytes) for 80 bytes");
    // 16 bytes per lane.
    let by_four = self::trace("copies_by_four", [32, 1, 1], 2, &[]);
    shows(&by_four.sectors(&read()).unwrap(), "16 sectors (512 bytes) for 512 bytes; ideal: 16 sectors.");
}

#[test]
fn a_walk_down_a_column_moves_a_sector_for_each_lane() {
    let walk = trace("sums_rows", [32, 1, 1], 2, &[32]);
    let svg = walk.sectors(&read()).unwrap();
    shows(&svg, "32 sectors (1024 bytes) for 128 bytes; ideal: 4 sectors.");
    // 32 lines of 4 sectors, a quarter of them moved.
    let legend = 1;
    assert_eq!((marked(&svg, "rect", "pale"), marked(&svg, "rect", "edge")), (32 + legend, 96 + legend));
    // With rows of 5 words the lanes are 20 bytes apart: 640 bytes in a row.
    let narrow = trace("sums_rows", [32, 1, 1], 2, &[5]);
    shows(&narrow.sectors(&Pick { nth: 2, ..read() }).unwrap(), "20 sectors (640 bytes) for 128 bytes");
    let access = narrow.accesses.iter().find(|access| access.space == Space::Global).unwrap();
    assert_eq!(narrow.locate(access.space, access.touches[3].address), "in + 60");
}

#[test]
fn a_transpose_has_conflicts_unless_its_rows_are_padded() {
    let plain = trace("transposes", [32, 32, 1], 2, &[]);
    let svg = plain.banks(&read()).unwrap();
    shows(&svg, "Warp 0, lanes 0–31: read of 4 bytes each. 32-way bank conflict: 32 wavefronts; ideal: 1.");
    assert_eq!(marked(&svg, "rect", "warn"), 31 + 1); // and the legend
    shows(&plain.banks(&write()).unwrap(), "No bank conflict: 1 wavefront; ideal: 1.");
    let padded = trace("transposes_padded", [32, 32, 1], 2, &[]);
    for warp in 0..32 {
        let svg = padded.banks(&Pick { warp: Some(warp), ..read() }).unwrap();
        shows(&svg, "No bank conflict: 1 wavefront");
        assert_eq!(marked(&svg, "rect", "warn"), 0);
    }
    // float4: a quarter of the warp at a time, or a half where neighbours read the same 16 bytes.
    let broadcast = trace("broadcasts", [64, 1, 1], 2, &[]);
    let svg = broadcast.banks(&read()).unwrap();
    shows(&svg, "No bank conflict: 2 wavefronts; ideal: 2.");
    assert_eq!(marked(&svg, "rect", "good"), 8 + 1);
}

/// Labels of the cells of a fragment's picture: (row, column) of the box, lane, register.
fn cells(svg: &str, letter: char) -> Vec<(usize, usize, usize, usize)> {
    let document = Document::parse(svg).unwrap();
    let titles = document.descendants().filter(|node| node.has_tag_name("title")).filter_map(|node| node.text());
    titles
        .filter_map(|title| {
            let numbers: Vec<usize> =
                title.split(|c: char| !c.is_ascii_digit()).filter_map(|text| text.parse().ok()).collect();
            let [row, column, lane, register] = numbers.as_slice() else { return None };
            let register_name = format!("register {letter}{register}");
            title.ends_with(&register_name).then_some((*row, *column, *lane, *register))
        })
        .collect()
}

/// The tables of PTX ISA, "Matrix Fragments for mma.m16n8k8".
#[test]
fn the_fragments_of_an_mma_are_those_of_the_manual() {
    let trace = trace("multiplies", [32, 1, 1], 3, &[]);
    let svg = trace.fragment(&Pick { nth: 3, ..Pick::default() }).unwrap();
    shows(&svg, "D = A · B + C: A 16 × 8 of f16; B 8 × 8 of f16; D 16 × 8 of f32.");
    let expected = |of: &dyn Fn(usize, usize) -> (usize, usize), registers: usize| {
        let all = (0..registers).flat_map(|register| (0..32).map(move |lane| (lane, register)));
        let mut all: Vec<_> = all
            .map(|(lane, register)| {
                let (row, column) = of(lane, register);
                (row, column, lane, register)
            })
            .collect();
        all.sort_unstable();
        all
    };
    // The first of two neighbours in a register of A and B.
    assert_eq!(cells(&svg, 'a'), expected(&|lane, register| (lane / 4 + 8 * register, lane % 4 * 2), 2));
    assert_eq!(cells(&svg, 'b'), expected(&|lane, _| (lane % 4 * 2, lane / 4), 1));
    let of_d = |lane: usize, register: usize| (lane / 4 + 8 * (register / 2), lane % 4 * 2 + register % 2);
    assert_eq!(cells(&svg, 'd'), expected(&of_d, 4));
    // ldmatrix: two neighbours of a row; transposed, of a column.
    let svg = trace.fragment(&Pick::default()).unwrap();
    shows(&svg, "2 matrices of 8 × 8 elements of 16 bits, rows in memory to lanes.");
    assert!(cells(&svg, 'r').contains(&(3, 4, 14, 1)), "{:?}", cells(&svg, 'r'));
    let svg = trace.fragment(&Pick { nth: 2, ..Pick::default() }).unwrap();
    shows(&svg, "1 matrix of 8 × 8 elements of 16 bits, rows in memory to lanes, transposed");
    assert!(cells(&svg, 'r').contains(&(4, 3, 14, 0)), "{:?}", cells(&svg, 'r'));
}

/// One warp that executes a matrix instruction whose registers hold zeros.
fn matrix_instruction(instruction: &str, registers: &str) -> String {
    let ptx = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 at) {{\n\
         {registers}\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [at];\n{instruction}\nret;\n}}\n"
    );
    let device = Device::new(Default::default());
    let module = device.load(&Module::from_ptx(&ptx, "k.ptx").unwrap()).unwrap();
    let at = device.alloc(4096, "matrix").unwrap();
    let config = LaunchConfig { block: [32, 1, 1], ..Default::default() };
    let observe = Observe { trace: Some(TraceRequest::default()), ..Default::default() };
    let observation = module.kernel("k").unwrap().observe(&config, &[at.into()], &observe).unwrap();
    observation.trace.unwrap().fragment(&Pick::default()).unwrap()
}

#[test]
fn all_kinds_of_fragments_can_be_drawn() {
    let registers = ".reg .b32 %r<20>; .reg .f32 %f<9>; .reg .f64 %d<9>;";
    let large = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, {%r5,%r6}, \
                 {%f5,%f6,%f7,%f8};";
    shows(&matrix_instruction(large, registers), "A 16 × 16 of f16; B 16 × 8 of f16; D 16 × 8 of f32. A: 4 registers");
    let bytes = "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r1,%r2,%r3,%r4}, {%r5,%r6,%r7,%r8}, {%r9,%r10}, \
                 {%r1,%r2,%r3,%r4};";
    shows(&matrix_instruction(bytes, registers), "A 16 × 32 of s8; B 32 × 8 of s8; D 16 × 8 of s32.");
    let bits = "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%r1,%r2,%r3,%r4}, {%r5,%r6,%r7,%r8}, \
                {%r9,%r10}, {%r1,%r2,%r3,%r4};";
    shows(&matrix_instruction(bits, registers), "A 16 × 8 of b1 (a cell: 32 elements)");
    let double = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d1,%d2}, {%d3}, {%d4}, {%d1,%d2};";
    shows(&matrix_instruction(double, registers), "A 8 × 4 of f64; B 4 × 8 of f64; D 8 × 8 of f64.");
    let load = "wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%rd1];";
    shows(&matrix_instruction(load, registers), "A 16 × 16 of f16; A: 4 registers and 4 that repeat them a lane.");
    let wide = "wmma.load.b.sync.aligned.row.m8n32k16.f16 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%rd1];";
    shows(&matrix_instruction(wide, registers), "B 16 × 32 of f16");
}

/// PTX ISA, "Register Fragments" of wgmma: the rows of one warp, four registers for each eight columns.
#[test]
fn a_warpgroup_s_product_can_be_drawn() {
    let names: Vec<String> = (0..32).map(|at| format!("%f{at}")).collect();
    let d = names.join(", ");
    let ptx = format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() {{\n.reg .f32 %f<32>; .reg .b64 %rd<2>;\n\
         .shared .align 1024 .b8 tile[8192];\nmov.u64 %rd1, tile;\nshr.u64 %rd1, %rd1, 4;\nwgmma.fence.sync.aligned;\n\
         wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {{{d}}}, %rd1, %rd1, 0, 1, 1, 0, 0;\nret;\n}}\n"
    );
    let device = Device::new(Default::default());
    let module = device.load(&Module::from_ptx(&ptx, "k.ptx").unwrap()).unwrap();
    let config = LaunchConfig { block: [128, 1, 1], ..Default::default() };
    let observe = Observe { trace: Some(TraceRequest::default()), ..Default::default() };
    let observation = module.kernel("k").unwrap().observe(&config, &[], &observe).unwrap();
    let svg = observation.trace.unwrap().fragment(&Pick::default()).unwrap();
    shows(&svg, "D 64 × 64 of f32; warp w of the four has rows 16w to 16w + 15: 32 registers a lane.");
    assert!(svg.contains("The first 32 columns; the others go on alike."), "{svg}");
    let cells = cells(&svg, 'd');
    assert_eq!(cells.len(), 16 * 32);
    for (row, column, lane, register) in cells {
        assert_eq!((lane, register), (row % 8 * 4 + column % 8 / 2, column / 8 * 4 + row / 8 * 2 + column % 2));
    }
}

#[test]
fn a_timeline_shows_who_waits_for_whom() {
    let rounds = trace("rounds", [128, 1, 1], 1, &[3]);
    assert_eq!(rounds.releases.len(), 6);
    assert!(rounds.releases.iter().all(|release| release.warps.len() == 4));
    let exits = rounds.steps.iter().filter(|step| step.event == StepEvent::Exit).count();
    assert_eq!((exits, rounds.missed), (4, 0));
    let svg = rounds.timeline().unwrap();
    shows(&svg, "4 warps. ");
    shows(&svg, "6 barriers");
    // Warps 1 to 3 wait for warp 0 in each of three rounds, at the first barrier of two.
    let legend = 1;
    assert_eq!(marked(&svg, "rect", "wait"), 9 + legend);
    assert_eq!(marked(&svg, "path", "stop"), 6);
    assert_eq!(marked(&svg, "rect", "stop-text"), 3 + legend);
    // In each round both sides of the branch run by themselves.
    assert!(marked(&svg, "rect", "warn") >= 2 * 3 * 4);
    // Without barriers and branches there is nothing of the kind; a warp need not be full.
    let svg = trace("copies_by_four", [40, 1, 1], 2, &[]).timeline().unwrap();
    shows(&svg, "2 warps. ");
    assert_eq!((marked(&svg, "rect", "warn"), marked(&svg, "path", "stop")), (0, 0));
    // Long ones are drawn with several steps a column, and many warps in lower rows.
    shows(&trace("rounds", [128, 1, 1], 1, &[60]).timeline().unwrap(), "120 barriers");
    shows(&trace("transposes", [32, 32, 1], 2, &[]).timeline().unwrap(), "32 warps");
}

#[test]
fn a_trace_has_an_end() {
    let request = TraceRequest { max_steps: 100, ..Default::default() };
    let cut = observe("rounds", [128, 1, 1], 1, &[3], request).unwrap();
    let whole = trace("rounds", [128, 1, 1], 1, &[3]);
    assert_eq!((cut.steps.len(), cut.steps.len() as u64 + cut.missed), (100, whole.steps.len() as u64));
    assert_eq!(cut.steps, whole.steps[..100]);
    let svg = cut.timeline().unwrap();
    shows(&svg, "Truncated:");
    let error = cut.banks(&Pick { line: Some(1), ..Pick::default() }).unwrap_err();
    assert!(error.to_string().contains("the trace ends"), "{error}");
    // One warp only.
    let request = TraceRequest { warp: Some(2), ..Default::default() };
    let one = observe("rounds", [128, 1, 1], 1, &[3], request).unwrap();
    assert!(one.steps.iter().all(|step| step.warp == 2) && one.steps.len() < whole.steps.len());
    shows(&one.timeline().unwrap(), "1 warp. ");
}

#[test]
fn both_ends_of_an_asynchronous_copy_are_recorded() {
    let ptx = std::fs::read_to_string(kernels().join("cp_async_ragged.ptx")).unwrap();
    let device = Device::new(Default::default());
    let module = device.load(&Module::from_ptx(&ptx, "cp.ptx").unwrap()).unwrap();
    let kernel = module.kernel("last_bytes").unwrap();
    let (from, to) = (device.alloc(2048, "from").unwrap(), device.alloc(2048, "to").unwrap());
    let args: Vec<Arg> = kernel.info().params.iter().zip([from, to]).map(|(_, pointer)| pointer.into()).collect();
    let config = LaunchConfig { block: [2, 1, 1], ..Default::default() };
    let observe = Observe { trace: Some(TraceRequest::default()), ..Default::default() };
    let trace = kernel.observe(&config, &args, &observe).unwrap().trace.unwrap();
    let copies: Vec<_> = trace.accesses.iter().filter(|access| access.kind == AccessKind::Copy).collect();
    let ends = |space| copies.iter().filter(|access| access.space == space).count();
    assert!(ends(Space::Global) > 0 && ends(Space::Shared) > 0, "{copies:?}");
    let shared = copies.iter().find(|access| access.space == Space::Shared).unwrap();
    assert!(shared.touches.iter().all(|touch| touch.bytes == 16));
    let read = copies.iter().filter(|access| access.space == Space::Global).flat_map(|access| &access.touches);
    assert!(read.clone().any(|touch| touch.bytes < 16) && read.clone().all(|touch| touch.bytes <= 16));
}

#[test]
fn copies_of_any_number_of_bytes_have_rounds() {
    for bytes in 0..=16 {
        let ptx = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n
            .visible .entry k(.param .u64 from) {{
                .reg .b64 %rd<2>; .reg .b32 %r<2>; .shared .align 16 .b8 tile[16];
                ld.param.u64 %rd1, [from]; mov.u32 %r1, tile;
                cp.async.cg.shared.global [%r1], [%rd1], 16, {bytes};
                cp.async.wait_all;
                ret;
            }}"
        );
        let device = Device::new(Default::default());
        let module = device.load(&Module::from_ptx(&ptx, "cp.ptx").unwrap()).unwrap();
        let args = [Arg::from(device.alloc(64, "from").unwrap())];
        let config = LaunchConfig { block: [32, 1, 1], ..Default::default() };
        let observe = Observe { trace: Some(TraceRequest::default()), ..Default::default() };
        let trace = module.kernel("k").unwrap().observe(&config, &args, &observe).unwrap().trace.unwrap();
        for access in &trace.accesses {
            assert!(access.wavefronts() >= access.ideal_wavefronts(), "{bytes}: {access:?}");
        }
        assert!(trace.accesses.iter().any(|access| access.kind == AccessKind::Copy));
    }
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

// The command

fn ptx_sim(args: &str) -> (i32, String, String) {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("ptx-sim"));
    let Output { status, stdout, stderr } =
        command.current_dir(kernels()).args(args.split_whitespace()).output().expect("the command can be started");
    let text = |bytes| String::from_utf8(bytes).expect("output is text");
    (status.code().expect("the command ends by itself"), text(stdout), text(stderr))
}

const TRANSPOSES: &str = "trace trace.ptx --kernel transposes --block 32,32 out:f32:1024 out:f32:1024";

#[test]
fn the_command_draws_to_stdout_or_a_file() {
    let (code, stdout, stderr) = ptx_sim(&format!("{TRANSPOSES} --show banks --kind read --warp 3"));
    assert_eq!((code, stderr.as_str()), (0, ""));
    shows(&stdout, "Warp 3, lanes 0–31: read of 4 bytes each. 32-way bank conflict");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("picture.svg");
    let (code, stdout, _) = ptx_sim(&format!("{TRANSPOSES} --show timeline -o {}", file.display()));
    assert_eq!((code, stdout.as_str()), (0, ""));
    shows(&std::fs::read_to_string(&file).unwrap(), "32 warps");
    let (code, _, stderr) = ptx_sim(&format!("{TRANSPOSES} --show timeline -o {}", folder.path().display()));
    assert!(code == 1 && stderr.contains("cannot write"), "{stderr}");
}

#[test]
fn the_command_lists_accesses() {
    let (code, stdout, _) = ptx_sim(&format!("{TRANSPOSES} --list"));
    assert_eq!(code, 0);
    insta::assert_snapshot!("trace_list", stdout);
    let (_, stdout, _) = ptx_sim(&format!("{TRANSPOSES} --list --max-steps 20"));
    assert!(stdout.contains("truncated: "), "{stdout}");
}

#[test]
fn the_command_explains_what_it_cannot_draw() {
    for (options, code, reason) in [
        ("--show sectors --line 99", 1, "nothing to draw: there is no global access at line 99; lines that have some"),
        ("--show fragment", 1, "there is no matrix instruction; the traced warps have none at all"),
        ("--show banks --nth 1000", 1, "there are only 64 of these, and number 1000 is asked for"),
        ("--show banks --nth 0", 2, "--nth"),
        ("--show clouds", 2, "clouds"),
        ("", 2, "--show"),
        ("--show banks --list", 2, "--list"),
        ("--show banks --at-block 3", 2, "there is no block (3, 0, 0) in a grid of 1 × 1 × 1 blocks"),
        ("--show banks --warp 32", 2, "there is no warp 32 in a block of 1024 threads, which has warps 0 to 31"),
    ] {
        let (status, stdout, stderr) = ptx_sim(&format!("{TRANSPOSES} {options}"));
        assert!(status == code && stderr.contains(reason) && stdout.is_empty(), "{options}: {stderr}");
    }
    let (code, _, stderr) =
        ptx_sim("trace faults.ptx --kernel read_past_the_end --block 4 in:f32:1 out:f32:4 s32:4 --show timeline");
    assert!(code == 1 && stderr.contains("error[out-of-bounds]"), "{stderr}");
    assert_eq!(ptx_sim("trace --help").0, 0);
}

// Asynchronous work

const F16: [u16; 11] = [0xc500, 0xc400, 0xc200, 0xc000, 0xbc00, 0x0000, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500]; // -5 to 5

/// A block of `kernels/pipeline.cu` with an A of 50 rows and a B of 32, both of 200 columns, whose product is checked.
fn pipeline(sanitize: bool, request: TraceRequest) -> Trace {
    let device = Device::new(DeviceConfig { sanitize, ..Default::default() });
    let path = kernels().join("pipeline.ptx");
    let module = Module::from_ptx(include_str!("../kernels/pipeline.ptx"), &path.display().to_string()).unwrap();
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

fn titles(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap();
    let titles = document.descendants().filter(|node| node.has_tag_name("title")).filter_map(|node| node.text());
    titles.map(str::to_owned).collect()
}

#[test]
fn a_timeline_shows_copies_and_products_under_way() {
    let trace = pipeline(true, TraceRequest::default());
    let loads = trace.asynchronous.iter().filter(|step| matches!(step.event, AsyncEvent::Loads { .. })).count();
    let begins = |work| trace.asynchronous.iter().filter(|step| step.event == AsyncEvent::Begins(work)).count();
    // Two copies for each of four tiles; four products of a tile, by each of four warps.
    assert_eq!((loads, begins(Grouped::Products), begins(Grouped::Copies)), (8, 64, 0));
    let svg = trace.timeline().unwrap();
    shows(&svg, "5 warps. ");
    let legend = 1;
    assert_eq!(marked(&svg, "rect", "good"), 8 + legend);
    // A group for each tile and warp.
    assert_eq!(marked(&svg, "rect", "product"), 16 + legend);
    // The warp that copies waits for the first stage of two to be empty, and for the second.
    assert_eq!(marked(&svg, "rect", "r1"), 2 + legend);
    let titles = titles(&svg);
    let waits: Vec<_> =
        titles.iter().filter(|title| title.starts_with("waits for") && title.contains("empty")).collect();
    assert!(
        waits[0].ends_with("at phase 0 of empty + 0") && waits[1].ends_with("at phase 0 of empty + 8"),
        "{waits:?}"
    );
    let copies: Vec<_> = titles.iter().filter(|title| title.contains("bulk copy of 8192 bytes")).collect();
    assert_eq!(copies.len(), 4);
    assert!(copies[3].starts_with("line 71: ") && copies[3].contains("phase 1 of full + 8"), "{copies:?}");
    // Questions in vain are no steps of the model: each warp that multiplies has as many.
    let svg = pipeline(false, TraceRequest::default()).timeline().unwrap();
    assert_eq!(marked(&svg, "rect", "good"), 8 + legend);
}

/// The steps at which each flight of the picture begins and ends.
fn flights(svg: &str, what: &str) -> Vec<[usize; 2]> {
    let of = |title: String| {
        let (_, steps) = title.split_once(&format!("{what}, steps "))?;
        let (from, to) = steps.split_once(" to ")?;
        Some([from.parse().ok()?, to.parse().ok()?])
    };
    titles(svg).into_iter().filter_map(of).collect()
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
fn groups_are_under_way_up_to_the_wait_that_names_them() {
    // Steps 0 to 2 set up.
    let copies = alone(
        "cp.async.ca.shared.global [%r1], [%rd1], 16;\ncp.async.commit_group;\ncp.async.commit_group;\n
         cp.async.ca.shared.global [%r1+16], [%rd1], 16;\ncp.async.commit_group;\ncp.async.ca.shared.global [%r1+32], [%rd1], 16;\n
         cp.async.wait_group 2;\ncp.async.wait_group 1;\ncp.async.wait_all;",
    );
    let svg = copies.timeline().unwrap();
    // The first group leaves two behind it, of which one is empty; the last copies belong to none.
    assert_eq!(flights(&svg, "group of cp.async"), [[3, 10], [6, 12], [8, 12]]);
    let stores = alone(
        "st.shared.b32 [%r1], %r2;\ncp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 16;\ncp.async.bulk.commit_group;\n
         cp.async.bulk.global.shared::cta.bulk_group [%rd1+16], [%r1], 16;\ncp.async.bulk.commit_group;\n
         cp.async.bulk.wait_group.read 1;\ncp.async.bulk.wait_group 0;",
    );
    assert_eq!(flights(&stores.timeline().unwrap(), "group of bulk stores"), [[4, 9], [6, 10]]);
    // Nobody waits for what is under way at the end.
    let left = alone("cp.async.ca.shared.global [%r1], [%rd1], 16;");
    assert_eq!(flights(&left.timeline().unwrap(), "group of cp.async"), [[3, 5]]);
    let arrives = alone(
        "mbarrier.init.shared::cta.b64 [%r2], 1;\ncp.async.ca.shared.global [%r1], [%rd1], 16;\n
         cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r2];\n
         W0: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0; @!%p1 bra W0;",
    );
    assert_eq!(flights(&arrives.timeline().unwrap(), "group of cp.async"), [[4, 7]]);
}

#[test]
fn a_tile_is_drawn_as_its_swizzle_lays_it_out() {
    let trace = pipeline(false, TraceRequest::default());
    let at = |line, nth| Pick { line: Some(line), nth, ..Pick::default() };
    let svg = trace.tile(&at(71, 1)).unwrap();
    shows(&svg, "a box of 64 × 64 f16, rows of 128 bytes, to stages + 0; swizzle of 128 bytes. Read together");
    shows(&svg, "the first chunks of 8 rows: no two are in the same banks.");
    // Chunk c of row r stands in column c xor r % 8.
    let document = Document::parse(&svg).unwrap();
    let mut seen = 0;
    for node in document.descendants().filter(|node| node.has_tag_name("rect")) {
        let Some(title) = node.children().find(|child| child.has_tag_name("title")).and_then(|title| title.text())
        else {
            continue;
        };
        let numbers: Vec<usize> =
            title.split(|c: char| !c.is_ascii_digit()).filter_map(|text| text.parse().ok()).collect();
        let [row, chunk, ..] = numbers[..] else { panic!("{title}") };
        let x: f64 = node.attribute("x").unwrap().parse().unwrap();
        assert_eq!(((x - 84.0) / 98.5) as usize, chunk ^ (row % 8), "{title}");
        seen += 1;
    }
    assert_eq!(seen, 32 * 8);
    // The last tile has 8 columns of the tensor, and 50 rows.
    let last = trace.tile(&at(71, 4)).unwrap();
    assert_eq!(titles(&last).iter().filter(|title| title.contains("outside the tensor: zeros")).count(), 32 * 7);
    assert!(matches!(trace.tile(&at(71, 5)), Err(PictureError::Nth { found: 4, .. })));
    // Each end of the copies is among the accesses, but for what is outside; and they make no bank conflicts.
    let ends = |space| {
        let all = trace.accesses.iter().filter(move |access| access.kind == AccessKind::Bulk && access.space == space);
        all.map(|access| access.bytes()).collect::<Vec<_>>()
    };
    assert_eq!(ends(Space::Shared), [8192, 4096, 8192, 4096, 8192, 4096, 8192, 4096]);
    assert_eq!(ends(Space::Global), [6400, 4096, 6400, 4096, 6400, 4096, 800, 512]);
    assert!(trace.banks(&Pick { kind: Some(AccessKind::Bulk), ..Pick::default() }).is_err());
    shows(
        &trace.sectors(&Pick { kind: Some(AccessKind::Bulk), ..Pick::default() }).unwrap(),
        "bulk copy of 128 bytes each",
    );
}

#[test]
fn pixels_of_im2col_are_drawn_where_they_are() {
    // Two images of 4 × 3 pixels, their windows of 3 × 3 with a padding of 1: the tap at the upper left.
    let window = TensorWindow::Im2col { lower: vec![-1, -1], upper: vec![-1, -1], channels: 8, pixels: 15 };
    let body = "mbarrier.init.shared::cta.b64 [%r2], 1; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 240;\n\
         cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes \
         [%r1], [%rd1, {0, 0, -1, 0}], [%r2], {0, 0};\n\
         W0: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 0; @!%p1 bra W0;";
    let trace = alone_with(body, |from| {
        let tiled = TensorMapDescriptor::tiled(TensorElement::F16, from.offset(128), &[8, 4, 3, 2], &[8, 1, 1, 1]);
        TensorMapDescriptor { window, ..tiled }.encode().unwrap().bytes().to_vec()
    });
    let svg = trace.tensor_box(&Pick::default()).unwrap();
    shows(
        &svg,
        "15 pixels of 8 channels from 0 on, in from + 128, a tensor of 8 × 4 × 3 × 2 f16, fastest first; moved by (0, 0).",
    );
    shows(&svg, "9 of them are outside and arrive as zeros. 240 bytes to tile + 0.");
    // Four in a row of the bounding box, of which the first misses one.
    let all = titles(&svg);
    assert!(all.contains(&"row 0 of the box: x = 0, y = -1, outside the image".to_owned()), "{all:?}");
    assert!(all.contains(&"row 4 of the box: x = 0, y = 0, inside the image".to_owned()), "{all:?}");
    assert!(all.contains(&"row 14 of the box: x = 2, y = -1, outside the image".to_owned()), "{all:?}");
    shows(&trace.tile(&Pick::default()).unwrap(), "240 bytes of im2col");
}

#[test]
fn a_box_is_drawn_with_what_is_outside() {
    let trace = pipeline(false, TraceRequest::default());
    let at = |line, nth| Pick { line: Some(line), nth, ..Pick::default() };
    shows(
        &trace.tensor_box(&at(72, 1)).unwrap(),
        "Box of 64 × 32 f16 at (0, 0) in b, a tensor of 200 × 32, fastest first.",
    );
    shows(&trace.tensor_box(&at(72, 1)).unwrap(), "All of it is inside. 4096 bytes to stages + 8192.");
    let svg = trace.tensor_box(&at(71, 4)).unwrap();
    shows(&svg, "400 of 4096 elements are inside; the others arrive as zeros. 8192 bytes to stages + 12288.");
    let texts: Vec<String> =
        Document::parse(&svg).unwrap().descendants().filter_map(|node| node.text()).map(str::to_owned).collect();
    for coordinate in ["192", "200", "256", "50", "64"] {
        assert!(texts.iter().any(|text| text == coordinate), "{coordinate}");
    }
}

#[test]
fn a_descriptor_leads_to_core_matrices() {
    let trace = pipeline(false, TraceRequest::default());
    let warp = |nth| Pick { warp: Some(2), nth, ..Pick::default() };
    let svg = trace.operand(&warp(1)).unwrap();
    shows(&svg, "A: 64 rows of 16 f16 along k, K-major; swizzle of 128 bytes. Descriptor 0x");
    shows(
        &svg,
        "start 0x0, leading 16, stride 1024. A core matrix: 8 rows, of each 16 bytes (8 f16 along k); no two are",
    );
    shows(
        &svg,
        "8 rows on: + 1024 bytes (stride); the next chunk along k: + 16, then swizzled; the leading offset is not used.",
    );
    // The second product of a tile begins 32 bytes on, and B is the second of each.
    shows(&trace.operand(&warp(4)).unwrap(), "B: 32 columns of 16 f16 along k, K-major; swizzle of 128 bytes.");
    shows(&trace.operand(&warp(4)).unwrap(), "start 0x2020");
    let d = trace.fragment(&Pick { warp: Some(1), ..Pick::default() }).unwrap();
    assert!(
        cells(&d, 'd').contains(&(16, 0, 0, 0)) && cells(&d, 'd').contains(&(31, 31, 31, 15)),
        "{:?}",
        cells(&d, 'd')
    );
}

/// Without swizzle the two offsets lead from one core matrix to the next, MN-major the other way round; A may be in registers.
#[test]
fn operands_without_swizzle_and_in_registers_are_drawn() {
    let names: Vec<String> = (0..4).map(|at| format!("%f{at}")).collect();
    let d = names.join(", ");
    let ptx = format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() {{\n.reg .f32 %f<4>; .reg .b32 %r<4>; .reg .b64 %rd<3>;\n\
         .shared .align 1024 .b8 tile[8192];\nmov.u64 %rd1, tile;\nshr.u64 %rd1, %rd1, 4;\n\
         or.b64 %rd1, %rd1, 0x1000080000;\nor.b64 %rd2, %rd1, 0;\nwgmma.fence.sync.aligned;\n\
         wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{{d}}}, %rd1, %rd2, 0, 1, 1, 0, 1;\n\
         wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{{d}}}, {{%r0, %r1, %r2, %r3}}, %rd2, 1, 1, 1, 0;\nret;\n}}\n"
    );
    let device = Device::new(Default::default());
    let module = device.load(&Module::from_ptx(&ptx, "k.ptx").unwrap()).unwrap();
    let config = LaunchConfig { block: [128, 1, 1], ..Default::default() };
    let observe = Observe { trace: Some(TraceRequest::default()), ..Default::default() };
    let trace = module.kernel("k").unwrap().observe(&config, &[], &observe).unwrap().trace.unwrap();
    let nth = |nth| Pick { nth, ..Pick::default() };
    shows(
        &trace.operand(&nth(1)).unwrap(),
        "no swizzle. Descriptor 0x0000001000080000: start 0x0, leading 128, stride 256.",
    );
    shows(
        &trace.operand(&nth(1)).unwrap(),
        "8 rows on: + 256 bytes (stride); the next chunk along k: + 128 (leading).",
    );
    let b = trace.operand(&nth(2)).unwrap();
    shows(&b, "B: 8 columns of 16 f16 along k, N-major; no swizzle.");
    shows(&b, "8 steps of k on: + 128 bytes (leading); the next chunk of columns: + 256 (stride).");
    assert!(titles(&b).contains(&"columns 0 to 7, k = 15".to_owned()), "{:?}", titles(&b));
    // Of the second product only B is in shared memory, and A is a fragment.
    shows(&trace.operand(&nth(3)).unwrap(), "B: 8 columns of 16 f16 along k, K-major");
    let svg = trace.fragment(&nth(2)).unwrap();
    shows(&svg, "A 16 × 16 of f16 of each warp, from registers; A: 4 registers a lane.");
    assert!(cells(&svg, 'a').contains(&(9, 10, 5, 3)), "{:?}", cells(&svg, 'a'));
}

/// Results of each step in a register: the lanes, the type and their bits.
fn writes_of<'t>(trace: &'t Trace, name: &str) -> Vec<(usize, u32, &'static str, &'t [u64])> {
    let register = trace.registers.iter().position(|register| register.name == name);
    let register = register.unwrap_or_else(|| panic!("there is no {name} in {:?}", trace.registers)) as u32;
    let of_it = trace.writes.iter().filter(|write| write.register == register);
    of_it.map(|write| (write.step, write.lanes, write.ty, &*write.bits)).collect()
}

#[test]
fn a_trace_has_what_instructions_leave_in_registers() {
    let request = || TraceRequest { registers: true, ..TraceRequest::default() };
    let copies = observe("copies", [32, 1, 1], 2, &[20], request()).unwrap();
    assert_eq!(copies.registers_until, copies.steps.len());
    let lanes: Vec<u64> = (0..32).collect();
    let [(step, mask, ty, bits)] = writes_of(&copies, "%r5")[..] else { panic!("%r5 is written once") };
    assert_eq!((mask, ty, bits), (u32::MAX, "u32", &*lanes));
    assert!(copies.sites[copies.steps[step].site as usize].instruction.contains("%tid.x"));
    // i ≥ 20: a bit for each lane, and then only the others load.
    let past: Vec<u64> = (0..32).map(|lane| u64::from(lane >= 20)).collect();
    let [(_, mask, ty, bits)] = writes_of(&copies, "%p1")[..] else { panic!("%p1 is written once") };
    assert_eq!((mask, ty, bits), (u32::MAX, "pred", &*past));
    let loaded: Vec<u64> = (0..20).map(|lane| u64::from((lane as f32).to_bits())).collect();
    let [(step, mask, ty, bits)] = writes_of(&copies, "%f1")[..] else { panic!("%f1 is written once") };
    assert_eq!((mask, ty, bits), ((1 << 20) - 1, "f32", &*loaded));
    assert_eq!(copies.steps[step].active, mask);
    // Addresses have 64 bits.
    let [(.., bits)] = writes_of(&copies, "%rd5")[..] else { panic!("%rd5 is written once") };
    assert_eq!(copies.locate(Space::Global, bits[3]), "in + 12");

    // A loop writes a register again and again: value = 2 · value + 3, four times from lane + 1 on.
    let doubles = observe("doubles", [32, 1, 1], 1, &[3], request()).unwrap();
    let of_lane = |lane: usize| writes_of(&doubles, "%r33").into_iter().map(move |(.., bits)| bits[lane]);
    assert!(of_lane(5).eq([6, 15, 33, 69]), "{:?}", of_lane(5).collect::<Vec<_>>());

    // Nothing, unless it is asked for; and of steps that are not recorded, nothing either.
    let plain = trace("copies", [32, 1, 1], 2, &[32]);
    assert_eq!((plain.writes.len(), plain.registers.len(), plain.registers_until), (0, 0, 0));
    let cut = observe("rounds", [64, 1, 1], 1, &[2], TraceRequest { max_steps: 10, ..request() }).unwrap();
    assert_eq!(cut.registers_until, 10);
    assert!(cut.writes.iter().all(|write| write.step < 10) && cut.writes.len() > 4, "{:?}", cut.writes);
}

/// The results of a product appear when it has been waited for, and a barrier's when it releases its lanes.
#[test]
fn what_comes_later_is_recorded_when_it_is_there() {
    let run = |ptx: &str, threads: u32| {
        let device = Device::new(Default::default());
        let module = device.load(&Module::from_ptx(ptx, "later.ptx").unwrap()).unwrap();
        let config = LaunchConfig { block: [threads, 1, 1], ..Default::default() };
        let request = TraceRequest { registers: true, ..TraceRequest::default() };
        let observe = Observe { trace: Some(request), ..Default::default() };
        module.kernel("k").unwrap().observe(&config, &[], &observe).unwrap().trace.unwrap()
    };
    let counted = run(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 %r<3>;\n.reg .pred %p<2>;\n\
         mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 40;\nbarrier.red.popc.u32 %r2, 0, %p1;\nadd.u32 %r2, %r2, 1;\nret;\n}\n",
        64,
    );
    let totals: Vec<u64> = writes_of(&counted, "%r2").into_iter().map(|(.., bits)| bits[31]).collect();
    assert_eq!(totals.iter().filter(|&&total| total == 40).count(), 2, "{totals:?}");
    assert_eq!(totals.iter().filter(|&&total| total == 41).count(), 2, "{totals:?}");

    // 1 · 1, sixteen times: all of shared memory holds ones.
    let registers: Vec<String> = (0..4).map(|at| format!("%f{at}")).collect();
    let product = run(
        &format!(
            ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{{\n.reg .b32 %r<3>;\n.reg .f32 %f<4>;\n\
             .reg .b64 %rd<4>;\n.reg .pred %p<2>;\n.shared .align 1024 .b8 tile[8192];\nmov.u64 %rd1, tile;\nmov.u32 %r1, %tid.x;\n\
             mul.wide.u32 %rd2, %r1, 64;\nadd.u64 %rd2, %rd1, %rd2;\nmov.b32 %r2, 0x3c003c00;\n{}\
             fence.proxy.async;\nbar.sync 0;\nshr.u64 %rd1, %rd1, 4;\nor.b64 %rd1, %rd1, 0x1000080000;\nwgmma.fence.sync.aligned;\n\
             wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{{}}}, %rd1, %rd1, 0, 1, 1, 0, 0;\nwgmma.commit_group.sync.aligned;\n\
             wgmma.wait_group.sync.aligned 0;\nadd.f32 %f0, %f0, %f0;\nret;\n}}\n",
            (0..16).map(|word| format!("st.shared.b32 [%rd2+{}], %r2;\n", 4 * word)).collect::<String>(),
            registers.join(", "),
        ),
        128,
    );
    let of = |name: &str| writes_of(&product, name);
    for (step, _, ty, bits) in of("%f1") {
        let instruction = &product.sites[product.steps[step].site as usize].instruction;
        assert!(instruction.starts_with("wgmma.wait_group"), "{instruction}");
        assert_eq!((ty, bits), ("f32", &[u64::from(16f32.to_bits()); 32][..]));
    }
    assert_eq!((of("%f1").len(), of("%f0").len()), (4, 8));
    assert_eq!(of("%f0").iter().filter(|(.., bits)| bits[0] == u64::from(32f32.to_bits())).count(), 4);
}
