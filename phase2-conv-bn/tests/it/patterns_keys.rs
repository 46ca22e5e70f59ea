//! Reduction, histogram, radix sort, top-k and the sparse product on both devices: every step, at sizes from none to several
//! blocks, on keys and matrices that are hard for one of them.

use common::check::{Tolerance, assert_close, compare};
use common::device_test;
use common::prelude::*;
use common::testing::planted::{must_be_rejected, planted};
use phase2_conv_bn::patterns::radix_sort::{self, Pairs};
use phase2_conv_bn::patterns::sparse::{self, Csr};
use phase2_conv_bn::patterns::{histogram, random_u32, reduction, top_k};

/// Lists of `n` keys, each hard in its own way.
fn keys(n: usize) -> Vec<(&'static str, Vec<u32>)> {
    let random = random_u32(n, n as u64 + 1);
    let mut ascending = random.clone();
    ascending.sort_unstable();
    let descending = ascending.iter().rev().copied().collect();
    vec![
        ("random", random.clone()),
        ("equal", vec![0x8102_0304; n]),
        ("the largest", vec![u32::MAX; n]),
        ("few values", random.iter().map(|key| (key % 3) << 30 | key >> 16 & 1).collect()),
        ("ascending", ascending),
        ("descending", descending),
    ]
}

/// Histogram of a step, written over poison.
fn histogram_of(device: &Device, step: &phase2_conv_bn::Step<histogram::Method>, keys: &[u32]) -> Result<Vec<u32>> {
    let stream = device.stream();
    let mut counts = stream.alloc_poisoned(histogram::BINS)?;
    step.load(device)?.launch(&stream, &stream.clone_htod(keys)?, &mut counts)?;
    stream.clone_dtoh(&counts)
}

/// Keys and indices sorted by a step, written over poison.
fn sorted_by(device: &Device, step: &phase2_conv_bn::Step<radix_sort::Method>, keys: &[u32]) -> Result<[Vec<u32>; 2]> {
    let stream = device.stream();
    let mut output = Pairs::poisoned(&stream, keys.len())?;
    step.load(device)?.launch(&stream, &Pairs::to_device(&stream, keys, &indices(keys))?, &mut output)?;
    output.to_host(&stream)
}

fn indices(keys: &[u32]) -> Vec<u32> {
    (0..keys.len() as u32).collect()
}

/// Product of a step, written over poison.
fn product_of(
    device: &Device,
    step: &phase2_conv_bn::Step<sparse::Method>,
    matrix: &Csr,
    x: &[f32],
) -> Result<Vec<f32>> {
    let stream = device.stream();
    let mut y = stream.alloc_poisoned(matrix.rows())?;
    step.load(device)?.launch(&stream, &matrix.to_device(&stream)?, &stream.clone_htod(x)?, &mut y)?;
    stream.clone_dtoh(&y)
}

/// Matrices that are hard in different ways.
fn matrices() -> Vec<(&'static str, Csr)> {
    let mut holes = vec![0; 700];
    holes[3] = 5;
    holes[350] = 2000;
    holes[351] = 1;
    vec![
        ("no rows", Csr::with_lengths(&[], 3, 1)),
        ("one row", Csr::with_lengths(&[1], 1, 1)),
        ("one empty row", Csr::with_lengths(&[0], 1, 1)),
        ("only empty rows", Csr::with_lengths(&[0; 1000], 5, 1)),
        // A tile of the third step holds 896 rows and non-zeros: this one ends with a row, and so does the list.
        ("a whole tile", Csr::with_lengths(&[895], 50, 1)),
        ("one long row", Csr::with_lengths(&[5000], 77, 2)),
        ("a long row over many tiles, then short ones", Csr::with_lengths(&[&[40_000][..], &[1; 40]].concat(), 300, 3)),
        ("mostly empty", Csr::with_lengths(&holes, 200, 4)),
        ("regular", Csr::regular(300, 16, 5)),
        ("power law", Csr::power_law(500, 9, 6)),
    ]
}

