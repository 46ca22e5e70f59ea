// nvrtc: --gpu-architecture=compute_80 // run: ptx
// Row sums and maxima of integers: one instruction for each, which CUDA C has a function for.
//
// Limited by memory.

#include "ptx_02_reduce.cuh"

// ANCHOR: warp
__device__ int warp_sum(int value) {
    return __reduce_add_sync(0xffffffff, value);
}

__device__ int warp_max(int value) {
    return __reduce_max_sync(0xffffffff, value);
}
// ANCHOR_END: warp
