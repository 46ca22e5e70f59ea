// Adds up the rows that a token's experts returned, each with its weight. One thread copies rows ahead, 128 add.
// nvrtc: --gpu-architecture=compute_90 // run: published 01
#include "copies.cuh"

// ANCHOR: kernel
// Blocks of 160 threads, one token per block: threads 0 to 127 each have a column, thread 128 copies.
extern "C" __global__ void combine(const float *rows, const float *weights, float *y, unsigned experts) {
    __shared__ alignas(128) float ring[2][128];
    __shared__ unsigned long long barriers[4];
    unsigned full = shared_address(barriers), empty = full + 2 * 8, thread = threadIdx.x, token = blockIdx.x;
    if (thread == 0) {
        for (unsigned stage = 0; stage < 2; ++stage) {
            barrier_init(full + stage * 8, 1);
            barrier_init(empty + stage * 8, 128);
        }
        fence_barrier_init();
    }
    __syncthreads();
    if (thread == 128) {
        for (unsigned expert = 0; expert < experts; ++expert) {
            unsigned stage = expert % 2, round = expert / 2;
            barrier_wait(empty + stage * 8, (round + 1) % 2); // in the first round both stages are empty
            barrier_expect(full + stage * 8, sizeof ring[0]);
            copy_run(ring[stage], rows + (token * experts + expert) * 128, sizeof ring[0], full + stage * 8);
        }
    } else if (thread < 128) {
        float sum = 0.0f;
        for (unsigned expert = 0; expert < experts; ++expert) {
            unsigned stage = expert % 2, round = expert / 2;
            barrier_wait(full + stage * 8, round % 2);
            sum += ring[stage][thread] * weights[token * experts + expert];
            barrier_arrive(empty + stage * 8);
        }
        y[token * 128 + thread] = sum;
    }
}
// ANCHOR_END: kernel
