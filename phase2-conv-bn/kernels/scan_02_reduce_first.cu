// Inclusive sums of a list: a first pass adds up each tile and writes one value per tile, one block scans those, and a last pass
// reads the list again and writes it, with what came before each tile.
//
//     add_tiles      reads the list                        totals: [t₀ t₁ t₂ …]        1 value per 4096
//     scan_totals    one block, in place                           [t₀ t₀+t₁ …]
//     scan_tiles     reads the list, writes its sums
//
// Within a tile: scan.cuh, with one barrier for 4096 values.
//
// Limited by memory: each value is read twice and written once, 12 bytes where 8 have to be.
// run: scan // trial: scan

#include "scan.cuh"

// x: [n]; totals: [tiles]. A block per tile.
// ANCHOR: add
extern "C" __global__ void __launch_bounds__(THREADS) add_tiles(const unsigned *x, unsigned *totals, unsigned n) {
    __shared__ unsigned of_warps[WARPS];
    Values values = load(x, blockIdx.x, n);
    unsigned sum = 0;
#pragma unroll
    for (unsigned row = 0; row < ROWS; row++) {
        sum += values.v[row][0] + values.v[row][1] + values.v[row][2] + values.v[row][3];
    }
    for (unsigned offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, offset);
    }
    unsigned total;
    before_warp(sum, of_warps, total);
    if (threadIdx.x == 0) {
        totals[blockIdx.x] = total;
    }
}
// ANCHOR_END: add

// totals: [tiles], which become inclusive sums. One block.
// ANCHOR: totals
extern "C" __global__ void __launch_bounds__(THREADS) scan_totals(unsigned *totals, unsigned tiles) {
    __shared__ unsigned of_warps[WARPS];
    unsigned before = 0;
    for (unsigned round = 0; round * TILE < tiles; round++) {
        Values values = load(totals, round, tiles);
        unsigned total, own = scan_warp(values);
        unsigned of_others = before_warp(own, of_warps, total);
        store(totals, round, tiles, values, before + of_others);
        before += total;
        __syncthreads();  // the next round writes of_warps
    }
}
// ANCHOR_END: totals

// x, y: [n]; totals: [tiles], inclusive sums. A block per tile.
// ANCHOR: scan
extern "C" __global__ void __launch_bounds__(THREADS)
    scan_tiles(const unsigned *x, unsigned *y, const unsigned *totals, unsigned n) {
    __shared__ unsigned of_warps[WARPS];
    unsigned tile = blockIdx.x;
    Values values = load(x, tile, n);
    unsigned total, own = scan_warp(values);
    unsigned before = before_warp(own, of_warps, total);
    store(y, tile, n, values, before + (tile > 0 ? totals[tile - 1] : 0));
}
// ANCHOR_END: scan
