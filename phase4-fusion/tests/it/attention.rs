//! The attention ladder, on both devices: every step, head and mask against the f64 reference, within a bound for each value.

use common::device::SimOptions;
use common::device_test;
use common::prelude::*;
use common::testing::planted::{self, here};
use phase4_fusion::attention::problem::{AttentionProblem, Layout};
use phase4_fusion::attention::{Attention, Inputs, LADDER, Options, Products, Size, Step, Tuned};

/// The step of that name.
fn step(name: &str) -> &'static Step {
    LADDER.iter().find(|step| step.name == name).unwrap()
}

/// Images, heads, queries, keys, values of a head; the layout.
type Case = ([usize; 5], Layout);

/// One token; ragged against all tiles, and whole ones; every kernel, and heads that do not fill theirs; keys separate from
/// queries; more keys than queries, whose last query sees all of them.
const CASES: [Case; 10] = [
    ([1, 1, 1, 1, 8], Layout::Apart),
    ([1, 2, 7, 7, 40], Layout::Joined),
    ([2, 1, 63, 63, 64], Layout::Joined),
    ([1, 1, 64, 64, 128], Layout::Apart),
    ([1, 1, 65, 65, 80], Layout::Apart),
    ([1, 2, 130, 130, 40], Layout::Apart),
    ([1, 1, 130, 130, 128], Layout::Joined),
    ([1, 1, 3, 200, 64], Layout::Apart),
    ([1, 1, 70, 140, 80], Layout::Apart),
    ([1, 1, 256, 256, 48], Layout::Joined),
];

/// For the steps that have a kernel for such heads.
const LARGE_HEADS: [Case; 3] = [
    ([1, 1, 65, 65, 160], Layout::Joined),
    ([1, 2, 33, 70, 152], Layout::Apart),
    ([2, 1, 16, 16, 160], Layout::Joined),
];

/// Without and with a mask; a large scale, so that few keys have all the weight and a row's largest score comes late.
const OPTIONS: [Options; 3] = [
    Options { causal: false, scale: None },
    Options { causal: true, scale: None },
    Options { causal: false, scale: Some(2.0) },
];

fn problem(device: &Device, (size, layout): Case, options: Options, products: Products) -> Result<AttentionProblem> {
    println!("{size:?} {layout:?} {options:?} {products:?}");
    let [images, heads, queries, keys, head] = size;
    AttentionProblem::seeded(device, Size { images, heads, queries, keys, head }, layout, products, options)
}

fn run(device: &Device, attention: &Attention, problem: &AttentionProblem) -> Result<()> {
    let [mut out, mut lse] = problem.outputs(device)?;
    attention.launch(&device.stream(), problem.inputs(), problem.options, &mut out, &mut lse)?;
    if let Err(mismatch) = problem.check(&out, &lse)? {
        panic!("{mismatch}");
    }
    Ok(())
}

