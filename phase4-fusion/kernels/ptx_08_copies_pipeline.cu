// nvrtc: --gpu-architecture=compute_80 // run: ptx
// Smoothing with copies that no register sees, by the functions of CUDA C: `__pipeline_memcpy_async` and its companions.
//
// Limited by memory.

#include "ptx_smooth.cuh"

#include <cuda_pipeline_primitives.h>

// ANCHOR: fetch
__device__ void fetch(Stage &stage, const float *x, unsigned tile, unsigned n) {
    for (unsigned v = threadIdx.x; v < VECTORS; v += THREADS) {
        unsigned bytes = bytes_inside(tile, v, n);
        __pipeline_memcpy_async(&stage.values[4 * v], place(x, tile, v, bytes), 16, 16 - bytes);
    }
    __pipeline_commit();
}
// ANCHOR_END: fetch

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) smooth(const float *x, float *y, unsigned n) {
    __shared__ Stage stages[2];
    unsigned first = blockIdx.x * TILES_EACH;
    fetch(stages[0], x, first, n);
    for (unsigned k = 0; k < TILES_EACH; k++) {
        __pipeline_wait_prior(0);
        __syncthreads();  // this stage is full, and the other one read to the end
        if (k + 1 < TILES_EACH) {
            fetch(stages[(k + 1) % 2], x, first + k + 1, n);
        }
        smooth_tile(stages[k % 2], y, first + k, n, threadIdx.x);
    }
}
// ANCHOR_END: kernel
