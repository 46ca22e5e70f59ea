// Ranks within a tile by counters of each thread's own, as radix_01_scatter.cu and radix_02_exchange.cu take them.
//
//     thread       0   1   2  …  255          a thread counts the digits of its ITEMS neighbouring keys in its own column;
//     digit 0      1   0   2       0          the exclusive sums along a row say how many keys with this digit the
//     digit 1      0   1   0       1          threads before it have
//       …
// run: radix-sort // trial: radix-sort
#pragma once

constexpr unsigned BITS = 4;
constexpr unsigned THREADS = 256;
// A thread's pairs: one load of 16 bytes each for keys and values.
constexpr unsigned ITEMS = 4;

#include "radix.cuh"

// ANCHOR: load
// list[first + j] for each j below ITEMS that is inside, by one load if all of them are. first is a multiple of 4.
__device__ inline void load4(const unsigned *list, unsigned first, unsigned n, unsigned (&to)[ITEMS]) {
    if (first + ITEMS <= n) {
        uint4 v = *reinterpret_cast<const uint4 *>(list + first);
        to[0] = v.x;
        to[1] = v.y;
        to[2] = v.z;
        to[3] = v.w;
        return;
    }
    for (unsigned j = 0; j < ITEMS; j++) {
        to[j] = first + j < n ? list[first + j] : 0;
    }
}
// ANCHOR_END: load

// ANCHOR: ranks
// rank[j]: how many keys of the tile have the digit of keys[j] and stand before it, for the first `count` keys of each thread.
// of_tile: how often each digit occurs in the tile; to be read after a barrier.
__device__ inline void rank_in_tile(const unsigned (&keys)[ITEMS], unsigned count, unsigned shift, unsigned (&rank)[ITEMS],
                                    unsigned *of_tile) {
    __shared__ unsigned counters[DIGITS * THREADS];  // [digit][thread]: a thread's column is in one bank
    unsigned thread = threadIdx.x, lane = thread % 32;
    for (unsigned digit = 0; digit < DIGITS; digit++) {
        counters[digit * THREADS + thread] = 0;
    }
#pragma unroll
    for (unsigned j = 0; j < ITEMS; j++) {
        rank[j] = j < count ? counters[digit_of(keys[j], shift) * THREADS + thread]++ : 0;
    }
    __syncthreads();
    for (unsigned digit = thread / 32; digit < DIGITS; digit += WARPS) {  // a warp per row
        unsigned before = 0;
        for (unsigned first = 0; first < THREADS; first += 32) {
            unsigned &counter = counters[digit * THREADS + first + lane];
            unsigned own = counter, sum = own;
            for (unsigned distance = 1; distance < 32; distance *= 2) {
                unsigned below = __shfl_up_sync(0xffffffff, sum, distance);
                sum += lane >= distance ? below : 0;
            }
            counter = before + sum - own;
            before += __shfl_sync(0xffffffff, sum, 31);
        }
        if (lane == 0) {
            of_tile[digit] = before;
        }
    }
    __syncthreads();
#pragma unroll
    for (unsigned j = 0; j < ITEMS; j++) {
        if (j < count) {
            rank[j] += counters[digit_of(keys[j], shift) * THREADS + thread];
        }
    }
}
// ANCHOR_END: ranks