device_test! {
    fn every_step_is_right_for_every_kind_of_head_and_mask(device) {
        for step in LADDER {
            println!("{}", step.title());
            let Some(attention) = here(&device, step.load(&device))? else { continue };
            let first = attention.products()[0];
            for (at, case) in CASES.into_iter().enumerate() {
                let options = OPTIONS[at % OPTIONS.len()];
                let [images, heads, queries, keys, head] = case.0;
                if first == Products::E4m3 && attention.refuses(&Size { images, heads, queries, keys, head }).is_some() {
                    continue; // no rows of whole 16 bytes
                }
                run(&device, &attention, &problem(&device, case, options, first)?)?;
            }
            if attention.refuses(&Size { images: 1, heads: 1, queries: 1, keys: 1, head: 160 }).is_none() {
                for (case, options) in LARGE_HEADS.into_iter().zip(OPTIONS) {
                    run(&device, &attention, &problem(&device, case, options, first)?)?;
                }
            }
            // Ragged, with every mask, in every type.
            for &products in attention.products() {
                for options in OPTIONS {
                    run(&device, &attention, &problem(&device, CASES[4], options, products)?)?;
                }
            }
        }
        Ok(())
    }

    /// With one SM the third consumer pays, with enough of them it does not. With a mask, even and odd numbers of tiles of a head.
    fn tiles_of_two_and_of_three_consumers_are_right(device) {
        let Some(roles) = here(&device, step("roles").load(&device))? else { return Ok(()) };
        for (queries, keys, head, causal) in [(450, 300, 64, false), (333, 400, 40, true), (190, 260, 56, true), (450, 470, 64, true), (300, 300, 128, true)] {
            for processors in [1, 3, 132] {  // 3: tiles are dealt out to and fro
                let options = Options { causal, scale: Some(1.0) };
                let case = ([1, 3, queries, keys, head], Layout::Apart);
                for &products in roles.products() {
                    run(&device, &roles.clone().for_processors(processors), &problem(&device, case, options, products)?)?;
                }
            }
        }
        Ok(())
    }

    /// Rings that turn, ragged tiles of queries and keys, both tiles of V along the keys, and a head that does not fill its kernel's.
    fn bytes_are_right(device) {
        let Some(bytes) = here(&device, step("e4m3").load(&device))? else { return Ok(()) };
        for (queries, keys, head, causal) in [(333, 700, 64, false), (200, 470, 128, true), (97, 513, 48, true), (260, 225, 112, false)] {
            for (processors, layout) in [(1, Layout::Apart), (132, Layout::Apart), (3, Layout::Joined)] {
                let keys = if layout == Layout::Joined { queries } else { keys };
                let options = Options { causal, scale: Some(0.3) };
                let problem = problem(&device, ([1, 2, queries, keys, head], layout), options, Products::E4m3)?;
                run(&device, &bytes.clone().for_processors(processors), &problem)?;
            }
        }
        Ok(())
    }

    /// Few queries and many keys: as many slices as steps, and fewer; with a mask some slices of a row see nothing.
    fn slices_add_up(device) {
        let Some(split) = here(&device, step("split keys").load(&device))? else { return Ok(()) };
        for (queries, keys, head, causal) in [(1, 300, 40, false), (70, 1100, 64, true), (64, 130, 80, true), (3, 2100, 128, false)] {
            for processors in [1, 8, 132] {  // 2, 4 or 8 slices
                let options = Options { causal, scale: Some(1.0) };
                let case = ([1, 1, queries, keys, head], Layout::Apart);
                run(&device, &split.clone().for_processors(processors), &problem(&device, case, options, Products::F16)?)?;
            }
        }
        Ok(())
    }

    /// One query or several, with fewer keys than blocks or several steps of keys for each lane.
    fn streams_of_keys_add_up(device) {
        let Some(stream) = here(&device, step("stream").load(&device))? else { return Ok(()) };
        for (queries, keys, head, causal) in [(1, 3, 40, false), (1, 2100, 128, false), (3, 1100, 64, true), (2, 4300, 56, false), (1, 130, 80, true)] {
            let options = Options { causal, scale: Some(1.0) };
            run(&device, &stream, &problem(&device, ([1, 2, queries, keys, head], Layout::Apart), options, Products::F16)?)?;
        }
        Ok(())
    }

    fn the_choice_is_right(device) {
        let Some(tuned) = here(&device, Tuned::load(&device))? else { return Ok(()) };
        for (case, options) in CASES.into_iter().zip(OPTIONS.into_iter().cycle()) {
            let problem = problem(&device, case, options, Products::F16)?;
            let [mut out, mut lse] = problem.outputs(&device)?;
            tuned.launch(&device.stream(), problem.inputs(), problem.options, &mut out, &mut lse)?;
            problem.check(&out, &lse)?.unwrap();
        }
        Ok(())
    }

    fn what_the_kernels_do_not_take_is_refused_with_the_reason(device) {
        let stream = device.stream();
        let Some(attention) = here(&device, step("online").load(&device))? else { return Ok(()) };
        let tensor = |shape: &[usize], element| Tensor::random(shape, 1).to_type(element)?.to_device(&device);
        let refused = |[queries, keys, head]: [usize; 3], options, element| -> Result<String> {
            let [q, k] = [queries, keys].map(|tokens| tensor(&[1, 2, tokens, head], element));
            let (q, k) = (q?, k?);
            let mut out = tensor(&[1, 2, queries, head], element)?;
            let mut lse = tensor(&[1, 2, queries], ElementType::F32)?;
            let inputs = Inputs::Apart { q: &q, k: &k, v: &k };
            let error = attention.launch(&stream, inputs, options, &mut out, &mut lse).unwrap_err();
            assert!(error.is_unsupported(), "{error}");
            Ok(error.to_string())
        };
        let [plain, causal, _] = OPTIONS;
        let single = ElementType::F32;
        assert!(refused([4, 4, 12], plain, single)?.ends_with("a multiple of 8 values, up to 160"));
        assert!(refused([4, 4, 168], plain, single)?.ends_with("a multiple of 8 values, up to 160"));
        assert!(refused([5, 4, 64], causal, single)?.ends_with("a causal query would see no key"));
        assert!(refused([4, 0, 64], plain, single)?.ends_with("nothing to weigh"));
        assert!(refused([4, 4, 64], Options { scale: Some(-1.0), ..plain }, single)?.contains("the scale must be positive"));
        assert!(refused([4, 4, 64], plain, ElementType::F16)?.ends_with("its kernels are for f32, not f16"));
        let (x, mut lse) = (tensor(&[1, 2, 4, 64], single)?, tensor(&[1, 2, 4], single)?);
        let inputs = Inputs::Scaled { q: &x, k: &x, v: &x, factors: [1.0; 3] };
        let error = attention.launch(&stream, inputs, plain, &mut tensor(&[1, 2, 4, 64], single)?, &mut lse).unwrap_err();
        assert!(error.to_string().ends_with("only e4m3 comes with factors"), "{error}");
        if let Some(bytes) = here(&device, step("e4m3").load(&device))? {
            let reason = bytes.refuses(&Size { images: 1, heads: 1, queries: 4, keys: 4, head: 40 });
            assert_eq!(reason.as_deref(), Some("a head must have a multiple of 16 values, up to 128"));
        }
        Ok(())
    }

    fn nothing_to_do_is_done(device) {
        let Some(attention) = here(&device, step("online").load(&device))? else { return Ok(()) };
        for size in [[0, 2, 4, 4, 8], [1, 2, 0, 4, 8]] {
            run(&device, &attention, &problem(&device, (size, Layout::Apart), OPTIONS[0], Products::F32)?)?;
        }
        Ok(())
    }
}

