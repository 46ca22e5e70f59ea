use crate::nvrtc::harness::{Case, rows, words};

const TILES: &[&str] = &[
    "reduce",
    "reduce greater in 8",
    "reduce xor in 8",
    "ranks",
    "shfl",
    "shfl_up",
    "shfl_xor",
    "ballot",
    "any",
    "all",
    "match_any",
    "inclusive_scan",
    "exclusive_scan",
];

pub(super) fn cases() -> Vec<Case> {
    vec![tiles(), coalesced(), copies(), clusters().minimum(90), histogram_of_clusters().minimum(90)]
}

fn values() -> Vec<i32> {
    (0..64).map(|t| (t * 37 + 3) % 101).collect()
}

fn tiles() -> Case {
    let x = values();
    let warp = |t: usize| &x[t / 32 * 32..][..32];
    let tile = |t: usize| &x[t / 8 * 8..][..8];
    let mask = |values: &[i32], f: &dyn Fn(i32) -> bool| -> i32 {
        values
            .iter()
            .enumerate()
            .map(|(lane, &v)| i32::from(f(v)).wrapping_shl(lane as u32))
            .fold(0, |all, bit| all | bit)
    };
    let expected = rows::<i32>(
        64,
        &[
            &|t| warp(t).iter().sum(),
            &|t| *tile(t).iter().max().unwrap(),
            &|t| tile(t).iter().fold(0, |all, v| all ^ v),
            &|t| (t % 8 + 100 * (t % 32 / 8)) as i32,
            &|t| tile(t)[3],
            &|t| if t % 8 == 0 { x[t] } else { x[t - 1] },
            &|t| x[t ^ 9],
            &|t| mask(tile(t), &|v| v > 40),
            &|t| i32::from(tile(t).iter().any(|&v| v > 80)),
            &|t| i32::from(tile(t).iter().all(|&v| v > 5)),
            &|t| mask(warp(t), &|v| v / 25 == x[t] / 25),
            &|t| tile(t)[..=t % 8].iter().sum(),
            &|t| warp(t)[..t % 32].iter().sum(),
        ],
    );
    Case::new("tiles").input(&x).out_rows(TILES, &expected)
}

fn coalesced() -> Case {
    let x = values();
    let odd = |v: &&i32| **v & 1 == 1;
    let warp = |t: usize| &x[t / 32 * 32..][..32];
    let or_none = |t: usize, value: i32| if odd(&&x[t]) { value } else { -1 };
    let expected = rows::<i32>(
        64,
        &[
            &|t| or_none(t, warp(t).iter().filter(odd).count() as i32),
            &|t| or_none(t, warp(t)[..t % 32].iter().filter(odd).count() as i32),
            &|t| or_none(t, *warp(t).iter().find(odd).unwrap()),
        ],
    );
    Case::new("coalesced").input(&x).out_rows(&["size", "rank", "shfl of the first"], &expected)
}

fn copies() -> Case {
    let x: Vec<i32> = words(128 * 4, 91).into_iter().map(|word| word as i32).collect();
    let at = |i: usize| x[4 * i..][..4].iter().copied();
    let expected: Vec<i32> = (0..64).flat_map(|t| at(63 - t)).chain((0..40).flat_map(|t| at(64 + 39 - t))).collect();
    Case::new("copies").input(&x).out(&expected)
}

fn clusters() -> Case {
    let expected: Vec<i32> = (0..64).map(|t| 1000 + t).collect();
    Case::new("clusters").out(&expected)
}

fn histogram_of_clusters() -> Case {
    let x: Vec<i32> = words(8 * 64, 17).into_iter().map(|word| word as i32 & 0xffff).collect();
    let expected: Vec<i32> = (0..8 * 64)
        .map(|t| {
            let (block, thread) = (t / 64, t % 64);
            let next = (block % 4 + 1) % 4;
            let bin = (next * 16 + thread % 16) as i32;
            let of_cluster = &x[block / 4 * 256..][..256];
            let count = of_cluster.iter().filter(|value| **value & 63 == bin).count();
            (count + 1000 * next + 10_000 * (block % 4) + 400_000) as i32
        })
        .collect();
    Case::new("histogram_of_clusters").grid(8, 1, 1).input(&x).out(&expected)
}
