// GEMM in slices: a thread has twice the sums, and a tile has all of its warps twice, each for half of the values of i.
//
//     step 16   64 × 32 of C per warp, 8 × 8 sums per thread: 4 loads for  64 multiply-adds, 8 warps
//     now       64 × 64 of C per warp, 8 × 16              : 6 loads for 128 multiply-adds, 4 warps for i < 8 of each step
//                                                                                           4 warps for i ≥ 8
//
// Four warps would be one per scheduler, with nothing to turn to while it waits: that is what the second slice is for.
// At the end the slices add their sums in shared memory.
//
// Limited by the fixed tile: too small for large products, and too large for small ones.
// nvrtc: --gpu-architecture=compute_80 // run: gemm // trial: gemm
#include "cp_async.cuh"
#include "vectors.cuh"

constexpr int BM = 128, BN = 128;  // rows and columns of C per block
constexpr int BK = 16;             // step along K
constexpr int TM = 8, TN = 16;     // rows and columns of C per thread, in groups of 4
constexpr int WM = 64, WN = 64;    // rows and columns of C per warp
constexpr int SLICES = 2;          // warps for each part of C: they share out the values of i of every step
constexpr int DEPTH = BK / SLICES; // values of i per step and slice
constexpr int PAD = 4;             // floats after each row of a tile; 4, so that rows begin at multiples of 16 bytes
constexpr int THREADS = BM * BN / (TM * TN) * SLICES;
constexpr int BLOCKS = 1;          // at a time on an SM: 255 registers per thread
constexpr int STAGES = 4;          // steps along K in shared memory at a time
constexpr int SHARED = STAGES * BK * (BM + PAD + BN + PAD) * sizeof(float);
static_assert(SHARED * BLOCKS <= 227 * 1024, "the stages of all blocks must fit the shared memory of an SM");
constexpr int BAND = 8;            // rows of tiles in a band
static_assert(WM / TM * (WN / TN) == 32, "the 32 threads of a warp must fill its tile exactly");
static_assert(DEPTH % 2 == 0, "the two sets of registers must change places within a step");
static_assert((SLICES - 1) * BM * BN * sizeof(float) <= SHARED, "the sums handed over must fit where the steps were");

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
    int slice = threadIdx.x / (THREADS / SLICES);
    int warp = threadIdx.x % (THREADS / SLICES) / 32;  // of the slice
    int lane = threadIdx.x % 32;
    int lane_y = (lane >> 2 & 6) | (lane >> 1 & 1);  // bits 4, 3, 1 of the lane: 8 down
    int lane_x = (lane >> 1 & 2) | (lane & 1);       // bits 2, 0: 4 across
    int y = warp / (BN / WN) * WM + lane_y * 4;      // the first group of this thread's rows and columns
    int x = warp % (BN / WN) * WN + lane_x * 4;

    int steps = k / BK;
    constexpr int COPIES = A_COPIES + B_COPIES;
    constexpr int EACH = (COPIES + DEPTH - 2) / (DEPTH - 1);  // for each i of a step but the last
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
            read4(&rows[i % 2][r], &a_tiles[stage][slice * DEPTH + i][y + r / 4 * (WM / 2)]);
        }
#pragma unroll
        for (int s = 0; s < TN; s += 4) {
            read4(&columns[i % 2][s], &b_tiles[stage][slice * DEPTH + i][x + s / 4 * (WN / 4)]);
        }
    };
    copy_groups_arrived<STAGES - 2>();
    __syncthreads();  // the first step's values are there
    read(0, 0);

    float sums[TM][TN] = {};
    for (int step = 0; step < steps; step++) {
        int stage = step % STAGES, later = step + STAGES - 1;
#pragma unroll  // so that i % 2 is known, and the two sets are registers
        for (int i = 0; i < DEPTH; i++) {
            if (i < DEPTH - 1) {
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

    // Every slice but the first hands over its sums, and the first adds them to its own.
    constexpr int GROUPS = TM * TN / 4, SLICE = THREADS / SLICES;
    float4 *parts = shared + threadIdx.x % SLICE;  // [slice][group][thread of a slice]
    __syncthreads();  // all threads are done with the steps
    if (slice > 0) {
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            const float *s = &sums[g / (TN / 4)][g % (TN / 4) * 4];
            parts[((slice - 1) * GROUPS + g) * SLICE] = make_float4(s[0], s[1], s[2], s[3]);
        }
    }
    __syncthreads();  // the sums of all slices are there
    if (slice > 0) {
        return;
    }

#pragma unroll  // so that the sums are registers and no array in memory
    for (int r = 0; r < TM; r++) {
        int row = first_row + y + r / 4 * (WM / 2) + r % 4;
#pragma unroll
        for (int s = 0; s < TN; s += 4) {
            int column = first_column + x + s / 4 * (WN / 4);
            float4 four = make_float4(sums[r][s], sums[r][s + 1], sums[r][s + 2], sums[r][s + 3]);
            for (int other = 0; other < SLICES - 1; other++) {
                float4 part = parts[(other * GROUPS + r * (TN / 4) + s / 4) * SLICE];
                four = make_float4(four.x + part.x, four.y + part.y, four.z + part.z, four.w + part.w);
            }
            store4(c + (size_t)row * n + column, four);
        }
    }
}
// ANCHOR_END: kernel
