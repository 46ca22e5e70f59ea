// Row sums and maxima of integers: five shuffles for each, after which every lane has the result.
//
// Limited, for rows of 32, by the 20 instructions that follow the one load: ten of them shuffles, of which an SM
// starts one per cycle.
// run: ptx

#include "ptx_02_reduce.cuh"

// ANCHOR: warp
__device__ int warp_sum(int value) {
    for (int distance = 16; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(0xffffffff, value, distance);
    }
    return value;
}

__device__ int warp_max(int value) {
    for (int distance = 16; distance > 0; distance /= 2) {
        value = max(value, __shfl_xor_sync(0xffffffff, value, distance));
    }
    return value;
}
// ANCHOR_END: warp
