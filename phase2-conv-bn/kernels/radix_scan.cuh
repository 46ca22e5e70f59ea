// Exclusive sums: over the threads of a block, and along the rows of a matrix of counts with a column per tile.
// run: radix-sort // trial: radix-sort
#pragma once

// The most threads of a block that adds along a row: where there are fewer tiles, fewer warps are enough.
constexpr unsigned SCAN_THREADS = 1024;

// ANCHOR: exclusive
// The sum of the values of the block's threads before this one; `total` is the sum of all of them. A block of whole warps.
__device__ inline unsigned exclusive(unsigned value, unsigned &total) {
    __shared__ unsigned of_warps[32];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned sum = value;
    for (unsigned distance = 1; distance < 32; distance *= 2) {
        unsigned below = __shfl_up_sync(0xffffffff, sum, distance);
        sum += lane >= distance ? below : 0;
    }
    if (lane == 31) {
        of_warps[warp] = sum;
    }
    __syncthreads();
    unsigned before = 0;
    total = 0;
    for (unsigned w = 0; w < blockDim.x / 32; w++) {
        before += w < warp ? of_warps[w] : 0;
        total += of_warps[w];
    }
    __syncthreads();  // the next call may write of_warps
    return before + sum - value;
}
// ANCHOR_END: exclusive

// counts: [rows, tiles], each of which becomes the sum of those before it in its row; totals: [rows]. A block per row,
// of any number of whole warps.
// ANCHOR: rows
extern "C" __global__ void __launch_bounds__(SCAN_THREADS) scan_rows(unsigned *counts, unsigned *totals, unsigned tiles) {
    unsigned *row = counts + static_cast<size_t>(blockIdx.x) * tiles;
    unsigned before = 0;
    for (unsigned first = 0; first < tiles; first += blockDim.x) {
        unsigned i = first + threadIdx.x, total;
        unsigned count = i < tiles ? row[i] : 0;
        unsigned sum = exclusive(count, total);
        if (i < tiles) {
            row[i] = before + sum;
        }
        before += total;
    }
    if (threadIdx.x == 0) {
        totals[blockIdx.x] = before;
    }
}
// ANCHOR_END: rows
