// GEMM with four steps in shared memory: the copies for one have the time of three others to arrive in.
//
//     step       0 1 2 3 4 5          Each step's copies are a group. Waiting until all but the last STAGES - 2 groups are
//     copy       0 1 2 3 4 5          there is waiting for this step's, asked for STAGES - 1 steps ago.
//     multiply         0 1 2 3        The stage to copy to is the one that was multiplied last.
//
// Limited by the first values of a step: all warps pass the barrier, and then all of them read shared memory.
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
constexpr int STAGES = 4;          // steps along K in shared memory at a time
constexpr int SHARED = STAGES * BK * (BM + PAD + BN + PAD) * sizeof(float);
static_assert(SHARED * BLOCKS <= 227 * 1024, "the stages of all blocks must fit the shared memory of an SM");
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
    extern __shared__ float4 shared[];
    auto a_tiles = reinterpret_cast<float (*)[BK][BM + PAD]>(shared);            // [stage][i][row]
    auto b_tiles = reinterpret_cast<float (*)[BK][BN + PAD]>(a_tiles + STAGES);  // [stage][i][column]
    int first_row = blockIdx.y * BM;
    int first_column = blockIdx.x * BN;
    int warp = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    int lane_y = (lane >> 2 & 6) | (lane >> 1 & 1);  // bits 4, 3, 1 of the lane: 8 down
    int lane_x = (lane >> 1 & 2) | (lane & 1);       // bits 2, 0: 4 across
    int y = warp / (BN / WN) * WM + lane_y * 4;      // the first group of this thread's rows and columns
    int x = warp % (BN / WN) * WN + lane_x * 4;

    int steps = k / BK;
    auto copy_step = [&](int stage, int step) {
        if (step < steps) {
            copy_transposed(a_tiles[stage], a, first_row, step * BK, k);
            copy_rows(b_tiles[stage], b, first_column, n, step * BK);
        }
        end_copy_group();  // an empty one, too: a wait counts groups
    };
    for (int step = 0; step < STAGES - 1; step++) {
        copy_step(step, step);
    }

    float sums[TM][TN] = {};
    for (int step = 0; step < steps; step++) {
        int stage = step % STAGES;
        copy_groups_arrived<STAGES - 2>();
        __syncthreads();  // this step's values are there, and all threads are done with those of the step before
        copy_step((step + STAGES - 1) % STAGES, step + STAGES - 1);
#pragma unroll  // so that the loads of the next i begin during this one
        for (int i = 0; i < BK; i++) {
            float rows[TM], columns[TN];
            for (int r = 0; r < TM; r += 4) {
                read4(&rows[r], &a_tiles[stage][i][y + r / 4 * (WM / 2)]);
            }
            for (int s = 0; s < TN; s += 4) {
                read4(&columns[s], &b_tiles[stage][i][x + s / 4 * (WN / 2)]);
            }
            for (int r = 0; r < TM; r++) {
                for (int s = 0; s < TN; s++) {
                    sums[r][s] += rows[r] * columns[s];
                }
            }
        }
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
