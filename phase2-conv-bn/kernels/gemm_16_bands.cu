// GEMM whose blocks are numbered in bands: those that run at a time want the same rows of A and the same columns of B.
//
//     step 15    0  1  2  3 … 63        now, in bands of 8     0  8 16 …      Of 256 blocks that run at a time, with 64
//               64 65 66 67 …                                  1  9 17 …      tiles across: 4 rows and 64 columns of tiles
//               128 …                                          …              before, 8 rows and 32 columns now.
//
// Limited by shared memory's part of the issue slots: 4 loads for 64 multiply-adds.
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
constexpr int BAND = 8;            // rows of tiles in a band
static_assert(WM / TM * (WN / TN) == 32, "the 32 threads of a warp must fill its tile exactly");
static_assert(BK % 2 == 0, "the two sets of registers must change places within a step");

// ANCHOR: fetch
// Starts copy `c` of a thread's A_COPIES for the tile of a row-major matrix [rows, k]
// from row `first_row` and column `first`, transposed: [i][row]. A warp takes 8 values of i (a
// sector) of 4 rows, which go to 32 different banks.
constexpr int A_COPIES = BM * BK / THREADS;
__device__ void copy_transposed(float (*tile)[BM + PAD], const float *from, int first_row, int first, int k, int c) {
    int row = threadIdx.x / 8 + c / (BK / 8) * (THREADS / 8);
    int i = threadIdx.x % 8 + c % (BK / 8) * 8;
    copy4(&tile[i][row], from + (size_t)(first_row + row) * k + first + i);
}

// Starts copy `c` of a thread's B_COPIES for the tile of a row-major matrix [k, columns] from row `first` and column
// `first_column`: [i][column].
constexpr int B_COPIES = BN * BK / 4 / THREADS;
__device__ void copy_rows(float (*tile)[BN + PAD], const float *from, int first_column, int columns, int first, int c) {
    int i = threadIdx.x / (BN / 4) + c * (THREADS / (BN / 4));
    int column = threadIdx.x % (BN / 4) * 4;
    copy16(&tile[i][column], from + (size_t)(first + i) * columns + first_column + column);
}
// ANCHOR_END: fetch

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    gemm(const float *a, const float *b, float *c, int m, int n, int k) {
    extern __shared__ float4 shared[];
    auto a_tiles = reinterpret_cast<float (*)[BK][BM + PAD]>(shared);            // [stage][i][row]
    auto b_tiles = reinterpret_cast<float (*)[BK][BN + PAD]>(a_tiles + STAGES);  // [stage][i][column]
    // Tiles are numbered in bands of BAND rows of tiles: down, then across.
    int block = blockIdx.y * gridDim.x + blockIdx.x;
    int in_band = block % (BAND * gridDim.x);
    int top = block / (BAND * gridDim.x) * BAND;
    int height = min(BAND, (int)gridDim.y - top);  // of the last band
    int first_row = (top + in_band % height) * BM;
    int first_column = in_band / height * BN;
    int warp = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    int lane_y = (lane >> 2 & 6) | (lane >> 1 & 1);  // bits 4, 3, 1 of the lane: 8 down
    int lane_x = (lane >> 1 & 2) | (lane & 1);       // bits 2, 0: 4 across
    int y = warp / (BN / WN) * WM + lane_y * 4;      // the first group of this thread's rows and columns
    int x = warp % (BN / WN) * WN + lane_x * 4;

    int steps = k / BK;
    constexpr int COPIES = A_COPIES + B_COPIES;
    constexpr int EACH = (COPIES + BK - 2) / (BK - 1);  // for each i of a step but the last
    auto copy = [&](int stage, int step, int c) {
        if (c < A_COPIES) {
            copy_transposed(a_tiles[stage], a, first_row, step * BK, k, c);
        } else if (c < COPIES) {
            copy_rows(b_tiles[stage], b, first_column, n, step * BK, c - A_COPIES);
        }
    };
    for (int step = 0; step < STAGES - 1; step++) {
        for (int c = 0; c < COPIES && step < steps; c++) {
            copy(step, step, c);
        }
        end_copy_group();  // an empty one, too: a wait counts groups
    }

    float rows[2][TM], columns[2][TN];  // the values of this i and of the next
    auto read = [&](int stage, int i) {
#pragma unroll
        for (int r = 0; r < TM; r += 4) {
            read4(&rows[i % 2][r], &a_tiles[stage][i][y + r / 4 * (WM / 2)]);
        }
#pragma unroll
        for (int s = 0; s < TN; s += 4) {
            read4(&columns[i % 2][s], &b_tiles[stage][i][x + s / 4 * (WN / 2)]);
        }
    };
    copy_groups_arrived<STAGES - 2>();
    __syncthreads();  // the first step's values are there
    read(0, 0);

    float sums[TM][TN] = {};
    for (int step = 0; step < steps; step++) {
        int stage = step % STAGES, later = step + STAGES - 1;
#pragma unroll  // so that i % 2 is known, and the two sets are registers
        for (int i = 0; i < BK; i++) {
            if (i < BK - 1) {
                read(stage, i + 1);
#pragma unroll
                for (int c = i * EACH; c < (i + 1) * EACH && later < steps; c++) {
                    copy(later % STAGES, later, c);
                }
            } else {
                end_copy_group();
                copy_groups_arrived<STAGES - 2>();
                __syncthreads();  // the next step's values are there, and all threads have read this one's
                // After the last step there is no next: what is read once more is not used.
                read(step + 1 < steps ? (step + 1) % STAGES : stage, 0);
            }
#pragma unroll
            for (int r = 0; r < TM; r++) {
#pragma unroll
                for (int there = 0; there < TN; there++) {
                    int s = r % 2 ? TN - 1 - there : there;  // back in every second row
                    sums[r][s] += rows[i % 2][r] * columns[i % 2][s];
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
            // Half of them are freed as by store_sums: to free all would take registers that are not there.
            float4 four = make_float4(sums[r][s] + 0.0f, sums[r][s + 1], sums[r][s + 2] + 0.0f, sums[r][s + 3]);
            store4(c + (size_t)row * n + column, four);
        }
    }
}
// ANCHOR_END: kernel
