//! PTX by hand on both devices: every version of every pair, on ragged, tiny and empty sizes, against the f64 reference.

use bench::ladder::Step;
use common::device_test;
use common::prelude::*;
use common::testing::planted::{here, must_be_rejected, planted};
use phase4_fusion::ptx::{PAIRS, Size, Version, branch, bytes, copies, loads, markov, reduce, series, softmax, stages};

/// None, one, ends inside vectors, warps, blocks and tiles, and more than a block of any version takes.
const LENGTHS: [usize; 12] = [0, 1, 3, 4, 7, 31, 257, 1023, 1025, 4099, 9001, 20_482];

/// No rows, no columns, fewer columns than lanes, more, and more rows than a block has warps.
const ROWS: [[usize; 2]; 8] = [[0, 5], [1, 1], [3, 0], [5, 7], [2, 32], [9, 33], [17, 100], [3, 257]];

/// Chains: none, less than a block, and a ragged number of blocks.
const CHAINS: [usize; 4] = [0, 1, 3, 9];

fn sizes(of: Size, name: &str) -> Vec<Size> {
    match of {
        _ if name == markov::PAIR.name => CHAINS.map(Size::Values).to_vec(),
        Size::Values(_) => LENGTHS.map(Size::Values).to_vec(),
        Size::Rows(..) => ROWS.map(|[rows, columns]| Size::Rows(rows, columns)).to_vec(),
    }
}

device_test! {
    fn every_version_is_right_on_every_size(device) {
        for pair in PAIRS {
            for size in sizes(pair.simulated, pair.name) {
                let problem = (pair.problem)(size)?;
                for step in pair.versions {
                    println!("{} {}, {size:?}", pair.name, step.title());
                    let Some(result) = here(&device, problem.try_version(&device, step))? else { continue };
                    let report = result.unwrap_or_else(|mismatch| panic!("{} {}, {size:?}: {mismatch}", pair.name, step.title()));
                    assert!(size.is_empty() || report.count > 0, "nothing was compared");
                }
            }
        }
        Ok(())
    }
}

#[test]
fn a_pair_begins_in_c_and_ends_in_ptx() {
    for pair in PAIRS {
        let text = |step: &Step<Version>| step.source.text().unwrap();
        let (first, last) = (&pair.versions[0], &pair.versions[pair.versions.len() - 1]);
        assert!(text(last).contains("asm"), "{}", pair.name);
        assert!(!text(first).contains("asm") || pair.name == stages::PAIR.name, "{}", pair.name);
        assert!(pair.versions.iter().zip(1..).all(|(step, number)| step.number == number), "{}", pair.name);
        assert!(pair.question.ends_with('?') && !pair.telling.is_empty());
    }
}

