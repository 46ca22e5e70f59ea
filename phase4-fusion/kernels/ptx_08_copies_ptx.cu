// nvrtc: --gpu-architecture=compute_80 // run: ptx
// Smoothing with copies that no register sees, in PTX: `cp.async`, which fills up with zeros what lies outside.
//
// Limited by memory.

#include "ptx_smooth.cuh"

// ANCHOR: fetch
__device__ void fetch(Stage &stage, const float *x, unsigned tile, unsigned n) {
    for (unsigned v = threadIdx.x; v < VECTORS; v += THREADS) {
        unsigned bytes = bytes_inside(tile, v, n);
        unsigned to = (unsigned)__cvta_generic_to_shared(&stage.values[4 * v]);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(place(x, tile, v, bytes)), "r"(bytes)
                     : "memory");
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}
// ANCHOR_END: fetch

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) smooth(const float *x, float *y, unsigned n) {
    __shared__ Stage stages[2];
    unsigned first = blockIdx.x * TILES_EACH;
    fetch(stages[0], x, first, n);
    for (unsigned k = 0; k < TILES_EACH; k++) {
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();  // this stage is full, and the other one read to the end
        if (k + 1 < TILES_EACH) {
            fetch(stages[(k + 1) % 2], x, first + k + 1, n);
        }
        smooth_tile(stages[k % 2], y, first + k, n, threadIdx.x);
    }
}
// ANCHOR_END: kernel
