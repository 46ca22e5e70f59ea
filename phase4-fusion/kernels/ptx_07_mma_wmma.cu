// The chain by `nvcuda::wmma`. Nobody may know which lane holds which element of a fragment; so the sums go through shared
// memory to become factors again.
//
// Limited by shared memory: 1 KB of sums is written, read, rounded, written and read again for each step.
// run: ptx

#include "ptx_07_mma.cuh"

#include <mma.h>

// x: [chains, 16, 16], row-major. p: [chains, 16, 16], column-major. y: f32, as x.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS)
    markov(const __half *x, const __half *p, float *y, unsigned chains) {
    using namespace nvcuda::wmma;
    __shared__ __align__(32) float sums[THREADS / 32][SIZE];
    __shared__ __align__(32) __half rounded[THREADS / 32][SIZE];
    unsigned warp = threadIdx.x / 32;
    unsigned lane = threadIdx.x % 32;
    size_t chain = blockIdx.x * (THREADS / 32) + warp;
    if (chain >= chains) {
        return;  // all lanes of the warp
    }
    fragment<matrix_a, 16, 16, 16, __half, row_major> now;
    fragment<matrix_b, 16, 16, 16, __half, col_major> step;
    fragment<accumulator, 16, 16, 16, float> next;
    load_matrix_sync(now, x + chain * SIZE, 16);
    load_matrix_sync(step, p + chain * SIZE, 16);
    for (unsigned s = 0; s < STEPS; s++) {
        fill_fragment(next, 0.0f);
        mma_sync(next, now, step, next);
        if (s + 1 < STEPS) {
            store_matrix_sync(sums[warp], next, 16, mem_row_major);
            __syncwarp();
            const float2 *from = reinterpret_cast<const float2 *>(sums[warp]);
            __half2 *to = reinterpret_cast<__half2 *>(rounded[warp]);
            for (unsigned i = lane; i < SIZE / 2; i += 32) {
                to[i] = __float22half2_rn(from[i]);
            }
            __syncwarp();
            load_matrix_sync(now, rounded[warp], 16);
        }
    }
    store_matrix_sync(y + chain * SIZE, next, 16, mem_row_major);
}
// ANCHOR_END: kernel
