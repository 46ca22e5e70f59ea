// GEMM with a grid that stays: as many blocks as there is room for, each of which takes one tile of C after the other.
//
//     producer     tile 0 │ tile 1 │ tile 2 …        The ring does not run empty between tiles: while consumers store one, the
//     consumers         tile 0 ■ tile 1 ■ …          producer fetches the next. C goes to shared memory (■), from where the
//     stores                   tile 0   tile 1       copy engine stores it while the next tile is multiplied.
//
// The loop stands in gemm_hopper.cuh, which has step 9's roles. Limited by L2: each block fetches all of its tiles for itself, though its
// neighbours fetch the same ones.
// nvrtc: --gpu-architecture=compute_90a // run: gemm // trial: gemm
#include "gemm_shapes.cuh"

template <class Type>
struct Large {
    using Element = Type;
    static constexpr int BM = 128, BN = 256;       // rows and columns of C per block
    static constexpr int CONSUMERS = 2;
    static constexpr int STAGES = 3, OUT_BOXES = 4;
    static constexpr int ROWS = 1, COLUMNS = 1, SLICES = 1;  // of a cluster
};

GEMM_SHAPE_KERNELS(Large, F16, f16, )
GEMM_SHAPE_KERNELS(Large, BF16, bf16, )