#[test]
fn no_rule_is_broken_in_any_step() {
    let device = Device::sim_with(SimOptions { sanitize: true, ..SimOptions::default() });
    for step in LADDER {
        println!("{}", step.title());
        // Few blocks, so that rings turn.
        let attention = step.load(&device).unwrap().for_processors(1);
        let turns = ([1, 1, 140, 700, 48], Layout::Apart);
        for (case, options) in [(CASES[6], OPTIONS[1]), (CASES[8], OPTIONS[0]), (turns, OPTIONS[0])] {
            let problem = problem(&device, case, options, attention.products()[0]).unwrap();
            run(&device, &attention, &problem).unwrap();
        }
    }
}

/// The text of a step, and the mistake that replaces it.
const PLANTED: [(u32, &str, &str); 31] = [
    // What was added up before is not scaled down.
    (1, "sum = {sum.x * correction, sum.y * correction,", "sum = {sum.x, sum.y,"),
    // A key too many, or one too few.
    (1, "j < seen ?", "j <= seen ?"),
    (2, "query + 1 + keys - queries", "query + keys - queries"),
    // Ragged keys are not masked.
    (2, "            mask(scores, problem, first_query, step * BN);\n", ""),
    // A step's tiles are read before they are there.
    (2, "        copy_groups_arrived<0>();\n", ""),
    // They are overwritten before all warps are done with them.
    (
        2,
        "        __syncthreads();  // this step's tiles are complete, and all warps are done with those of the step before\n",
        "",
    ),
    // The weights before a larger score stay too large: in the sums, and in the denominator.
    (2, "        scale_rows(sums, correction);\n", ""),
    (2, "fmaf(sum[half], correction[half], added)", "sum[half] + added"),
    // The largest score of a part of the row only.
    (2, "            largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));\n", ""),
    // V's tile is not waited for.
    (3, "        barrier_wait(barrier + 8, parity);\n", ""),
    // A barrier's other phase is waited for.
    (
        4,
        "        barrier_wait(barriers.k_full(ring.stage), ring.parity);\n        turns",
        "        barrier_wait(barriers.k_full(ring.stage), ring.parity ^ 1);\n        turns",
    ),
    // Scores are read while they are computed.
    (4, "        wgmma_wait<1>();  // the scores are complete\n", ""),
    // The mask is off by a step.
    (4, "if ((step + 1) * T::KEYS > seen)", "if (step * T::KEYS > seen)"),
    // Parts are added up as if they had the same largest score.
    (5, "total = fmaf(weight, of_row[slice][1], total);", "total += of_row[slice][1];"),
    // Keys are weighed in the order of the scores, and their values read in another.
    (6, "{weights[0], weights[2], weights[1], weights[3]}", "{weights[0], weights[1], weights[2], weights[3]}"),
    // Sums are not scaled down.
    (6, "fmaf(sums[r][x / 2 + i], correction[r][i / 2], added[r][i])", "sums[r][x / 2 + i] + added[r][i]"),
    // A group does not wait for the tiles of its other warps, nor for the other group; what that has is added as if it had the same largest
    // score.
    (6, "        __barrier_sync_count(1 + group, GROUP_THREADS);", ""),
    (6, "    __syncthreads();\n    if (group == 1) {\n        return;", "    if (group == 1) {\n        return;"),
    (6, "fmaf(rows.sum[half], own, sum * theirs)", "rows.sum[half] + sum"),
    // Rounded once, not in two parts.
    (7, "        mma_tf32(small, a[0].high, a[1].high, a[2].high, a[3].high, b[0].low, b[1].low);\n", ""),
    (7, "x - __uint_as_float(high)", "0.0f"),
    // Sums of parts are added up as if they had the same largest score; parts are read before they are there; the last keys are left out.
    (8, "all.y = fmaf(weight, part.y, all.y);", "all.y += part.y;"),
    (8, "    cluster_sync();  // the parts of all blocks are there\n", ""),
    (8, "(int)((rank + 1) * seen / SLICES)", "(int)((rank + 1) * (seen / SLICES))"),
    // Keys of V in another order than those of the weights.
    (9, "words[i][0], words[i][1], 0x6420", "words[i][0], words[i][1], 0x6240"),
    // Rows are sums of weights of up to 2⁸; values are multiples of a factor.
    (9, " - rows.lift * 0.69314718f", ""),
    (9, "problem.of_values / total", "1.0f / total"),
    // V is turned before it is there, or over a tile that is still read; the tensor cores may not see it.
    (9, "        barrier_wait(barriers.copy_full(ring.stage), ring.parity);\n", ""),
    (9, "        barrier_wait(barriers.v_empty(ring.stage), ring.parity ^ 1);\n", ""),
    (9, "        fence_async_proxy();\n        __syncwarp();\n", "        __syncwarp();\n"),
    // A key too many.
    (9, ">= seen[i / 2 % 2]", "> seen[i / 2 % 2]"),
];

