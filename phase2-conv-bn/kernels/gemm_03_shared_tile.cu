// GEMM through shared memory: a block fetches a tile of A and a tile of B once, and all its threads use them.
//
//              B tile [32 of K][32 columns]     Each value fetched serves the 32 threads of its row or column,
//                 ┌────┐                         so the global loads of a block fall by a factor of 32.
//                 └────┘                         The tiles walk along K together.
//       ┌────┐    ┌────┐
//       └────┘    └────┘ C tile, an element a thread
//     A tile [32 rows][32 of K]
//
// Limited by shared memory: still two loads for each multiply-add, only nearer.
#include "gemm.cuh"

constexpr int TILE = 32;  // rows and columns of C a block, and the step along K

// ANCHOR: kernel
template <Layout LAYOUT>
__device__ void gemm(const float *a, const float *b, const float *bias, float *c, int m, int n, int k,
                     Epilogue epilogue) {
    __shared__ float a_tile[TILE][TILE];  // [row][i]
    __shared__ float b_tile[TILE][TILE];  // [i][column]
    int tiles = (n + TILE - 1) / TILE;
    int first_row = blockIdx.x / tiles * TILE;
    int first_column = blockIdx.x % tiles * TILE;
    int x = threadIdx.x % TILE;
    int y = threadIdx.x / TILE;

    float sum = 0.0f;
    for (int first = 0; first < k; first += TILE) {
        // Zeros beyond the edges add nothing. The lanes of a warp go along the dimension that is dense in memory.
        bool in_a = first_row + y < m && first + x < k;
        a_tile[y][x] = in_a ? a[(size_t)(first_row + y) * k + first + x] : 0.0f;
        int i = LAYOUT == ROW_MAJOR ? y : x;
        int column = LAYOUT == ROW_MAJOR ? x : y;
        bool in_b = first + i < k && first_column + column < n;
        b_tile[i][column] = in_b ? b[place_in_b<LAYOUT>(first + i, first_column + column, n, k)] : 0.0f;
        __syncthreads();  // the tiles are complete

        for (int i = 0; i < TILE; i++) {
            sum += a_tile[y][i] * b_tile[i][x];
        }
        __syncthreads();  // nobody needs them any more
    }

    int row = first_row + y;
    int column = first_column + x;
    if (row < m && column < n) {
        epilogue.finish(c + (size_t)row * n + column, sum, bias_at(bias, column));
    }
}
// ANCHOR_END: kernel

GEMM_KERNEL(gemm_nn, TILE * TILE, gemm<ROW_MAJOR>)
GEMM_KERNEL(gemm_nt, TILE * TILE, gemm<TRANSPOSED>)
