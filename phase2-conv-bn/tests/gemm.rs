//! The GEMM ladder on both devices: every kind of shape, both layouts of B, every epilogue, against the f64 reference.
#![allow(clippy::unwrap_used)]

mod planted;

use common::check::{Tolerance, assert_close, compare};
use common::device_test;
use common::prelude::*;
use common::reference::{self, Reference};
use phase2_conv_bn::gemm::{Epilogue, Gemm, LADDER, LARGEST, Layout, Step, Tuned};

/// M, N, K.
type Size = [usize; 3];

/// Nothing to do; nothing to add up; a single element; ragged in each dimension, with and without 16-byte rows; more than one
/// tile of the largest step in each dimension; vectors.
const SIZES: [Size; 14] = [
    [0, 5, 3],
    [5, 0, 3],
    [3, 5, 0],
    [4, 8, 0],
    [1, 1, 1],
    [1, 40, 4],
    [37, 1, 5],
    [32, 32, 32],
    [31, 33, 35],
    [33, 36, 20],
    [129, 130, 17],
    [130, 132, 36],
    [5, 260, 7],
    [257, 4, 8],
];

/// Alpha, beta, whether there is a bias, relu. Values that f32 has exactly.
const EPILOGUES: [(f32, f32, bool, bool); 5] = [
    (1.0, 0.0, false, false),
    (1.0, 0.0, true, true),
    (0.5, 0.0, true, false),
    (-2.0, 0.75, false, false),
    (1.5, -1.0, true, true),
];

/// A product with all that it needs, on the host.
struct Case {
    size: Size,
    layout: Layout,
    epilogue: (f32, f32, bool, bool),
    a: Tensor,
    b: Tensor,
    bias: Tensor,
    c: Tensor,
}

impl Case {
    fn new(size: Size, layout: Layout, epilogue: (f32, f32, bool, bool)) -> Case {
        let [m, n, k] = size;
        let (_, beta, ..) = epilogue;
        Case {
            size,
            layout,
            epilogue,
            a: Tensor::random(&[m, k], 1),
            b: Tensor::random(&layout.shape(n, k), 2),
            bias: Tensor::random(&[n], 3),
            // With beta = 0 what C holds must not matter.
            c: if beta == 0.0 { Tensor::full(&[m, n], f32::NAN) } else { Tensor::random(&[m, n], 4) },
        }
    }

    fn describe(&self) -> String {
        format!("{:?} {:?} {:?}", self.size, self.layout, self.epilogue)
    }

    /// In f64, and what f32 may be off by: the product's roundings and three more.
    fn expected(&self) -> (Vec<f64>, Tolerance) {
        let [m, n, k] = self.size;
        let (alpha, beta, bias, relu) = self.epilogue;
        let b = self.b.as_slice().unwrap();
        let row_major: Vec<f32> = match self.layout {
            Layout::RowMajor => b.to_vec(),
            Layout::Transposed => (0..k * n).map(|at| b[at % n * k + at / n]).collect(),
        };
        let Reference { mut values, terms, mut magnitude } =
            reference::matmul(self.a.as_slice().unwrap(), &row_major, m, n, k).unwrap();
        magnitude *= f64::from(alpha).abs();
        let (add, old) = (self.bias.as_slice().unwrap(), self.c.as_slice().unwrap());
        for (at, value) in values.iter_mut().enumerate() {
            *value *= f64::from(alpha);
            if bias {
                *value += f64::from(add[at % n]);
            }
            if beta != 0.0 {
                *value += f64::from(beta) * f64::from(old[at]);
            }
            if relu {
                *value = value.max(0.0);
            }
        }
        // Bias and C are in (−1, 1).
        magnitude += f64::from(u8::from(bias)) + f64::from(beta).abs();
        (values, Tolerance::dot(terms + 3, magnitude))
    }

