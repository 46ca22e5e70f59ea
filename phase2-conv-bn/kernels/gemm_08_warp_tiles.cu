// GEMM with warp tiles: the threads of a warp take a part of C that is nearly square, so that together they want less.
//
//     a warp of step 7                            now
//     16 rows × 128 columns: 144 values per i     64 rows × 32 columns: 96 values for as many multiply-adds
//
// Which lane takes which part matters as well. Loads of 16 bytes are served for eight lanes at a time, and for sixteen
// if every lane wants what its neighbour wants (lane ^ 1), or every lane what the one after it wants (lane ^ 2). So bit
// 0 of the lane chooses a column (two lanes share their rows) and bit 1 a row (two lanes share their columns).
//
// K and N are multiples of 4: only then do all rows of A, B and C begin at multiples of 16 bytes.
// Limited by waiting: all warps of a block fetch together, wait together, compute together and wait again.
// run: gemm // trial: gemm
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

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    gemm(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ __align__(16) float a_tile[BK][BM + PAD];  // [i][row]
    __shared__ __align__(16) float b_tile[BK][BN + PAD];  // [i][column]
    int first_row = blockIdx.y * BM;
    int first_column = blockIdx.x * BN;
    int warp = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    int lane_y = (lane >> 2 & 6) | (lane >> 1 & 1);  // bits 4, 3, 1 of the lane: 8 down
    int lane_x = (lane >> 1 & 2) | (lane & 1);       // bits 2, 0: 4 across
    int y = warp / (BN / WN) * WM + lane_y * 4;      // the first group of this thread's rows and columns
    int x = warp % (BN / WN) * WN + lane_x * 4;

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
            if (row < m && column < n) {
                store_sums(&c[(size_t)row * n + column], &sums[r][s]);
            }
        }
    }
}
// ANCHOR_END: kernel
