// GEMM with accesses of 16 bytes: a quarter of the load instructions. A's tile has to be transposed for that.
//
//     A in memory [row][i]         The multiply-adds want, for one i, the values of 8 rows: a column of A.
//     ▪▪▪▪ one load                Transposed on the way into shared memory, they lie side by side, and two loads fetch
//        ↓ four stores             what took eight. B lies as [i][column] already.
//     A in shared memory [i][row]
//
// K and N are multiples of 4: only then do all rows of A, B and C begin at multiples of 16 bytes.
// Limited by bank conflicts: the four lanes of a row store to one bank, and lanes that read 32 bytes apart meet as well.
// run: gemm // trial: gemm
#include "vectors.cuh"

constexpr int BM = 128, BN = 128;  // rows and columns of C per block
constexpr int BK = 16;             // step along K
constexpr int TM = 8, TN = 8;      // rows and columns of C per thread
constexpr int THREADS = BM * BN / (TM * TN);
constexpr int BLOCKS = 2;          // at a time on an SM: 128 registers per thread

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    gemm(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ __align__(16) float a_tile[BK][BM];  // [i][row]
    __shared__ __align__(16) float b_tile[BK][BN];  // [i][column]
    int first_row = blockIdx.y * BM;
    int first_column = blockIdx.x * BN;
    int y = threadIdx.x / (BN / TN) * TM;  // this thread's rows and columns in the tile of C
    int x = threadIdx.x % (BN / TN) * TN;

    float sums[TM][TN] = {};
    for (int first = 0; first < k; first += BK) {
#pragma unroll  // so that all loads are asked for before the first is stored
        for (int s = 0; s < BM * BK / 4 / THREADS; s++) {
            int row = threadIdx.x / (BK / 4) + s * (THREADS / (BK / 4)), i = threadIdx.x % (BK / 4) * 4;
            bool inside = first_row + row < m && first + i < k;
            float4 four = inside ? load4(&a[(size_t)(first_row + row) * k + first + i]) : float4();
            a_tile[i][row] = four.x;
            a_tile[i + 1][row] = four.y;
            a_tile[i + 2][row] = four.z;
            a_tile[i + 3][row] = four.w;
        }
#pragma unroll
        for (int s = 0; s < BK * BN / 4 / THREADS; s++) {
            int i = threadIdx.x / (BN / 4) + s * (THREADS / (BN / 4)), column = threadIdx.x % (BN / 4) * 4;
            bool inside = first + i < k && first_column + column < n;
            float4 four = inside ? load4(&b[(size_t)(first + i) * n + first_column + column]) : float4();
            store4(&b_tile[i][column], four);
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
            if (row < m && first_column + x + s < n) {
                store_sums(&c[(size_t)row * n + first_column + x + s], &sums[r][s]);
            }
        }
    }
}
// ANCHOR_END: kernel
