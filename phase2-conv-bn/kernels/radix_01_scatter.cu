// Sorts pairs of a key and a value by their keys, digit by digit from the lowest: count the digits, add up the counts, store each pair
// where its digit's next one belongs. 4 bits per pass, eight passes.
//
//     tile       7 2 9 2  1 7 7 2        keys by their digit
//     rank       0 0 0 1  0 1 2 2        how many with the same digit stand before them
//     output     … 1 │ … 2 2 2 │ … 7 7 7 │ … 9 │ …        start of the digit for this tile + rank
//
// Limited by the stores: neighbouring lanes have different digits, so that nearly each of a warp's 32 pairs goes to a sector of its own.
// run: radix-sort // trial: radix-sort

#include "radix_private.cuh"

// keys, values: [n] at multiples of 16 bytes; to_keys, to_values: [n], of which every value is written once. counts, totals: as
// `scan_rows` leaves them. A block per tile.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS)
    scatter(const unsigned *keys, const unsigned *values, unsigned *to_keys, unsigned *to_values, const unsigned *counts,
            const unsigned *totals, unsigned n, unsigned shift) {
    __shared__ unsigned starts[DIGITS], of_tile[DIGITS];
    unsigned start = start_of_digit(counts, totals);
    if (threadIdx.x < DIGITS) {
        starts[threadIdx.x] = start;
    }
    unsigned first = blockIdx.x * TILE + threadIdx.x * ITEMS;
    unsigned count = first < n ? min(n - first, ITEMS) : 0;
    unsigned key[ITEMS], value[ITEMS], rank[ITEMS];
    load4(keys, first, n, key);
    load4(values, first, n, value);
    rank_in_tile(key, count, shift, rank, of_tile);  // with barriers in it, after which `starts` may be read
#pragma unroll
    for (unsigned j = 0; j < ITEMS; j++) {
        if (j < count) {
            unsigned to = starts[digit_of(key[j], shift)] + rank[j];
            to_keys[to] = key[j];
            to_values[to] = value[j];
        }
    }
}
// ANCHOR_END: kernel
