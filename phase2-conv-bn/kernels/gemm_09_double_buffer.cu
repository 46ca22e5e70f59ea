// GEMM with two tiles of each matrix: while one is multiplied, the next is on its way.
//
//     tile    0 1 2 3        A travels through registers, since it is transposed on the way: loaded before the
//     fetch   0 1 2 3        multiply-adds, stored after them. B, which lies right already, is copied by cp.async,
//     multiply  0 1 2 3      which needs no register and no waiting thread. One barrier per tile instead of two.
//
// Limited by the instructions beside the multiply-adds, the tests of the edges among them.
// nvrtc: --gpu-architecture=compute_80 // run: gemm // trial: gemm
#include "cp_async.cuh"
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

// ANCHOR: fetch
// A thread's part of a tile of A on its way: first into registers, then, transposed, into shared memory.
struct Staged {
    float4 fours[BK / 8];

    template <bool ALIGNED> __device__ void load(const float *a, int first_row, int m, int first, int k) {
        int row = first_row + threadIdx.x / 2;
        for (int s = 0; s < BK / 8; s++) {
            fours[s] = load4<ALIGNED>(a + (size_t)row * k, first + threadIdx.x % 2 * 4 + s * 8, row < m ? k : 0);
        }
    }

    __device__ void store(float (*tile)[BM + PAD]) const {
        int row = threadIdx.x / 2;
        for (int s = 0; s < BK / 8; s++) {
            int i = threadIdx.x % 2 * 4 + s * 8;
            tile[i][row] = fours[s].x;
            tile[i + 1][row] = fours[s].y;
            tile[i + 2][row] = fours[s].z;
            tile[i + 3][row] = fours[s].w;
        }
    }
};

// Sends a tile of B on its way to [i][column]. Given transposed, or with rows that do not begin at multiples of 16 bytes,
// it travels by 4 bytes; transposed, with 8 lanes along i (a sector) and 4 across, which store to 32 different banks.
template <Layout LAYOUT, bool ALIGNED>
__device__ void copy(float (*tile)[BN + PAD], const float *b, int first_column, int n, int first, int k) {
    if (LAYOUT == ROW_MAJOR) {
        constexpr int WIDTH = ALIGNED ? 4 : 1;
        int column = threadIdx.x % (BN / WIDTH) * WIDTH;
        const float *from = b + first_column + column;
#pragma unroll
        for (int i = threadIdx.x / (BN / WIDTH); i < BK; i += THREADS * WIDTH / BN) {
            bool inside = first + i < k && first_column + column < n;
            const float *place = inside ? from + (size_t)(first + i) * n : b;
            ALIGNED ? copy16(&tile[i][column], place, inside) : copy4(&tile[i][column], place, inside);
        }
    } else {
#pragma unroll
        for (int column = threadIdx.x / 8; column < BN; column += THREADS / 8) {
            const float *from = b + (size_t)(first_column + column) * k + first;
#pragma unroll
            for (int i = threadIdx.x % 8; i < BK; i += 8) {
                bool inside = first + i < k && first_column + column < n;
                copy4(&tile[i][column], inside ? from + i : b, inside);
            }
        }
    }
}
// ANCHOR_END: fetch

// ANCHOR: kernel
template <Layout LAYOUT, bool ALIGNED>
__device__ void gemm(const float *a, const float *b, const float *bias, float *c, int m, int n, int k,
                     Epilogue epilogue) {
    __shared__ __align__(16) float a_tiles[2][BK][BM + PAD];  // [which][i][row]
    __shared__ __align__(16) float b_tiles[2][BK][BN + PAD];  // [which][i][column]
    int tiles = (n + BN - 1) / BN;
    int first_row = blockIdx.x / tiles * BM;
    int first_column = blockIdx.x % tiles * BN;
    int warp = threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    int lane_y = (lane >> 2 & 6) | (lane >> 1 & 1);  // bits 4, 3, 1 of the lane: 8 down
    int lane_x = (lane >> 1 & 2) | (lane & 1);       // bits 2, 0: 4 across
    int y = warp / (BN / WN) * WM + lane_y * 4;      // the first group of this thread's rows and columns
    int x = warp % (BN / WN) * WN + lane_x * 4;

    Staged staged;
    staged.load<ALIGNED>(a, first_row, m, 0, k);
    copy<LAYOUT, ALIGNED>(b_tiles[0], b, first_column, n, 0, k);
    staged.store(a_tiles[0]);
    copies_arrived();
    __syncthreads();  // the first tiles are complete

    float sums[TM][TN] = {};
    int which = 0;
    for (int first = 0; first < k; first += BK) {
        bool more = first + BK < k;
        if (more) {
            staged.load<ALIGNED>(a, first_row, m, first + BK, k);
            copy<LAYOUT, ALIGNED>(b_tiles[which ^ 1], b, first_column, n, first + BK, k);
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
        if (more) {
            staged.store(a_tiles[which ^ 1]);
            copies_arrived();
        }
        __syncthreads();  // the next tiles are complete, and all threads are done with these
        which ^= 1;
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
// ANCHOR_END: kernel

GEMM_KERNEL_BOUNDED(gemm_nn, (THREADS, BLOCKS), gemm<ROW_MAJOR, true>)
GEMM_KERNEL_BOUNDED(gemm_nt, (THREADS, BLOCKS), gemm<TRANSPOSED, true>)
GEMM_KERNEL_BOUNDED(gemm_nn_any, (THREADS, BLOCKS), gemm<ROW_MAJOR, false>)
GEMM_KERNEL_BOUNDED(gemm_nt_any, (THREADS, BLOCKS), gemm<TRANSPOSED, false>)
