// Step 12's products of 8-bit floats, with f16 for C: 128 values are a row of a tile. What they were scaled by is undone by the epilogue's alpha.
// Sums keep 14 bits only: that is how this tensor core adds 8-bit floats.
// nvrtc: --gpu-architecture=compute_90a // run: gemm // trial: gemm
#include "gemm_shapes.cuh"
#include "shapes.cuh"

GEMM_SHAPE_KERNEL(gemm_nt_e4m3_128x256, Large, E4M3, TRANSPOSED)
GEMM_SHAPE_KERNEL(gemm_nt_e4m3_128x128, Square, E4M3, TRANSPOSED)
GEMM_SHAPE_KERNEL(gemm_nt_e4m3_64x128, Medium, E4M3, TRANSPOSED)
GEMM_SHAPE_KERNEL(gemm_nt_e4m3_64x64, Small, E4M3, TRANSPOSED)
