// GEMM for GPUs before compute capability 8.0, which have no cp.async: step 8 with both layouts of B and an epilogue.
// run: gemm // trial: gemm
#include "gemm.cuh"
#include "vectors.cuh"

constexpr int BM = 128, BN = 128;  // rows and columns of C per block
constexpr int BK = 16;             // step along K
constexpr int TM = 8, TN = 8;      // rows and columns of C per thread, in groups of 4, half a warp's tile apart
constexpr int WM = 64, WN = 32;    // rows and columns of C per warp
constexpr int PAD = 4;             // floats after each row of a tile; 4, so that rows begin at multiples of 16 bytes
constexpr int THREADS = BM * BN / (TM * TN);
constexpr int BLOCKS = 2;          // at a time on an SM: 128 registers per thread
static_assert(WM / TM * (WN / TN) == 32, "the 32 threads of a warp must fill its tile exactly");
static_assert(THREADS == 2 * BM, "two threads must fetch one row of A's tile");
static_assert(BM == BN, "one function must fetch the tiles of A and of a transposed B");

// The tile of a row-major matrix [rows, k] from row `first_row` and column `first` on, transposed: [i][row].
template <bool ALIGNED>
__device__ void fetch_transposed(float (*tile)[BM + PAD], const float *from, int first_row, int rows, int first,
                                 int k) {
    int row = threadIdx.x / 2;
#pragma unroll
    for (int i = threadIdx.x % 2 * 4; i < BK; i += 8) {
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
__device__ void fetch(float (*tile)[BN + PAD], const float *from, int first_column, int columns, int first, int k) {
    int column = threadIdx.x % (BN / 4) * 4;
#pragma unroll
    for (int i = threadIdx.x / (BN / 4); i < BK; i += THREADS / (BN / 4)) {
        const float *whole_row = from + (size_t)(first + i) * columns;
        float4 four = load4<ALIGNED>(whole_row, first_column + column, first + i < k ? columns : 0);
        *reinterpret_cast<float4 *>(&tile[i][column]) = four;
    }
}

template <Layout LAYOUT, bool ALIGNED>
__device__ void gemm(const float *a, const float *b, const float *bias, float *c, int m, int n, int k,
                     Epilogue epilogue) {
    __shared__ __align__(16) float a_tile[BK][BM + PAD];  // [i][row]
    __shared__ __align__(16) float b_tile[BK][BN + PAD];  // [i][column]
    int tiles = (n + BN - 1) / BN;
    int first_row = blockIdx.x / tiles * BM;
    int first_column = blockIdx.x % tiles * BN;
    int warp = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    int lane_y = (lane >> 2 & 6) | (lane >> 1 & 1);  // bits 4, 3, 1 of the lane: 8 down
    int lane_x = (lane >> 1 & 2) | (lane & 1);       // bits 2, 0: 4 across
    int y = warp / (BN / WN) * WM + lane_y * 4;      // the first group of this thread's rows and columns
    int x = warp % (BN / WN) * WN + lane_x * 4;

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
                read4(&rows[r], &a_tile[i][y + r / 4 * (WM / 2)]);
            }
            for (int s = 0; s < TN; s += 4) {
                read4(&columns[s], &b_tile[i][x + s / 4 * (WN / 2)]);
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
        int row = first_row + y + r / 4 * (WM / 2) + r % 4;
#pragma unroll
        for (int s = 0; s < TN; s += 4) {
            int column = first_column + x + s / 4 * (WN / 2);
            float4 four = make_float4(sums[r][s], sums[r][s + 1], sums[r][s + 2], sums[r][s + 3]);
            finish4<ALIGNED>(epilogue, four, bias, c + (size_t)row * n, column, row < m ? n : 0);
        }
    }
}

GEMM_KERNEL_BOUNDED(gemm_nn, (THREADS, BLOCKS), gemm<ROW_MAJOR, true>)
GEMM_KERNEL_BOUNDED(gemm_nt, (THREADS, BLOCKS), gemm<TRANSPOSED, true>)
GEMM_KERNEL_BOUNDED(gemm_nn_any, (THREADS, BLOCKS), gemm<ROW_MAJOR, false>)
GEMM_KERNEL_BOUNDED(gemm_nt_any, (THREADS, BLOCKS), gemm<TRANSPOSED, false>)
