// GEMM for small C and long K: the blocks of a cluster share a tile of C, each for a part of K, and add up their sums in each other's
// shared memory. C of 512 × 512 is 64 tiles of 64 × 64; cut into eight slices, 512 blocks work on it instead of 64.
//
//     slice 0   steps  0 … 15 ──┐
//     slice 1   steps 16 … 31 ──┤  64 × 64 sums of each slice in its shared memory; then each block adds up
//     …                         │  64 / SLICES rows of all slices, and finishes them
//     slice 7                 ──┘
//
// Limited by latency: a few steps, two meetings of the cluster, and reads of other blocks' shared memory.
// nvrtc: --gpu-architecture=compute_90a
#include "gemm_shapes.cuh"
#include "slices.cuh"

GEMM_SLICED_KERNELS(Halves, F16, f16, _128x128_2)
GEMM_SLICED_KERNELS(Halves, BF16, bf16, _128x128_2)
GEMM_SLICED_KERNELS(Quarters, F16, f16, _64x64_4)
GEMM_SLICED_KERNELS(Quarters, BF16, bf16, _64x64_4)
GEMM_SLICED_KERNELS(Eighths, F16, f16, _64x64_8)
GEMM_SLICED_KERNELS(Eighths, BF16, bf16, _64x64_8)