device_test! {
    fn sums_are_exact_modulo_two_to_the_32(device) {
        let stream = device.stream();
        for step in reduction::LADDER {
            let reduction = step.load(&device)?;
            for n in [0, 1, 31, 257, 4095, 20_001] {
                let values = random_u32(n, 7);
                let mut sum = stream.alloc_poisoned(1)?;
                reduction.launch(&stream, &stream.clone_htod(&values)?, &mut sum)?;
                assert_eq!(stream.clone_dtoh(&sum)?, reduction::reference(&values).values, "{}, {n}", step.name);
            }
        }
        Ok(())
    }

    fn histograms_are_exact(device) {
        for step in histogram::LADDER {
            for n in [0, 1, 3, 511, 513, 20_001] {
                for (kind, keys) in keys(n) {
                    let counts = histogram_of(&device, step, &keys)?;
                    let expected = histogram::reference(&keys);
                    expected.check(&counts).unwrap_or_else(|mismatch| panic!("{}, {n} {kind}: {mismatch}", step.name));
                }
            }
            let skewed = histogram::skewed_keys(9000, 1);
            assert_eq!(histogram_of(&device, step, &skewed)?, histogram::reference(&skewed).values);
        }
        Ok(())
    }

    fn sorts_are_stable_at_every_size(device) {
        for step in radix_sort::LADDER {
            for n in [0, 1, 33, 1023, 4097] {
                for (kind, keys) in keys(n) {
                    let expected = radix_sort::reference(&keys, &indices(&keys));
                    assert_eq!(sorted_by(&device, step, &keys)?, expected, "{}, {n} {kind}", step.name);
                }
            }
        }
        Ok(())
    }

    /// The workspace of one size, then of another, then the first again.
    fn a_sort_is_used_again(device) {
        let stream = device.stream();
        for step in radix_sort::LADDER {
            let mut sort = step.load(&device)?;
            for n in [500, 5000, 500] {
                let keys = random_u32(n, 9);
                let mut output = Pairs::poisoned(&stream, n)?;
                sort.launch(&stream, &Pairs::to_device(&stream, &keys, &indices(&keys))?, &mut output)?;
                assert_eq!(output.to_host(&stream)?, radix_sort::reference(&keys, &indices(&keys)));
            }
            let mut short = Pairs::poisoned(&stream, 3)?;
            let error = sort.launch(&stream, &Pairs::to_device(&stream, &[1, 2], &[1, 2])?, &mut short).unwrap_err();
            let expected = "radix sort: there are 2 keys to sort, and lists of [2, 3, 3] for values and the results";
            assert_eq!(error.to_string(), expected);
        }
        Ok(())
    }

    fn the_largest_keys_are_found_in_the_lists_order(device) {
        let stream = device.stream();
        let mut top = top_k::SELECT.load(&device)?;
        for (n, ks) in [(0, &[0][..]), (1, &[0, 1]), (700, &[1, 350, 700]), (9001, &[1, 1000, 9001])] {
            for (kind, keys) in keys(n) {
                let list = stream.clone_htod(&keys)?;
                for &k in ks {
                    let mut largest = Pairs::poisoned(&stream, k)?;
                    top.launch(&stream, &list, &mut largest)?;
                    assert_eq!(largest.to_host(&stream)?, top_k::reference(&keys, k), "{k} of {n} {kind}");
                }
            }
        }
        let error = top.launch(&stream, &stream.clone_htod(&[5])?, &mut Pairs::poisoned(&stream, 2)?).unwrap_err();
        assert_eq!(error.to_string(), "top-k: 2 of 1 keys, and 2 of their indices");
        Ok(())
    }

    fn sparse_products_match_the_reference(device) {
        for step in sparse::LADDER {
            for (kind, matrix) in matrices() {
                let x = sparse::random_vector(matrix.width, 8);
                let y = product_of(&device, step, &matrix, &x)?;
                let checked = matrix.reference(&x).check(&y);
                checked.unwrap_or_else(|mismatch| panic!("{}, {kind}: {mismatch}", step.name));
                // No step adds in the order of arrival.
                assert_eq!(product_of(&device, step, &matrix, &x)?, y, "{}, {kind}", step.name);
            }
        }
        Ok(())
    }

    fn vectors_of_another_length_are_refused(device) {
        let stream = device.stream();
        let matrix = Csr::regular(4, 2, 1).to_device(&stream)?;
        for step in sparse::LADDER {
            let mut product = step.load(&device)?;
            let mut launch = |x: usize, y: usize| -> Result<String> {
                let x = stream.alloc_zeros(x)?;
                Ok(product.launch(&stream, &matrix, &x, &mut stream.alloc_zeros(y)?).unwrap_err().to_string())
            };
            let what = "a sparse matrix times a vector: a matrix [4, 4]";
            assert_eq!(launch(3, 4)?, format!("{what}, x of 3 values and y of 4"));
            assert_eq!(launch(4, 5)?, format!("{what}, x of 4 values and y of 5"));
        }
        Ok(())
    }
}

