//! Tensor memory and its products, by the kernels of `kernels/tcgen05.cu`: every result by an independent computation.

use ptx_sim::{Arg, Asynchrony, Device, DeviceConfig, Fault, LaunchConfig, LaunchError, Module};

const PTX: &str = include_str!("../kernels/tcgen05.ptx");
const CU: &str = include_str!("../kernels/tcgen05.cu");

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
    negated: [bool; 2],
    steps: usize,
}

const CASE: Case = Case {
    m: 128,
    n: 64,
    a: F16,
    b: F16,
    d: Accumulator::F32,
    swizzle: [128, 128],
    mn_major: [false; 2],
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
            let words = [extent as i32, self.swizzle[which], i32::from(self.mn_major[which])];
            Arg::from_bytes(&words.map(i32::to_le_bytes).concat())
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
            let render = |fault: &Fault| fault.render(Some(CU), false);
            panic!(
                "{self:?}: {}",
                match error {
                    LaunchError::Fault(fault) => render(&fault),
                    LaunchError::Findings(findings) => findings.iter().map(render).collect(),
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
