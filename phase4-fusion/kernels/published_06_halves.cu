// Adds the two halves of each row. Each block of a pair copies a half, and the first adds them.
// nvrtc: --gpu-architecture=compute_90 // run: published 06
#include "copies.cuh"

// ANCHOR: kernel
// Arrives at the same barrier of another block.
__device__ inline void arrive(unsigned barrier, unsigned block) {
    asm volatile("mbarrier.arrive.release.cta.shared::cluster.b64 _, [%0];" ::"r"(shared_address_in(barrier, block)) : "memory");
}

__device__ inline void wait(unsigned barrier, unsigned parity) {
    asm volatile(
        "{\n.reg .pred done;\nagain:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n}" ::"r"(barrier), "r"(parity) : "memory");
}

// Clusters of 2 blocks of 128 threads, one row of 256 values per cluster.
extern "C" __global__ void __cluster_dims__(2, 1, 1) halves(const float *x, float *y) {
    __shared__ float half[128];
    __shared__ unsigned long long barrier;
    unsigned full = shared_address(&barrier), thread = threadIdx.x, row = blockIdx.x / 2;
    if (thread == 0) {
        barrier_init(full, 2 * 128);
        fence_barrier_init();
    }
    cluster_sync();
    copy_word(&half[thread], x + blockIdx.x * 128 + thread);
    copies_commit();
    copies_wait<0>();
    arrive(full, 0);
    if (cluster_rank() == 0) {
        wait(full, 0);
        y[row * 128 + thread] = half[thread] + peer_value(&half[thread], 1);
    }
    cluster_sync(); // the other half has been read
}
// ANCHOR_END: kernel
