use crate::nvrtc::harness::{Case, rows, uniform32, words};

pub(super) fn cases() -> Vec<Case> {
    vec![
        recursion(),
        virtual_calls(),
        function_pointers(),
        switches(),
        spin_lock(),
        early_exit(),
        Case::new("prints").input(&[2.5f32]).prints("block 0  2.50 ff z 1099511627776 7% 5.000000e-01\n"),
        assertion_holds(),
        geometry(),
        lambdas(),
        Case::new("clocks").out(&[3i32; 64]),
        inline_ptx(),
    ]
}

fn ackermann(m: u32, n: u32) -> u32 {
    match (m, n) {
        (0, n) => n + 1,
        (m, 0) => ackermann(m - 1, 1),
        (m, n) => ackermann(m - 1, ackermann(m, n - 1)),
    }
}

fn recursion() -> Case {
    let x: Vec<i32> = words(64, 61).into_iter().map(|word| word as i32 >> 8).collect();
    let numbers: Vec<u32> = (0..64).map(|t| ackermann(t % 3, t % 4)).collect();
    let sorted: Vec<i32> = (0..64)
        .flat_map(|t| {
            let mut values: Vec<i32> = (0..8).map(|i| x[(t * 8 + i * 5) % 64]).collect();
            values.sort_unstable();
            values
        })
        .collect();
    Case::new("recursion").input(&x).out(&numbers).out(&sorted)
}

fn virtual_calls() -> Case {
    let apply = |square: bool, x: i32| if square { x * x } else { x + 64 };
    let expected: Vec<i32> = (0..64).map(|t| apply(t % 2 == 1, t) + apply(t / 2 % 2 == 1, 3)).collect();
    Case::new("virtual_calls").out(&expected)
}

fn function_pointers() -> Case {
    let expected: Vec<i32> = (0..64).map(|t| [t + 7, t * 7, t - 7][t as usize % 3]).collect();
    Case::new("function_pointers").out(&expected)
}

fn switches() -> Case {
    let n = 1000;
    let x: Vec<i32> = (0..64).map(|t| [0, 1, 2, 3, 4, 5, 6, 7, 100, -1, 99, i32::MIN][t % 12]).collect();
    let choose = |x: &i32| match x {
        0 => n,
        1 => n * n,
        2 | 3 => n / 3,
        4 => n % 3,
        5 => n << 2,
        6 => !n,
        100 => 1,
        _ => -1,
    };
    let expected: Vec<i32> = x.iter().map(choose).collect();
    Case::new("switches").input(&x).out(&expected).value(n)
}

fn spin_lock() -> Case {
    let sum: i32 = 3 * (0..64).sum::<i32>();
    Case::new("spin_lock").grid(3, 1, 1).inout(&[0i32], &[0]).inout(&[5i32], &[5 + sum])
}

fn early_exit() -> Case {
    let live = 75;
    let expected: Vec<i32> = (0..live).map(|t| (live - 1 - t) * (live - 1 - t)).collect();
    Case::new("early_exit").block(128, 1, 1).out(&expected).value(live)
}

fn assertion_holds() -> Case {
    let x: Vec<i32> = (0..64).collect();
    let expected: Vec<i32> = (1..65).collect();
    Case::new("assertion_holds").input(&x).out(&expected)
}

fn geometry() -> Case {
    let blocks = (0..2).flat_map(|z| (0..3).flat_map(move |y| (0..2).map(move |x| x + 10 * y + 100 * z)));
    let threads = || (0..3).flat_map(|z| (0..2).flat_map(move |y| (0..5).map(move |x| x + 10 * y + 100 * z)));
    let expected: Vec<i32> = blocks.flat_map(|block| threads().map(move |thread| block + 1000 * thread)).collect();
    Case::new("geometry").grid(2, 3, 2).block(5, 2, 3).out(&expected)
}

fn lambdas() -> Case {
    let x: Vec<i32> = (0..68).map(|i| i * i - 30).collect();
    let fold = |t: usize| x[t..t + 5].iter().fold(0i32, |value, x| value.wrapping_mul(t as i32 + 1).wrapping_add(*x));
    let expected: Vec<i32> = (0..64).map(fold).collect();
    Case::new("lambdas").input(&x).out(&expected)
}

fn inline_ptx() -> Case {
    let x: Vec<u32> = words(64, 62).into_iter().map(|word| word as u32).collect();
    let f = uniform32(256, 63, -1.0, 1.0);
    let next = |t: usize| x[(t + 1) % 64];
    let expected = rows::<u32>(
        64,
        &[
            &|t| if x[t] & 1 != 0 { 2 } else { 7 },
            &|t| {
                let (a, b, c) = (x[t], next(t), 0x00ff_ff00);
                (a & b) | (b & c) | (a & c)
            },
            &|t| (x[t] >> 4) & 0x1ff,
            &|t| (next(t) & !0x000f_ff00) | (x[t] & 0xfff) << 8,
            &|t| x[t].wrapping_add(next(t)),
            &|t| u32::from(x[t].checked_add(next(t)).is_none()),
            &|t| t as u32 % 32,
            &|t| (1 << (t % 32)) - 1,
        ],
    );
    let sums: Vec<f32> = f.chunks(4).map(|v| (v[0] + v[1]) + (v[2] + v[3])).collect();
    let names = &["predicates", "lop3", "bfe", "bfi", "add.cc", "addc", "laneid", "lanemask_lt"];
    Case::new("inline_ptx").input(&x).input(&f).out_rows(names, &expected).out(&sums)
}
