// GEMM with accesses of 16 bytes: a quarter of the load instructions. A's tile has to be transposed for that.
//
//     A in memory [row][i]         The multiply-adds want, for one i, the values of 8 rows: a column of A.
//     ▪▪▪▪ one load                Transposed on the way into shared memory, they lie side by side, and two loads fetch
//        ↓ four stores             what took eight. B lies as [i][column] already; given as its transpose, it is
//     A in shared memory [i][row]  treated like A.
//
// Limited by bank conflicts: the four lanes of a row store to one bank, and lanes that read 32 bytes apart meet as well.
// run: gemm // trial: gemm
#include "gemm.cuh"
#include "vectors.cuh"
constexpr int BM = 128, BN = 128;  // rows and columns of C per block
constexpr int BK = 16;             // step along K
constexpr int TM = 8, TN = 8;      // rows and columns of C per thread
constexpr int THREADS = BM * BN / (TM * TN);
constexpr int BLOCKS = 2;          // at a time on an SM: 128 registers per thread
static_assert(BM == BN, "one function must fetch the tiles of A and of a transposed B");

// ANCHOR: fetch
// The tile of a row-major matrix [rows, k] from row `first_row` and column `first` on, transposed: [i][row].
template <bool ALIGNED>
__device__ void fetch_transposed(float (*tile)[BM], const float *from, int first_row, int rows, int first, int k) {
    int i = threadIdx.x % (BK / 4) * 4;
#pragma unroll
    for (int row = threadIdx.x / (BK / 4); row < BM; row += THREADS / (BK / 4)) {
        const float *whole_row = from + (size_t)(first_row + row) * k;
        float4 four = load4<ALIGNED>(whole_row, first + i, first_row + row < rows ? k : 0);
        tile[i][row] = four.x;
        tile[i + 1][row] = four.y;
        tile[i + 2][row] = four.z;
        tile[i + 3][row] = four.w;
    }
}

// The tile of a row-major matrix [k, columns] from row `first` and column `first_column` on: [i][column].
template <bool ALIGNED>
__device__ void fetch(float (*tile)[BN], const float *from, int first_column, int columns, int first, int k) {
    int column = threadIdx.x % (BN / 4) * 4;
#pragma unroll
    for (int i = threadIdx.x / (BN / 4); i < BK; i += THREADS / (BN / 4)) {
        const float *whole_row = from + (size_t)(first + i) * columns;
        float4 four = load4<ALIGNED>(whole_row, first_column + column, first + i < k ? columns : 0);
        *reinterpret_cast<float4 *>(&tile[i][column]) = four;
    }
}
// ANCHOR_END: fetch

// ANCHOR: kernel
template <Layout LAYOUT, bool ALIGNED>
__device__ void gemm(const float *a, const float *b, const float *bias, float *c, int m, int n, int k,
                     Epilogue epilogue) {
    __shared__ __align__(16) float a_tile[BK][BM];  // [i][row]
    __shared__ __align__(16) float b_tile[BK][BN];  // [i][column]
    int tiles = (n + BN - 1) / BN;
    int first_row = blockIdx.x / tiles * BM;
    int first_column = blockIdx.x % tiles * BN;
    int y = threadIdx.x / (BN / TN) * TM;  // this thread's rows and columns in the tile of C
    int x = threadIdx.x % (BN / TN) * TN;

    float sums[TM][TN] = {};
    for (int first = 0; first < k; first += BK) {
        fetch_transposed<ALIGNED>(a_tile, a, first_row, m, first, k);
        if (LAYOUT == ROW_MAJOR) {
            fetch<ALIGNED>(b_tile, b, first_column, n, first, k);
        } else {
            fetch_transposed<ALIGNED>(b_tile, b, first_column, n, first, k);
        }
        __syncthreads();  // the tiles are complete

#pragma unroll  // so that the loads of the next i begin during this one
        for (int i = 0; i < BK; i++) {
            float rows[TM], columns[TN];
            for (int r = 0; r < TM; r += 4) {
                read4(&rows[r], &a_tile[i][y + r]);
            }
            for (int s = 0; s < TN; s += 4) {
                read4(&columns[s], &b_tile[i][x + s]);
            }
            for (int r = 0; r < TM; r++) {
                for (int s = 0; s < TN; s++) {
                    sums[r][s] += rows[r] * columns[s];
                }
            }
        }
        __syncthreads();  // all threads are done with them
    }

#pragma unroll  // so that the sums are registers and no array in memory
    for (int r = 0; r < TM; r++) {
        int row = first_row + y + r;
#pragma unroll
        for (int s = 0; s < TN; s += 4) {
            float4 four = make_float4(sums[r][s], sums[r][s + 1], sums[r][s + 2], sums[r][s + 3]);
            finish4<ALIGNED>(epilogue, four, bias, c + (size_t)row * n, first_column + x + s, row < m ? n : 0);
        }
    }
}
// ANCHOR_END: kernel

GEMM_KERNEL_BOUNDED(gemm_nn, (THREADS, BLOCKS), gemm<ROW_MAJOR, true>)
GEMM_KERNEL_BOUNDED(gemm_nt, (THREADS, BLOCKS), gemm<TRANSPOSED, true>)
GEMM_KERNEL_BOUNDED(gemm_nn_any, (THREADS, BLOCKS), gemm<ROW_MAJOR, false>)
GEMM_KERNEL_BOUNDED(gemm_nt_any, (THREADS, BLOCKS), gemm<TRANSPOSED, false>)
