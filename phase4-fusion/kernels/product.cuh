// A product of 64 × 64 tiles of bf16 on tensor cores, for the kernels of the gallery of published mistakes.
// run: published 04
#pragma once
#include "wgmma.cuh"

// ANCHOR: product
// sums += a · bᵀ, for tiles of 64 rows of 64 bf16, swizzled by 128 bytes.
__device__ inline void multiply(float (&sums)[32], const void *a, const void *b) {
#pragma unroll
    for (int step = 0; step < 4; ++step) { // 16 of the 64 columns, 32 bytes
        unsigned long long a_part = descriptor(shared_address(a) + 32 * step, 16, 1024);
        wgmma<false>(BF16(), sums, a_part, descriptor(shared_address(b) + 32 * step, 16, 1024), true);
    }
}

// The part of a 64 × 64 tile that a thread has: to the matrix of `rows` and `columns`, from `row` and `column` on.
__device__ inline void write(float *to, const float (&sums)[32], unsigned row, unsigned column, unsigned rows, unsigned columns) {
    row += threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
    column += threadIdx.x % 4 * 2;
#pragma unroll
    for (unsigned i = 0; i < 32; ++i) {
        unsigned r = row + i / 2 % 2 * 8, c = column + i / 4 * 8 + i % 2;
        if (r < rows && c < columns) {
            to[r * columns + c] = sums[i];
        }
    }
}
// ANCHOR_END: product
