// Transposes a matrix. One copy brings a tile of 32 × 32, with zeros where the tile is outside the matrix.
// nvrtc: --gpu-architecture=compute_90 // run: broken 04
#include "copies.cuh"

// ANCHOR: kernel
// Blocks of 32 × 32 threads, one per tile.
extern "C" __global__ void transpose(const __grid_constant__ TensorMap x, float *y, unsigned rows, unsigned columns) {
    __shared__ alignas(128) float tile[32][32];
    __shared__ unsigned long long barrier;
    unsigned full = shared_address(&barrier), row = blockIdx.y * 32, column = blockIdx.x * 32;
    if (threadIdx.x == 0 && threadIdx.y == 31) { // the last warp copies
        barrier_init(full, 1);
        fence_barrier_init();
        barrier_expect(full, sizeof tile);
        copy_box_to(0, shared_address(tile), x, column, row, full);
    }
    barrier_wait(full, 0);
    if (column + threadIdx.y < columns && row + threadIdx.x < rows) {
        y[(column + threadIdx.y) * rows + row + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
    }
}
// ANCHOR_END: kernel
