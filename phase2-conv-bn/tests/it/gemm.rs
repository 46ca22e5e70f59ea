//! The GEMM ladder on both devices: every kind of shape, both layouts of B, every epilogue, against the f64 reference.

use bench::ladder::Expected;
use common::device::SimOptions;
use common::device_test;
use common::prelude::*;
use common::reference;
use common::testing::planted;
use phase2_conv_bn::gemm::{Epilogue, Gemm, LADDER, LARGEST, Layout, OTHERS, Step, Tuned};

/// The step of that name.
fn step(name: &str) -> &'static Step {
    LADDER.iter().find(|step| step.name == name).unwrap()
}

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

/// Steps that compute A·B alone.
const PLAIN: std::ops::RangeInclusive<u32> = 1..=17;
/// Steps that take only N and K that are multiples of 4.
const VECTORS: std::ops::RangeInclusive<u32> = 6..=9;
/// Steps that take only whole tiles.
const WHOLE: std::ops::RangeInclusive<u32> = 10..=17;
/// Sizes for those steps: one step along K; fewer than there are stages, and more; several tiles, and more rows of them than a
/// band has.
const WHOLE_SIZES: [Size; 4] = [[128, 128, 16], [128, 128, 48], [256, 384, 112], [1152, 256, 16]];

/// Alpha, beta, whether there is a bias, relu. f32 represents the values exactly.
const EPILOGUES: [(f32, f32, bool, bool); 5] = [
    (1.0, 0.0, false, false),
    (1.0, 0.0, true, true),
    (0.5, 0.0, true, false),
    (-2.0, 0.75, false, false),
    (1.5, -1.0, true, true),
];

/// A product with its operands and expected result, on the host.
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

    fn expected(&self) -> Expected {
        let [m, n, k] = self.size;
        let (alpha, beta, bias, relu) = self.epilogue;
        let [a, b, c, add] = [&self.a, &self.b, &self.c, &self.bias].map(|tensor| tensor.as_slice().unwrap());
        let product = reference::Gemm::new(a, b, m, n, k);
        let (c, bias, transposed) = (Some(c), bias.then_some(add), self.layout == Layout::Transposed);
        Expected::all(reference::Gemm { alpha, beta, c, bias, relu, transposed, ..product }.all().unwrap())
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
    cases_of(&SIZES)
}

fn cases_of(sizes: &[Size]) -> impl Iterator<Item = Case> {
    let layouts = sizes.iter().flat_map(|&size| Layout::ALL.map(|layout| (size, layout)));
    layouts.enumerate().map(|(at, (size, layout))| Case::new(size, layout, EPILOGUES[at / 2 % EPILOGUES.len()]))
}

/// The products that a step is tried with.
fn cases_for(step: &Step) -> Vec<Case> {
    let product = |size: &Size| Case::new(*size, Layout::RowMajor, EPILOGUES[0]);
    match step.number {
        number if WHOLE.contains(&number) => WHOLE_SIZES.iter().map(product).collect(),
        number if VECTORS.contains(&number) => {
            SIZES.iter().filter(|[_, n, k]| n % 4 == 0 && k % 4 == 0).map(product).collect()
        }
        number if PLAIN.contains(&number) => SIZES.iter().map(product).collect(),
        _ => cases().collect(),
    }
}

/// Steps and kernels beside them that compute more than A·B.
fn with_epilogues() -> impl Iterator<Item = &'static Step> {
    LADDER.iter().filter(|step| !PLAIN.contains(&step.number)).chain(OTHERS)
}

