//! Tensor memory and its products, by the kernels of `kernels/tcgen05.cu`: every result by an independent computation.

use ptx_sim::{Arg, Asynchrony, Device, DeviceConfig, Fault, FaultKind, LaunchConfig, LaunchError, Module};

use super::tensor_memory::{PTX, Param, RUN, Run, drawn, launch, line, mistake};

/// Bytes of k of one product.
const STEP: usize = 32;

/// A type of elements, by its number in the instruction descriptor.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Element {
    F16,
    Bf16,
    Tf32,
    E4m3,
    E5m2,
    U8,
    S8,
}
use Element::*;

impl Element {
    fn kind(self) -> i32 {
        match self {
            F16 | Bf16 => 0,
            Tf32 => 1,
            E4m3 | E5m2 => 2,
            U8 | S8 => 3,
        }
    }

    fn number(self) -> u32 {
        match self {
            F16 | E4m3 | U8 => 0,
            Bf16 | E5m2 | S8 => 1,
            Tf32 => 2,
        }
    }

    fn bytes(self) -> usize {
        match self {
            Tf32 => 4,
            F16 | Bf16 => 2,
            _ => 1,
        }
    }

    /// The bits of an integer from -3 to 3, or from 0 to 6 of an unsigned type.
    fn bits(self, value: i32) -> Vec<u8> {
        let float = |exponents: i32, fraction: u32| -> u32 {
            if value == 0 {
                return 0;
            }
            let exponent = value.unsigned_abs().ilog2();
            let bias = (1 << (exponents - 1)) - 1;
            let fraction_bits = (value.unsigned_abs() << fraction >> exponent) & ((1 << fraction) - 1);
            u32::from(value < 0) << (exponents as u32 + fraction) | (exponent + bias) << fraction | fraction_bits
        };
        match self {
            F16 => (float(5, 10) as u16).to_le_bytes().to_vec(),
            Bf16 => (float(8, 7) as u16).to_le_bytes().to_vec(),
            Tf32 => float(8, 23).to_le_bytes().to_vec(),
            E4m3 => vec![float(4, 3) as u8],
            E5m2 => vec![float(5, 2) as u8],
            U8 | S8 => vec![value as u8],
        }
    }

    fn value(self, seed: usize, at: usize) -> i32 {
        let value = ((at * 7 + at / 13 + seed * 3) % 7) as i32;
        if self == U8 { value } else { value - 3 }
    }
}

/// Type of D.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Accumulator {
    F16 = 0,
    F32 = 1,
    S32 = 2,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    m: u32,
    n: u32,
    a: Element,
    b: Element,
    d: Accumulator,
    swizzle: [i32; 2],
    mn_major: [bool; 2],
    /// Whether the swizzle, of 128 bytes, has atoms of 32.
    wide_atoms: [bool; 2],
    negated: [bool; 2],
    steps: usize,
}

/// As the kernels know it.
const ATOMS_OF_32: u32 = 2;

const CASE: Case = Case {
    m: 128,
    n: 64,
    a: F16,
    b: F16,
    d: Accumulator::F32,
    swizzle: [128, 128],
    mn_major: [false; 2],
    wide_atoms: [false; 2],
    negated: [false; 2],
    steps: 3,
};

impl Case {
    fn descriptor(&self) -> u32 {
        (self.d as u32) << 4
            | self.a.number() << 7
            | self.b.number() << 10
            | u32::from(self.negated[0]) << 13
            | u32::from(self.negated[1]) << 14
            | u32::from(self.mn_major[0]) << 15
            | u32::from(self.mn_major[1]) << 16
            | self.n >> 3 << 17
            | self.m >> 4 << 24
    }

    fn k(&self) -> usize {
        self.steps * STEP / self.a.bytes()
    }

    /// The integers of A · Bᵀ, row by row.
    fn expected(&self) -> Vec<i32> {
        let sign = if self.negated[0] == self.negated[1] { 1 } else { -1 };
        let element = |row: usize, column: usize| {
            let products =
                (0..self.k()).map(|k| self.a.value(1, row * self.k() + k) * self.b.value(2, column * self.k() + k));
            sign * products.sum::<i32>()
        };
        let columns = self.n as usize;
        (0..self.m as usize * columns).map(|at| element(at / columns, at % columns)).collect()
    }

