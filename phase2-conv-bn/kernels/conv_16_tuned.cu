// Implicit GEMM with the tile that fits: five shapes, of which the host picks one and its cuts by a model of measured times.
//
//     64 × 128    for large batches, as step 13: 8 × 8 sums per thread, a value fetched serves 64 multiply-adds
//     64 × 64     for fewer pixels, as step 12
//     …Async      the same, and 32 × 64, with copies and stages as steps 14 and 15, and up to 8 warps: where an SM has one
//                 block, they hide the latency
//
// Limited by the arithmetic units for large batches: an addition and a comparison go with each value fetched. For single images by
// the latency of a step and of handing over parts.
// nvrtc: --gpu-architecture=compute_80 // run: conv // trial: conv
#include "conv_tile.cuh"

// ANCHOR: kernel
struct Wide {
    static constexpr int BM = 64, BN = 128;              // output channels and pixels per block
    static constexpr int WM = 32, WN = 64, LANES_Y = 4;  // per warp, and its lanes down
    static constexpr int STAGES = 2;
    static constexpr bool THROUGH_REGISTERS = true;
};
struct Square {
    static constexpr int BM = 64, BN = 64;
    static constexpr int WM = 32, WN = 32, LANES_Y = 4;
    static constexpr int STAGES = 2;
    static constexpr bool THROUGH_REGISTERS = true;
};
struct WideAsync {
    static constexpr int BM = 64, BN = 128;
    static constexpr int WM = 32, WN = 32, LANES_Y = 4;
    static constexpr int STAGES = 3;
    static constexpr bool THROUGH_REGISTERS = false;
};
struct SquareAsync {
    static constexpr int BM = 64, BN = 64;
    static constexpr int WM = 32, WN = 16, LANES_Y = 8;
    static constexpr int STAGES = 4;
    static constexpr bool THROUGH_REGISTERS = false;
};
struct SmallAsync {
    static constexpr int BM = 32, BN = 64;
    static constexpr int WM = 16, WN = 32, LANES_Y = 4;
    static constexpr int STAGES = 4;
    static constexpr bool THROUGH_REGISTERS = false;
};

// A kernel for a shape, of which BLOCKS must fit an SM at a time.
#define CONV_KERNEL(name, BLOCKS, SHAPE, VECTORS)                                                                       \
    extern "C" __global__ void __launch_bounds__(Geometry<SHAPE>::THREADS, BLOCKS)                                      \
        name(const float *__restrict__ input, const float *__restrict__ weight, const float *__restrict__ bias,        \
             float *__restrict__ output, const int2 *__restrict__ table, float *__restrict__ parts,                     \
             unsigned *__restrict__ arrived, Conv2d conv, int steps_each, Epilogue epilogue) {                          \
        ConvTile<SHAPE, VECTORS>::run(input, weight, bias, output, table, parts, arrived, conv, steps_each, epilogue); \
    }

CONV_KERNEL(conv_64x128, 3, Wide, true)
CONV_KERNEL(conv_64x128_any, 3, Wide, false)
CONV_KERNEL(conv_64x64, 4, Square, true)
CONV_KERNEL(conv_64x64_any, 4, Square, false)
CONV_KERNEL(conv_64x128_async, 2, WideAsync, false)
CONV_KERNEL(conv_64x64_async, 2, SquareAsync, false)
CONV_KERNEL(conv_32x64_async, 4, SmallAsync, false)
// ANCHOR_END: kernel
