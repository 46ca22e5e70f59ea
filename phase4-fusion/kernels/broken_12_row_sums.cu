// Sums each row of a matrix. The four blocks of a cluster share a row, and the first adds up their sums.
// nvrtc: --gpu-architecture=compute_90 // run: broken 12
#include "copies.cuh"

// ANCHOR: kernel
// Clusters of 4 blocks of 128 threads.
extern "C" __global__ void __cluster_dims__(4, 1, 1) row_sums(const float *matrix, float *sums, unsigned columns) {
    __shared__ float sum;
    unsigned rank = cluster_rank(), thread = threadIdx.x, row = blockIdx.x / 4;
    if (thread == 0) {
        sum = 0.0f;
    }
    __syncthreads();
    float mine = 0.0f;
    for (unsigned column = rank * 128 + thread; column < columns; column += 4 * 128) {
        mine += matrix[row * columns + column];
    }
    for (unsigned lanes = 16; lanes > 0; lanes /= 2) {
        mine += __shfl_down_sync(~0u, mine, lanes);
    }
    if (thread % 32 == 0) {
        atomicAdd(&sum, mine);
    }
    cluster_sync(); // all four sums are complete
    if (rank == 0 && thread == 0) {
        float total = 0.0f;
        for (unsigned block = 0; block < 4; ++block) {
            total += peer_value(&sum, block);
        }
        sums[row] = total;
    }
}
// ANCHOR_END: kernel
