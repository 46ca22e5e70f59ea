// A convolution with the tile that fits the layer: the larger it is, the less often a pixel is fetched for one tap; the smaller, the
// more blocks there are for the SMs.
//
//     tile          bytes per cycle of the tensor cores     for layers with
//     256 × 160                   42                        many pixels, multiples of 320 channels
//     128 × 256                   48                        many pixels, multiples of 256 channels
//     192 × 128                   53                        many pixels and channels
//     128 × 160                   58                        multiples of 320 channels
//     128 × 128                   64                        fewer pixels, or one step
//     256 ×  64                   80                        many pixels, 64 channels
//      64 × 256                   80                        few pixels, multiples of 256 channels
//      64 × 160                   90                        few pixels, multiples of 320 channels
//      64 × 128                   96                        few pixels
//      64 ×  64                  128                        the fewest
//
// Limited by the tensor cores where K is long and there are two tiles per SM; else by the loads and the start.
// nvrtc: --gpu-architecture=compute_90a // run: conv
#include "conv_kernels.cuh"
#include "shapes_160.cuh"

// ANCHOR: shapes
// Many pixels and channels: three consumers.
template <class Type>
struct Tall192 {
    using Element = Type;
    static constexpr int BM = 192, BN = 128, CONSUMERS = 3, STAGES = 4, OUT_BOXES = 2;
    static constexpr int ROWS = 1, COLUMNS = 1, SLICES = 1;
};
// Many pixels, and multiples of 256 channels.
template <class Type>
struct Square256 {
    using Element = Type;
    static constexpr int BM = 128, BN = 256, CONSUMERS = 2, STAGES = 4, OUT_BOXES = 2;
    static constexpr int ROWS = 1, COLUMNS = 1, SLICES = 1;
};
// Few.
template <class Type>
struct Wide256 {
    using Element = Type;
    static constexpr int BM = 64, BN = 256, CONSUMERS = 1, STAGES = 5, OUT_BOXES = 2;
    static constexpr int ROWS = 1, COLUMNS = 1, SLICES = 1;
};
// Many pixels, few channels.
template <class Type>
struct Narrow {
    using Element = Type;
    static constexpr int BM = 256, BN = 64, CONSUMERS = 2, STAGES = 4, OUT_BOXES = 2;
    static constexpr int ROWS = 1, COLUMNS = 1, SLICES = 1;
};
// Fewer pixels.
template <class Type>
struct Square {
    using Element = Type;
    static constexpr int BM = 128, BN = 128, CONSUMERS = 2, STAGES = 5, OUT_BOXES = 2;
    static constexpr int ROWS = 1, COLUMNS = 1, SLICES = 1;
};
// Few pixels: one consumer.
template <class Type>
struct Wide {
    using Element = Type;
    static constexpr int BM = 64, BN = 128, CONSUMERS = 1, STAGES = 7, OUT_BOXES = 2;
    static constexpr int ROWS = 1, COLUMNS = 1, SLICES = 1;
};
// The fewest.
template <class Type>
struct Small {
    using Element = Type;
    static constexpr int BM = 64, BN = 64, CONSUMERS = 1, STAGES = 8, OUT_BOXES = 1;
    static constexpr int ROWS = 1, COLUMNS = 1, SLICES = 1;
};
// ANCHOR_END: shapes

CONV_KERNEL(conv_f16_256x64, Narrow<F16>)
CONV_KERNEL(conv_f16_192x128, Tall192<F16>)
CONV_KERNEL(conv_f16_128x256, Square256<F16>)
CONV_KERNEL(conv_f16_64x256, Wide256<F16>)
CONV_KERNEL(conv_f16_128x128, Square<F16>)
CONV_KERNEL(conv_f16_64x128, Wide<F16>)
CONV_KERNEL(conv_f16_64x64, Small<F16>)
CONV_KERNEL(conv_f16_256x160, Large160<F16>)
CONV_KERNEL(conv_f16_128x160, Square160<F16>)
CONV_KERNEL(conv_f16_64x160, Wide160<F16>)
CONV_KERNEL(conv_tf32_256x64, Narrow<TF32>)
CONV_KERNEL(conv_tf32_192x128, Tall192<TF32>)
CONV_KERNEL(conv_tf32_128x256, Square256<TF32>)
CONV_KERNEL(conv_tf32_64x256, Wide256<TF32>)
CONV_KERNEL(conv_tf32_128x128, Square<TF32>)
CONV_KERNEL(conv_tf32_64x128, Wide<TF32>)
CONV_KERNEL(conv_tf32_64x64, Small<TF32>)
CONV_KERNEL(conv_tf32_256x160, Large160<TF32>)
CONV_KERNEL(conv_tf32_128x160, Square160<TF32>)
CONV_KERNEL(conv_tf32_64x160, Wide160<TF32>)
