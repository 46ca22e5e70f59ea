// GEMM without bank conflicts: the same loads and stores, at places in shared memory that lie in different banks.
//
//     storing A transposed   two lanes per row, 16 rows per warp, and rows of the tile 4 floats longer: the bank is
//                            16·(lane % 2) + lane / 2 + a constant, each of the 32 once
//                            (before: the four lanes of a row met in one bank)
//     reading B              a thread's 8 columns in two groups of 4, half a tile apart, so that neighbouring lanes
//                            read neighbouring 16 bytes (before: 32 bytes apart, so every fifth lane met the first)
//
// K and N are multiples of 4: only then do all rows of A, B and C begin at multiples of 16 bytes.
// Limited by wavefronts: reading B takes four for each load, since a warp wants 16 different places of 16 bytes.
// run: gemm // trial: gemm
#include "vectors.cuh"

constexpr int BM = 128, BN = 128;  // rows and columns of C per block
constexpr int BK = 16;             // step along K
constexpr int TM = 8, TN = 8;      // rows and columns of C per thread, in groups of 4, half a tile apart
constexpr int PAD = 4;             // floats after each row of a tile; 4, so that rows begin at multiples of 16 bytes
constexpr int THREADS = BM * BN / (TM * TN);
constexpr int BLOCKS = 2;          // at a time on an SM: 128 registers per thread
static_assert(THREADS == 2 * BM, "two threads must fetch one row of A's tile");

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    gemm(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ __align__(16) float a_tile[BK][BM + PAD];  // [i][row]
    __shared__ __align__(16) float b_tile[BK][BN + PAD];  // [i][column]
    int first_row = blockIdx.y * BM;
    int first_column = blockIdx.x * BN;
    int y = threadIdx.x / (BN / TN) * 4;  // the first group of this thread's rows and columns in the tile of C
    int x = threadIdx.x % (BN / TN) * 4;

    float sums[TM][TN] = {};
    for (int first = 0; first < k; first += BK) {
#pragma unroll  // so that all loads are asked for before the first is stored
        for (int s = 0; s < BK / 8; s++) {
            int row = threadIdx.x / 2, i = threadIdx.x % 2 * 4 + s * 8;
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
                read4(&rows[r], &a_tile[i][y + r / 4 * (BM / 2)]);
            }
            for (int s = 0; s < TN; s += 4) {
                read4(&columns[s], &b_tile[i][x + s / 4 * (BN / 2)]);
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
        int row = first_row + y + r / 4 * (BM / 2) + r % 4;
#pragma unroll
        for (int s = 0; s < TN; s += 4) {
            int column = first_column + x + s / 4 * (BN / 2);
            if (row < m && column < n) {
                store_sums(&c[(size_t)row * n + column], &sums[r][s]);
            }
        }
    }
}
// ANCHOR_END: kernel
