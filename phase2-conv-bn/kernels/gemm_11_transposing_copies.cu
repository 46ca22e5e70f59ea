// GEMM whose copies transpose: cp.async moves 4 bytes to any place, so A needs no register on its way either.
//
//     step 10   A ──16 bytes──▶ registers ──4 stores──▶ shared memory, while 64 sums and 16 operands want registers too
//     now       A ──────────4 copies of 4 bytes───────▶ shared memory, at [i][row]
//
// The same function copies B if it is given transposed.
//
// Limited by waiting: a tile has only the time of one other to arrive in.
// nvrtc: --gpu-architecture=compute_80 // run: gemm // trial: gemm
#include "cp_async.cuh"
#include "vectors.cuh"

constexpr int BM = 128, BN = 128;  // rows and columns of C per block
constexpr int BK = 16;             // step along K
constexpr int TM = 8, TN = 8;      // rows and columns of C per thread, in groups of 4, half a warp's tile apart
constexpr int WM = 64, WN = 32;    // rows and columns of C per warp
constexpr int PAD = 4;             // floats after each row of a tile; 4, so that rows begin at multiples of 16 bytes
constexpr int THREADS = BM * BN / (TM * TN);
constexpr int BLOCKS = 2;          // at a time on an SM: 128 registers per thread
static_assert(WM / TM * (WN / TN) == 32, "the 32 threads of a warp must fill its tile exactly");

// ANCHOR: fetch
// Starts copying the tile of a row-major matrix [rows, k] from row `first_row` and column `first`, transposed: [i][row].
// A warp takes 8 values of i (a sector) of 4 rows, which go to 32 different banks.
__device__ void copy_transposed(float (*tile)[BM + PAD], const float *from, int first_row, int first, int k) {
#pragma unroll
    for (int c = 0; c < BM * BK / THREADS; c++) {
        int row = threadIdx.x / 8 + c / (BK / 8) * (THREADS / 8);
        int i = threadIdx.x % 8 + c % (BK / 8) * 8;
        copy4(&tile[i][row], from + (size_t)(first_row + row) * k + first + i);
    }
}

// Starts copying the tile of a row-major matrix [k, columns] from row `first` and column `first_column`: [i][column].
__device__ void copy_rows(float (*tile)[BN + PAD], const float *from, int first_column, int columns, int first) {
#pragma unroll
    for (int c = 0; c < BN * BK / 4 / THREADS; c++) {
        int i = threadIdx.x / (BN / 4) + c * (THREADS / (BN / 4));
        int column = threadIdx.x % (BN / 4) * 4;
        copy16(&tile[i][column], from + (size_t)(first + i) * columns + first_column + column);
    }
}
// ANCHOR_END: fetch

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    gemm(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ __align__(16) float a_tiles[2][BK][BM + PAD];  // [which][i][row]
    __shared__ __align__(16) float b_tiles[2][BK][BN + PAD];  // [which][i][column]
    int first_row = blockIdx.y * BM;
    int first_column = blockIdx.x * BN;
    int warp = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    int lane_y = (lane >> 2 & 6) | (lane >> 1 & 1);  // bits 4, 3, 1 of the lane: 8 down
    int lane_x = (lane >> 1 & 2) | (lane & 1);       // bits 2, 0: 4 across
    int y = warp / (BN / WN) * WM + lane_y * 4;      // the first group of this thread's rows and columns
    int x = warp % (BN / WN) * WN + lane_x * 4;

    auto copy_step = [&](int which, int first) {
        copy_transposed(a_tiles[which], a, first_row, first, k);
        copy_rows(b_tiles[which], b, first_column, n, first);
    };
    copy_step(0, 0);
    copies_arrived();
    __syncthreads();  // the first tiles are complete

    float sums[TM][TN] = {};
    int which = 0;
    for (int first = 0; first < k; first += BK) {
        if (first + BK < k) {
            copy_step(which ^ 1, first + BK);
        }
#pragma unroll  // so that the loads of the next i begin during this one
        for (int i = 0; i < BK; i++) {
            float rows[TM], columns[TN];
            for (int r = 0; r < TM; r += 4) {
                read4(&rows[r], &a_tiles[which][i][y + r / 4 * (WM / 2)]);
            }
            for (int s = 0; s < TN; s += 4) {
                read4(&columns[s], &b_tiles[which][i][x + s / 4 * (WN / 2)]);
            }
            for (int r = 0; r < TM; r++) {
                for (int s = 0; s < TN; s++) {
                    sums[r][s] += rows[r] * columns[s];
                }
            }
        }
        copies_arrived();
        __syncthreads();  // the next tiles are complete, and all threads are done with these
        which ^= 1;
    }

#pragma unroll  // so that the sums are registers and no array in memory
    for (int r = 0; r < TM; r++) {
        int row = first_row + y + r / 4 * (WM / 2) + r % 4;
#pragma unroll
        for (int s = 0; s < TN; s += 4) {
            int column = first_column + x + s / 4 * (WN / 2);
            store_sums(c + (size_t)row * n + column, &sums[r][s]);
        }
    }
}
// ANCHOR_END: kernel
