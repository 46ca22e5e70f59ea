// A convolution whose windows TMA gathers: the main loop of the matrix products, with tiles of A that are pixels under a tap of the
// filter. No thread computes an address, no window is written out, and the padding costs nothing.
//
// One shape for all: 128 pixels × 64 channels of the output per block. Limited by the loads: a tap's pixels are fetched again
// for each of the R · S taps, 24 KiB for 256 cycles of the tensor cores, which is about twice what L2 delivers.
// nvrtc: --gpu-architecture=compute_90a // run: conv
#include "conv_kernels.cuh"

// ANCHOR: shape
template <class Type>
struct Square {
    using Element = Type;
    static constexpr int BM = 128, BN = 64;  // pixels and channels of the output per block
    static constexpr int CONSUMERS = 2;      // warpgroups that multiply, 64 pixels each
    static constexpr int STAGES = 7;         // tiles in shared memory
    static constexpr int OUT_BOXES = 1;      // of the output in shared memory, per consumer
    static constexpr int ROWS = 1, COLUMNS = 1, SLICES = 1;
};
// ANCHOR_END: shape

CONV_KERNEL(conv_f16, Square<F16>)
CONV_KERNEL(conv_tf32, Square<TF32>)
