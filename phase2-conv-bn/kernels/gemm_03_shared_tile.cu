// GEMM through shared memory: a block fetches a tile of A and a tile of B once, and all its threads use them.
//
//              B tile [32 of K][32 columns]     Each value fetched serves the 32 threads of its row or column,
//                 ┌────┐                         so the global loads of a block fall by a factor of 32.
//                 └────┘                         The tiles walk along K together.
//       ┌────┐    ┌────┐
//       └────┘    └────┘ C tile, an element per thread
//     A tile [32 rows][32 of K]
//
// Limited by shared memory: still two loads for each multiply-add, only from nearer by. (What all steps from here on share, such
// as the epilogue, stands in gemm.cuh.)
// run: gemm // trial: gemm
#include "gemm.cuh"

constexpr int BM = 32, BN = 32;  // rows and columns of C per block
constexpr int BK = 32;           // step along K
constexpr int THREADS = BM * BN;
static_assert(BM == BN && BN == BK, "a thread must fetch one value of each tile, at its own place");

// ANCHOR: kernel
template <Layout LAYOUT>
__device__ void gemm(const float *a, const float *b, const float *bias, float *c, int m, int n, int k,
                     Epilogue epilogue) {
    __shared__ float a_tile[BM][BK];  // [row][i]
    __shared__ float b_tile[BK][BN];  // [i][column]
    int tiles = (n + BN - 1) / BN;
    int first_row = blockIdx.x / tiles * BM;
    int first_column = blockIdx.x % tiles * BN;
    int x = threadIdx.x % BN;
    int y = threadIdx.x / BN;

    float sum = 0.0f;
    for (int first = 0; first < k; first += BK) {
        // Zeros beyond the edges add nothing. The lanes of a warp go along the dimension that is dense in memory.
        bool in_a = first_row + y < m && first + x < k;
        a_tile[y][x] = in_a ? a[(size_t)(first_row + y) * k + first + x] : 0.0f;
        int i = LAYOUT == ROW_MAJOR ? y : x;
        int column = LAYOUT == ROW_MAJOR ? x : y;
        bool in_b = first + i < k && first_column + column < n;
        b_tile[i][column] = in_b ? b[place_in_b<LAYOUT>(first + i, first_column + column, n, k)] : 0.0f;
        __syncthreads();  // the tiles are complete

        for (int i = 0; i < BK; i++) {
            sum += a_tile[y][i] * b_tile[i][x];
        }
        __syncthreads();  // all threads are done with them
    }

    int row = first_row + y;
    int column = first_column + x;
    if (row < m && column < n) {
        epilogue.finish(c + (size_t)row * n + column, sum, bias_at(bias, column));
    }
}
// ANCHOR_END: kernel

GEMM_KERNEL(gemm_nn, THREADS, gemm<ROW_MAJOR>)
GEMM_KERNEL(gemm_nt, THREADS, gemm<TRANSPOSED>)
