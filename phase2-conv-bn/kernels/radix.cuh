// What the steps of the radix sort have in common: how often each digit occurs in each tile, and where each tile's digits begin.
//
// A pass sorts by one digit of BITS bits, and keeps the order of keys whose digits are equal (it is stable), so that the passes before
// it, by the digits below, are not undone.
//
//                    tile 0  tile 1  …          the exclusive sums along these rows, one below the other, say where in the output
//     digit 0          3       5                the keys of a digit and a tile begin: after all keys with a smaller digit, and
//     digit 1          0       2                after those with the same digit in earlier tiles
//       …
//
// Before it is included: BITS, THREADS (at least 2^BITS of them) and ITEMS, the pairs of a thread.
// run: radix-sort // trial: radix-sort
#pragma once

#include "radix_scan.cuh"

constexpr unsigned DIGITS = 1u << BITS;
constexpr unsigned WARPS = THREADS / 32;
constexpr unsigned TILE = THREADS * ITEMS;
static_assert(DIGITS <= THREADS, "a thread per digit adds up what comes before it");

// shift: BITS times the number of the pass.
__device__ inline unsigned digit_of(unsigned key, unsigned shift) { return key >> shift & (DIGITS - 1); }

// keys: [n]; counts: [DIGITS, tiles], written once each. A block per tile.
// ANCHOR: count
extern "C" __global__ void __launch_bounds__(THREADS)
    count_digits(const unsigned *keys, unsigned *counts, unsigned n, unsigned shift) {
    __shared__ unsigned own[DIGITS];
    if (threadIdx.x < DIGITS) {
        own[threadIdx.x] = 0;
    }
    __syncthreads();
    unsigned end = min(n, (blockIdx.x + 1) * TILE);
    for (unsigned i = blockIdx.x * TILE + threadIdx.x; i < end; i += THREADS) {
        atomicAdd(&own[digit_of(keys[i], shift)], 1);
    }
    __syncthreads();
    if (threadIdx.x < DIGITS) {
        counts[threadIdx.x * gridDim.x + blockIdx.x] = own[threadIdx.x];
    }
}
// ANCHOR_END: count

// ANCHOR: start
// Where this tile's keys with digit threadIdx.x begin in the output; for the first DIGITS threads. All of the block take part.
__device__ inline unsigned start_of_digit(const unsigned *counts, const unsigned *totals) {
    bool has_digit = threadIdx.x < DIGITS;
    unsigned all;
    unsigned smaller = exclusive(has_digit ? totals[threadIdx.x] : 0, all);
    return smaller + (has_digit ? counts[threadIdx.x * gridDim.x + blockIdx.x] : 0);
}
// ANCHOR_END: start
