// GEMM with two sets of fragments: while one is multiplied, the next is on its way from shared memory.
//
//     16 of K    0 1 │ 2 3 │ 4 5       A step along K is two products of 16. The loads of the second begin before the products of the
//     load     0 1 2 │ 3 4 │ 5         first, and those of the next step's first before the products of this step's second: so
//     multiply   0 1 │ 2 3 │ 4 5       the barrier stands between the two.
//
// Limited by registers: 64 sums and two sets of 24 leave no room for larger parts of C per warp, so each value from shared memory
// serves 64 or 32 multiply-adds of a warp and no more. Here GPUs of the Ampere generation are at their end.
// nvrtc: --gpu-architecture=compute_80 // run: gemm // trial: gemm
#include "cp_async.cuh"
#include "mma.cuh"

constexpr int BM = 128, BN = 128;  // rows and columns of C per block
constexpr int BK = 32;             // step along K
constexpr int WM = 64, WN = 32;    // rows and columns of C per warp
constexpr int STAGES = 5;          // tiles of each matrix in shared memory
constexpr int THREADS = BM / WM * (BN / WN) * 32;
constexpr int A_VALUES = BM * BK, B_VALUES = BN * BK;  // of a tile
static_assert(BK == 32, "a step along K must be two products");
constexpr int STAGE = A_VALUES + B_VALUES, SHARED = STAGES * STAGE * 2;  // values, bytes

using Half = unsigned short;  // 16 bits of either type

// ANCHOR: places
// Where a tile has row `row` of A and its value of `i`; and B's value of `i` in `column`.
__device__ inline int place_in_a(int row, int i) {
    return row * BK + ((i / 8 ^ row / 2 % 4) * 8 | i % 8);
}

template <Layout LAYOUT>
__device__ inline int place_in_b(int i, int column) {
    return LAYOUT == TRANSPOSED ? place_in_a(column, i) : i * BN + ((column / 8 ^ i % 8) * 8 | column % 8);
}
// ANCHOR_END: places

// ANCHOR: fetch
// Sends both tiles for the values of i from `first` on their way, by 16 bytes; zeros beyond the edges. They are a group, which may
// be empty.
template <Layout LAYOUT>
__device__ void fetch(Half *a_tile, Half *b_tile, const Half *a, const Half *b, int first_row, int first_column, int first, int m,
                      int n, int k) {
    if (first < k) {
#pragma unroll
        for (int piece = threadIdx.x; piece < BM * BK / 8; piece += THREADS) {
            int y = piece / (BK / 8), x = piece % (BK / 8) * 8;
            int row = first_row + y, i = first + x;
            bool inside = row < m && i < k;
            copy16(a_tile + place_in_a(y, x), inside ? a + (size_t)row * k + i : a, inside);
        }
        constexpr int WIDTH = LAYOUT == TRANSPOSED ? BK : BN;  // of a row of B's tile
#pragma unroll
        for (int piece = threadIdx.x; piece < BN * BK / 8; piece += THREADS) {
            int y = piece / (WIDTH / 8), x = piece % (WIDTH / 8) * 8;
            int column = first_column + (LAYOUT == TRANSPOSED ? y : x), i = first + (LAYOUT == TRANSPOSED ? x : y);
            bool inside = column < n && i < k;
            const Half *from = LAYOUT == TRANSPOSED ? b + (size_t)column * k + i : b + (size_t)i * n + column;
            copy16(b_tile + place_in_b<LAYOUT>(i - first, column - first_column), inside ? from : b, inside);
        }
    }
    end_copy_group();
}
// ANCHOR_END: fetch

// ANCHOR: multiply
// What a warp holds of 16 values of i, for its part of C that begins at (y, x).
template <Layout LAYOUT>
struct Fragments {
    unsigned rows[WM / 16][4], columns[WN / 8 * 2];

    __device__ void load(const Half *a_tile, const Half *b_tile, int i, int y, int x) {
        int lane = threadIdx.x % 32;
#pragma unroll
        for (int r = 0; r < WM / 16; r++) {
            load_matrices(rows[r], a_tile + place_in_a(y + r * 16 + lane % 16, i + lane / 16 * 8));
        }
#pragma unroll
        for (int s = 0; s < WN / 16; s++) {  // 16 columns: both matrices of the first 8, then of the others
            if (LAYOUT == TRANSPOSED) {
                int column = x + s * 16 + lane / 16 * 8 + lane % 8;
                load_matrices(columns + s * 4, b_tile + place_in_b<LAYOUT>(i + lane / 8 % 2 * 8, column));
            } else {
                load_transposed(columns + s * 4, b_tile + place_in_b<LAYOUT>(i + lane % 16, x + s * 16 + lane / 16 * 8));
            }
        }
    }

    template <class Element> __device__ void multiply(float (&sums)[WM / 16][WN / 8 * 4]) const {
#pragma unroll
        for (int r = 0; r < WM / 16; r++) {
#pragma unroll
            for (int s = 0; s < WN / 8; s++) {
                mma(Element(), &sums[r][s * 4], rows[r], columns + s * 2);
            }
        }
    }
};
// ANCHOR_END: multiply

// ANCHOR: kernel
template <class Element, Layout LAYOUT>
__device__ void gemm(const Half *a, const Half *b, Half *c, int m, int n, int k, const Epilogue &epilogue) {
    extern __shared__ __align__(16) Half stages[];  // of each A's tile, then B's
    int tiles = (n + BN - 1) / BN, warp = threadIdx.x / 32;
    int first_row = blockIdx.x / tiles * BM, first_column = blockIdx.x % tiles * BN;
    int y = warp / (BN / WN) * WM, x = warp % (BN / WN) * WN;

    float sums[WM / 16][WN / 8 * 4] = {};
    auto copy_step = [&](int step) {
        Half *a_tile = stages + step % STAGES * STAGE;
        fetch<LAYOUT>(a_tile, a_tile + A_VALUES, a, b, first_row, first_column, step * BK, m, n, k);
    };
#pragma unroll
    for (int step = 0; step < STAGES - 1; step++) {
        copy_step(step);
    }
    int steps = (k + BK - 1) / BK;
    Fragments<LAYOUT> fragments[2];
    auto load = [&](int step, int part) {
        if (step < steps) {
            const Half *a_tile = stages + step % STAGES * STAGE;
            fragments[part].load(a_tile, a_tile + A_VALUES, part * 16, y, x);
        }
    };
    copy_groups_arrived<STAGES - 2>();
    __syncthreads();  // the first step's tiles are complete
    load(0, 0);
    for (int step = 0; step < steps; step++) {
        load(step, 1);
        copy_step(step + STAGES - 1);
        fragments[0].template multiply<Element>(sums);
        copy_groups_arrived<STAGES - 2>();
        __syncthreads();  // the next step's tiles are complete, and all warps have loaded all of this one's
        load(step + 1, 0);
        fragments[1].template multiply<Element>(sums);
    }
#pragma unroll
    for (int r = 0; r < WM / 16; r++) {
        SumPlace place(first_row + y + r * 16, first_column + x);
        finish<Element>(epilogue, sums[r], place, m, n);
        write<Element>(c, sums[r], place, m, n);
    }
}
// ANCHOR_END: kernel

GEMM_KERNELS(GEMM_KERNEL, (THREADS), gemm)
