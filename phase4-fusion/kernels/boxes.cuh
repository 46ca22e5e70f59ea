// Boxes of C in shared memory, from where the copy engine stores them: 64 rows of 64 values of 16 bits, swizzled as tiles are.
// run: gemm
#pragma once
#include "swizzled.cuh"

// ANCHOR: box
// A warpgroup's sums of 64 columns into a box, four 8 × 8 matrices at a time: lane l tells where row l % 8 of matrix l / 8 goes.
template <class Out>
__device__ inline void write_box(unsigned box, const float *sums) {
    int row = threadIdx.x % GROUP_THREADS / 32 * 16 + threadIdx.x % 16, half = threadIdx.x % 32 / 16;
#pragma unroll
    for (int i = 0; i < 4; i++) {  // 16 columns, two pieces of 16 bytes
        unsigned to = box + row * ROW_BYTES + ((i * 2 + half) ^ row % 8) * 16;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                     "r"(Out::pack(sums[i * 8], sums[i * 8 + 1])), "r"(Out::pack(sums[i * 8 + 2], sums[i * 8 + 3])),
                     "r"(Out::pack(sums[i * 8 + 4], sums[i * 8 + 5])), "r"(Out::pack(sums[i * 8 + 6], sums[i * 8 + 7]))
                     : "memory");
    }
}
// ANCHOR_END: box

// `GEMM_MAP_KERNEL` where C is a tensor map too. What follows the bounds may give the blocks of a cluster.
#define GEMM_BOX_KERNEL(name, ELEMENT, bounds, ...)                                                                   \
    extern "C" __global__ void __launch_bounds__ bounds                                                               \
        name(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,                                \
             const __grid_constant__ TensorMap c, GEMM_PARAMETERS(ELEMENT)) {                                         \
        __VA_ARGS__(a, b, c, m, n, k, GEMM_EPILOGUE);                                                                 \
    }