    fn run(&self, asynchrony: Asynchrony, sanitize: bool) -> Vec<i32> {
        let device = Device::new(DeviceConfig { sanitize, ..Default::default() });
        let module = device.load(&Module::from_ptx(PTX, "tcgen05.ptx").unwrap()).unwrap();
        let operand = |seed: usize, rows: u32, element: Element| {
            let count = rows as usize * self.k();
            let bytes: Vec<u8> = (0..count).flat_map(|at| element.bits(element.value(seed, at))).collect();
            let pointer = device.alloc(bytes.len() as u64, "operand").unwrap();
            device.write(pointer, &bytes).unwrap();
            pointer
        };
        let (a, b) = (operand(1, self.m, self.a), operand(2, self.n, self.b));
        let out = device.alloc(u64::from(128 * self.n * 4), "out").unwrap();
        let layout = |which: usize, extent: u32| {
            let order = if self.wide_atoms[which] { ATOMS_OF_32 } else { u32::from(self.mn_major[which]) };
            let words = [extent, self.swizzle[which] as u32, order];
            Arg::from_bytes(&words.map(u32::to_le_bytes).concat())
        };
        let args = [
            Arg::from(a),
            Arg::from(b),
            Arg::from(out),
            Arg::from(self.a.kind()),
            Arg::from(self.descriptor()),
            layout(0, self.m),
            layout(1, self.n),
            Arg::from(self.a.bytes() as i32),
            Arg::from(self.steps as i32),
        ];
        let config = LaunchConfig { block: [128, 1, 1], asynchrony, ..Default::default() };
        if let Err(error) = module.kernel("product").unwrap().launch(&config, &args) {
            panic!(
                "{self:?}: {}",
                match error {
                    LaunchError::Fault(fault) => drawn(&[*fault]),
                    LaunchError::Findings(findings) => drawn(&findings),
                    other => other.to_string(),
                }
            );
        }
        let mut bytes = vec![0; (128 * self.n * 4) as usize];
        device.read(out, &mut bytes).unwrap();
        let words: Vec<u32> = bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
        let value = |word: u32| match self.d {
            Accumulator::F16 => small_half(word as u16),
            Accumulator::F32 => f32::from_bits(word) as i32,
            Accumulator::S32 => word as i32,
        };
        // Rows of a product of 64 are in the lower half of each warp's lanes.
        let lane = |row: u32| if self.m == 64 { row / 16 * 32 + row % 16 } else { row };
        (0..self.m * self.n).map(|at| value(words[(lane(at / self.n) * self.n + at % self.n) as usize])).collect()
    }

    #[track_caller]
    fn is_right(&self) {
        for (asynchrony, sanitize) in [(Asynchrony::Late, false), (Asynchrony::Early, false), (Asynchrony::Late, true)]
        {
            assert_eq!(
                self.run(asynchrony, sanitize),
                self.expected(),
                "{self:?}, {asynchrony:?}, sanitised: {sanitize}"
            );
        }
    }
}

/// An f16 that is a small integer.
fn small_half(bits: u16) -> i32 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let magnitude = if exponent == 0 { 0.0 } else { (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15) };
    if bits >> 15 == 0 { magnitude as i32 } else { -magnitude as i32 }
}

#[test]
fn products_of_all_types_are_right() {
    for (a, b, d) in [
        (F16, F16, Accumulator::F32),
        (F16, F16, Accumulator::F16),
        (Bf16, Bf16, Accumulator::F32),
        (Tf32, Tf32, Accumulator::F32),
        (E4m3, E4m3, Accumulator::F32),
        (E5m2, E4m3, Accumulator::F16),
        (E4m3, E5m2, Accumulator::F32),
        (S8, S8, Accumulator::S32),
        (U8, S8, Accumulator::S32),
    ] {
        Case { a, b, d, ..CASE }.is_right();
    }
    Case { negated: [true, false], ..CASE }.is_right();
    Case { a: E4m3, b: E4m3, negated: [false, true], ..CASE }.is_right();
}

