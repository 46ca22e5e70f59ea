// GEMM with a warpgroup's products: four warps multiply 64 × 128 × 16 at a time, and read A and B from shared memory by themselves.
//
//     fetch by 16 bytes, swizzled by hand │ fence │ barrier │ 4 products of a warpgroup │ wait │ barrier
//
// No fragment passes through registers: they hold the sums alone. A descriptor says where a tile lies and how; and since wgmma reads
// shared memory past the threads' own way (the async proxy), what they have written must be fenced before.
//
// Limited by waiting, as step 3 was: a block fetches, then multiplies. Two of them on an SM take turns.
// nvrtc: --gpu-architecture=compute_90a // run: gemm // trial: gemm
#include "swizzled.cuh"

constexpr int BM = 128, BN = 128;  // rows and columns of C per block
constexpr int THREADS = BM / 64 * GROUP_THREADS;

using Half = unsigned short;  // 16 bits of either type

// ANCHOR: fetch
// ROWS × WIDE values of a row-major matrix [rows, columns] from (row, column) on; zeros beyond its edges.
template <int ROWS, int WIDE>
__device__ void fetch(unsigned char *tile, const Half *from, int row, int column, int rows, int columns) {
#pragma unroll
    for (int at = threadIdx.x; at < ROWS * WIDE / 8; at += THREADS) {
        int y = at / (WIDE / 8), piece = at % (WIDE / 8), x = column + piece * 8;
        bool inside = row + y < rows && x < columns;
        uint4 zeros = make_uint4(0, 0, 0, 0);
        unsigned char *to = tile + piece / 8 * BOX_BYTES + y * ROW_BYTES + (piece % 8 ^ y % 8) * 16;
        *reinterpret_cast<uint4 *>(to) = inside ? *reinterpret_cast<const uint4 *>(from + (size_t)(row + y) * columns + x) : zeros;
    }
}
// ANCHOR_END: fetch

// ANCHOR: kernel
template <class Element, Layout LAYOUT>
__device__ void gemm(const Half *a, const Half *b, Half *c, int m, int n, int k, const Epilogue &epilogue) {
    __shared__ __align__(1024) unsigned char a_tile[(BM + BN) * ROW_BYTES];  // and B's
    unsigned char *b_tile = a_tile + BM * ROW_BYTES;
    int tiles = (n + BN - 1) / BN, group = threadIdx.x / GROUP_THREADS;
    int first_row = blockIdx.x / tiles * BM, first_column = blockIdx.x % tiles * BN;

    float sums[BN / 2] = {};
    for (int first = 0; first < k; first += BK) {
        fetch<BM, BK>(a_tile, a, first_row, first, m, k);
        if (LAYOUT == TRANSPOSED) {
            fetch<BN, BK>(b_tile, b, first_column, first, n, k);
        } else {
            fetch<BK, BN>(b_tile, b, first, first_column, k, n);
        }
        fence_async_proxy();
        __syncthreads();  // the tiles are complete
        wgmma_fence();
        multiply<Element, LAYOUT>(sums, shared_address(a_tile) + group * 64 * ROW_BYTES, shared_address(b_tile));
        wgmma_commit();
        wgmma_wait<0>();
        __syncthreads();  // both groups are done with them
    }
    finish_rows<Element>(epilogue, sums, c, first_row + group * 64, first_column, m, n);
}
// ANCHOR_END: kernel

GEMM_KERNELS(GEMM_KERNEL, (THREADS), gemm)
