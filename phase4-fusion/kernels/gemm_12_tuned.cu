// GEMM with the tile that fits the problem: the larger it is, the fewer bytes a product needs, and the fewer blocks there are to fill
// the chip with.
//
//     tile         cluster   consumers   stages     bytes from L2 per multiply-add
//     128 × 256      2 × 1           2        3                               1/64
//     128 × 160      1 × 1           2        4                               1/36
//     128 × 128      1 × 1           2        5                               1/32
//      64 × 160      1 × 1           1        6                               1/23
//      64 × 128      1 × 1           1        7                               1/21
//      64 ×  64      1 × 1           1        8                               1/16
//
// The host takes the one with the shortest estimated time (src/tile.rs).
//
// Limited by the tensor cores where there are several tiles per SM; else by the loads, and by the start of the launch.
// nvrtc: --gpu-architecture=compute_90a // run: gemm // trial: gemm
#include "gemm_shapes.cuh"
#include "shapes.cuh"
#include "shapes_160.cuh"

GEMM_SHAPE_KERNELS(Large, F16, f16, _128x256)
GEMM_SHAPE_KERNELS(Large, BF16, bf16, _128x256)
GEMM_SHAPE_KERNELS(Square, F16, f16, _128x128)
GEMM_SHAPE_KERNELS(Square, BF16, bf16, _128x128)
GEMM_SHAPE_KERNELS(Medium, F16, f16, _64x128)
GEMM_SHAPE_KERNELS(Medium, BF16, bf16, _64x128)
GEMM_SHAPE_KERNELS(Small, F16, f16, _64x64)
GEMM_SHAPE_KERNELS(Small, BF16, bf16, _64x64)
// 160 columns are no whole boxes of 64 columns of B as it lies.
GEMM_SHAPE_KERNEL(gemm_nt_f16_128x160, Square160, F16, TRANSPOSED)
GEMM_SHAPE_KERNEL(gemm_nt_bf16_128x160, Square160, BF16, TRANSPOSED)
GEMM_SHAPE_KERNEL(gemm_nt_f16_64x160, Wide160, F16, TRANSPOSED)
GEMM_SHAPE_KERNEL(gemm_nt_bf16_64x160, Wide160, BF16, TRANSPOSED)
