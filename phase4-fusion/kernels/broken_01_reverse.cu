// Reverses each run of 256 values. One bulk copy brings a run to shared memory.
// nvrtc: --gpu-architecture=compute_90 // run: broken 01
#include "copies.cuh"

// ANCHOR: kernel
// Blocks of 256 threads, one per run.
extern "C" __global__ void reverse(const float *x, float *y) {
    __shared__ alignas(128) float run[256];
    __shared__ unsigned long long barrier;
    unsigned full = shared_address(&barrier), thread = threadIdx.x, first = blockIdx.x * 256;
    if (thread == 0) {
        barrier_init(full, 1);
        fence_barrier_init();
    }
    __syncthreads();
    if (thread == 0) {
        barrier_expect(full, sizeof run);
        copy_run(run, x + first, sizeof run, full);
    }
    __syncthreads(); // the run is here
    y[first + thread] = run[255 - thread];
}
// ANCHOR_END: kernel
