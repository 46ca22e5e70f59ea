// GEMM, one thread an element of C, and neighbouring lanes in neighbouring rows.
//
//      B                          lane 0 … 31 of a warp: one column of C, 32 rows.
//      │ one value for all         A: 32 values, each K floats from the next: 32 sectors for 128 useful bytes
//     ─┼──────────────             C: 32 values, each N floats from the next: the same
//  A ═ │ C lane 0
//  A ═ │ C lane 1
//
// Limited by sectors: every load of A fetches eight times what it uses.
#include "gemm.cuh"

constexpr int TILE = 32;  // rows and columns of C a block

// ANCHOR: kernel
template <Layout LAYOUT>
__device__ void gemm(const float *a, const float *b, const float *bias, float *c, int m, int n, int k,
                     Epilogue epilogue) {
    int tiles = (n + TILE - 1) / TILE;  // in a row of tiles
    int row = blockIdx.x / tiles * TILE + threadIdx.x % TILE;
    int column = blockIdx.x % tiles * TILE + threadIdx.x / TILE;
    if (row >= m || column >= n) {
        return;
    }
    float sum = 0.0f;
    for (int i = 0; i < k; i++) {
        sum += a[(size_t)row * k + i] * b[place_in_b<LAYOUT>(i, column, n, k)];
    }
    epilogue.finish(c + (size_t)row * n + column, sum, bias_at(bias, column));
}
// ANCHOR_END: kernel

GEMM_KERNEL(gemm_nn, TILE * TILE, gemm<ROW_MAJOR>)
GEMM_KERNEL(gemm_nt, TILE * TILE, gemm<TRANSPOSED>)