#[test]
fn products_of_all_shapes_are_right() {
    for (m, n) in [(128, 8), (128, 24), (128, 256), (64, 8), (64, 72), (64, 256)] {
        Case { m, n, steps: 2, ..CASE }.is_right();
    }
}

#[test]
fn products_of_all_layouts_are_right() {
    for swizzle in [16, 32, 64, 128] {
        for major in [[false; 2], [true, false], [false, true], [true; 2]] {
            Case { swizzle: [swizzle, 128], mn_major: major, ..CASE }.is_right();
            Case { swizzle: [64, swizzle], mn_major: major, ..CASE }.is_right();
        }
        Case { a: E4m3, b: E4m3, swizzle: [swizzle; 2], ..CASE }.is_right();
        Case { a: Tf32, b: Tf32, swizzle: [swizzle; 2], ..CASE }.is_right();
    }
}

#[test]
fn transposed_tiles_may_have_a_swizzle_with_atoms_of_32_bytes() {
    for wide in [[true, false], [false, true], [true; 2]] {
        let case = Case { mn_major: wide, wide_atoms: wide, ..CASE };
        case.is_right();
        Case { a: Tf32, b: Tf32, ..case }.is_right();
        Case { a: E4m3, b: E4m3, n: 128, ..case }.is_right();
    }
}

#[test]
fn a_swizzle_that_does_not_fit_the_order_of_a_tile_is_refused() {
    let transposed = [true, false];
    for (case, order, expected) in [
        (CASE, ATOMS_OF_32, "only a transposed matrix"),
        (Case { a: Tf32, b: Tf32, mn_major: transposed, ..CASE }, 1, "32-bit elements has the swizzle of 128 bytes"),
    ] {
        let bytes = vec![0; 128 * STEP];
        let (kind, descriptor) = (case.a.kind() as u32, case.descriptor());
        let params = [
            Param::In(&bytes),
            Param::In(&bytes),
            Param::Out(128 * 64),
            Param::Int(kind),
            Param::Int(descriptor),
            Param::Layout([128, 128, order]),
            Param::Layout([64, 128, 0]),
            Param::Int(case.a.bytes() as u32),
            Param::Int(1),
        ];
        let faults = launch("product", &Run { strict: false, ..RUN }, &params).expect_err(expected);
        assert_eq!(faults[0].kind, FaultKind::InvalidTcgen05);
        assert!(drawn(&faults).contains(expected), "{}", drawn(&faults));
    }
}

/// A form of `tcgen05.ld` and `tcgen05.st`, as CUTLASS describes it: strides in bits of the thread's parts and of the register's, in a
/// matrix of `lanes` rows without gaps.
struct Form {
    name: &'static str,

    /// Bits of a lane per repetition.
    bits: u32,
    registers: u32,
    /// Extent and stride of each part of the number of the thread, and of the register; a stride that is negative is one per
    /// repetition.
    thread: &'static [(u32, i32)],
    register: &'static [(u32, i32)],
}

/// The register's last part has as many as there are repetitions.
const MANY: u32 = u32::MAX;

const FORMS: [Form; 5] = [
    Form { name: "32x32b", bits: 32, registers: 1, thread: &[(32, -32)], register: &[(MANY, 32)] },
    Form { name: "16x64b", bits: 64, registers: 1, thread: &[(2, -512), (2, 32), (8, -64)], register: &[(MANY, 64)] },
    Form {
        name: "16x128b",

        bits: 128,
        registers: 2,
        thread: &[(4, 32), (8, -128)],
        register: &[(2, -1024), (MANY, 128)],
    },
    Form {
        name: "16x256b",

        bits: 256,
        registers: 4,
        thread: &[(4, 64), (8, -256)],
        register: &[(2, 32), (2, -2048), (MANY, 256)],
    },
    Form { name: "16x32bx2", bits: 64, registers: 1, thread: &[(16, -64), (2, -32)], register: &[(MANY, 32)] },
];

