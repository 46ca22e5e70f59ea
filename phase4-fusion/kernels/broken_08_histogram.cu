// Counts how often each byte occurs. Each block counts its own part, and one copy adds its counts to those of all.
// nvrtc: --gpu-architecture=compute_90 // run: broken 08
#include "copies.cuh"

// ANCHOR: kernel
// Blocks of 256 threads.
extern "C" __global__ void histogram(const unsigned char *x, unsigned *counts, unsigned n) {
    __shared__ alignas(128) unsigned mine[256];
    unsigned thread = threadIdx.x;
    mine[thread] = 0;
    __syncthreads();
    for (unsigned i = blockIdx.x * 256 + thread; i < n; i += gridDim.x * 256) {
        atomicAdd(&mine[x[i]], 1u);
    }
    fence_async_proxy();
    __syncthreads();
    if (thread == 0) {
        add_run(counts, mine, sizeof mine);
        stores_commit();
    }
}
// ANCHOR_END: kernel
