// Sorts pairs of a key and a value by their keys, 8 bits per pass: four passes. Lanes of a warp find those with their digit by one
// instruction, so counters are per warp and digit, where 256 digits with a column per thread would need 256 KiB.
//
//     lane       0  1  2  3  4  5  6  7           a warp takes 32 neighbouring keys at a time
//     digit      7  2  9  2  1  7  7  2
//     match      lanes with my digit: 0,5,6 │ 1,3,7 │ …
//     rank       the warp's counter for the digit + matching lanes below me; then the lowest of them adds their number to it
//
// Limited by memory: four passes of 20 bytes per pair.
// run: radix-sort // trial: radix-sort

constexpr unsigned BITS = 8;
constexpr unsigned THREADS = 256;
// A thread's pairs. The larger the tile, the longer the runs of equal digits in it: 16 pairs here.
constexpr unsigned ITEMS = 16;

#include "radix.cuh"

// ANCHOR: ranks
// rank[j]: how many keys of the warp have the digit of keys[j] and stand before it; the warp's keys are keys[0] of all lanes, then
// keys[1], … `counters`: one per digit, of this warp alone, 0 before.
__device__ void rank_in_warp(const unsigned (&keys)[ITEMS], unsigned shift, unsigned (&rank)[ITEMS], unsigned *counters) {
    unsigned lanes_below = (1u << threadIdx.x % 32) - 1;
#pragma unroll
    for (unsigned j = 0; j < ITEMS; j++) {
        unsigned digit = digit_of(keys[j], shift);
        unsigned equal = __match_any_sync(0xffffffff, digit);
        unsigned before = counters[digit];
        __syncwarp();  // all have read before one of them writes
        if ((equal & lanes_below) == 0) {
            counters[digit] = before + __popc(equal);
        }
        __syncwarp();
        rank[j] = before + __popc(equal & lanes_below);
    }
}
// ANCHOR_END: ranks

// The parameters: radix_01_scatter.cu.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS)
    scatter(const unsigned *keys, const unsigned *values, unsigned *to_keys, unsigned *to_values, const unsigned *counts,
            const unsigned *totals, unsigned n, unsigned shift) {
    __shared__ unsigned counters[WARPS][DIGITS];
    __shared__ unsigned offsets[DIGITS];
    __shared__ unsigned sorted_keys[TILE], sorted_values[TILE];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned start = start_of_digit(counts, totals);
    for (unsigned digit = lane; digit < DIGITS; digit += 32) {
        counters[warp][digit] = 0;
    }
    __syncwarp();
    unsigned tile = blockIdx.x * TILE;
    unsigned first = tile + warp * (32 * ITEMS) + lane;
    unsigned key[ITEMS], value[ITEMS], rank[ITEMS];
#pragma unroll
    for (unsigned j = 0; j < ITEMS; j++) {
        unsigned i = first + 32 * j;
        // What stands for the keys behind the end has the last digit and comes last: it moves no other key.
        key[j] = i < n ? keys[i] : 0xffffffff;
        value[j] = i < n ? values[i] : 0;
    }
    rank_in_warp(key, shift, rank, counters[warp]);
    __syncthreads();

    // The counters become places in the sorted tile. A thread per digit.
    unsigned of_tile = 0, all;
    if (threadIdx.x < DIGITS) {
        for (unsigned w = 0; w < WARPS; w++) {
            of_tile += counters[w][threadIdx.x];
        }
    }
    unsigned tile_start = exclusive(of_tile, all);
    if (threadIdx.x < DIGITS) {
        offsets[threadIdx.x] = start - tile_start;
        for (unsigned w = 0; w < WARPS; w++) {
            unsigned of_warp = counters[w][threadIdx.x];
            counters[w][threadIdx.x] = tile_start;
            tile_start += of_warp;
        }
    }
    __syncthreads();
#pragma unroll
    for (unsigned j = 0; j < ITEMS; j++) {
        unsigned at = counters[warp][digit_of(key[j], shift)] + rank[j];
        sorted_keys[at] = key[j];
        sorted_values[at] = value[j];
    }
    __syncthreads();
    unsigned count = min(n - tile, TILE);
    for (unsigned i = threadIdx.x; i < count; i += THREADS) {
        unsigned to = i + offsets[digit_of(sorted_keys[i], shift)];
        to_keys[to] = sorted_keys[i];
        to_values[to] = sorted_values[i];
    }
}
// ANCHOR_END: kernel
