// Multiplies rows of two matrices of 64 columns. The threads themselves put the operands where tensor cores read them.
// nvrtc: --gpu-architecture=compute_90a // run: published 04 --repaired
#include "product.cuh"

// ANCHOR: kernel
// 64 rows from `first` on into a tile, swizzled by 128 bytes: piece p of row r, 8 bf16, lies at p ^ r % 8. Zeros outside.
__device__ inline void fill(unsigned short *tile, const unsigned short *x, unsigned first, unsigned rows) {
    for (unsigned i = threadIdx.x; i < 64 * 64; i += 128) {
        unsigned r = i / 64, c = i % 64;
        tile[r * 64 + (c / 8 ^ r % 8) * 8 + c % 8] = first + r < rows ? x[(first + r) * 64 + c] : 0;
    }
}

// Blocks of 128 threads: 64 rows of a and 64 of b.
extern "C" __global__ void product(const unsigned short *a, const unsigned short *b, float *y, unsigned a_rows, unsigned b_rows) {
    __shared__ alignas(1024) unsigned short a_tile[64 * 64], b_tile[64 * 64];
    unsigned a_row = blockIdx.y * 64, b_row = blockIdx.x * 64;
    fill(a_tile, a, a_row, a_rows);
    fill(b_tile, b, b_row, b_rows);
    // ANCHOR: repair
    fence_async_proxy();
    // ANCHOR_END: repair
    __syncthreads();
    float sums[32] = {};
    wgmma_fence();
    multiply(sums, a_tile, b_tile);
    wgmma_commit();
    wgmma_wait<0>();
    write(y, sums, a_row, b_row, a_rows, b_rows);
}
// ANCHOR_END: kernel
