// GEMM with a column of C per thread: TM elements, so that a value of B, once in a register, is used TM times.
//
//        b                       For each i a thread loads one value of B's tile and TM of A's,
//     a₀ · C₀                    and does TM multiply-adds: 1 + 1/TM loads for each instead of 2.
//     a₁ · C₁                    All lanes of a warp want the same values of A: one wavefront serves them.
//     …
//     a₇ · C₇
//
// Limited by shared memory: 9 loads for 8 multiply-adds.
// run: gemm // trial: gemm
#include "gemm.cuh"

constexpr int BM = 64, BN = 64;  // rows and columns of C per block
constexpr int BK = 8;            // step along K
constexpr int TM = 8;            // rows of C per thread
constexpr int THREADS = BM * BN / TM;
static_assert(BM * BK == THREADS && BN * BK == THREADS, "each thread must fetch exactly one value of each tile");

// ANCHOR: kernel
template <Layout LAYOUT>
__device__ void gemm(const float *a, const float *b, const float *bias, float *c, int m, int n, int k,
                     Epilogue epilogue) {
    __shared__ float a_tile[BM][BK];  // [row][i]
    __shared__ float b_tile[BK][BN];  // [i][column]
    int tiles = (n + BN - 1) / BN;
    int first_row = blockIdx.x / tiles * BM;
    int first_column = blockIdx.x % tiles * BN;
    int y = threadIdx.x / BN * TM;  // this thread's rows and its column in the tile of C
    int x = threadIdx.x % BN;

    float sums[TM] = {};
    for (int first = 0; first < k; first += BK) {
        {
            int row = threadIdx.x / BK;
            int i = threadIdx.x % BK;
            bool inside = first_row + row < m && first + i < k;
            a_tile[row][i] = inside ? a[(size_t)(first_row + row) * k + first + i] : 0.0f;
        }
        {
            int i = LAYOUT == ROW_MAJOR ? threadIdx.x / BN : threadIdx.x % BK;
            int column = LAYOUT == ROW_MAJOR ? threadIdx.x % BN : threadIdx.x / BK;
            bool inside = first + i < k && first_column + column < n;
            b_tile[i][column] = inside ? b[place_in_b<LAYOUT>(first + i, first_column + column, n, k)] : 0.0f;
        }
        __syncthreads();  // the tiles are complete

        for (int i = 0; i < BK; i++) {
            float value = b_tile[i][x];
            for (int r = 0; r < TM; r++) {
                sums[r] += a_tile[y + r][i] * value;
            }
        }
        __syncthreads();  // all threads are done with them
    }

    int column = first_column + x;
    for (int r = 0; r < TM; r++) {
        int row = first_row + y + r;
        if (row < m && column < n) {
            epilogue.finish(c + (size_t)row * n + column, sums[r], bias_at(bias, column));
        }
    }
}
// ANCHOR_END: kernel

GEMM_KERNEL(gemm_nn, THREADS, gemm<ROW_MAJOR>)
GEMM_KERNEL(gemm_nt, THREADS, gemm<TRANSPOSED>)
