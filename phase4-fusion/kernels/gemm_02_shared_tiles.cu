// GEMM on the tensor cores through shared memory: a block fetches tiles of A and B once, and all its warps use them.
//
//                    B tile [32 of K][64 columns]      Each value fetched serves 64 multiply-adds. What lies beyond the edges is
//                    ┌───────┐                         zero in shared memory, so fragments need no edge of their own, and
//                    └───────┘                         products of any M, N and K are possible.
//        ┌──────┐    ┌───┬───┐
//        │      │    ├───┼───┤  C tile, 32 × 32 per warp
//        └──────┘    └───┴───┘
//        A tile [64 rows][32 of K]
//
// Limited by the way into shared memory, two bytes at a time, and by bank conflicts: the rows of a fragment lie in a few banks.
// nvrtc: --gpu-architecture=compute_80 // run: gemm // trial: gemm
#include "wmma.cuh"

constexpr int BM = 64, BN = 64;  // rows and columns of C per block
constexpr int BK = 32;           // step along K
constexpr int WM = 32, WN = 32;  // rows and columns of C per warp
constexpr int THREADS = BM / WM * (BN / WN) * 32;

// ANCHOR: fetch
// A tile of a row-major matrix [rows, columns] that begins at (row, column); zeros beyond its edges.
template <int ROWS, int COLUMNS>
__device__ void fetch(unsigned short *tile, const unsigned short *from, int row, int column, int rows, int columns) {
#pragma unroll 4
    for (int at = threadIdx.x; at < ROWS * COLUMNS; at += THREADS) {
        int y = row + at / COLUMNS, x = column + at % COLUMNS;
        tile[at] = y < rows && x < columns ? from[(size_t)y * columns + x] : (unsigned short)0;
    }
}
// ANCHOR_END: fetch

// ANCHOR: kernel
template <class Element, Layout LAYOUT>
__device__ void gemm(const typename Element::Value *a, const typename Element::Value *b, typename Element::Value *c, int m, int n,
                     int k, const Epilogue &epilogue) {
    __shared__ __align__(32) unsigned short a_tile[BM * BK];  // [row][i]
    __shared__ __align__(32) unsigned short b_tile[BK * BN];  // [i][column], or transposed [column][i]
    __shared__ __align__(32) float places[THREADS / 32][16 * 16];
    int tiles = (n + BN - 1) / BN, warp = threadIdx.x / 32;
    int first_row = blockIdx.x / tiles * BM, first_column = blockIdx.x % tiles * BN;
    int y = warp / (BN / WN) * WM, x = warp % (BN / WN) * WN;

    float sums[WM / 16][WN / 16][8] = {};
    for (int first = 0; first < k; first += BK) {
        fetch<BM, BK>(a_tile, a, first_row, first, m, k);
        if (LAYOUT == ROW_MAJOR) {
            fetch<BK, BN>(b_tile, b, first, first_column, k, n);
        } else {
            fetch<BN, BK>(b_tile, b, first_column, first, n, k);
        }
        __syncthreads();  // the tiles are complete
#pragma unroll
        for (int i = 0; i < BK; i += 16) {
            Fragment<Element> rows[WM / 16], columns[WN / 16];
#pragma unroll
            for (int r = 0; r < WM / 16; r++) {
                load_a(rows[r], a_tile + (y + r * 16) * BK + i, BK);
            }
#pragma unroll
            for (int s = 0; s < WN / 16; s++) {
                int column = x + s * 16;
                load_b<LAYOUT>(columns[s], LAYOUT == ROW_MAJOR ? b_tile + i * BN + column : b_tile + column * BK + i,
                               LAYOUT == ROW_MAJOR ? BN : BK);
            }
#pragma unroll
            for (int r = 0; r < WM / 16; r++) {
#pragma unroll
                for (int s = 0; s < WN / 16; s++) {
                    multiply<LAYOUT>(sums[r][s], rows[r], columns[s]);
                }
            }
        }
        __syncthreads();  // all warps are done with them
    }
#pragma unroll
    for (int r = 0; r < WM / 16; r++) {
#pragma unroll
        for (int s = 0; s < WN / 16; s++) {
            finish_fragment<Element>(places[warp], sums[r][s], epilogue, c, first_row + y + r * 16, first_column + x + s * 16, m, n);
        }
    }
}
// ANCHOR_END: kernel

GEMM_KERNELS(GEMM_KERNEL, (THREADS), gemm)
