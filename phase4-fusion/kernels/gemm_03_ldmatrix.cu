// GEMM with fragments by hand: `ldmatrix` reads them from shared memory, `mma.sync` multiplies them, and what a lane holds is known.
//
//     block  128 × 128, 32 of K per step       8 warps, 2 × 4 of them, 64 × 32 of C each: 64 sums per lane
//     warp   4 × 4 products of 16 × 8 × 16     8 loads of four matrices serve 32 products
//     rows   64 bytes, and 16 more             8 rows of a matrix then lie in 8 different groups of banks
//
// Tiles travel by 16 bytes, so rows must begin at multiples of that: K is a multiple of 8, and so is N if B is [K, N]. The epilogue
// works on registers, and C needs no shared memory.
//
// Limited by waiting: all warps fetch, then all multiply, and meanwhile the other units are idle.
// nvrtc: --gpu-architecture=compute_80 // run: gemm // trial: gemm
#include "mma.cuh"

constexpr int BM = 128, BN = 128;  // rows and columns of C per block
constexpr int BK = 32;             // step along K
constexpr int WM = 64, WN = 32;    // rows and columns of C per warp
constexpr int PAD = 8;             // values after each row of a tile
constexpr int THREADS = BM / WM * (BN / WN) * 32;
constexpr int A_VALUES = BM * (BK + PAD), B_VALUES = BN * (BK + PAD);  // of a tile; of B transposed, the larger one

using Half = unsigned short;  // 16 bits of either type

// ANCHOR: places
// Where a tile has row `row` of A and its value of `i`; and B's value of `i` in `column`.
__device__ inline int place_in_a(int row, int i) {
    return row * (BK + PAD) + i;
}

template <Layout LAYOUT>
__device__ inline int place_in_b(int i, int column) {
    return LAYOUT == TRANSPOSED ? column * (BK + PAD) + i : i * (BN + PAD) + column;
}
// ANCHOR_END: places

// ANCHOR: fetch
// Both tiles for the values of i from `first` on, by 16 bytes; zeros beyond the edges.
template <Layout LAYOUT>
__device__ void fetch(Half *a_tile, Half *b_tile, const Half *a, const Half *b, int first_row, int first_column, int first, int m,
                      int n, int k) {
    auto copy = [](Half *to, const Half *from, bool inside) {
        uint4 zeros = make_uint4(0, 0, 0, 0);
        *reinterpret_cast<uint4 *>(to) = inside ? *reinterpret_cast<const uint4 *>(from) : zeros;
    };
#pragma unroll
    for (int piece = threadIdx.x; piece < BM * BK / 8; piece += THREADS) {
        int y = piece / (BK / 8), x = piece % (BK / 8) * 8;
        int row = first_row + y, i = first + x;
        copy(a_tile + place_in_a(y, x), a + (size_t)row * k + i, row < m && i < k);
    }
    constexpr int WIDTH = LAYOUT == TRANSPOSED ? BK : BN;  // of a row of B's tile
#pragma unroll
    for (int piece = threadIdx.x; piece < BN * BK / 8; piece += THREADS) {
        int y = piece / (WIDTH / 8), x = piece % (WIDTH / 8) * 8;
        int column = first_column + (LAYOUT == TRANSPOSED ? y : x), i = first + (LAYOUT == TRANSPOSED ? x : y);
        const Half *from = LAYOUT == TRANSPOSED ? b + (size_t)column * k + i : b + (size_t)i * n + column;
        copy(b_tile + place_in_b<LAYOUT>(i - first, column - first_column), from, column < n && i < k);
    }
}
// ANCHOR_END: fetch

// ANCHOR: multiply
// The product of two tiles: what a warp has of it, its part of C beginning at (y, x).
template <class Element, Layout LAYOUT>
__device__ void multiply(float (&sums)[WM / 16][WN / 8 * 4], const Half *a_tile, const Half *b_tile, int y, int x) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < BK; i += 16) {
        unsigned rows[WM / 16][4], columns[WN / 8 * 2];
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
#pragma unroll
        for (int r = 0; r < WM / 16; r++) {
#pragma unroll
            for (int s = 0; s < WN / 8; s++) {
                mma(Element(), &sums[r][s * 4], rows[r], columns + s * 2);
            }
        }
    }
}
// ANCHOR_END: multiply

// ANCHOR: kernel
template <class Element, Layout LAYOUT>
__device__ void gemm(const Half *a, const Half *b, Half *c, int m, int n, int k, const Epilogue &epilogue) {
    __shared__ __align__(16) Half a_tile[A_VALUES], b_tile[B_VALUES];
    int tiles = (n + BN - 1) / BN, warp = threadIdx.x / 32;
    int first_row = blockIdx.x / tiles * BM, first_column = blockIdx.x % tiles * BN;
    int y = warp / (BN / WN) * WM, x = warp % (BN / WN) * WN;

    float sums[WM / 16][WN / 8 * 4] = {};
    for (int first = 0; first < k; first += BK) {
        fetch<LAYOUT>(a_tile, b_tile, a, b, first_row, first_column, first, m, n, k);
        __syncthreads();  // the tiles are complete
        multiply<Element, LAYOUT>(sums, a_tile, b_tile, y, x);
        __syncthreads();  // all warps are done with them
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