impl Form {
    /// Lane and column of a register of a thread.
    fn cell(&self, repeats: u32, thread: u32, register: u32) -> [u32; 2] {
        let at = |mut number: u32, parts: &[(u32, i32)]| -> u32 {
            let mut bits = 0;
            for (extent, stride) in parts {
                let stride = if *stride < 0 { stride.unsigned_abs() * repeats } else { *stride as u32 };
                let extent = if *extent == MANY { repeats } else { *extent };
                bits += number % extent * stride;
                number /= extent;
            }
            bits
        };
        let bits = at(thread, self.thread) + at(register, self.register);
        [bits / (self.bits * repeats), bits % (self.bits * repeats) / 32]
    }

    /// A kernel in which each warp's threads write the numbers of their cells by lanes, and then load them in this form; or the other way round.
    fn ptx(&self, repeats: u32, loads: bool) -> String {
        let (registers, columns) = (self.registers * repeats, self.bits * repeats / 32);
        let list = |count: u32| (0..count).map(|at| format!("%r{}", 100 + at)).collect::<Vec<_>>().join(", ");
        let halves = if self.name == "16x32bx2" { format!(", {repeats}") } else { String::new() };
        let (number, cell) = ("mul.lo.u32 %r5, %r4, 1000;\n", |at: u32| format!("add.u32 %r100, %r5, {at};\n"));
        let mut text = String::new();
        let store = |text: &mut String, at: u32, count: u32| {
            for register in 0..count {
                *text += &format!("st.global.b32 [%rd2+{}], %r{};\n", 4 * (at + register), 100 + register);
            }
        };
        if loads {
            for at in 0..columns {
                text += &cell(at);
                text += &format!("tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3+{at}], {{%r100}};\n");
            }
            text += "tcgen05.wait::st.sync.aligned;\n";
            text += &format!(
                "tcgen05.ld.sync.aligned.{}.x{repeats}.b32 {{{}}}, [%r3]{halves};\ntcgen05.wait::ld.sync.aligned;\n",
                self.name,
                list(registers)
            );
            store(&mut text, 0, registers);
        } else {
            for at in 0..registers {
                text += &format!("add.u32 %r{}, %r5, {at};\n", 100 + at);
            }
            text += &format!(
                "tcgen05.st.sync.aligned.{}.x{repeats}.b32 [%r3]{halves}, {{{}}};\ntcgen05.wait::st.sync.aligned;\n",
                self.name,
                list(registers)
            );
            for at in 0..columns {
                text += &format!("tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r100}}, [%r3+{at}];\n");
                text += "tcgen05.wait::ld.sync.aligned;\n";
                store(&mut text, at, 1);
            }
        }
        let each = if loads { registers } else { columns };
        format!(
            ".version 8.6\n.target sm_100a\n.address_size 64\n.entry moves(.param .u64 out) {{\n.reg .b32 %r<300>;\n.reg .b64 %rd<4>;\n.reg .pred %p<2>;\n\
             .shared .align 4 .b32 place;\nmov.u32 %r1, %tid.x;\nshr.u32 %r2, %r1, 5;\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra wait;\n\
             tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], 512;\nwait:\nbar.sync 0;\nld.shared.b32 %r3, [place];\n\
             shl.b32 %r4, %r2, 21;\nadd.u32 %r3, %r3, %r4;\nand.b32 %r4, %r1, 31;\n{number}\
             ld.param.u64 %rd1, [out];\nmul.wide.u32 %rd2, %r1, {};\nadd.u64 %rd2, %rd2, %rd1;\n{text}\
             bar.sync 0;\n@%p1 bra done;\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 512;\ndone:\nret;\n}}\n",
            4 * each
        )
    }

