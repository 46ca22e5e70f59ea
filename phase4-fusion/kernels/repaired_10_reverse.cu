// Reverses each run of 256 values; the threads wait for each other at a barrier in shared memory.
// nvrtc: --gpu-architecture=compute_90 // run: published 10 --repaired
#include "hopper.cuh"

// ANCHOR: kernel
// Blocks of 256 threads, one run per block.
extern "C" __global__ void reverse(const float *x, float *y) {
    __shared__ float run[256];
    __shared__ unsigned long long barrier;
    unsigned all = shared_address(&barrier), thread = threadIdx.x, first = blockIdx.x * 256;
    if (thread == 0) {
        barrier_init(all, 256);
    }
    // ANCHOR: repair
    __syncthreads();
    // ANCHOR_END: repair
    run[thread] = x[first + thread];
    barrier_arrive(all);
    barrier_wait(all, 0);
    y[first + thread] = run[255 - thread];
}
// ANCHOR_END: kernel
