// nvrtc: --gpu-architecture=compute_80 // run: ptx
// Smoothing in four stages with `cp.async`: three tiles are on their way while one is computed. All threads ask for copies, and
// all wait at the block's barrier for the slowest.
//
// Limited by memory, with three tiles in flight per block where ptx_08_copies_ptx.cu has one.

#include "ptx_smooth.cuh"

constexpr unsigned STAGES = 4;

__device__ void fetch(Stage &stage, const float *x, unsigned tile, unsigned n) {
    for (unsigned v = threadIdx.x; v < VECTORS; v += THREADS) {
        unsigned bytes = bytes_inside(tile, v, n);
        unsigned to = (unsigned)__cvta_generic_to_shared(&stage.values[4 * v]);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(place(x, tile, v, bytes)), "r"(bytes)
                     : "memory");
    }
}

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) smooth(const float *x, float *y, unsigned n) {
    __shared__ Stage stages[STAGES];
    unsigned first = blockIdx.x * TILES_EACH;
    for (unsigned k = 0; k + 1 < STAGES; k++) {
        fetch(stages[k], x, first + k, n);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    for (unsigned k = 0; k < TILES_EACH; k++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();  // this stage is full, and the one before it read to the end
        unsigned ahead = k + STAGES - 1;
        if (ahead < TILES_EACH) {
            fetch(stages[ahead % STAGES], x, first + ahead, n);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");  // empty at the end, so that the count is right
        smooth_tile(stages[k % STAGES], y, first + k, n, threadIdx.x);
    }
}
// ANCHOR_END: kernel
