// A tile of a list, summed by a block in registers: 16 values per thread, which are added within the thread, then by shuffles within
// the warp, then over the warps. What is in the list before the tile is the caller's to know.
//
//     a warp's 512 values    row 0  | lane 0: 4 values | lane 1: 4 values | … | lane 31 |       a vector per lane and row, so that
//                            row 1  | lane 0           | …                                     neighbours load neighbours
//                            row 2, row 3
// run: scan // trial: scan
#pragma once

constexpr unsigned THREADS = 256;
constexpr unsigned WARPS = THREADS / 32;
// Vectors of a thread, all in flight at once.
constexpr unsigned ROWS = 4;
constexpr unsigned OF_WARP = 32 * 4 * ROWS;
// Values of a block.
constexpr unsigned TILE = WARPS * OF_WARP;

struct Values {
    unsigned v[ROWS][4];
};

// The first of this thread's values in a row, counted from the list's beginning. A tile begins at a multiple of TILE.
__device__ inline unsigned place(unsigned tile, unsigned row) {
    return tile * TILE + threadIdx.x / 32 * OF_WARP + row * 128 + threadIdx.x % 32 * 4;
}

// ANCHOR: load
// This thread's values of a tile; 0 from n on.
__device__ inline Values load(const unsigned *x, unsigned tile, unsigned n) {
    Values values;
#pragma unroll
    for (unsigned row = 0; row < ROWS; row++) {
        unsigned at = place(tile, row);
        unsigned *v = values.v[row];
        if (at + 4 <= n) {
            uint4 four = *reinterpret_cast<const uint4 *>(x + at);
            v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
        } else {
#pragma unroll
            for (unsigned j = 0; j < 4; j++) {
                v[j] = at + j < n ? x[at + j] : 0;
            }
        }
    }
    return values;
}
// ANCHOR_END: load

// ANCHOR: store
// Each value plus `before`, into the places below n.
__device__ inline void store(unsigned *y, unsigned tile, unsigned n, const Values &values, unsigned before) {
#pragma unroll
    for (unsigned row = 0; row < ROWS; row++) {
        unsigned at = place(tile, row);
        const unsigned *v = values.v[row];
        if (at + 4 <= n) {
            *reinterpret_cast<uint4 *>(y + at) = make_uint4(before + v[0], before + v[1], before + v[2], before + v[3]);
        } else {
#pragma unroll
            for (unsigned j = 0; j < 4; j++) {
                if (at + j < n) {
                    y[at + j] = before + v[j];
                }
            }
        }
    }
}
// ANCHOR_END: store

// ANCHOR: warp
// Inclusive sums over the lanes. All 32 take part.
__device__ inline unsigned scan_lanes(unsigned sum) {
    for (unsigned distance = 1; distance < 32; distance *= 2) {
        unsigned before = __shfl_up_sync(0xffffffff, sum, distance);
        sum += threadIdx.x % 32 >= distance ? before : 0;
    }
    return sum;
}

// Makes a warp's 512 values inclusive sums of themselves, and returns their total, to every lane.
__device__ inline unsigned scan_warp(Values &values) {
    unsigned before_row = 0;
#pragma unroll
    for (unsigned row = 0; row < ROWS; row++) {
        unsigned *v = values.v[row];
        v[1] += v[0], v[2] += v[1], v[3] += v[2];
        unsigned sum = scan_lanes(v[3]);
        unsigned before = before_row + sum - v[3];
#pragma unroll
        for (unsigned j = 0; j < 4; j++) {
            v[j] += before;
        }
        before_row += __shfl_sync(0xffffffff, sum, 31);
    }
    return before_row;
}
// ANCHOR_END: warp

// ANCHOR: block
// The sum of the warps before this one; `total` is that of all. Each warp gives its own sum. A barrier is inside: of_warps, which has
// WARPS values, may be written again after the caller's next one.
__device__ inline unsigned before_warp(unsigned own, unsigned *of_warps, unsigned &total) {
    if (threadIdx.x % 32 == 0) {
        of_warps[threadIdx.x / 32] = own;
    }
    __syncthreads();
    unsigned before = 0;
    total = 0;
#pragma unroll
    for (unsigned w = 0; w < WARPS; w++) {
        before += w < threadIdx.x / 32 ? of_warps[w] : 0;
        total += of_warps[w];
    }
    return before;
}
// ANCHOR_END: block
