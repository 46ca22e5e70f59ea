// Adds the two halves of each row. Each block of a pair has a half copied, and the first adds them.
// nvrtc: --gpu-architecture=compute_90 // run: published 07 --repaired
#include "copies.cuh"

// ANCHOR: kernel
// Clusters of 2 blocks of 128 threads, one row of 256 values per cluster.
extern "C" __global__ void __cluster_dims__(2, 1, 1) pairs(const float *x, float *y) {
    __shared__ alignas(128) float half[128];
    __shared__ unsigned long long barrier;
    unsigned full = shared_address(&barrier), thread = threadIdx.x, row = blockIdx.x / 2;
    if (thread == 0) {
        barrier_init(full, 1);
        fence_barrier_init();
        barrier_expect(full, sizeof half);
        copy_run(half, x + blockIdx.x * 128, sizeof half, full);
    }
    __syncthreads();
    // ANCHOR: repair
    barrier_wait(full, 0);
    cluster_sync(); // both copies are complete
    // ANCHOR_END: repair
    if (cluster_rank() == 0) {
        barrier_wait(full, 0);
        y[row * 128 + thread] = half[thread] + peer_value(&half[thread], 1);
    }
    cluster_sync(); // the other half has been read
}
// ANCHOR_END: kernel