    fn run(&self, repeats: u32, loads: bool) -> Vec<u32> {
        let each = if loads { self.registers * repeats } else { self.bits * repeats / 32 };
        let device = Device::new(DeviceConfig { sanitize: true, ..Default::default() });
        let module = Module::from_ptx(&self.ptx(repeats, loads), "moves.ptx").unwrap_or_else(|error| panic!("{error}"));
        let module = device.load(&module).unwrap();
        let out = device.alloc(u64::from(128 * each * 4), "out").unwrap();
        let config = LaunchConfig { block: [128, 1, 1], ..Default::default() };
        let launched = module.kernel("moves").unwrap().launch(&config, &[Arg::from(out)]);
        launched.unwrap_or_else(|error| panic!("{}.x{repeats}: {error}", self.name));
        let mut bytes = vec![0; (128 * each * 4) as usize];
        device.read(out, &mut bytes).unwrap();
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
    }
}

#[test]
fn moves_of_all_forms_reach_their_cells() {
    for form in &FORMS {
        for repeats in [1, 2, 4, 8, 16, 32, 64, 128] {
            if form.registers * repeats > 128 {
                continue;
            }
            let registers = form.registers * repeats;
            let found = form.run(repeats, true);
            for thread in 0..128 {
                for register in 0..registers {
                    let [lane, column] = form.cell(repeats, thread % 32, register);
                    let at = (thread * registers + register) as usize;
                    assert_eq!(found[at], lane * 1000 + column, "{}.x{repeats} of thread {thread}", form.name);
                }
            }
            // What a thread's register was stored to is loaded by lanes.
            let columns = form.bits * repeats / 32;
            let found = form.run(repeats, false);
            for thread in 0..32 {
                for register in 0..registers {
                    let [lane, column] = form.cell(repeats, thread, register);
                    for warp in 0..4 {
                        let at = ((warp * 32 + lane) * columns + column) as usize;
                        assert_eq!(found[at], thread * 1000 + register, "{}.x{repeats} of thread {thread}", form.name);
                    }
                }
            }
        }
    }
}

/// Bytes of a matrix of f16, of distinct small integers, and the integers.
fn halves(seed: usize, count: usize) -> (Vec<u8>, Vec<i32>) {
    let values: Vec<i32> = (0..count).map(|at| F16.value(seed, at)).collect();
    (values.iter().flat_map(|value| F16.bits(*value)).collect(), values)
}

/// Launches a kernel with A, B, an output of that many words and integers, and returns the words.
fn launch_with(
    run: &Run,
    kernel: &str,
    [a, b]: [&[u8]; 2],
    words: usize,
    more: &[u32],
) -> Result<Vec<u32>, Vec<Fault>> {
    let operands = [Param::In(a), Param::In(b), Param::Out(words)];
    let params: Vec<Param> = operands.into_iter().chain(more.iter().map(|value| Param::Int(*value))).collect();
    launch(kernel, run, &params)
}

#[track_caller]
fn computes(kernel: &str, operands: [&[u8]; 2], more: &[u32], cluster: Option<u32>, expected: &[f32]) {
    match launch_with(&Run { cluster, strict: false, ..RUN }, kernel, operands, expected.len(), more) {
        Ok(words) => assert!(words.iter().zip(expected).all(|(word, value)| *word == value.to_bits()), "{kernel}"),
        Err(faults) => panic!("{}", drawn(&faults)),
    }
}

#[test]
fn a_may_lie_in_tensor_memory_and_lanes_keep_what_they_have() {
    let ((a, of_a), (b, of_b)) = (halves(1, 128 * 32), halves(2, 64 * 32));
    let expected: Vec<f32> = (0..128 * 64)
        .map(|at| {
            let (lane, column) = (at / 64, at % 64);
            let sum: i32 = (0..32).map(|k| of_a[lane * 32 + k] * of_b[column * 32 + k]).sum();
            let keeps = lane < 32 || lane == 96;
            sum as f32 * if keeps { 1.0 } else { 1.125 }
        })
        .collect();
    computes("from_tensor_memory", [&a, &b], &[Case { m: 128, n: 64, ..CASE }.descriptor()], None, &expected);
}

