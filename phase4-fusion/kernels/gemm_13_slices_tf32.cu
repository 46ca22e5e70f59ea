// Step 13's products of tf32: f32 in memory, of which the tensor cores use the upper 19 bits; B is given as its transpose.
// nvrtc: --gpu-architecture=compute_90a // run: gemm // trial: gemm
#include "gemm_shapes.cuh"
#include "slices.cuh"

GEMM_SLICED_KERNEL(gemm_nt_tf32_128x128_4, Fourths, TF32, TRANSPOSED)
GEMM_SLICED_KERNEL(gemm_nt_tf32_128x128_6, Sixths, TF32, TRANSPOSED)
GEMM_SLICED_KERNEL(gemm_nt_tf32_128x128_8, LargeEighths, TF32, TRANSPOSED)
GEMM_SLICED_KERNEL(gemm_nt_tf32_64x64_4, Quarters, TF32, TRANSPOSED)
GEMM_SLICED_KERNEL(gemm_nt_tf32_64x64_8, Eighths, TF32, TRANSPOSED)