#[test]
fn mistakes_in_histograms_are_found() {
    let mistakes = [
        ("no guard", &histogram::GLOBAL, "if (i < n)", "if (i <= n)"),
        (
            "added without an atomic",
            &histogram::SHARED,
            "atomicAdd(&own[keys[i] % BINS], 1);",
            "own[keys[i] % BINS]++;",
        ),
        (
            "read before all have counted",
            &histogram::SHARED,
            "    }\n    __syncthreads();\n    for (unsigned bin = threadIdx.x; bin < BINS; bin += THREADS) {\n        if",
            "    }\n    for (unsigned bin = threadIdx.x; bin < BINS; bin += THREADS) {\n        if",
        ),
        ("half of the copies", &histogram::COPIES, "j < COPIES", "j < COPIES / 2"),
        ("the end left out", &histogram::VECTORS, "threadIdx.x < n % 4", "threadIdx.x < n % 3"),
    ];
    for (mistake, step, right, wrong) in mistakes {
        let step = step.with_source(planted(&step.source, right, wrong));
        must_be_rejected(mistake, |device| {
            let keys = random_u32(3003, 1);
            Ok(histogram::reference(&keys).check(&histogram_of(device, &step, &keys)?))
        });
    }
}

#[test]
fn mistakes_in_sorts_are_found() {
    let mistakes = [
        ("no carry along a row", &radix_sort::SCATTER, "counter = before + sum - own;", "counter = sum - own;"),
        (
            "stored before it is exchanged",
            &radix_sort::EXCHANGE,
            "    __syncthreads();\n    for (unsigned i",
            "    for (unsigned i",
        ),
        ("an inclusive sum", &radix_sort::EXCHANGE, "return before + sum - value;", "return before + sum;"),
        (
            "equal digits from the last",
            &radix_sort::MATCH,
            "before + __popc(equal & lanes_below);",
            "before + __popc(equal & ~lanes_below) - 1;",
        ),
        (
            "written before all have read",
            &radix_sort::MATCH,
            "        __syncwarp();  // all have read before one of them writes\n",
            "",
        ),
        ("padding that comes first", &radix_sort::MATCH, "keys[i] : 0xffffffff", "keys[i] : 0"),
    ];
    for (mistake, step, right, wrong) in mistakes {
        let step = step.with_source(planted(&step.source, right, wrong));
        must_be_rejected(mistake, |device| {
            let keys: Vec<u32> = random_u32(5001, 2).into_iter().map(|key| key & 0xff00_00ff).collect();
            let [sorted, values] = sorted_by(device, &step, &keys)?;
            let expected = radix_sort::reference(&keys, &indices(&keys));
            let of_keys = compare(&sorted, &expected[0], Tolerance::exact());
            Ok(of_keys.and_then(|_| compare(&values, &expected[1], Tolerance::exact())))
        });
    }
}

