// Adds up the rows of a matrix, which one thread copies into a ring of four stages.
// nvrtc: --gpu-architecture=compute_90 // run: published 09
#include "copies.cuh"

// ANCHOR: kernel
// Blocks of 160 threads and 128 columns: threads 0 to 127 each have a column, thread 128 copies.
extern "C" __global__ void ring(const float *matrix, float *y, unsigned rows, unsigned columns) {
    __shared__ alignas(128) float stages[4][128];
    __shared__ unsigned long long barriers[8];
    unsigned full = shared_address(barriers), empty = full + 4 * 8, thread = threadIdx.x, first = blockIdx.x * 128;
    if (thread == 0) {
        for (unsigned stage = 0; stage < 4; ++stage) {
            barrier_init(full + stage * 8, 1);
            barrier_init(empty + stage * 8, 128);
        }
        fence_barrier_init();
    }
    __syncthreads();
    if (thread == 128) {
        for (unsigned row = 0; row < rows; ++row) {
            unsigned stage = row % 4;
            barrier_wait(empty + stage * 8, (row / 4 + 1) % 2); // in the first round all stages are empty
            fence_async_proxy();
            barrier_expect(full + stage * 8, sizeof stages[0]);
            copy_run(stages[stage], matrix + row * columns + first, sizeof stages[0], full + stage * 8);
        }
    } else if (thread < 128) {
        float sum = 0.0f;
        for (unsigned row = 0; row < rows; ++row) {
            unsigned stage = row % 4, ready = full;
            barrier_wait(ready, row / 4 % 2);
            sum += stages[stage][thread];
            barrier_arrive(empty + stage * 8);
        }
        y[first + thread] = sum;
    }
}
// ANCHOR_END: kernel
