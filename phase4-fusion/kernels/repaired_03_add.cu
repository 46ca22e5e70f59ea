// Adds two vectors. Two bulk copies bring a run of each to shared memory, and one barrier counts their bytes.
// nvrtc: --gpu-architecture=compute_90 // run: broken 03 --repaired
#include "copies.cuh"

// ANCHOR: kernel
// Blocks of 256 threads, one per run of 256 values; the last may be shorter. n is a multiple of 4.
extern "C" __global__ void add(const float *x, const float *y, float *z, unsigned n) {
    __shared__ alignas(128) float x_run[256], y_run[256];
    __shared__ unsigned long long barrier;
    unsigned full = shared_address(&barrier), thread = threadIdx.x, first = blockIdx.x * 256;
    if (thread == 0) {
        barrier_init(full, 1);
        fence_barrier_init();
    }
    __syncthreads();
    if (thread == 0) {
        unsigned bytes = min(n - first, 256) * sizeof(float);
        // ANCHOR: repair
        barrier_expect(full, 2 * bytes);
        // ANCHOR_END: repair
        copy_run(x_run, x + first, bytes, full);
        copy_run(y_run, y + first, bytes, full);
    }
    barrier_wait(full, 0);
    if (first + thread < n) {
        z[first + thread] = x_run[thread] + y_run[thread];
    }
}
// ANCHOR_END: kernel
