//! The ladder of products on tensor cores, on both devices: every kind of shape, both layouts of B, every type and epilogue,
//! against the f64 reference.

use common::check::{Mismatch, Report};
/// The steps of both, in the order of their numbers.
fn steps() -> impl Iterator<Item = &'static Step> {
    LADDER.iter().chain(BLACKWELL)
}

/// The step of that name.
fn step(name: &str) -> &'static Step {
    steps().find(|step| step.name == name).unwrap()
}

use bench::ladder::Expected;
use common::device::SimOptions;
use common::device_test;
use common::prelude::*;
use common::ptx_sim::FaultKind;
use common::reference::{self, TensorGemm};
use common::testing::planted::{self, here};
use phase4_fusion::gemm::{
    Activation, BLACKWELL, BLOCK, Epilogue, Gemm, LADDER, LARGEST, Layout, OTHERS, Precision, Scaled, Scales, Step,
    Tiling, Tuned,
};

use crate::in_turn;

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

/// Operands that the kernels of a step support, by its number, for A, B and C whose values have 16 bits.
fn takes(step: u32, [m, n, k]: Size, layout: Layout) -> bool {
    let rows = k.is_multiple_of(8) && (layout == Layout::Transposed || n.is_multiple_of(8));
    match step {
        1 => [m, n, k].iter().all(|size| size.is_multiple_of(16)),
        2 => true,
        3..=7 => rows,
        8..=9 | 14..=15 => rows && k > 0,
        10..=12 => rows && k > 0 && n.is_multiple_of(8),
        // A step of 64 for each of four slices.
        _ => rows && k > 192 && n.is_multiple_of(8),
    }
}

/// Operations after the sum.
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

/// A product with its operands and expected result, on the host.
struct Case {
    size: Size,
    precision: Precision,
    layout: Layout,
    after: After,
    a: Tensor,
    b: Tensor,
    /// A and B in f32.
    wide: [Tensor; 2],
    /// Scales of A's and B's blocks.
    blocks: Option<[Tensor; 2]>,
    scale: Tensor,
    shift: Tensor,
    residual: Tensor,
}

/// Random values, of another size in each block of `high` rows: one to five times as large.
fn varied(shape: &[usize], high: usize, seed: u64) -> Tensor {
    let values = Tensor::random(shape, seed).into_vec().unwrap().into_iter().enumerate();
    let times = |at: usize| 1 + (at / shape[1] / high + at % shape[1] / BLOCK * 7 + seed as usize) % 5;
    Tensor::from_vec(shape, values.map(|(at, value)| value * times(at) as f32).collect()).unwrap()
}

