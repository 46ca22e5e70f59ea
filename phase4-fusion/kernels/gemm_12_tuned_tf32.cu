// Step 12's products of tf32: f32 in memory, of which the tensor cores use the upper 19 bits. 32 values are a row of a tile, so a stage
// is half as many of K; and the tensor cores read K-major tiles alone, so B is given as its transpose.
// nvrtc: --gpu-architecture=compute_90a // run: gemm // trial: gemm
#include "gemm_shapes.cuh"
#include "shapes.cuh"
#include "shapes_160.cuh"

GEMM_SHAPE_KERNEL(gemm_nt_tf32_128x256, Large, TF32, TRANSPOSED)
GEMM_SHAPE_KERNEL(gemm_nt_tf32_128x128, Square, TF32, TRANSPOSED)
GEMM_SHAPE_KERNEL(gemm_nt_tf32_64x128, Medium, TF32, TRANSPOSED)
GEMM_SHAPE_KERNEL(gemm_nt_tf32_64x64, Small, TF32, TRANSPOSED)
GEMM_SHAPE_KERNEL(gemm_nt_tf32_128x160, Square160, TF32, TRANSPOSED)
GEMM_SHAPE_KERNEL(gemm_nt_tf32_64x160, Wide160, TF32, TRANSPOSED)
