// GEMM with the tile that fits the problem: the larger it is, the fewer bytes a multiply-add needs, and the fewer blocks there
// are to fill the chip with. Where there is one block per SM at best, slices of its tile give it warps to change to.
//
//     tile          threads   slices   sums per thread   bytes from L2 per multiply-add   for products with, per SM
//     128 × 256         256        1               128                             1/21   two such tiles
//     128 × 128         256        2               128                             1/16   0.9
//      64 × 128         256        2                64                             1/11   0.7
//      32 ×  32         128        4                32                              1/4   fewer
//
// Limited by the arithmetic units: 128 multiply-adds for 6 loads from shared memory. What keeps the largest from its peak is
// the register file, which delivers two operands per cycle and lane while a multiply-add has three.
// nvrtc: --gpu-architecture=compute_80 // run: gemm // trial: gemm
#include "gemm_tile.cuh"

// ANCHOR: kernel
template <class Tile>
__device__ void gemm(const float *a, const float *b, const float *bias, float *c, int m, int n, int k,
                     Epilogue epilogue) {
    extern __shared__ float4 shared[];
    int first_row, first_column;
    place_of_tile<Tile>(blockIdx.x, m, n, first_row, first_column);
    Tile tile;
    tile.multiply(reinterpret_cast<float *>(shared), a, b, m, n, k, first_row, first_column, 0, steps_along<Tile>(k));
    tile.finish(reinterpret_cast<float *>(shared), epilogue, bias, c, m, n, first_row, first_column);
}
// ANCHOR_END: kernel

// For products with two such tiles per SM, or more.
struct Large {
    static constexpr int BM = 128, BN = 256;  // rows and columns of C per block
    static constexpr int BK = 32;             // values of i per step
    static constexpr int WM = 64, WN = 64;    // rows and columns of C per warp
    static constexpr int SLICES = 1, STAGES = 3;
};
// For those with 0.9.
struct Square {
    static constexpr int BM = 128, BN = 128;
    static constexpr int BK = 16;
    static constexpr int WM = 64, WN = 64;
    static constexpr int SLICES = 2, STAGES = 8;
};
// For those with 0.7.
struct Medium {
    static constexpr int BM = 64, BN = 128;
    static constexpr int BK = 32;
    static constexpr int WM = 32, WN = 64;
    static constexpr int SLICES = 2, STAGES = 3;
};
// For the others.
struct Small {
    static constexpr int BM = 32, BN = 32;
    static constexpr int BK = 32;
    static constexpr int WM = 32, WN = 32;
    static constexpr int SLICES = 4, STAGES = 4;
};

GEMM_KERNEL_BOUNDED(gemm_nn_128x256, (Geometry<Large>::THREADS, 1), gemm<Tile<Large, ROW_MAJOR, true>>)
GEMM_KERNEL_BOUNDED(gemm_nt_128x256, (Geometry<Large>::THREADS, 1), gemm<Tile<Large, TRANSPOSED, true>>)
GEMM_KERNEL_BOUNDED(gemm_nn_128x128, (Geometry<Square>::THREADS, 1), gemm<Tile<Square, ROW_MAJOR, true>>)
GEMM_KERNEL_BOUNDED(gemm_nt_128x128, (Geometry<Square>::THREADS, 1), gemm<Tile<Square, TRANSPOSED, true>>)
GEMM_KERNEL_BOUNDED(gemm_nn_64x128, (Geometry<Medium>::THREADS, 1), gemm<Tile<Medium, ROW_MAJOR, true>>)
GEMM_KERNEL_BOUNDED(gemm_nt_64x128, (Geometry<Medium>::THREADS, 1), gemm<Tile<Medium, TRANSPOSED, true>>)
GEMM_KERNEL_BOUNDED(gemm_nn_64x128_any, (Geometry<Medium>::THREADS, 1), gemm<Tile<Medium, ROW_MAJOR, false>>)
GEMM_KERNEL_BOUNDED(gemm_nt_64x128_any, (Geometry<Medium>::THREADS, 1), gemm<Tile<Medium, TRANSPOSED, false>>)
GEMM_KERNEL_BOUNDED(gemm_nn_32x32, (Geometry<Small>::THREADS, 1), gemm<Tile<Small, ROW_MAJOR, true>>)
GEMM_KERNEL_BOUNDED(gemm_nt_32x32, (Geometry<Small>::THREADS, 1), gemm<Tile<Small, TRANSPOSED, true>>)
GEMM_KERNEL_BOUNDED(gemm_nn_32x32_any, (Geometry<Small>::THREADS, 1), gemm<Tile<Small, ROW_MAJOR, false>>)
GEMM_KERNEL_BOUNDED(gemm_nt_32x32_any, (Geometry<Small>::THREADS, 1), gemm<Tile<Small, TRANSPOSED, false>>)
