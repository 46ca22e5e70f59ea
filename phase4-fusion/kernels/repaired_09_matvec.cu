// Multiplies a matrix, stored column by column, by a vector. One warp copies the columns, four use them.
// nvrtc: --gpu-architecture=compute_90 // run: broken 09 --repaired
#include "copies.cuh"

// ANCHOR: kernel
// Blocks of 160 threads and 128 rows: threads 0 to 127 each have a row, thread 128 copies.
extern "C" __global__ void matvec(const float *matrix, const float *x, float *y, unsigned rows, unsigned columns) {
    __shared__ alignas(128) float ring[3][128];
    __shared__ unsigned long long barriers[6];
    unsigned full = shared_address(barriers), empty = full + 3 * 8, thread = threadIdx.x, first = blockIdx.x * 128;
    if (thread == 0) {
        for (unsigned stage = 0; stage < 3; ++stage) {
            barrier_init(full + stage * 8, 1);
            barrier_init(empty + stage * 8, 128);
        }
        fence_barrier_init();
    }
    __syncthreads();
    if (thread == 128) {
        for (unsigned column = 0; column < columns; ++column) {
            unsigned stage = column % 3, round = column / 3;
            barrier_wait(empty + stage * 8, (round + 1) % 2); // in the first round every stage is empty
            barrier_expect(full + stage * 8, sizeof ring[0]);
            copy_run(ring[stage], matrix + column * rows + first, sizeof ring[0], full + stage * 8);
        }
    } else if (thread < 128) {
        float sum = 0.0f;
        for (unsigned column = 0; column < columns; ++column) {
            unsigned stage = column % 3, round = column / 3;
            barrier_wait(full + stage * 8, round % 2);
            sum += ring[stage][thread] * x[column];
            // ANCHOR: repair
            barrier_arrive(empty + stage * 8);
            // ANCHOR_END: repair
        }
        y[first + thread] = sum;
    }
}
// ANCHOR_END: kernel