    fn run(&self, device: &Device, gemm: &dyn Launch) -> Result<Vec<f32>> {
        let (alpha, beta, bias, relu) = self.epilogue;
        let (a, b) = (self.a.to_device(device)?, self.b.to_device(device)?);
        let (add, mut c) = (self.bias.to_device(device)?, self.c.to_device(device)?);
        let epilogue = Epilogue { alpha, beta, bias: bias.then_some(&add), relu };
        gemm.launch(&device.stream(), &a, &b, self.layout, &epilogue, &mut c)?;
        c.into_vec()
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
launch!(Gemm, Tuned);

/// Every size in both layouts, the epilogues in turn so that each kernel meets all of them.
fn cases() -> impl Iterator<Item = Case> {
    let layouts = SIZES.into_iter().flat_map(|size| Layout::ALL.map(|layout| (size, layout)));
    layouts.enumerate().map(|(at, (size, layout))| Case::new(size, layout, EPILOGUES[at / 2 % EPILOGUES.len()]))
}

/// The step on this device; `None`, said, if the device has not what it needs.
fn load(step: &Step, device: &Device) -> Result<Option<Gemm>> {
    match step.load(device) {
        Ok(gemm) => Ok(Some(gemm)),
        Err(error) if error.is_unsupported() => {
            println!("{}: {error}", step.name());
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn check(device: &Device, gemm: &dyn Launch, case: &Case) -> Result<()> {
    println!("{}", case.describe());
    let (values, tolerance) = case.expected();
    assert_close(&case.run(device, gemm)?, &values, tolerance);
    Ok(())
}

device_test! {
    fn every_step_is_right_for_every_kind_of_shape(device) {
        for step in LADDER {
            println!("{:02} {}", step.number(), step.name());
            let Some(gemm) = load(step, &device)? else { continue };
            for case in cases() {
                check(&device, &gemm, &case)?;
            }
        }
        Ok(())
    }

    fn the_choice_is_right_for_every_kind_of_shape(device) {
        let tuned = Tuned::load(&device)?;
        cases().try_for_each(|case| check(&device, &tuned, &case))
    }

    /// Alone, so that a wrong one cannot hide behind the others' order.
    fn every_epilogue_is_right_in_every_kernel(device) {
        for step in LADDER {
            let Some(gemm) = load(step, &device)? else { continue };
            for (layout, epilogue) in Layout::ALL.into_iter().flat_map(|layout| EPILOGUES.map(|epilogue| (layout, epilogue))) {
                for size in [[6, 8, 4], [6, 7, 5]] {
                    check(&device, &gemm, &Case::new(size, layout, epilogue))?;
                }
            }
        }
        Ok(())
    }

    fn nan_goes_through_relu(device) {
        let a = Tensor::from_vec(&[1, 1], vec![f32::NAN])?.to_device(&device)?;
        let b = Tensor::full(&[1, 4], 1.0).to_device(&device)?;
        for step in LADDER {
            let Some(gemm) = load(step, &device)? else { continue };
            let mut c = Tensor::zeros(&[1, 4]).to_device(&device)?;
            let epilogue = Epilogue { relu: true, ..Epilogue::default() };
            gemm.launch(&device.stream(), &a, &b, Layout::RowMajor, &epilogue, &mut c)?;
            assert!(c.into_vec()?.iter().all(|value| value.is_nan()), "{}", step.name());
        }
        Ok(())
    }

    fn shapes_that_do_not_fit_are_refused_with_both(device) {
        let stream = device.stream();
        let gemm = LADDER[0].load(&device)?;
        let on_device = |shape: &[usize]| Tensor::random(shape, 1).to_device(&device);
        let (a, b) = (on_device(&[2, 3])?, on_device(&[3, 4])?);
        let mut c = on_device(&[2, 4])?;
        let refused = |a: &Tensor, b: &Tensor, layout, epilogue: &Epilogue<'_>, c: &mut Tensor| {
            gemm.launch(&stream, a, b, layout, epilogue, c).unwrap_err().to_string()
        };
        let plain = Epilogue::default();
        assert_eq!(
            refused(&a, &b, Layout::Transposed, &plain, &mut c),
            "gemm's B: expected the shape [4, 3], got [3, 4]"
        );
        assert_eq!(
            refused(&a, &b, Layout::RowMajor, &plain, &mut on_device(&[3, 4])?),
            "gemm's C: expected the shape [2, 4], got [3, 4]"
        );
        assert_eq!(
            refused(&a, &b, Layout::RowMajor, &plain, &mut on_device(&[8])?),
            "gemm: A [2, 3] and C [8] must have two dimensions each"
        );
        let bias = on_device(&[3])?;
        assert_eq!(
            refused(&a, &b, Layout::RowMajor, &Epilogue { bias: Some(&bias), ..plain }, &mut c),
            "gemm's bias: expected the shape [4], got [3]"
        );
        assert!(refused(&a, &Tensor::zeros(&[3, 4]), Layout::RowMajor, &plain, &mut c).contains("is on the host"));
        // Empty, and still beyond what the kernels count to.
        let beyond = LARGEST + 1;
        let (a, mut c) = (on_device(&[beyond, 0])?, on_device(&[beyond, 0])?);
        let error = gemm.launch(&stream, &a, &on_device(&[0, 0])?, Layout::RowMajor, &plain, &mut c).unwrap_err();
        assert!(error.is_unsupported(), "{error}");
        assert_eq!(
            error.to_string(),
            format!(
                "GEMM `uncoalesced` of M = 1073741825, N = 0, K = 0 is not possible on {}: the kernel counts to 1073741824 in \
                 each of them",
                device.short_name()
            )
        );
        Ok(())
    }
}

/// Step, tile, and sizes: whole tiles, several of them, and cut along K; then ragged, for kernels that take it.
const TILES: [(u32, [usize; 2], &[Size]); 4] = [
    (10, [128, 256], &[[128, 256, 32], [256, 256, 96]]),
    (10, [64, 128], &[[64, 128, 16], [128, 128, 80], [65, 132, 36]]),
    (10, [32, 64], &[[32, 64, 32], [64, 192, 160], [70, 65, 33]]),
    (11, [64, 64], &[[64, 64, 16], [64, 128, 512], [70, 66, 530], [130, 61, 260]]),
];

device_test! {
    fn every_tile_is_right_for_whole_and_ragged_products(device) {
        for (number, tile, sizes) in TILES {
            let gemm = LADDER[number as usize - 1].load(&device)?.with_tile(tile).unwrap();
            for (&size, epilogue) in sizes.iter().zip(EPILOGUES.into_iter().cycle()) {
                for layout in Layout::ALL {
                    let case = Case::new(size, layout, epilogue);
                    let (values, tolerance) = case.expected();
                    println!("{number} {tile:?} {}", case.describe());
                    // Twice: what a launch leaves in its workspace must not harm the next.
                    for _ in 0..2 {
                        assert_close(&case.run(&device, &gemm)?, &values, tolerance);
                    }
                }
            }
        }
        let none = LADDER[9].load(&device)?;
        assert!(none.with_tile([1, 1]).is_none());
        let large = none.with_tile([128, 256]).unwrap();
        let case = Case::new([128, 255, 32], Layout::RowMajor, EPILOGUES[0]);
        assert!(case.run(&device, &large).unwrap_err().is_unsupported());
        Ok(())
    }

    /// Cut along K, with several blocks a tile, a product has the same bits every time.
    fn a_cut_product_is_the_same_every_time(device) {
        let gemm = LADDER[10].load(&device)?;
        let case = Case::new([64, 64, 4096], Layout::Transposed, EPILOGUES[0]);
        let first = case.run(&device, &gemm)?;
        for _ in 0..3 {
            assert_eq!(case.run(&device, &gemm)?, first);
        }
        Ok(())
    }
}

/// A step's number, its text, and the mistake in place of it.
const PLANTED: [(u32, &str, &str); 7] = [
    // The next step's values are read before they are there.
    (
        10,
        "                    __syncthreads();  // the next step's values are there, and nobody needs the free stage's any more\n",
        "",
    ),
    // The edge: rows beyond the last of A are read.
    (10, "bool inside = first_row + across + c * APART < m && a_i < k;", "bool inside = a_i < k;"),
    // Groups of columns exchanged.
    (
        10,
        "const float *s = &sums[g / (TN / 4)][g % (TN / 4) * 4];",
        "const float *s = &sums[g / (TN / 4)][(TN / 4 - 1 - g % (TN / 4)) * 4];",
    ),
    // The parts are added before all are there.
    (11, "bool last = *before == (unsigned)(to - from);", "bool last = *before == 0;"),
    // The edge: the last column is read from the next row.
    (3, "bool in_a = first_row + y < m && first + x < k;", "bool in_a = first_row + y < m && first + x <= k;"),
    // The tiles are overwritten while others still read them.
    (3, "        __syncthreads();  // nobody needs them any more\n", ""),
    // Row and column exchanged.
    (3, "sum += a_tile[y][i] * b_tile[i][x];", "sum += a_tile[y][i] * b_tile[x][i];"),
];

#[test]
fn planted_mistakes_are_found() {
    let device = common::private::sim_for_test();
    if !planted::compiler(&device, "planted_mistakes_are_found") {
        return;
    }
    for (number, right, wrong) in PLANTED {
        let step = &LADDER[number as usize - 1];
        assert_eq!(step.number(), number);
        let gemm = step.with_source(planted::planted(step.source(), right, wrong)).load(&device).unwrap();
        let passes = cases().all(|case| {
            let (values, tolerance) = case.expected();
            // An error is a finding of the sanitiser.
            case.run(&device, &gemm).is_ok_and(|c| compare(&c, &values, tolerance).is_ok())
        });
        assert!(!passes, "step {number}: `{wrong}` in place of `{right}` passes");
    }
}
