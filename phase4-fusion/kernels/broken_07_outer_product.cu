// Multiplies each value of a column by each of a row. One copy stores each row of products.
// nvrtc: --gpu-architecture=compute_90 // run: broken 07
#include "copies.cuh"

// ANCHOR: kernel
// Blocks of 256 threads, one column per thread, and all rows.
extern "C" __global__ void outer_product(const float *left, const float *right, float *products, unsigned rows, unsigned columns) {
    __shared__ alignas(128) float run[256];
    unsigned thread = threadIdx.x, first = blockIdx.x * 256;
    float factor = right[first + thread];
    for (unsigned row = 0; row < rows; ++row) {
        __syncthreads();
        run[thread] = left[row] * factor;
        fence_async_proxy();
        __syncthreads();
        if (thread == 0) {
            store_run(products + row * columns + first, run, sizeof run);
            stores_commit();
        }
    }
    if (thread == 0) {
        stores_done();
    }
}
// ANCHOR_END: kernel