#[test]
fn planted_mistakes_are_found() {
    for (number, right, wrong) in PLANTED {
        planted::must_be_rejected(right, |device| {
            let step = &LADDER[number as usize - 1];
            let step = step.with_source(planted::planted(&step.source, right, wrong));
            let attention = step.load(device)?.for_processors(1);
            let options = Options { causal: true, scale: Some(2.0) };
            let options = if right.contains("mask(") { Options { causal: false, ..options } } else { options };
            let size = match number {
                9 if right.contains("seen") => [1, 1, 70, 70, 48], // one key more counts where there are few
                9 => [1, 1, 70, 700, 48],
                _ => [1, 1, 70, 300, 40],
            };
            let problem = problem(device, (size, Layout::Apart), options, attention.products()[0])?;
            let [mut out, mut lse] = problem.outputs(device)?;
            attention.launch(&device.stream(), problem.inputs(), problem.options, &mut out, &mut lse)?;
            problem.check(&out, &lse)
        });
    }
}

#[test]
fn the_attentions_of_models_get_the_steps_that_they_should() {
    let tuned = Tuned::load(&Device::sim()).unwrap();
    let choice = |[images, heads, queries, keys, head]: [usize; 5]| {
        tuned.choice(&Size { images, heads, queries, keys, head }, 132)
    };
    assert_eq!(choice([4, 16, 4096, 4096, 128]), ("roles".to_owned(), 132));
    assert_eq!(choice([1, 8, 1024, 1024, 64]), ("roles".to_owned(), 64));
    assert_eq!(choice([4, 16, 4096, 4096, 64]), ("roles, wide".to_owned(), 132));
    assert_eq!(choice([2, 8, 4096, 4096, 40]), ("roles, wide".to_owned(), 132));
    assert_eq!(choice([2, 8, 256, 256, 80]), ("split keys/2".to_owned(), 128));
    assert_eq!(choice([1, 1, 2, 300, 80]), ("split keys/2".to_owned(), 2));
    assert_eq!(choice([2, 8, 256, 256, 160]), ("mma".to_owned(), 64));
    assert_eq!(choice([1, 16, 64, 16384, 128]), ("split keys/8".to_owned(), 128));
    assert_eq!(choice([2, 8, 1, 16384, 128]), ("stream/8".to_owned(), 128));
    assert_eq!(choice([1, 1, 7, 7, 40]), ("roles".to_owned(), 1));
}
