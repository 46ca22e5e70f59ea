// Implicit GEMM with the tricks of the GEMM ladder: register tiles, 16-byte loads, the next step on its way while this one is
// multiplied, a table in place of divisions, and the taps cut where there are fewer tiles than the chip can run.
//
// Limited by the arithmetic units for large batches: an addition and a comparison go with each value fetched, and it serves
// BM multiply-adds. For single images by the latency of a step and of handing over parts.
// nvrtc: --gpu-architecture=compute_80
#include "conv_tile.cuh"

// A tile, and how many blocks of it shall fit on a multiprocessor.
#define CONV_KERNEL(name, BLOCKS, ...)                                                                                  \
    extern "C" __global__ void __launch_bounds__(ConvTile<__VA_ARGS__>::THREADS, BLOCKS)                                \
        name(const float *__restrict__ input, const float *__restrict__ weight, const float *__restrict__ bias,        \
             float *__restrict__ output, const int2 *__restrict__ table, float *__restrict__ parts,                     \
             unsigned *__restrict__ arrived, Conv2d conv, int steps_each) {                                             \
        ConvTile<__VA_ARGS__>::run(input, weight, bias, output, table, parts, arrived, conv, steps_each);              \
    }

// BM, BN, WM, WN, LANES_Y, STAGES, THROUGH_REGISTERS, VECTORS
CONV_KERNEL(conv_64x128, 3, 64, 128, 32, 64, 4, 2, true, true)
CONV_KERNEL(conv_64x128_any, 3, 64, 128, 32, 64, 4, 2, true, false)
CONV_KERNEL(conv_64x64, 4, 64, 64, 32, 32, 4, 2, true, true)
CONV_KERNEL(conv_64x64_any, 4, 64, 64, 32, 32, 4, 2, true, false)
CONV_KERNEL(conv_64x128_async, 2, 64, 128, 32, 32, 4, 3, false, false)
CONV_KERNEL(conv_64x64_async, 2, 64, 64, 32, 16, 8, 4, false, false)
CONV_KERNEL(conv_32x64_async, 4, 32, 64, 16, 32, 4, 4, false, false)
