//! The ladder of products on tensor cores, on both devices: every kind of shape, both layouts of B, every type and epilogue,
//! against the f64 reference.
#![allow(clippy::unwrap_used)]

use common::check::{Mismatch, Report};
use common::device_test;
use common::ladder::Expected;
use common::prelude::*;
use common::reference::{self, TensorGemm};
use common::testing::planted::{self, here};
use phase4_fusion::gemm::{Activation, Epilogue, Gemm, LADDER, LARGEST, Layout, Precision, step02_shared_tiles};

/// M, N, K.
type Size = [usize; 3];

/// Nothing to do; nothing to add up; a single element; ragged in each dimension, with and without rows of 16 bytes; whole
/// fragments; more than one tile of the largest step in each dimension.
const SIZES: [Size; 12] = [
    [0, 8, 16],
    [16, 0, 16],
    [16, 32, 0],
    [1, 1, 1],
    [31, 33, 35],
    [1, 8, 8],
    [16, 16, 16],
    [65, 70, 24],
    [48, 80, 96],
    [129, 136, 72],
    [144, 272, 208],
    [70, 131, 40],
];

/// What the kernels of a step are said to take, by its number: of A, B and C whose values have 16 bits.
fn takes(step: u32, [m, n, k]: Size, layout: Layout) -> bool {
    let rows = k.is_multiple_of(8) && (layout == Layout::Transposed || n.is_multiple_of(8));
    match step {
        1 => [m, n, k].iter().all(|size| size.is_multiple_of(16)),
        2 => true,
        3..=7 => rows,
        8..=9 => rows && k > 0,
        _ => rows && k > 0 && n.is_multiple_of(8),
    }
}

/// What follows the sum.
#[derive(Clone, Copy, Debug)]
struct After {
    alpha: f32,
    scale: bool,
    shift: bool,
    residual: bool,
    activation: Activation,
}

const PLAIN: After = After { alpha: 1.0, scale: false, shift: false, residual: false, activation: Activation::None };

/// Each part alone, and all of them with each activation.
const AFTER: [After; 8] = [
    PLAIN,
    After { alpha: -0.5, ..PLAIN },
    After { scale: true, ..PLAIN },
    After { shift: true, activation: Activation::Relu, ..PLAIN },
    After { residual: true, ..PLAIN },
    After { alpha: 0.25, scale: true, shift: true, residual: true, activation: Activation::Relu },
    After { alpha: 0.5, scale: true, shift: true, residual: true, activation: Activation::Gelu },
    After { alpha: 0.5, scale: true, shift: true, residual: true, activation: Activation::Silu },
];

/// A product with all that it needs, on the host.
struct Case {
    size: Size,
    precision: Precision,
    layout: Layout,
    after: After,
    a: Tensor,
    b: Tensor,
    scale: Tensor,
    shift: Tensor,
    residual: Tensor,
}

impl Case {
    fn new(size @ [m, n, k]: Size, precision: Precision, layout: Layout, after: After) -> Case {
        let input = |shape: &[usize], seed| precision.random(shape, seed).unwrap();
        Case {
            size,
            precision,
            layout,
            after,
            a: input(&[m, k], 1),
            b: input(&layout.shape(n, k), 2),
            scale: Tensor::random(&[n], 3),
            shift: Tensor::random(&[n], 4),
            residual: Tensor::random(&[m, n], 5).to_type(precision.output()).unwrap(),
        }
    }

    fn describe(&self) -> String {
        format!("{:?} {} {:?} {:?}", self.size, self.precision, self.layout, self.after)
    }

    fn expected(&self) -> Expected {
        let [m, n, k] = self.size;
        let [a, b, residual] =
            [&self.a, &self.b, &self.residual].map(|tensor| tensor.to_type(ElementType::F32).unwrap());
        let After { alpha, scale, shift, residual: add, activation } = self.after;
        let product = reference::Gemm {
            alpha,
            transposed: self.layout == Layout::Transposed,
            ..reference::Gemm::new(a.as_slice().unwrap(), b.as_slice().unwrap(), m, n, k)
        };
        let gemm = TensorGemm {
            scale: scale.then(|| self.scale.as_slice().unwrap()),
            shift: shift.then(|| self.shift.as_slice().unwrap()),
            residual: add.then(|| residual.as_slice().unwrap()),
            activation,
            ..TensorGemm::new(product, self.precision.input(), self.precision.output())
        };
        Expected::tensor_gemm(&gemm, 1).unwrap()
    }