impl Case {
    fn new(size @ [m, n, k]: Size, precision: Precision, layout: Layout, after: After) -> Case {
        let (of_a, of_b) = ([m, k], layout.shape(n, k));
        let (a, b, wide, blocks) = if precision == Precision::ScaledE4M3 {
            let (a, b) =
                (Scaled::rows(&varied(&of_a, 3, 1)).unwrap(), Scaled::squares(&varied(&of_b, BLOCK, 2)).unwrap());
            (a.values, b.values, [a.rounded, b.rounded], Some([a.scales, b.scales]))
        } else {
            let [a, b] = [(&of_a, 1), (&of_b, 2)].map(|(shape, seed)| precision.random(shape, seed).unwrap());
            let wide = [&a, &b].map(|tensor| tensor.to_type(ElementType::F32).unwrap());
            (a, b, wide, None)
        };
        Case {
            size,
            precision,
            layout,
            after,
            a,
            b,
            wide,
            blocks,
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
        let ([a, b], residual) = (&self.wide, self.residual.to_type(ElementType::F32).unwrap());
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
            chain: if self.blocks.is_some() { BLOCK } else { k },
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
        let blocks = self.blocks.as_ref().map(|[a, b]| Ok::<_, Error>([a.to_device(device)?, b.to_device(device)?]));
        let blocks = blocks.transpose()?;
        // Full of NaN: what is not written is found.
        let mut c = Tensor::empty_of(device, &[m, n], self.precision.output(), MemoryFormat::Nchw)?;
        let epilogue = Epilogue {
            blocks: blocks.as_ref().map(|[a, b]| Scales { a, b }),
            alpha,
            scale: scale.then_some(&by),
            shift: shift.then_some(&add),
            residual: residual.then_some(&more),
            activation,
            ..Epilogue::default()
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
launch!(Gemm, Tuned);

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
        for step in steps() {
            println!("{}", step.title());
            let Some(gemm) = here(&device, step.load(&device))? else { continue };
            for case in cases() {
                if takes(step.number, case.size, case.layout) {
                    must_be_right(&device, &gemm, &case)?;
                } else {
                    let error = case.run(&device, &gemm).unwrap_err();
                    assert!(error.is_unsupported(), "{}: {error}", case.describe());
                }
            }
        }
        Ok(())
    }

    fn the_choice_is_right_for_every_kind_of_shape(device) {
        let Some(tuned) = here(&device, Tuned::load(&device))? else { return Ok(()) };
        cases().try_for_each(|case| must_be_right(&device, &tuned, &case))
    }

    /// Types of 32 and 8 bits: only B transposed, rows of 16 bytes; integers without an epilogue.
    fn other_types_are_right_and_say_what_they_do_not_take(device) {
        for step in OTHERS.iter().filter(|step| step.number == 12) {
            let Some(gemm) = here(&device, step.load(&device))? else { continue };
            let precision = gemm.precisions()[0];
            let after = |at: usize| if precision == Precision::S8 { PLAIN } else { AFTER[at % AFTER.len()] };
            for (at, size) in [[0, 16, 16], [1, 16, 16], [33, 48, 80], [130, 144, 272], [70, 272, 144]].into_iter().enumerate() {
                must_be_right(&device, &gemm, &Case::new(size, precision, Layout::Transposed, after(at)))?;
            }
            let refused = |size, layout, after| {
                let error = Case::new(size, precision, layout, after).run(&device, &gemm).unwrap_err();
                assert!(error.is_unsupported(), "{error}");
                error.to_string()
            };
            assert!(refused([16; 3], Layout::RowMajor, PLAIN).contains("B must be given as its transpose, [N, K]"));
            assert!(refused([16, 16, 18], Layout::Transposed, PLAIN).contains("rows of A and B must begin at multiples of 16"));
            assert!(refused([16, 17, 16], Layout::Transposed, PLAIN).contains("rows of C must begin at multiples of 16"));
            if precision == Precision::S8 {
                let after = After { shift: true, ..PLAIN };
                assert!(refused([16; 3], Layout::Transposed, after).contains("an epilogue needs floats"));
            }
        }
        Ok(())
    }

    /// Each tile separately, with more tiles than there are blocks: ragged, and whole.
    fn every_tile_is_right_with_several_tiles_per_block(device) {
        let sizes = |tile: &str| -> [Size; 2] {
            match tile {
                "Large" => [[1040, 264, 72], [256, 512, 64]],
                "Tall" => [[1040, 264, 720], [256, 128, 128]],
                "Square" => [[520, 392, 200], [128, 256, 128]],
                "Square160" => [[520, 392, 200], [128, 320, 128]],
                "Medium" => [[392, 264, 264], [64, 128, 64]],
                "Wide160" => [[392, 328, 264], [64, 160, 64]],
                "Small" => [[330, 328, 72], [64, 64, 640]],
                // Slices have one tile: with as many steps as slices, and with more than a ring has stages.
                "Fourths" => [[200, 136, 256], [128, 256, 1800]],
                "Sixths" => [[200, 136, 384], [128, 256, 2600]],
                "LargeEighths" => [[200, 136, 512], [128, 128, 4632]],
                "Quarters" => [[136, 72, 256], [64, 128, 2600]],
                "Eighths" => [[72, 136, 512], [64, 64, 4632]],
                other => panic!("no sizes for {other}"),
            }
        };
        let last = LADDER.iter().filter(|step| step.number >= 12);
        for step in last.chain(OTHERS) {
            let Some(gemm) = here(&device, step.load(&device))? else { continue };
            for tile in gemm.tiles() {
                let sizes = sizes(tile);
                let gemm = gemm.with_tile(tile).unwrap();
                let precision = gemm.precisions()[0];
                for (at, size) in sizes.into_iter().enumerate() {
                    let [m, n, k] = size.map(|size: usize| size.next_multiple_of(16 / precision.input().size()));
                    let after = if precision == Precision::S8 { PLAIN } else { AFTER[5 + at] };
                    // B as it lies comes in boxes of 64 columns, which 160 are not.
                    let taken = |layout: &&Layout| **layout == Layout::Transposed || !tile.ends_with("160");
                    let layouts = (at..).zip(precision.layouts().iter().filter(taken));
                    for (_, &layout) in layouts.filter(|(position, _)| in_turn(&device, *position)) {
                        must_be_right(&device, &gemm, &Case::new([m, n, k], precision, layout, after))?;
                    }
                }
            }
            assert!(gemm.with_tile("Huge").is_none());
        }
        Ok(())
    }

    /// Blocks of a grid that stays, with more tiles than there are blocks: ragged, and whole.
    fn every_persistent_step_is_right_with_several_tiles_per_block(device) {
        for step in steps().filter(|step| matches!(step.method, Tiling::Persistent) || step.name == "pairs") {
            let Some(gemm) = here(&device, step.load(&device))? else { continue };
            for (at, size) in [[1040, 264, 72], [256, 512, 64]].into_iter().enumerate() {
                for (precision, layout) in [(Precision::F16, Layout::Transposed), (Precision::Bf16, Layout::RowMajor)] {
                    must_be_right(&device, &gemm, &Case::new(size, precision, layout, AFTER[5 + at]))?;
                }
            }
        }
        Ok(())
    }

    /// Checks each alone, so that a wrong one cannot hide behind the order of the others.
    fn every_epilogue_is_right_in_every_kernel(device) {
        for step in steps() {
            println!("{}", step.title());
            let Some(gemm) = here(&device, step.load(&device))? else { continue };
            for after in AFTER {
                for (precision, layout) in [(Precision::F16, Layout::Transposed), (Precision::Bf16, Layout::RowMajor)] {
                    must_be_right(&device, &gemm, &Case::new([32, 48, 208], precision, layout, after))?;
                }
            }
        }
        Ok(())
    }

    /// With one scale for all blocks instead of their own, a wrong shape, and none.
    fn blocks_need_scales_of_their_shape(device) {
        let scaled = OTHERS.iter().find(|step| step.method.precisions() == [Precision::ScaledE4M3]).unwrap();
        let Some(gemm) = here(&device, scaled.load(&device))? else { return Ok(()) };
        let case = Case::new([48, 144, 272], Precision::ScaledE4M3, Layout::Transposed, PLAIN);
        let refused = |blocks| {
            let case = Case { blocks, ..Case::new(case.size, case.precision, case.layout, case.after) };
            case.run(&device, &gemm).unwrap_err().to_string()
        };
        let ones = |shape: &[usize]| Tensor::from_fn(shape, |_| 1.0);
        assert_eq!(
            refused(Some([ones(&[48, 3]), ones(&[2, 3])])),
            "scales of A: expected the shape [3, 48], got [48, 3]"
        );
        assert_eq!(refused(Some([ones(&[3, 48]), ones(&[3, 2])])), "scales of B: expected the shape [2, 3], got [3, 2]");
        assert!(refused(None).ends_with("it needs the scales of its blocks"));
        let case = Case { blocks: Some([ones(&[3, 48]), ones(&[2, 3])]), ..case };
        assert!(case.check(&device, &gemm)?.is_err());
        let half = Case::new([48, 144, 272], Precision::F16, Layout::Transposed, PLAIN);
        let error = Case { blocks: case.blocks, ..half }.run(&device, &Tuned::load(&device)?).unwrap_err();
        assert!(error.to_string().ends_with("only products of 8-bit floats to bf16 have blocks with scales"), "{error}");
        Ok(())
    }

    fn what_does_not_fit_is_refused_with_both(device) {
        let stream = device.stream();
        let Some(gemm) = here(&device, step("shared tiles").load(&device))? else { return Ok(()) };
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

/// A step's number, its text, the mistake that replaces it, and the kinds of fault that the sanitiser must report; `None` where
/// values may differ too.
type Planted = (usize, &'static str, &'static str, Option<&'static [FaultKind]>);

/// Some of [`FaultKind`]: which of them comes first depends on the order of warps.
const IN_FLIGHT: Option<&[FaultKind]> =
    Some(&[FaultKind::TileInFlight, FaultKind::CopyInFlight, FaultKind::SharedRace]);

/// The same, or too many arrivals for a phase, which end in an infinite wait.
const RELEASED_EARLY: Option<&[FaultKind]> =
    Some(&[FaultKind::TileInFlight, FaultKind::CopyInFlight, FaultKind::SharedRace, FaultKind::Deadlock]);

const PLANTED: &[Planted] = &[
    // B's fragment is not where its step along K is.
    (1, "b + (size_t)column * k + i,", "b + (size_t)column * k,", None),
    // Warps beyond the last column.
    (1, "if (column >= n) {", "if (column > n) {", None),
    // The tiles are overwritten while others still read them.
    (2, "        __syncthreads();  // all warps are done with them\n", "", Some(&[FaultKind::SharedRace])),
    // The edge: a row of A is read one too far.
    (2, "y < rows && x < columns ?", "y <= rows && x < columns ?", None),
    // Both matrices of 8 columns exchanged.
    (3, "s * 16 + lane / 16 * 8 + lane % 8;", "s * 16 + lane / 8 % 2 * 8 + lane % 8;", None),
    // The tiles are not complete.
    (3, "        __syncthreads();  // the tiles are complete\n", "", None),
    // The row below.
    (3, "i / 2 % 2 * 8, column", "i / 2 % 2 * 4, column", None),
    // Columns beyond the edge are written.
    (3, "if (at.y + 1 < n) {", "if (at.y < n) {", None),
    // A wait for one group too few.
    (4, "copy_groups_arrived<STAGES - 2>();", "copy_groups_arrived<STAGES - 1>();", None),
    // The stage that is being multiplied is copied to.
    (4, "copy_step(step + STAGES - 1);", "copy_step(step + STAGES);", None),
    // Another swizzle where a row of B is read than where it is written.
    (5, "place_in_b<LAYOUT>(i - first, column - first_column)", "((i - first) * BN + column - first_column)", None),
    // The next step's tiles are read before they are complete.
    (
        6,
        "        __syncthreads();  // the next step's tiles are complete, and all warps have loaded all of this one's\n",
        "",
        None,
    ),
    // The tensor cores may read what was there before.
    (7, "        fence_async_proxy();\n", "", Some(&[FaultKind::MissingProxyFence])),
    // A swizzle of 64 bytes.
    (7, "(piece % 8 ^ y % 8)", "(piece % 8 ^ y % 4)", None),
    // Sums are read while they are added to.
    (7, "        wgmma_wait<0>();\n", "", Some(&[FaultKind::RegisterInFlight, FaultKind::TileInFlight])),
    // The other group still reads the tiles.
    (7, "        __syncthreads();  // both groups are done with them\n", "", IN_FLIGHT),
    // The phase before.
    (
        8,
        "barrier_wait(barriers + stage * 8, step / STAGES % 2);",
        "barrier_wait(barriers + stage * 8, step / STAGES % 2 ^ 1);",
        None,
    ),
    // More bytes than come.
    (
        8,
        "barrier_expect(barrier, STAGE_BYTES);",
        "barrier_expect(barrier, STAGE_BYTES + 16);",
        Some(&[FaultKind::Deadlock]),
    ),
    // The other group still reads the stage.
    (8, "        __syncthreads();  // both groups are done with this stage\n", "", IN_FLIGHT),
    // The producer waits for what never was full.
    (9, "step / STAGES % 2 ^ 1);  // at once the first time", "step / STAGES % 2);", Some(&[FaultKind::Deadlock])),
    // A stage is given back while it is read.
    (9, "wgmma_wait<1>();  // the products", "wgmma_wait<2>();  // the products", IN_FLIGHT),
    // Half of the warps that read a stage.
    (9, "CONSUMERS * 4);  // a warp each", "CONSUMERS * 2);  // a warp each", RELEASED_EARLY),
    // What C's boxes hold may not be seen by the copy engine.
    (10, "    fence_async_proxy();\n", "", Some(&[FaultKind::MissingProxyFence])),
    // The boxes are overwritten while the copy engine still reads them.
    (10, "        stores_read<0>();\n    }\n    sync_warps", "    }\n    sync_warps", Some(&[FaultKind::CopyInFlight])),
    // The last stage of a tile is never given back.
    (10, "            release(use - 1);\n            store", "            store", Some(&[FaultKind::Deadlock])),
    // The warps of one block only.
    (11, "CLUSTER * CONSUMERS * 4);", "CONSUMERS * 4);", RELEASED_EARLY),
    // The blocks of a cluster leave one by one.
    (
        11,
        "    cluster_sync();  // no block leaves while another may still arrive at its barriers\n",
        "",
        Some(&[FaultKind::BlockExit]),
    ),
    // The producer waits for what never was full.
    (14, "step / STAGES % 2 ^ 1);  // at once the first time", "step / STAGES % 2);", Some(&[FaultKind::Deadlock])),
    // A stage is given back before its products are complete.
    (14, "tensor_commit(empty + stage * 8);", "barrier_arrive(empty + stage * 8);", IN_FLIGHT),
    // Nothing says that the sums are there.
    (14, "        tensor_commit(done);\n", "", Some(&[FaultKind::Deadlock])),
    // Sums are loaded before they are there.
    (14, "    barrier_wait(done, 0);\n", "", Some(&[FaultKind::TmemInFlight])),
    // Each step begins anew.
    (14, "add || i > 0", "i > 0", None),
    // Boxes of B that lie next to each other.
    (14, "LAYOUT == TRANSPOSED ? 16 : BOX_BYTES, 1024)", "16, 1024)", None),
    // A warp reads the lanes of another.
    (14, "d + (row << 16)", "d + (row % 32 << 16)", Some(&[FaultKind::InvalidTcgen05])),
    // The columns are never given back.
    (14, "        give_columns_back(d, BN);\n", "", Some(&[FaultKind::Leak])),
    // Half of the columns.
    (14, "take_columns(shared + PLACE, BN);", "take_columns(shared + PLACE, BN / 2);", Some(&[FaultKind::OutOfBounds])),
    // Both blocks bring the same half of B.
    (15, "tile % across * BN + rank * PART;", "tile % across * BN;", None),
    // The tiles of one block only are waited for.
    (15, "CLUSTER * STAGE_BYTES);", "STAGE_BYTES);", Some(&[FaultKind::CopyInFlight])),
    // A product of 128 rows by two blocks.
    (15, "LAYOUT, CLUSTER * BM, BN>", "LAYOUT, BM, BN>", None),
    // Sums go where others are still stored from.
    (15, "            barrier_wait(place(STORED, round), round / 2 % 2 ^ 1);\n", "", Some(&[FaultKind::TmemInFlight])),
    // The next answer comes while others still read this place.
    (
        15,
        "                barrier_wait(place(TAKEN, round), round / 2 % 2 ^ 1);  // at once the first two times\n",
        "",
        Some(&[FaultKind::CopyInFlight]),
    ),
    // The multiplying thread does not say that it has read the answer.
    (15, "(STORING + 1) + 1;", "(STORING + 1) + 2;", Some(&[FaultKind::Deadlock])),
    // The tile of the wrong round.
    (15, "return block < 0 ? -1 : block / CLUSTER;", "return block < 0 ? -1 : block / CLUSTER + 1;", None),
    // A block leaves while the other may still arrive at its barriers.
    (
        15,
        "    cluster_sync();  // both blocks have loaded their sums, and neither leaves while the other may arrive at its barriers\n",
        "",
        Some(&[FaultKind::BlockExit]),
    ),
];

#[test]
fn planted_mistakes_are_found() {
    if !planted::compiler(&common::private::sim_for_test(), "planted_mistakes_are_found") {
        return;
    }
    // Most of the time goes into compiling them.
    std::thread::scope(|scope| {
        for half in PLANTED.chunks(PLANTED.len().div_ceil(2)) {
            scope.spawn(|| half.iter().for_each(is_found));
        }
    });
}

/// Fails if the step passes every case with `wrong` in place of `right`, or if the mistake is found in another way than expected.
fn is_found(&(number, right, wrong, kinds): &Planted) {
    let device = common::private::sim_for_test();
    let step = steps().nth(number - 1).unwrap();
    let source = without_kernels(planted::planted(&step.source, right, wrong), "bf16");
    let gemm = step.with_source(source).load(&device).unwrap();
    // One that goes round the ring of stages more than once.
    let after = AFTER[1];
    let long = Layout::ALL.map(|layout| Case::new([144, 144, 400], Precision::F16, layout, after));
    // Then one with several tiles per block, for the steps whose grid stays.
    let several = (number >= 10).then(|| Case::new([1040, 264, 72], Precision::F16, Layout::Transposed, after));
    let all = long.into_iter().chain(several).chain(cases()).filter(|case| case.precision == Precision::F16);
    let mut cases = all.filter(|case| takes(step.number, case.size, case.layout));
    let mut found = Vec::new();
    let is_expected = cases.any(|case| {
        let of_case = match case.check(&device, &gemm) {
            Ok(Ok(_)) => return false,
            Ok(Err(_)) => Vec::new(),
            Err(Error::Fault { fault, .. }) => vec![fault.kind],
            Err(Error::Findings { findings, .. }) => findings.iter().map(|finding| finding.kind).collect(),
            Err(other) => panic!("step {number}: {other}"),
        };
        let expected = kinds.is_none_or(|kinds| of_case.iter().any(|kind| kinds.contains(kind)));
        found.push(of_case);
        expected
    });
    assert!(!found.is_empty(), "step {number}: `{wrong}` in place of `{right}` passes");
    assert!(
        is_expected,
        "step {number}: `{wrong}` in place of `{right}` is found as {found:?}, not as one of {kinds:?}"
    );
}

/// The source without the kernels whose names have `part`, which a test does not run: most of its time goes into compiling.
fn without_kernels(source: KernelSource, part: &str) -> KernelSource {
    let text = source.text().unwrap();
    let (other, kept): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.contains("KERNEL(") && line.contains(part));
    assert!(!other.is_empty(), "{} has no kernels of {part}", source.name);
    KernelSource::from_text(source.name, kept.join("\n"))
}

/// Mistakes in the sums of blocks with scales, as in [`PLANTED`].
const PLANTED_IN_SCALED: &[(&str, &str)] = &[
    // The scale of the row eight above.
    ("(part * 64 + i * 8) * 4", "part * 64 * 4"),
    // Of the part before.
    ("(part * 64 + i * 8) * 4", "i * 8 * 4"),
    // Of the other consumer's rows.
    ("int row = consumer * G::WM + threadIdx.x", "int row = threadIdx.x"),
    // Of the stage before.
    (
        "G::SCALES + ring.stage * G::SCALE_BYTES + row * 4",
        "G::SCALES + (ring.stage + 3) % 4 * G::SCALE_BYTES + row * 4",
    ),
    // Not waited for.
    ("G::STAGE_BYTES + G::SCALE_BYTES);", "G::STAGE_BYTES);"),
    // Of B's first block of columns.
    ("at().y / 128 * source.steps", "0"),
    // Of the step before.
    ("of_b[min(step + 1, steps - 1)]", "of_b[step]"),
    // Beyond the last step.
    ("of_b[min(step + 1, steps - 1)]", "of_b[step + 1]"),
    // The stage is given back while some lanes have still to read their scales.
    ("                __syncwarp();  // all lanes have read them\n", ""),
    // Products are added up over steps, and promoted each time.
    ("* ROW_BYTES, b_tile, false);", "* ROW_BYTES, b_tile, step > 0);"),
    // They are read while they are added to.
    ("                wgmma_wait<0>();\n                hold(products[0]);", "                hold(products[0]);"),
    // The stage is given back before the last part is multiplied.
    ("if (part + 1 == G::PARTS) {", "if (part == 0) {"),
];

#[test]
fn planted_mistakes_in_scaled_products_are_found() {
    let scaled = OTHERS.iter().find(|step| step.method.precisions() == [Precision::ScaledE4M3]).unwrap();
    for (right, wrong) in PLANTED_IN_SCALED {
        planted::must_be_rejected(wrong, |device| {
            let gemm = scaled.with_source(planted::planted(&scaled.source, right, wrong)).load(device)?;
            let gemm = gemm.with_tile("Tall").unwrap();
            Case::new([300, 272, 1040], Precision::ScaledE4M3, Layout::Transposed, PLAIN).check(device, &gemm)
        });
    }
}

#[test]
fn no_rule_is_broken_by_scaled_products() {
    let device = Device::sim_with(SimOptions { sanitize: true, ..SimOptions::default() });
    let scaled = OTHERS.iter().find(|step| step.method.precisions() == [Precision::ScaledE4M3]).unwrap();
    let gemm = scaled.load(&device).unwrap();
    for tile in gemm.tiles() {
        let case = Case::new([300, 144, 656], Precision::ScaledE4M3, Layout::Transposed, AFTER[5]);
        must_be_right(&device, &gemm.with_tile(tile).unwrap(), &case).unwrap();
    }
}

/// The largest value of each block becomes 448 units of its scale, and one that is small beside an outlier of another block keeps its
/// bits.
#[test]
fn blocks_have_the_range_of_their_type() {
    let mut values = varied(&[3, 300], 3, 7).into_vec().unwrap();
    values[0] = 1000.0;
    values[600..728].fill(0.0);
    let matrix = Tensor::from_vec(&[3, 300], values.clone()).unwrap();
    let Scaled { values: units, scales, rounded } = Scaled::rows(&matrix).unwrap();
    assert_eq!(scales.shape(), [3, 4]);
    let (units, scales) = (units.to_f64().unwrap(), scales.as_slice().unwrap());
    assert_eq!((units[0], scales[0], scales[2]), (448.0, 1000.0 / 448.0, 1.0));
    for (row, first) in [(0, 0), (0, 128), (0, 256), (1, 0), (1, 256)] {
        let block = row * 300 + first..row * 300 + (first + 128).min(300);
        let largest = units[block.clone()].iter().fold(0.0, |most: f64, unit| most.max(unit.abs()));
        assert_eq!(largest, 448.0);
        let scale = scales[first / BLOCK * 4 + row];
        for at in block {
            let (value, back) = (values[at], rounded.as_slice().unwrap()[at]);
            assert!((value - back).abs() <= value.abs() / 16.0 + scale * 2f32.powi(-10), "{value} became {back}");
        }
    }
    let squares = Scaled::squares(&Tensor::from_vec(&[300, 3], values).unwrap()).unwrap();
    assert_eq!(squares.scales.shape(), [3, 1]);
    assert_eq!(squares.scales.as_slice().unwrap()[0], 1000.0 / 448.0);
    assert!(squares.scales.as_slice().unwrap()[1] < 5.0 / 448.0);
}

/// Padding and the swizzle serve every load of a matrix in one wavefront per 8 rows; with neither there are conflicts. Predicted by
/// hand, for one block of 128 × 128 × 64.
#[test]
fn bank_conflicts_are_there_without_padding_and_swizzle_and_gone_with_either() {
    let device = Device::sim_with(SimOptions { profile: true, ..SimOptions::default() });
    let shared = |step: &Step, layout| {
        let case = Case::new([128, 128, 64], Precision::F16, layout, PLAIN);
        case.run(&device, &step.load(&device).unwrap()).unwrap();
        let counters = device.as_sim().unwrap().take_profiles()[0].counters;
        [counters.shared_load_wavefronts, counters.shared_load_conflicts, counters.shared_store_conflicts]
    };
    // Of 4 products of 16 along K each of 8 warps loads 4 times A and twice B, four wavefronts each.
    let loads = 8 * 4 * (4 + 2) * 4;
    for layout in Layout::ALL {
        // Rows of 80 bytes: of two that a quarter of a warp stores, the second ends where the first begins. A's tile and, transposed,
        // B's are 64 such quarters, in two steps. Copies by cp.async are no stores.
        let tiles = if layout == Layout::Transposed { 2 } else { 1 };
        assert_eq!(shared(&LADDER[2], layout), [loads, 0, 2 * 64 * tiles], "step 3 {layout:?}");
        for number in [4, 5, 6] {
            assert_eq!(shared(&LADDER[number - 1], layout), [loads, 0, 0], "step {number} {layout:?}");
        }
    }
    if !planted::compiler(&device, "bank_conflicts_are_there_without_padding_and_swizzle_and_gone_with_either") {
        return;
    }
    // A row of 64 bytes: of 8 rows every second one begins at the same bank, so a matrix takes four wavefronts.
    let source = planted::planted(&LADDER[3].source, "constexpr int PAD = 8; ", "constexpr int PAD = 0; ");
    let bare = LADDER[3].with_source(source);
    assert_eq!(shared(&bare, Layout::Transposed)[..2], [4 * loads, 3 * loads]);
}
