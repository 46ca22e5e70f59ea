// Negative values become zero, tile by tile. One copy stores each tile, without what lies outside the matrix.
// nvrtc: --gpu-architecture=compute_90 // run: published 03 --repaired
#include "hopper.cuh"

// ANCHOR: kernel
// Blocks of 32 × 8 threads, one tile of 32 × 32 per block.
extern "C" __global__ void activate(const float *x, const __grid_constant__ TensorMap y, unsigned rows, unsigned columns) {
    __shared__ alignas(128) float tile[32][32];
    unsigned row = blockIdx.y * 32, column = blockIdx.x * 32, mine = column + threadIdx.x;
    for (unsigned i = threadIdx.y; i < 32; i += 8) {
        bool inside = row + i < rows && mine < columns;
        tile[i][threadIdx.x] = inside ? fmaxf(x[(row + i) * columns + mine], 0.0f) : 0.0f;
    }
    // ANCHOR: repair
    fence_async_proxy();
    // ANCHOR_END: repair
    sync_warps(1, 256); // a barrier for some warps of a block; here for all eight
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        store_box(y, column, row, shared_address(tile));
        stores_commit();
        stores_done();
    }
}
// ANCHOR_END: kernel
