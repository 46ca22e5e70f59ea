// Adds up the frames of a clip, pixel by pixel. While one frame is added, the next is copied.
// nvrtc: --gpu-architecture=compute_90 // run: broken 05
#include "copies.cuh"

// ANCHOR: kernel
// Blocks of 128 threads, one pixel per thread.
extern "C" __global__ void sum_frames(const float *frames, float *sums, unsigned count, unsigned pixels) {
    __shared__ alignas(128) float ring[2][128];
    __shared__ unsigned long long barriers[2];
    unsigned full = shared_address(barriers), thread = threadIdx.x, first = blockIdx.x * 128;
    if (thread == 0) {
        barrier_init(full, 1);
        barrier_init(full + 8, 1);
        fence_barrier_init();
    }
    __syncthreads();
    float sum = 0.0f;
    for (unsigned next = 0, frame = 0; frame < count; ++frame) {
        for (; thread == 0 && next < count && next < frame + 2; ++next) {
            barrier_expect(full + next % 2 * 8, sizeof ring[0]);
            copy_run(ring[next % 2], frames + next * pixels + first, sizeof ring[0], full + next % 2 * 8);
        }
        barrier_wait(full + frame % 2 * 8, frame % 2); // parities alternate
        sum += ring[frame % 2][thread];
        __syncthreads(); // all have read it, and its place is free
    }
    sums[first + thread] = sum;
}
// ANCHOR_END: kernel