#[test]
fn mistakes_are_found() {
    type Mistake = (
        &'static str,
        &'static Step<Version>,
        fn(Size) -> Result<phase4_fusion::ptx::Problem>,
        Size,
        &'static str,
        &'static str,
    );
    const N: Size = Size::Values(4099);
    const R: Size = Size::Rows(9, 33);
    let mistakes: &[Mistake] = &[
        ("the tail forgotten", &loads::FLOAT4, loads::PAIR.problem, N, "k < n; k++", "k < n - 1; k++"),
        ("one vector too many", &loads::PTX, loads::PAIR.problem, N, "if (i < n / 4) {", "if (i <= n / 4) {"),
        ("components swapped", &loads::PTX, loads::PAIR.problem, N, "{%0, %1, %2, %3}, [%4]", "{%1, %0, %2, %3}, [%4]"),
        (
            "a shuffle too few",
            &reduce::SHUFFLE,
            reduce::PAIR.problem,
            R,
            "distance = 16; distance > 0; distance /= 2) {\n        value +=",
            "distance = 8; distance > 0; distance /= 2) {\n        value +=",
        ),
        (
            "the smallest for the largest",
            &reduce::PTX,
            reduce::PAIR.problem,
            R,
            "redux.sync.max.s32",
            "redux.sync.min.s32",
        ),
        ("the branch the wrong way", &branch::BRA, branch::PAIR.problem, N, "@positive bra", "@!positive bra"),
        ("the predicate the wrong way", &branch::PREDICATE, branch::PAIR.problem, N, "@negative mul", "@!negative mul"),
        (
            "the upper halves twice",
            &series::SPLIT,
            series::PAIR.problem,
            N,
            "__low2half(p), __low2half(x)",
            "__low2half(p), __high2half(x)",
        ),
        ("factor and sum swapped", &series::PTX, series::PAIR.problem, N, "%0, %0, %1, %2", "%0, %0, %2, %1"),
        ("e for 2", &softmax::PTX, softmax::PAIR.problem, R, "1.44269504f", "1.0f"),
        (
            "half of the exponent",
            &softmax::PTX,
            softmax::PAIR.problem,
            R,
            "fmaf(x, LOG2_E, prepared)",
            "fmaf(x, 0.5f, prepared)",
        ),
        ("bytes swapped", &bytes::PTX, bytes::PAIR.problem, N, "0x4140", "0x4041"),
        ("signs forgotten", &bytes::PTX, bytes::PAIR.problem, N, "0x80808080, 0x6a", "0x00000000, 0x6a"),
        ("a wrong table of bits", &bytes::PTX, bytes::PAIR.problem, N, "0x6a;", "0xea;"),
        (
            "bytes one to the right",
            &bytes::CASTS,
            bytes::PAIR.problem,
            N,
            "__short2half_rn(q[0])",
            "__short2half_rn(q[1])",
        ),
        (
            "rows of a factor swapped",
            &markov::PTX,
            markov::PAIR.problem,
            Size::Values(3),
            "a[1] = pair(low[2], low[3])",
            "a[1] = pair(high[0], high[1])",
        ),
        (
            "halves swapped",
            &markov::PTX,
            markov::PAIR.problem,
            Size::Values(3),
            "\"f\"(high), \"f\"(low)",
            "\"f\"(low), \"f\"(high)",
        ),
        (
            "the step transposed",
            &markov::WMMA,
            markov::PAIR.problem,
            Size::Values(3),
            "__half, col_major",
            "__half, row_major",
        ),
        (
            "sums read before they are written",
            &markov::WMMA,
            markov::PAIR.problem,
            Size::Values(3),
            "mem_row_major);\n            __syncwarp();",
            "mem_row_major);",
        ),
        ("no barrier", &copies::STAGED, copies::PAIR.problem, N, "__syncthreads();", ""),
        ("nobody waits", &copies::PTX, copies::PAIR.problem, N, "cp.async.wait_group 0;", "cp.async.wait_group 1;"),
        ("no zeros beyond the end", &copies::PTX, copies::PAIR.problem, N, "[%1], 16, %2;", "[%1], 16;"),
        ("zeros for values", &copies::PIPELINE, copies::PAIR.problem, N, "16, 16 - bytes", "16, bytes"),
        (
            "a group too few",
            &stages::CP_ASYNC,
            stages::PAIR.problem,
            Size::Values(9001),
            "\"n\"(STAGES - 2)",
            "\"n\"(STAGES - 1)",
        ),
        (
            "bytes not expected",
            &stages::MBARRIER,
            stages::PAIR.problem,
            N,
            "arrive_and_expect(full, 4 * whole)",
            "arrive(full)",
        ),
        (
            "a stage not waited for",
            &stages::MBARRIER,
            stages::PAIR.problem,
            Size::Values(9001),
            "wait(full[s], k / STAGES % 2);",
            "",
        ),
        (
            "a stage fetched while it is read",
            &stages::MBARRIER,
            stages::PAIR.problem,
            Size::Values(9001),
            "wait(empty[s], (k / STAGES - 1) % 2);",
            "",
        ),
    ];
    for &(mistake, step, problem, size, right, wrong) in mistakes {
        let step = step.with_source(planted(&step.source, right, wrong));
        must_be_rejected(mistake, |device| problem(size)?.try_version(device, &step));
    }
    let names: Vec<&str> = PAIRS.iter().map(|pair| pair.name).collect();
    let tried = |name: &&str| {
        PAIRS.iter().find(|pair| pair.name == *name).is_some_and(|pair| {
            mistakes.iter().any(|mistake| pair.versions.iter().any(|step| step.source.name == mistake.1.source.name))
        })
    };
    assert!(names.iter().all(tried), "a pair without a planted mistake");
}
