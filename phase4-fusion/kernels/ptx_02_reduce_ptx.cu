// nvrtc: --gpu-architecture=compute_80 // run: ptx
// Row sums and maxima of integers: `redux.sync`, written in PTX. It takes 32-bit integers; f32 minima and maxima came with
// sm_100a, and no GPU so far adds f32 this way.
//
// Limited by memory.

#include "ptx_02_reduce.cuh"

// ANCHOR: warp
__device__ int warp_sum(int value) {
    int sum;
    asm volatile("redux.sync.add.s32 %0, %1, 0xffffffff;" : "=r"(sum) : "r"(value));
    return sum;
}

__device__ int warp_max(int value) {
    int most;
    asm volatile("redux.sync.max.s32 %0, %1, 0xffffffff;" : "=r"(most) : "r"(value));
    return most;
}
// ANCHOR_END: warp