#[test]
fn pairs_of_blocks_multiply_together() {
    for (m, n) in [(256, 32), (256, 256), (128, 32), (128, 256)] {
        let ((a, of_a), (b, of_b)) = (halves(1, m * 16), halves(2, n * 16));
        let case = Case { m: m as u32, n: n as u32, ..CASE };
        let run = Run { cluster: Some(2), strict: false, ..RUN };
        let found = launch_with(&run, "pair", [&a, &b], 2 * 128 * n, &[case.descriptor(), m as u32, n as u32])
            .unwrap_or_else(|faults| panic!("{}", drawn(&faults)));
        for row in 0..m {
            for column in 0..n {
                let sum: i32 = (0..16).map(|k| of_a[row * 16 + k] * of_b[column * 16 + k]).sum();
                // A block's 64 rows take all lanes: the right half of D is below the left.
                let (block, row_of_block) = (row / (m / 2), row % (m / 2));
                let below = m == 128 && column >= n / 2;
                let (lane, at) = if below { (64 + row_of_block, column - n / 2) } else { (row_of_block, column) };
                let word = found[(block * 128 + lane) * n + at];
                assert_eq!(f32::from_bits(word), sum as f32, "{m} x {n}, row {row}, column {column}");
            }
        }
    }
}

#[test]
fn pairs_of_blocks_copy_what_each_has_fetched() {
    let from: Vec<u8> = (0..1024).map(|at| (at * 7 / 4) as u8).collect();
    let run = Run { cluster: Some(2), strict: false, ..RUN };
    let launch = |kernel| launch_with(&run, kernel, [&from, &[0]], 2 * 128 * 4, &[]);
    let found = launch("copies_of_a_pair").unwrap_or_else(|faults| panic!("{}", drawn(&faults)));
    for (at, word) in found.iter().enumerate() {
        // Each quarter of the lanes has the 32 rows.
        let row = at / 512 * 512 + at / 4 % 32 * 16 + at % 4 * 4;
        assert_eq!(word.to_le_bytes(), from[row..row + 4], "word {at}");
    }
    // github.com/NVIDIA/cutlass/issues/3643
    let faults = launch("half_a_pair_not_waited_for").expect_err("the second block's half is under way");
    let first = faults.iter().find(|fault| fault.kind == FaultKind::CopyInFlight);
    let notes = first.map(|fault| fault.notes.join("\n")).unwrap_or_default();
    assert!(notes.contains("of the cluster's block 1"), "{}", drawn(&faults));
}

#[test]
fn a_commit_tells_another_block_what_its_thread_had_done() {
    let run = Run { cluster: Some(2), strict: false, ..RUN };
    let found = launch("told_by_a_commit", &run, &[Param::Out(1)]);
    assert_eq!(found.unwrap_or_else(|faults| panic!("{}", drawn(&faults))), [42]);
    let faults =
        launch("not_told_by_a_commit", &run, &[Param::Out(1)]).expect_err("the second block waits for nothing");
    let is_race = |fault: &Fault| fault.kind == FaultKind::SharedRace && line(fault).contains("not_told_by_a_commit");
    assert!(faults.iter().all(is_race), "{}", drawn(&faults));
}

