use crate::nvrtc::harness::{Case, rows, uniform, words};

const SHUFFLES: &[&str] =
    &["index", "index of its own", "up", "down", "xor", "index in 8", "up in 8", "down in 16", "xor in 8"];

const VOTES: &[&str] = &[
    "ballot",
    "any",
    "all",
    "match_any",
    "match_any wide",
    "match_all equal",
    "its predicate",
    "match_all unequal",
    "its predicate",
    "activemask in a branch",
    "ballot in a branch",
];

/// Distinct numbers in 0..100 for 64 threads; 3 is among them.
fn values() -> Vec<i32> {
    (0..64).map(|t| (t * 37 + 3) % 101).map(|v| v.min(99)).collect()
}

/// The lanes of `t`'s warp for which `f` holds.
fn mask(t: usize, f: impl Fn(usize) -> bool) -> u32 {
    let first = t / 32 * 32;
    (0..32).filter(|lane| f(first + lane)).map(|lane| 1 << lane).sum()
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        shuffles(),
        votes(),
        divergence(),
        reduction(),
        inclusive_scan(),
        block_votes(),
        reductions_in_hardware().minimum(80),
    ]
}

fn shuffles() -> Case {
    let (x, d) = (values(), uniform(64, 51, -1e6, 1e6));
    // `up` below the segment's start and `down` past its end keep the lane's own value.
    let up = |t: usize, by: usize, width: usize| if t % width >= by { t - by } else { t };
    let down = |t: usize, by: usize, width: usize| if t % width + by < width { t + by } else { t };
    let first = |t: usize| t / 32 * 32;
    let expected = rows::<i32>(
        64,
        &[
            &|t| x[first(t) + 5],
            &|t| x[first(t) + (t % 32 * 3 + 1) % 32],
            &|t| x[up(t, 3, 32)],
            &|t| x[down(t, 2, 32)],
            &|t| x[t ^ 16],
            &|t| x[t / 8 * 8 + 2],
            &|t| x[up(t, 1, 8)],
            &|t| x[down(t, 3, 16)],
            &|t| x[t ^ 5],
        ],
    );
    let wide = rows::<f64>(64, &[&|t| d[t ^ 1], &|t| d[down(t, 9, 32)]]);
    Case::new("shuffles").input(&x).input(&d).out_rows(SHUFFLES, &expected).out_rows(&["xor", "down"], &wide)
}

fn votes() -> Case {
    let x = values();
    let any = |t: usize, f: &dyn Fn(usize) -> bool| u32::from(mask(t, f) != 0);
    let odd = |t: usize| x[t] & 1 == 1;
    let expected = rows::<u32>(
        64,
        &[
            &|t| mask(t, |u| x[u] > 40),
            &|t| any(t, &|u| x[u] == 3),
            &|t| 1 - any(t, &|u| x[u] >= 90),
            &|t| mask(t, |u| x[u] / 25 == x[t] / 25),
            &|t| mask(t, |u| x[u] % 4 == x[t] % 4),
            &|_| u32::MAX,
            &|_| 1,
            &|_| 0,
            &|_| 0,
            &|t| if odd(t) { mask(t, odd) } else { 0 },
            &|t| if odd(t) { mask(t, |u| odd(u) && x[u] > 50) } else { 0 },
        ],
    );
    Case::new("votes").input(&x).out_rows(VOTES, &expected)
}

fn divergence() -> Case {
    let x: Vec<i32> = (0..64).map(|t| t * 7 + 1).collect();
    let walk = |t: usize| {
        let (mut v, mut steps, mut odd) = (x[t] as u32, 0, 0);
        while v != 1 {
            if v & 1 == 1 {
                v = 3 * v + 1;
                odd += 1;
                if odd % 3 == 0 {
                    continue;
                }
            } else {
                v /= 2;
            }
            steps += 1;
            if steps > 60 {
                break;
            }
        }
        (steps, odd)
    };
    let total = |t: usize| {
        let pairs = (0..t % 7).flat_map(|i| (i..t % 5).map(move |j| (i, j)));
        pairs.filter(|(i, j)| (i + j) % 3 != 1).map(|(i, j)| (i * 10 + j) as i32).sum::<i32>()
    };
    let expected = rows::<i32>(
        64,
        &[&|t| walk(t).0, &|t| walk(t).1, &|t| total(t) + mask(t, |u| total(u) > 0).count_ones() as i32],
    );
    Case::new("divergence").input(&x).out_rows(&["steps", "odd steps", "nested loops"], &expected)
}

fn reduction() -> Case {
    // Small integers: every order of summation is exact.
    let (n, blocks, threads) = (1000, 3, 96);
    let x: Vec<f32> = words(n, 52).into_iter().map(|word| (word % 100) as f32).collect();
    let partial =
        |block: usize| x.iter().enumerate().filter(|(i, _)| i / threads % blocks == block).map(|(_, v)| v).sum();
    let partial: Vec<f32> = (0..blocks).map(partial).collect();
    Case::new("reduction")
        .grid(blocks as u32, 1, 1)
        .block(threads as u32, 1, 1)
        .shared(4 * threads as u32 / 32)
        .input(&x)
        .out(&partial)
        .out(&[x.iter().sum::<f32>()])
        .inout(&[0u32], &[0u32])
        .value(n as i32)
}

fn inclusive_scan() -> Case {
    let x = values();
    let expected: Vec<i32> = x
        .iter()
        .scan(0, |sum, v| {
            *sum += v;
            Some(*sum)
        })
        .collect();
    Case::new("inclusive_scan").input(&x).out(&expected)
}

fn block_votes() -> Case {
    let x = values();
    let count = x.iter().filter(|&&v| v > 40).count() as i32;
    let all = i32::from(x.iter().all(|&v| v > 0));
    let expected = rows::<i32>(64, &[&|_| count, &|_| all, &|_| 1]);
    Case::new("block_votes").input(&x).out_rows(&["count", "and", "or"], &expected)
}

fn reductions_in_hardware() -> Case {
    let x = values();
    let warp = |t: usize| x[t / 32 * 32..][..32].iter().map(|v| v - 50);
    let half = |t: usize| x[t / 16 * 16..][..16].iter().map(|v| v - 50).sum();
    let expected = rows::<i32>(
        64,
        &[
            &|t| warp(t).sum(),
            &|t| warp(t).min().unwrap(),
            &|t| warp(t).max().unwrap(),
            &|t| warp(t).map(|v| v as u32).min().unwrap() as i32,
            &|t| warp(t).fold(-1, |all, v| all & v),
            &|t| warp(t).fold(0, |all, v| all | v),
            &|t| warp(t).fold(0, |all, v| all ^ v),
            &half,
        ],
    );
    let names = &["add", "min", "max", "unsigned min", "and", "or", "xor", "add in half a warp"];
    Case::new("reductions_in_hardware").input(&x).out_rows(names, &expected)
}
