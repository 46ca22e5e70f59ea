// Makes pixels of three planes: all red, all green and all blue values become RGB, RGB, … One copy stores them.
// nvrtc: --gpu-architecture=compute_90 // run: broken 06
#include "copies.cuh"

// ANCHOR: kernel
// Blocks of 128 threads, one pixel per thread.
extern "C" __global__ void interleave(const float *planes, float *image, unsigned pixels) {
    __shared__ alignas(128) float tile[128][3];
    unsigned thread = threadIdx.x, first = blockIdx.x * 128;
    for (unsigned channel = 0; channel < 3; ++channel) {
        tile[thread][channel] = planes[channel * pixels + first + thread];
    }
    __syncthreads();
    if (thread == 0) {
        store_run(image + 3 * first, tile, sizeof tile);
        stores_commit();
        stores_done();
    }
}
// ANCHOR_END: kernel