/// One block more than there are SMs: the first SM has two.
#[test]
fn blocks_of_an_sm_share_its_columns() {
    let run = Run { blocks: Some(133), strict: false, ..RUN };
    let launch = |columns, frees_first: bool| {
        let params = [Param::In(&[0; 4]), Param::Out(133), Param::Int(columns), Param::Int(frees_first.into())];
        launch("meet_with_columns", &run, &params)
    };
    for (columns, frees_first, last) in [(256, false, 256), (512, true, 0)] {
        let found = launch(columns, frees_first).unwrap_or_else(|faults| panic!("{}", drawn(&faults)));
        assert!(found[..132].iter().all(|first| *first == 0) && found[132] == last, "{columns}: {found:?}");
    }
    let faults = launch(512, false).expect_err("the last block waits for columns of the first, and that for the last");
    assert!(faults.iter().any(|fault| fault.instruction.starts_with("tcgen05.alloc")), "{}", drawn(&faults));
    for fault in &faults {
        let text = drawn(std::slice::from_ref(fault));
        assert_eq!(fault.kind, FaultKind::Deadlock, "{text}");
        for part in [
            "block (132, 0, 0), thread (0, 0, 0) waits at tcgen05.cu:",
            "block (0, 0, 0) of the same SM holds 512 of 512, which thread (0, 0, 0) allocates at tcgen05.cu:",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}

/// The faults of a kernel that is launched with the integers `more`.
fn faults(kernel: &str, run: &Run, more: &[u32]) -> Vec<Fault> {
    let ((a, _), (b, _)) = (halves(1, 128 * 16), halves(2, 64 * 16));
    let more = [&[Case { m: 128, n: 64, ..CASE }.descriptor()], more].concat();
    launch_with(run, kernel, [&a, &b], 128 * 64, &more).err().unwrap_or_default()
}

/// The findings in a kernel that makes a mistake, each with its line of the source.
fn findings(name: &str, strict: bool) -> Vec<(FaultKind, &'static str)> {
    let faults = faults("mistaken", &Run { strict, ..RUN }, &[mistake(name)]);
    faults.iter().map(|fault| (fault.kind, line(fault))).collect()
}

#[test]
fn mistakes_with_tensor_memory_are_found_where_they_are_made() {
    for strict in [false, true] {
        assert_eq!(findings("nothing_wrong", strict), [], "strict: {strict}");
    }
    assert_eq!(findings("has_no_fence_after", false), []);
    let mut wrong = Vec::new();
    for (kernel, strict, kind) in [
        ("reads_too_early", false, FaultKind::TmemInFlight),
        ("never_commits", false, FaultKind::Deadlock),
        ("uses_registers_early", false, FaultKind::RegisterInFlight),
        ("overwrites_its_tile", false, FaultKind::TileInFlight),
        ("copies_onto_its_tile", false, FaultKind::TileInFlight),
        ("does_not_fence_the_proxy", false, FaultKind::MissingProxyFence),
        ("leaks", false, FaultKind::Leak),
        ("frees_twice", false, FaultKind::InvalidTcgen05),
        ("reaches_other_lanes", false, FaultKind::InvalidTcgen05),
        ("leaves_its_columns", false, FaultKind::OutOfBounds),
        ("does_not_wait_for_its_store", false, FaultKind::TmemInFlight),
        ("adds_to_nothing", false, FaultKind::UninitialisedRead),
        ("has_no_such_shape", false, FaultKind::InvalidTcgen05),
        ("allocates_without_permit", false, FaultKind::InvalidTcgen05),
        ("allocates_too_much", false, FaultKind::Deadlock),
        ("allocates_an_odd_number", false, FaultKind::InvalidTcgen05),
        ("ends_too_early", false, FaultKind::TmemInFlight),
        ("lets_one_warp_wait", false, FaultKind::TmemInFlight),
        ("has_no_fence_after", true, FaultKind::MissingTcgen05Fence),
    ] {
        let found = findings(kernel, strict);
        let is_right = |(found, line): &(FaultKind, &str)| *found == kind && line.contains(kernel);
        // Nothing waits for the copy either.
        let others = found.iter().filter(|(other, _)| *other != kind && *other != FaultKind::UnawaitedCopy);
        if !found.iter().any(is_right) || others.count() != 0 {
            wrong.push(format!("{kernel}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let found = faults("pair_without_its_second", &Run { cluster: Some(2), strict: false, ..RUN }, &[]);
    let is_right = |fault: &Fault| fault.kind == FaultKind::InvalidTcgen05 && line(fault).contains("pair_without");
    assert!(found.iter().any(is_right), "{}", drawn(&found));
    let leak = drawn(&faults("mistaken", &Run { strict: false, ..RUN }, &[mistake("leaks")]));
    assert!(leak.contains("frees them with `tcgen05.dealloc`") && !leak.contains("malloc"), "{leak}");
}