/// The step on this device; `None`, with a message, if the device does not support it.
fn load(step: &Step, device: &Device) -> Result<Option<Gemm>> {
    match step.load(device) {
        Ok(gemm) => Ok(Some(gemm)),
        Err(error) if error.is_unsupported() => {
            println!("{}: {error}", step.name);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn check(device: &Device, gemm: &dyn Launch, case: &Case) -> Result<()> {
    println!("{}", case.describe());
    if let Err(mismatch) = case.expected().check(&case.run(device, gemm)?) {
        panic!("{mismatch}");
    }
    Ok(())
}

device_test! {
    fn every_step_is_right_for_every_kind_of_shape(device) {
        for step in LADDER.iter().chain(OTHERS) {
            println!("{}", step.title());
            let Some(gemm) = load(step, &device)? else { continue };
            for case in cases_for(step) {
                check(&device, &gemm, &case)?;
            }
        }
        Ok(())
    }

    fn the_choice_is_right_for_every_kind_of_shape(device) {
        let tuned = Tuned::load(&device)?;
        cases().try_for_each(|case| check(&device, &tuned, &case))
    }

    /// Checks each alone, so that a wrong one cannot hide behind the order of the others.
    fn every_epilogue_is_right_in_every_kernel(device) {
        for step in with_epilogues() {
            let Some(gemm) = load(step, &device)? else { continue };
            for (layout, epilogue) in Layout::ALL.into_iter().flat_map(|layout| EPILOGUES.map(|epilogue| (layout, epilogue))) {
                for size in [[6, 8, 4], [6, 7, 5]] {
                    check(&device, &gemm, &Case::new(size, layout, epilogue))?;
                }
            }
        }
        Ok(())
    }

    fn a_step_refuses_what_it_does_not_compute(device) {
        let takes = |number, case: &Case| {
            let [m, n, k] = case.size;
            let is_product = case.layout == Layout::RowMajor && case.epilogue == EPILOGUES[0];
            (is_product || !PLAIN.contains(&number))
                && (n % 4 == 0 && k % 4 == 0 || !VECTORS.contains(&number))
                && (m % 128 == 0 && n % 128 == 0 && k % 16 == 0 && k > 0 || !WHOLE.contains(&number))
        };
        let sizes = [[128, 128, 16], [128, 128, 0], [64, 128, 16], [128, 64, 16], [128, 128, 8], [8, 8, 6], [8, 6, 8]];
        for step in LADDER {
            let Some(gemm) = load(step, &device)? else { continue };
            for case in cases_of(&sizes).chain(EPILOGUES.map(|epilogue| Case::new(sizes[0], Layout::RowMajor, epilogue))) {
                let ran = case.run(&device, &gemm);
                let refused = ran.is_err_and(|error| error.is_unsupported());
                assert_eq!(refused, !takes(step.number, &case), "{}: {}", step.title(), case.describe());
            }
        }
        Ok(())
    }

    fn nan_goes_through_relu(device) {
        for step in with_epilogues() {
            let [m, n, k] = [1, 4, 1];
            let a = Tensor::full(&[m, k], f32::NAN).to_device(&device)?;
            let b = Tensor::full(&[k, n], 1.0).to_device(&device)?;
            let Some(gemm) = load(step, &device)? else { continue };
            let mut c = Tensor::zeros(&[m, n]).to_device(&device)?;
            let epilogue = Epilogue { relu: true, ..Epilogue::default() };
            gemm.launch(&device.stream(), &a, &b, Layout::RowMajor, &epilogue, &mut c)?;
            assert!(c.into_vec()?.iter().all(|value| value.is_nan()), "{}", step.name);
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
            "gemm's C: expected 2 dimensions, got shape [8]"
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
const TILES: [(usize, [usize; 2], &[Size]); 5] = [
    (18, [128, 256], &[[128, 256, 32], [256, 256, 96]]),
    (18, [128, 128], &[[128, 128, 16], [256, 128, 144]]),
    (18, [64, 128], &[[64, 128, 32], [128, 128, 96], [65, 132, 36]]),
    (18, [32, 32], &[[32, 32, 32], [64, 96, 160], [70, 65, 33]]),
    (19, [64, 64], &[[64, 64, 16], [64, 128, 512], [70, 66, 530], [130, 61, 260]]),
];

device_test! {
    fn every_tile_is_right_for_whole_and_ragged_products(device) {
        for (number, tile, sizes) in TILES {
            let gemm = LADDER[number - 1].load(&device)?.with_tile(tile).unwrap();
            for (&size, epilogue) in sizes.iter().zip(EPILOGUES.into_iter().cycle()) {
                for layout in Layout::ALL {
                    let case = Case::new(size, layout, epilogue);
                    println!("{number} {tile:?}");
                    // Twice: what a launch leaves in its workspace must not harm the next.
                    check(&device, &gemm, &case)?;
                    check(&device, &gemm, &case)?;
                }
            }
        }
        let none = step("tuned tiles").load(&device)?;
        assert!(none.with_tile([1, 1]).is_none());
        let large = none.with_tile([128, 256]).unwrap();
        let case = Case::new([128, 255, 32], Layout::RowMajor, EPILOGUES[0]);
        assert!(case.run(&device, &large).unwrap_err().is_unsupported());
        Ok(())
    }

    /// Blocks of equal work begin and end inside tiles: of more than two blocks per tile, of less, and of ragged ones.
    fn equal_work_is_right_whatever_the_tiles(device) {
        let cut = step("split K").load(&device)?;
        for blocks_each in [1, 3] {
            let gemm = cut.evenly(blocks_each).unwrap();
            for (size, epilogue) in [[128, 192, 320], [66, 130, 530], [64, 61, 96]].into_iter().zip(EPILOGUES.into_iter().cycle()) {
                let case = Case::new(size, Layout::Transposed, epilogue);
                check(&device, &gemm, &case)?;
                check(&device, &gemm, &case)?;
            }
        }
        assert!(step("tuned tiles").load(&device)?.evenly(3).is_none());
        Ok(())
    }

    /// Cut along K, with several blocks per tile, a product has the same bits every time.
    fn a_cut_product_is_the_same_every_time(device) {
        let gemm = step("split K").load(&device)?;
        let case = Case::new([64, 64, 4096], Layout::Transposed, EPILOGUES[0]);
        let first = case.run(&device, &gemm)?;
        for _ in 0..3 {
            assert_eq!(case.run(&device, &gemm)?, first);
        }
        Ok(())
    }
}

/// A step's number, its text, and the mistake in place of it.
const PLANTED: [(usize, &str, &str); 25] = [
    // The edge: a row of A is read one too far.
    (3, "row < m && first + x < k ?", "row < m && first + x <= k ?"),
    // The tiles are overwritten while others still read them.
    (3, "        __syncthreads();  // all threads are done with them\n", ""),
    // Row and column exchanged.
    (3, "sum += a_tile[y][i] * b_tile[i][x];", "sum += a_tile[y][i] * b_tile[x][i];"),
    // One row too many is written.
    (5, "if (row < m && column < n) {", "if (row <= m && column < n) {"),
    // Two of the four are exchanged on the way.
    (6, "tile[i + 1][row] = four.y;", "tile[i + 1][row] = four.z;"),
    // The groups of columns overlap.
    (7, "int column = first_column + x + s / 4 * (BN / 2);", "int column = first_column + x + s / 4 * (BN / 4);"),
    // Two lanes take the same place.
    (8, "(lane >> 1 & 2) | (lane & 1)", "(lane >> 1 & 2) | (lane >> 1 & 1)"),
    // The copies are not waited for.
    (9, "            copies_arrived();\n        }\n        __syncthreads();", "        }\n        __syncthreads();"),
    // The next tile is written over the one that is read.
    (9, "copy(b_tiles[which ^ 1]", "copy(b_tiles[which]"),
    // The copies are not waited for.
    (10, "            copies_arrived();\n        }\n        __syncthreads();", "        }\n        __syncthreads();"),
    // The tile of another row of tiles.
    (11, "copy_transposed(a_tiles[which], a, first_row,", "copy_transposed(a_tiles[which], a, first_column,"),
    // A wait for one group too few.
    (12, "copy_groups_arrived<STAGES - 2>();", "copy_groups_arrived<STAGES - 1>();"),
    // The stage that is being multiplied is copied to.
    (12, "copy_step((step + STAGES - 1) % STAGES,", "copy_step(step % STAGES,"),
    // The next step's values are read before they are there.
    (
        13,
        "                __syncthreads();  // the next step's values are there, and all threads have read this one's\n",
        "",
    ),
    // Some copies are never started.
    (14, "constexpr int EACH = (COPIES + BK - 2) / (BK - 1);", "constexpr int EACH = COPIES / (BK - 1);"),
    // A step's copies join the next one's group.
    (
        14,
        "                end_copy_group();\n                copy_groups_arrived<STAGES - 2>();",
        "                copy_groups_arrived<STAGES - 2>();\n                end_copy_group();",
    ),
    // On the way back always the same column.
    (15, "r % 2 ? TN - 1 - there : there", "r % 2 ? TN - 1 : there"),
    // The last band is as high as the others.
    (16, "int height = min(BAND, (int)gridDim.y - top);", "int height = BAND;"),
    // The sums are added before all are there.
    (17, "    __syncthreads();  // the sums of all slices are there\n", ""),
    // Both slices add up the first half.
    (17, "b_tiles[stage][slice * DEPTH + i]", "b_tiles[stage][i]"),
    // The next step's values are read before they are there.
    (
        18,
        "                    __syncthreads();  // the next step's values are there, and all threads have read the free stage's\n",
        "",
    ),
    // The edge: rows beyond the last of A are read.
    (18, "bool inside = first_row + across + c * APART < m && a_i < k;", "bool inside = a_i < k;"),
    // The slices are added before all are there.
    (18, "        __syncthreads();  // all slices' sums are there\n", ""),
    // Groups of columns exchanged.
    (
        18,
        "const float *s = &sums[g / (TN / 4)][g % (TN / 4) * 4];",
        "const float *s = &sums[g / (TN / 4)][(TN / 4 - 1 - g % (TN / 4)) * 4];",
    ),
    // The parts are added before all are there.
    (19, "bool last = *before == (unsigned)(to - from);", "bool last = *before == 0;"),
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
    let gemm = step.with_source(planted::planted(&step.source, right, wrong)).load(&device).unwrap();
    // Cut along K where a step does that.
    let cut = (!PLAIN.contains(&step.number)).then(|| Case::new([24, 40, 272], Layout::RowMajor, EPILOGUES[1]));
    let passes = cases_for(step).into_iter().chain(cut).all(|case| match case.run(&device, &gemm) {
        Ok(c) => case.expected().check(&c).is_ok(),
        Err(error) if error.is_unsupported() => panic!("{error}"),
        Err(_) => false, // a finding of the sanitiser
    });
    assert!(!passes, "step {number}: `{wrong}` in place of `{right}` passes");
}

/// Tile sizes are stated only in the kernel file: edited there, they are launched as edited, with no rebuild.
#[test]
fn a_tile_edited_in_the_kernel_file_is_launched_as_edited() {
    let device = common::private::sim_for_test();
    if !planted::compiler(&device, "a_tile_edited_in_the_kernel_file_is_launched_as_edited") {
        return;
    }
    let source = planted::planted(&step("register tile").source, "BM = 128, BN = 128;", "BM = 64, BN = 128;");
    let gemm = step("register tile").with_source(source).load(&device).unwrap();
    cases_for(step("register tile")).iter().for_each(|case| check(&device, &gemm, case).unwrap());
}

/// A tile chosen for its measured times is refused if the kernel file has another.
#[test]
fn a_tile_of_another_shape_than_the_host_sides_is_refused_with_both() {
    let device = common::private::sim_for_test();
    if !planted::compiler(&device, "a_tile_of_another_shape_than_the_host_sides_is_refused_with_both") {
        return;
    }
    let source = planted::planted(&step("tuned tiles").source, "BM = 64, BN = 128;", "BM = 64, BN = 64;");
    let error = step("tuned tiles").with_source(source).load(&device).unwrap_err();
    assert!(matches!(error, Error::Geometry { kernel: 64, host: 128, .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "`planted_gemm_18_tuned.cu` has Medium::BN = 64, but its host side was written for 128; change both"
    );
    let [constant, a_macro] = ["constexpr int THREADS = BM * BN / (TM * TN);", "#define THREADS (BM * BN / (TM * TN))"];
    let source = planted::planted(&step("register tile").source, constant, a_macro);
    let error = step("register tile").with_source(source).load(&device).unwrap_err();
    assert!(matches!(error, Error::NoSuchConstant { .. }), "{error}");
}

/// Shared-memory counts of a product of 128 × 128 × 64: wavefronts, conflicts of loads, conflicts of stores.
fn shared(step: &Step) -> [u64; 3] {
    let device = Device::sim_with(SimOptions { profile: true, ..SimOptions::default() });
    let case = Case::new([128, 128, 64], Layout::RowMajor, EPILOGUES[0]);
    case.run(&device, &step.load(&device).unwrap()).unwrap();
    let counters = device.as_sim().unwrap().take_profiles()[0].counters;
    let wavefronts =
        counters.shared_load_wavefronts + counters.shared_store_wavefronts + counters.async_copy_wavefronts;
    [wavefronts, counters.shared_load_conflicts, counters.shared_store_conflicts]
}

/// The predictions of steps 6 to 17, by hand. 8 warps go through 64 steps of i; each of them loads 2 + 2 times 16 bytes. Served a
/// quarter of a warp at a time, or a half where neighbours request the same, a load takes four wavefronts or two.
#[test]
fn bank_conflicts_are_there_before_and_gone_after() {
    const ROUNDS: u64 = 8 * 64;
    let step = |number: usize| &LADDER[number - 1];
    let [six, seven, eight] = [6, 7, 8].map(step);
    // A: two wavefronts per load. B: 32 bytes apart, each of four quarters takes two.
    let loads = 2 * 2 + 2 * 8;
    // 128 × 64 values of A are stored, a warp's 32 floats by four lanes per bank; of B 16 bytes per lane, four quarters.
    let [rows, direct] = [128 * 64 / 32 * 4, 128 * 64 / 32];
    assert_eq!(shared(six), [ROUNDS * loads + rows + direct, ROUNDS * 8, rows / 4 * 3]);

    let stores = 2 * direct;
    assert_eq!(shared(seven), [ROUNDS * (2 * 2 + 2 * 4) + stores, 0, 0]);
    // Both A and B by halves of a warp.
    assert_eq!(shared(eight), [ROUNDS * (2 * 2 + 2 * 2) + stores, 0, 0]);
    for copied in [9, 10, 11, 12].map(step) {
        assert_eq!(shared(copied), [ROUNDS * (2 * 2 + 2 * 2) + stores, 0, 0], "{}", copied.name);
    }
    // Each warp reads once more after its last step, to no use.
    for ahead in [13, 14, 15, 16].map(step) {
        let rounds = ROUNDS + 8;
        assert_eq!(shared(ahead), [rounds * (2 * 2 + 2 * 2) + stores, 0, 0], "{}", ahead.name);
    }
    // Half of the i for each warp, twice the columns; then 4 warps store 32 times 16 bytes, and 4 load them.
    let handed_over = 2 * 4 * 32 * 4;
    let rounds = ROUNDS / 2 + 8;
    assert_eq!(shared(step(17)), [rounds * (2 * 2 + 4 * 2) + stores + handed_over, 0, 0]);
}

/// Lanes along a row request one sector of A and four of B each time; lanes down a column request 32 and one.
#[test]
fn coalesced_loads_ask_for_fewer_sectors() {
    let device = Device::sim_with(SimOptions { profile: true, ..SimOptions::default() });
    let sectors = |number: usize| {
        let case = Case::new([64, 64, 64], Layout::RowMajor, EPILOGUES[0]);
        case.run(&device, &LADDER[number - 1].load(&device).unwrap()).unwrap();
        let counters = device.as_sim().unwrap().take_profiles()[0].counters;
        let loads = 2 * 64 * 64 * 64 / 32;
        assert_eq!(counters.global_load_requests, loads);
        2 * counters.global_load_sectors / loads
    };
    assert_eq!(sectors(1), 32 + 1);
    assert_eq!(sectors(2), 1 + 4);
}