    fn run(&self, device: &Device, gemm: &dyn Launch) -> Result<Tensor> {
        let [m, n, _] = self.size;
        let After { alpha, scale, shift, residual, activation } = self.after;
        let (a, b) = (self.a.to_device(device)?, self.b.to_device(device)?);
        let (by, add) = (self.scale.to_device(device)?, self.shift.to_device(device)?);
        let more = self.residual.to_device(device)?;
        // Full of NaN: what is not written is found.
        let mut c = Tensor::empty_of(device, &[m, n], self.precision.output(), MemoryFormat::Nchw)?;
        let epilogue = Epilogue {
            alpha,
            scale: scale.then_some(&by),
            shift: shift.then_some(&add),
            residual: residual.then_some(&more),
            activation,
        };
        gemm.launch(&device.stream(), &a, &b, self.layout, &epilogue, &mut c)?;
        c.to_host()
    }

    fn check(&self, device: &Device, gemm: &dyn Launch) -> Result<Result<Report, Mismatch>> {
        Ok(self.expected().check(&self.run(device, gemm)?.to_f64()?))
    }
}

/// A step or the choice of one.
trait Launch {
    fn launch(
        &self,
        stream: &Stream,
        a: &Tensor,
        b: &Tensor,
        layout: Layout,
        epilogue: &Epilogue<'_>,
        c: &mut Tensor,
    ) -> Result<()>;
}

macro_rules! launch {
    ($($type:ty),*) => {
        $(impl Launch for $type {
            fn launch(&self, stream: &Stream, a: &Tensor, b: &Tensor, layout: Layout, epilogue: &Epilogue<'_>, c: &mut Tensor) -> Result<()> {
                <$type>::launch(self, stream, a, b, layout, epilogue, c)
            }
        })*
    };
}
launch!(Gemm);

fn must_be_right(device: &Device, gemm: &dyn Launch, case: &Case) -> Result<()> {
    println!("{}", case.describe());
    if let Err(mismatch) = case.check(device, gemm)? {
        panic!("{}: {mismatch}", case.describe());
    }
    Ok(())
}

/// Every size in both types and both layouts, the epilogues in turn.
fn cases() -> impl Iterator<Item = Case> {
    let all = SIZES.into_iter().flat_map(|size| {
        let each = |&precision: &Precision| Layout::ALL.map(|layout| (size, precision, layout));
        Precision::HALVES.iter().flat_map(each).collect::<Vec<_>>()
    });
    all.enumerate().map(|(at, (size, precision, layout))| Case::new(size, precision, layout, AFTER[at % AFTER.len()]))
}

