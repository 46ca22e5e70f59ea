// Step 12's products of 8-bit integers, with i32 for C: exact, and stored as they are.
// nvrtc: --gpu-architecture=compute_90a // run: gemm // trial: gemm
#include "gemm_shapes.cuh"
#include "shapes.cuh"

GEMM_SHAPE_KERNEL(gemm_nt_s8_128x256, Large, S8, TRANSPOSED)
GEMM_SHAPE_KERNEL(gemm_nt_s8_128x128, Square, S8, TRANSPOSED)
GEMM_SHAPE_KERNEL(gemm_nt_s8_64x128, Medium, S8, TRANSPOSED)
GEMM_SHAPE_KERNEL(gemm_nt_s8_64x64, Small, S8, TRANSPOSED)
