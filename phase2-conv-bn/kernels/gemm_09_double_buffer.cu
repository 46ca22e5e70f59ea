// GEMM with two tiles of each matrix: while one is multiplied, the next is on its way.
//
//     tile    0 1 2 3        A travels through registers, since it is transposed on the way: loaded before the
//     fetch   0 1 2 3        multiply-adds, stored after them. B, which lies right already, is copied by cp.async,
//     multiply  0 1 2 3      which needs no register and no waiting thread. One barrier per tile instead of two.
//
// K and N are multiples of 4: only then do all rows of A, B and C begin at multiples of 16 bytes.
// Limited by the instructions beside the multiply-adds, the tests of the edges among them.
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
static_assert(THREADS == 2 * BM, "two threads must fetch one row of A's tile");

// ANCHOR: fetch
// A thread's part of a tile of A on its way: first into registers, then, transposed, into shared memory.
struct Staged {
    float4 fours[BK / 8];

    __device__ void load(const float *a, int first_row, int m, int first, int k) {
        int row = first_row + threadIdx.x / 2;
        for (int s = 0; s < BK / 8; s++) {
            int i = first + threadIdx.x % 2 * 4 + s * 8;
            fours[s] = row < m && i < k ? load4(&a[(size_t)row * k + i]) : float4();
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

// Sends a tile of B on its way to [i][column].
__device__ void copy(float (*tile)[BN + PAD], const float *b, int first_column, int n, int first, int k) {
    int column = threadIdx.x % (BN / 4) * 4;
#pragma unroll
    for (int i = threadIdx.x / (BN / 4); i < BK; i += THREADS / (BN / 4)) {
        bool inside = first + i < k && first_column + column < n;
        const float *place = inside ? &b[(size_t)(first + i) * n + first_column + column] : b;
        copy16(&tile[i][column], place, inside);
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

    Staged staged;
    staged.load(a, first_row, m, 0, k);
    copy(b_tiles[0], b, first_column, n, 0, k);
    staged.store(a_tiles[0]);
    copies_arrived();
    __syncthreads();  // the first tiles are complete

    float sums[TM][TN] = {};
    int which = 0;
    for (int first = 0; first < k; first += BK) {
        bool more = first + BK < k;
        if (more) {
            staged.load(a, first_row, m, first + BK, k);
            copy(b_tiles[which ^ 1], b, first_column, n, first + BK, k);
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
            if (row < m && column < n) {
                store_sums(&c[(size_t)row * n + column], &sums[r][s]);
            }
        }
    }
}
// ANCHOR_END: kernel