device_test! {
    fn every_step_is_right_for_every_kind_of_shape_and_says_which_it_does_not_take(device) {
        for step in LADDER {
            println!("{}", step.title());
            let Some(gemm) = here(&device, step.load(&device))? else { continue };
            for case in cases() {
                if takes(step.number(), case.size, case.layout) {
                    must_be_right(&device, &gemm, &case)?;
                } else {
                    let error = case.run(&device, &gemm).unwrap_err();
                    assert!(error.is_unsupported(), "{}: {error}", case.describe());
                }
            }
        }
        Ok(())
    }

    /// Alone, so that a wrong one cannot hide behind the others' order.
    fn every_epilogue_is_right_in_every_kernel(device) {
        for step in LADDER {
            println!("{}", step.title());
            let Some(gemm) = here(&device, step.load(&device))? else { continue };
            for after in AFTER {
                for (precision, layout) in [(Precision::F16, Layout::Transposed), (Precision::Bf16, Layout::RowMajor)] {
                    must_be_right(&device, &gemm, &Case::new([32, 48, 16], precision, layout, after))?;
                }
            }
        }
        Ok(())
    }

    fn what_does_not_fit_is_refused_with_both(device) {
        let stream = device.stream();
        let Some(gemm) = here(&device, step02_shared_tiles::STEP.load(&device))? else { return Ok(()) };
        let of = |shape: &[usize], element| Tensor::random(shape, 1).to_type(element)?.to_device(&device);
        let half = |shape: &[usize]| of(shape, ElementType::F16);
        let (a, b) = (half(&[2, 3])?, half(&[3, 4])?);
        let mut c = half(&[2, 4])?;
        let refused = |a: &Tensor, b: &Tensor, layout, epilogue: &Epilogue<'_>, c: &mut Tensor| {
            gemm.launch(&stream, a, b, layout, epilogue, c).unwrap_err().to_string()
        };
        let (plain, rows) = (Epilogue::default(), Layout::RowMajor);
        assert_eq!(
            refused(&a, &b, Layout::Transposed, &plain, &mut c),
            "gemm's B: expected the shape [4, 3], got [3, 4]"
        );
        assert_eq!(refused(&a, &b, rows, &plain, &mut half(&[3, 4])?), "gemm's C: expected the shape [2, 4], got [3, 4]");
        let scale = of(&[3], ElementType::F32)?;
        assert_eq!(
            refused(&a, &b, rows, &Epilogue { scale: Some(&scale), ..plain }, &mut c),
            "gemm's scale: expected the shape [4], got [3]"
        );
        let shift = half(&[4])?;
        let error = refused(&a, &b, rows, &Epilogue { shift: Some(&shift), ..plain }, &mut c);
        assert!(error.contains("f16") && error.contains("f32"), "{error}");
        assert_eq!(
            refused(&a, &b, rows, &plain, &mut of(&[2, 4], ElementType::BF16)?),
            format!(
                "GEMM `shared tiles` of f16, M = 2, N = 4, K = 3, nn is not possible on {}: it has no kernel for f16 to bf16",
                device.short_name()
            )
        );
        let host = Tensor::zeros(&[3, 4]).to_type(ElementType::F16)?;
        assert!(refused(&a, &host, rows, &plain, &mut c).contains("is on the host"));
        // Empty, and still beyond what the kernels count to.
        let beyond = LARGEST + 1;
        let (a, mut c) = (half(&[beyond, 0])?, half(&[beyond, 0])?);
        let error = gemm.launch(&stream, &a, &half(&[0, 0])?, rows, &plain, &mut c).unwrap_err();
        assert!(error.is_unsupported(), "{error}");
        Ok(())
    }
}

/// A step's number, its text, and the mistake in place of it.
const PLANTED: [(usize, &str, &str); 8] = [
    // B's fragment is not where its step along K is.
    (1, "b + (size_t)column * k + i,", "b + (size_t)column * k,"),
    // Warps beyond the last column.
    (1, "if (column >= n) {", "if (column > n) {"),
    // The tiles are overwritten while others still read them.
    (2, "        __syncthreads();  // all warps are done with them\n", ""),
    // The edge: a row of A is read one too far.
    (2, "y < rows && x < columns ?", "y <= rows && x < columns ?"),
    // Both matrices of 8 columns exchanged.
    (3, "s * 16 + lane / 16 * 8 + lane % 8;", "s * 16 + lane / 8 % 2 * 8 + lane % 8;"),
    // The tiles are not complete.
    (3, "        __syncthreads();  // the tiles are complete\n", ""),
    // The row below.
    (3, "i / 2 % 2 * 8, column", "i / 2 % 2 * 4, column"),
    // Columns beyond the edge are written.
    (3, "if (at.y + 1 < n) {", "if (at.y < n) {"),
];

#[test]
fn planted_mistakes_are_found() {
    if !planted::compiler(&common::private::sim_for_test(), "planted_mistakes_are_found") {
        return;
    }
    // Most of the time goes into compiling them.
    std::thread::scope(|scope| {
        for half in PLANTED.chunks(PLANTED.len().div_ceil(2)) {
            scope.spawn(|| half.iter().for_each(|&(number, right, wrong)| is_found(number, right, wrong)));
        }
    });
}

/// Fails if step `number` passes every case with `wrong` in place of `right`.
fn is_found(number: usize, right: &str, wrong: &str) {
    let device = common::private::sim_for_test();
    let step = &LADDER[number - 1];
    let gemm = step.with_source(planted::planted(step.source(), right, wrong)).load(&device).unwrap();
    let mut cases = cases().filter(|case| takes(step.number(), case.size, case.layout));
    // An error is a finding of the sanitiser.
    let passes = cases.all(|case| case.check(&device, &gemm).is_ok_and(|result| result.is_ok()));
    assert!(!passes, "step {number}: `{wrong}` in place of `{right}` passes");
}