#[test]
fn mistakes_in_selections_and_products_are_found() {
    let mistakes = [
        ("one equal key too many", "equals < wanted", "equals <= wanted"),
        ("candidates that are none", "(key ^ prefix) >> shift >> (BITS - 1) >> 1", "(key ^ prefix) >> 31"),
        ("the larger ones forgotten", "known->rank = rank - larger;", "known->rank = rank;"),
    ];
    for (mistake, right, wrong) in mistakes {
        let step = top_k::SELECT.with_source(planted(&top_k::SELECT.source, right, wrong));
        must_be_rejected(mistake, |device| {
            let stream = device.stream();
            let keys: Vec<u32> = random_u32(5001, 2).into_iter().map(|key| key & 0xe000_0003).collect();
            // 625 keys have the highest digit, about 156 of them the largest key.
            let mut largest = Pairs::poisoned(&stream, 200)?;
            step.load(device)?.launch(&stream, &stream.clone_htod(&keys)?, &mut largest)?;
            let [keys_found, indices] = largest.to_host(&stream)?;
            let expected = top_k::reference(&keys, 200);
            let of_keys = compare(&keys_found, &expected[0], Tolerance::exact());
            Ok(of_keys.and_then(|_| compare(&indices, &expected[1], Tolerance::exact())))
        });
    }
    let mistakes = [
        ("a row too many", &sparse::SCALAR, "row >= rows", "row > rows"),
        ("the last lanes left out", &sparse::VECTOR, "offset = 16", "offset = 8"),
        (
            "no carry between threads",
            &sparse::MERGE,
            "y[row + first_row] = before + first_sum;",
            "y[row + first_row] = first_sum;",
        ),
        ("no carry between blocks", &sparse::MERGE, "y[row] += sum;", "y[row] += 0 * sum;"),
        ("a row's end taken late", &sparse::MERGE, "ends[r] <= i", "ends[r] < i"),
        (
            "no barrier before the walk",
            &sparse::MERGE,
            "    __syncthreads();\n\n    // From here",
            "\n    // From here",
        ),
    ];
    for (mistake, step, right, wrong) in mistakes {
        let step = step.with_source(planted(&step.source, right, wrong));
        must_be_rejected(mistake, |device| {
            let matrix = Csr::with_lengths(&[&[3000, 7, 0][..], &[20; 97]].concat(), 100, 2);
            let x = sparse::random_vector(100, 3);
            Ok(matrix.reference(&x).check(&product_of(device, &step, &matrix, &x)?))
        });
    }
}

/// Sizes are stated only in the kernel file: edited there, they are launched as edited.
#[test]
fn sizes_edited_in_the_kernel_file_are_launched_as_edited() {
    let device = common::private::sim_for_test();
    if !common::testing::planted::compiler(&device, "sizes_edited_in_the_kernel_file_are_launched_as_edited") {
        return;
    }
    let keys = random_u32(5001, 3);
    let step = radix_sort::MATCH.with_source(planted(&radix_sort::MATCH.source, "ITEMS = 16;", "ITEMS = 5;"));
    let [sorted, values] = sorted_by(&device, &step, &keys).unwrap();
    assert_eq!([sorted, values], radix_sort::reference(&keys, &indices(&keys)));
    let step = histogram::COPIES.with_source(planted(&histogram::COPIES.source, "THREADS = 512;", "THREADS = 128;"));
    let counts = histogram_of(&device, &step, &keys).unwrap();
    assert_close(&counts, &histogram::reference(&keys).values, Tolerance::exact());
    let step = sparse::MERGE.with_source(planted(&sparse::MERGE.source, "ITEMS = 7;", "ITEMS = 3;"));
    let matrix = Csr::power_law(300, 9, 1);
    let x = sparse::random_vector(300, 3);
    matrix.reference(&x).check(&product_of(&device, &step, &matrix, &x).unwrap()).unwrap();
}
