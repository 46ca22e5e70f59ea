// GEMM with the tile that fits the problem: the larger it is, the fewer bytes a multiply-add needs, and the fewer blocks there
// are to fill the chip with.
//
//     tile          threads   sums a thread   bytes from L2 a multiply-add   a product has to have at least
//     128 × 256         256             128                           1/21   one such tile a multiprocessor
//      64 × 128         128              64                           1/11   …
//      32 ×  64         128              16                            1/5   nothing
//
// Limited by the arithmetic units: 128 multiply-adds for 6 loads from shared memory. What keeps the largest from its peak is
// the register file, which delivers two operands a cycle and lane while a multiply-add has three.
// nvrtc: --gpu-architecture=compute_80
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
    tile.finish(epilogue, bias, c, m, n, first_row, first_column);
}
// ANCHOR_END: kernel

template <Layout LAYOUT, bool FULL> using Large = Tile<LAYOUT, FULL, 128, 256, 32, 64, 64, 4, 3, true>;
template <Layout LAYOUT, bool FULL> using Medium = Tile<LAYOUT, FULL, 64, 128, 16, 32, 64, 4, 4, true>;
template <Layout LAYOUT, bool FULL> using Small = Tile<LAYOUT, FULL, 32, 64, 32, 16, 32, 4, 4, true>;

GEMM_KERNEL(gemm_nn_128x256, 256, gemm<Large<ROW_MAJOR, true>>)
GEMM_KERNEL(gemm_nt_128x256, 256, gemm<Large<TRANSPOSED, true>>)
GEMM_KERNEL(gemm_nn_64x128, 128, gemm<Medium<ROW_MAJOR, true>>)
GEMM_KERNEL(gemm_nt_64x128, 128, gemm<Medium<TRANSPOSED, true>>)
GEMM_KERNEL(gemm_nn_64x128_any, 128, gemm<Medium<ROW_MAJOR, false>>)
GEMM_KERNEL(gemm_nt_64x128_any, 128, gemm<Medium<TRANSPOSED, false>>)
GEMM_KERNEL(gemm_nn_32x64, 128, gemm<Small<ROW_MAJOR, true>>)
GEMM_KERNEL(gemm_nt_32x64, 128, gemm<Small<TRANSPOSED, true>>)
GEMM_KERNEL(gemm_nn_32x64_any, 128, gemm<Small<ROW_MAJOR, false>>)
GEMM_KERNEL(gemm_nt_32x64_any, 128, gemm<Small<TRANSPOSED, false>>)
