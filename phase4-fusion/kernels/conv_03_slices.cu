// A convolution for few pixels and many channels: the blocks of a cluster share a tile of the output, each for a part of the taps and
// channels, and add up their sums in each other's shared memory. A 7 × 7 image with 512 channels is one row of 8 tiles; cut into
// eight slices, 64 SMs work on it instead of 8.
//
//     slice 0   steps  0 …  8 ──┐
//     slice 1   steps  9 … 17 ──┤  64 × 64 sums of each slice in its shared memory; then each block adds up
//     …                         │  64 / SLICES rows of all slices, and finishes them
//     slice 7   steps 63 … 71 ──┘
//
// Limited by latency: a few steps, two meetings of the cluster, and reads of other blocks' shared memory.
// nvrtc: --gpu-architecture=compute_90a // run: conv
#include "conv_kernels.cuh"
#include "slices.cuh"

SLICED_KERNEL(conv_f16_128x128_2, Halves<F16>)
SLICED_KERNEL(conv_f16_128x160_2, Halves160<F16>)
SLICED_KERNEL(conv_f16_192x128_3, Thirds<F16>)
SLICED_KERNEL(conv_f16_128x128_4, Fourths<F16>)
SLICED_KERNEL(conv_f16_128x128_8, LargeEighths<F16>)
SLICED_KERNEL(conv_f16_64x64_4, Quarters<F16>)
SLICED_KERNEL(conv_f16_64x64_8, Eighths<F16>)
SLICED_KERNEL(conv_tf32_128x128_2, Halves<TF32>)
SLICED_KERNEL(conv_tf32_128x160_2, Halves160<TF32>)
SLICED_KERNEL(conv_tf32_192x128_3, Thirds<TF32>)
SLICED_KERNEL(conv_tf32_128x128_4, Fourths<TF32>)
SLICED_KERNEL(conv_tf32_128x128_8, LargeEighths<TF32>)
SLICED_KERNEL(conv_tf32_64x64_4, Quarters<TF32>)
SLICED_KERNEL(conv_tf32_64x64_8, Eighths<TF32>)
