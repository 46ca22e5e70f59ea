// GEMM in clusters: two blocks, one below the other, share B's tile. Each fetches half of it for both.
//
//     block 0   A 0 ■ ■ ■ ■      ■ ■  B's tile, its first half fetched by block 0 and its second by block 1, sent to both
//     block 1   A 1 ■ ■ ■ ■      (multicast): two thirds of step 10's bytes come from L2
//
// Clusters take their tiles in bands, down the columns of a band: those that run together share rows and columns in L2.
// Limited by sizes that this tile does not fit.
// nvrtc: --gpu-architecture=compute_90a // run: gemm // trial: gemm
#include "gemm_shapes.cuh"

template <class Type>
struct Large {
    using Element = Type;
    static constexpr int BM = 128, BN = 256;       // rows and columns of C per block
    static constexpr int CONSUMERS = 2;
    static constexpr int STAGES = 3, OUT_BOXES = 4;
    static constexpr int ROWS = 2, COLUMNS = 1, SLICES = 1;  // of a cluster
};

GEMM_SHAPE_KERNELS(Large, F16, f16, )
GEMM_SHAPE_KERNELS(Large, BF16, bf16, )
