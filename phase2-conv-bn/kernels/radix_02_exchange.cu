// Sorts pairs of a key and a value by their keys, 4 bits per pass: a tile is sorted in shared memory first, so that neighbouring lanes
// store neighbouring pairs.
//
//     tile         7 2 9 2  1 7 7 2
//     exchanged    1 2 2 2  7 7 7 9                          in shared memory
//     output       … 1 │ … 2 2 2 │ … 7 7 7 │ … 9 │ …        as before, but from left to right
//
// Limited by instructions: for 1024 keys a block adds up 4096 counters, in each of eight passes.
// run: radix-sort // trial: radix-sort

#include "radix_private.cuh"

// The parameters: radix_01_scatter.cu.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS)
    scatter(const unsigned *keys, const unsigned *values, unsigned *to_keys, unsigned *to_values, const unsigned *counts,
            const unsigned *totals, unsigned n, unsigned shift) {
    __shared__ unsigned of_tile[DIGITS];
    __shared__ unsigned tile_starts[DIGITS];  // where a digit begins in the sorted tile
    __shared__ unsigned offsets[DIGITS];      // from there to its place in the output; modulo 2³²
    __shared__ unsigned sorted_keys[TILE], sorted_values[TILE];
    unsigned start = start_of_digit(counts, totals);
    unsigned first = blockIdx.x * TILE + threadIdx.x * ITEMS;
    unsigned count = first < n ? min(n - first, ITEMS) : 0;
    unsigned key[ITEMS], value[ITEMS], rank[ITEMS];
    load4(keys, first, n, key);
    load4(values, first, n, value);
    rank_in_tile(key, count, shift, rank, of_tile);
    unsigned all;
    unsigned tile_start = exclusive(threadIdx.x < DIGITS ? of_tile[threadIdx.x] : 0, all);
    if (threadIdx.x < DIGITS) {
        tile_starts[threadIdx.x] = tile_start;
        offsets[threadIdx.x] = start - tile_start;
    }
    __syncthreads();
#pragma unroll
    for (unsigned j = 0; j < ITEMS; j++) {
        if (j < count) {
            unsigned at = tile_starts[digit_of(key[j], shift)] + rank[j];
            sorted_keys[at] = key[j];
            sorted_values[at] = value[j];
        }
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < all; i += THREADS) {
        unsigned to = i + offsets[digit_of(sorted_keys[i], shift)];
        to_keys[to] = sorted_keys[i];
        to_values[to] = sorted_values[i];
    }
}
// ANCHOR_END: kernel
