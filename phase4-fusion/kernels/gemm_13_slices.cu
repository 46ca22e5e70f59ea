// GEMM for small C and long K: the blocks of a cluster share a tile of C, each for a part of K, and add up their sums in each other's
// shared memory. C of 256 × 256 is 16 tiles of 64 × 64; cut into four slices, 64 SMs work on it instead of 16. With K = 4096:
//
//     slice 0   steps  0 … 15 ──┐
//     slice 1   steps 16 … 31 ──┤  64 × 64 sums of each slice in its shared memory; then each block adds up
//     slice 2   steps 32 … 47 ──┤  64 / SLICES rows of all slices, and finishes them
//     slice 3   steps 48 … 63 ──┘
//
//     tile        slices     for products with, per SM
//     128 × 128        6     0.5 blocks, and 64 steps along K
//     128 × 128        4     0.4 to 0.6 blocks, and 48 steps
//      64 ×  64        8     0.25 blocks or fewer, and 64 steps
//      64 ×  64        4     0.5 or fewer, and 24 steps
//
// Limited by latency: a few steps, two meetings of the cluster, and reads of other blocks' shared memory.
// nvrtc: --gpu-architecture=compute_90a // run: gemm // trial: gemm
#include "gemm_shapes.cuh"
#include "slices.cuh"

GEMM_SLICED_KERNELS(Fourths, F16, f16, _128x128_4)
GEMM_SLICED_KERNELS(Fourths, BF16, bf16, _128x128_4)
GEMM_SLICED_KERNELS(Sixths, F16, f16, _128x128_6)
GEMM_SLICED_KERNELS(Sixths, BF16, bf16, _128x128_6)
GEMM_SLICED_KERNELS(LargeEighths, F16, f16, _128x128_8)
GEMM_SLICED_KERNELS(LargeEighths, BF16, bf16, _128x128_8)
GEMM_SLICED_KERNELS(Quarters, F16, f16, _64x64_4)
GEMM_SLICED_KERNELS(Quarters, BF16, bf16, _64x64_4)
GEMM_SLICED_KERNELS(Eighths, F16, f16, _64x64_8)
GEMM_SLICED_KERNELS(Eighths, BF16, bf16, _64x64_8)
