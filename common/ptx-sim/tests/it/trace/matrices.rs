//! Tests of the pictures of matrix instructions: fragments in registers, operands in shared memory.

use ptx_sim::{Device, LaunchConfig, Module, Observe, Pick, TraceRequest};
use roxmltree::Document;

use super::{pipeline, shows, titles, trace};

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
