// Tiles of 16-bit values in shared memory as wgmma reads them with the swizzle of 128 bytes, and their product.
//
//     a row of a tile is 128 bytes, 8 pieces of 16; piece p of row r lies at p ^ (r % 8), and 8 rows are 1024 bytes
//
//     A, B transposed   a row is 64 values of i of one row of A, or column of B
//     B row by row      a row is 64 columns of one i; 64 rows are a box, and further columns are in further boxes
// run: gemm
#pragma once
#include "gemm.cuh"
#include "wgmma.cuh"

constexpr int ROW_BYTES = 128;
constexpr int BK = 64;               // step along K
constexpr int GROUP_THREADS = 128;   // of a warpgroup
constexpr int BOX_BYTES = BK * ROW_BYTES;  // of 64 columns of B

// ANCHOR: multiply
// sums += A · B of one step, for the 64 rows of A's tile that begin at `a_tile`.
template <class Element, Layout LAYOUT, int COUNT>
__device__ inline void multiply(float (&sums)[COUNT], unsigned a_tile, unsigned b_tile) {
    unsigned long long a = descriptor(a_tile, 16, 1024);
    unsigned long long b = LAYOUT == TRANSPOSED ? descriptor(b_tile, 16, 1024) : descriptor(b_tile, BOX_BYTES, 1024);
    constexpr int A_STEP = 16 * 2, B_STEP = LAYOUT == TRANSPOSED ? A_STEP : 16 * ROW_BYTES;  // bytes for 16 values of i
#pragma unroll
    for (int i = 0; i < BK / 16; i++) {
        wgmma<LAYOUT == ROW_MAJOR>(Element(), sums, a + (i * A_STEP >> 4), b + (i * B_STEP >> 4), true);
    }
}
// ANCHOR_END: multiply

// ANCHOR: finish
// A warpgroup's 64 rows of C, straight from its registers.
template <class Out, int COUNT>
__device__ inline void finish_rows(const Epilogue &epilogue, float (&sums)[COUNT], typename Out::Value *c, int first_row, int first_column,
                                   int m, int n) {
    SumPlace place(first_row + threadIdx.x % GROUP_THREADS / 32 * 16, first_column);
    finish<Out>(epilogue, sums, place, m, n);
    write<Out>(c, sums, place, m, n);
}
// ANCHOR_END: finish
