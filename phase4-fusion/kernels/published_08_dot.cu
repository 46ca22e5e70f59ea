// Multiplies each row of a matrix by a vector. One thread has rows copied, four warps multiply, and one adds up their sums.
// nvrtc: --gpu-architecture=compute_90 // run: published 08
#include "copies.cuh"

// ANCHOR: kernel
// Blocks of 160 threads, each for every gridDim.x-th row of at most 512 values: threads 0 to 127 multiply, thread 128 copies.
extern "C" __global__ void dot(const float *matrix, const float *x, float *y, unsigned rows, unsigned columns) {
    __shared__ alignas(128) float values[512];
    __shared__ float sums[4];
    __shared__ unsigned long long barriers[2];
    unsigned full = shared_address(barriers), empty = full + 8, thread = threadIdx.x;
    if (thread == 0) {
        barrier_init(full, 1);
        barrier_init(empty, 128);
        fence_barrier_init();
    }
    __syncthreads();
    for (unsigned row = blockIdx.x, round = 0; row < rows && thread <= 128; row += gridDim.x, ++round) {
        if (thread == 128) {
            barrier_wait(empty, (round + 1) % 2); // before the first round it is empty
            fence_async_proxy();
            barrier_expect(full, columns * sizeof(float));
            copy_run(values, matrix + row * columns, columns * sizeof(float), full);
            continue;
        }
        barrier_wait(full, round % 2);
        float sum = 0.0f;
        for (unsigned column = thread; column < columns; column += 128) {
            sum += values[column] * x[column];
        }
        for (unsigned lanes = 16; lanes > 0; lanes /= 2) {
            sum += __shfl_down_sync(~0u, sum, lanes);
        }
        if (thread % 32 == 0) {
            sums[thread / 32] = sum;
        }
        __syncthreads();
        if (thread == 0) {
            y[row] = sums[0] + sums[1] + sums[2] + sums[3];
        }
        barrier_arrive(empty);
    }
}
// ANCHOR_END: kernel
