// C = A·B with A given as its transpose [K, M]: dW = gᵀ·x of a linear layer, with the main loop of gemm_18_tuned.cu. A lies in memory
// as shared memory wants it, so a copy has 16 bytes where that of a row-major A has 4.
//
// Limited by the arithmetic units.
// nvrtc: --gpu-architecture=compute_80 // run: test linear // trial: linear_mask
#include "gemm_tile.cuh"

// C [M, N] = A·B, with A given as [K, M] and B as [K, N].
template <class Tile>
__device__ void gemm(const float *a, const float *b, const float *bias, float *c, int m, int n, int k, Epilogue epilogue) {
    extern __shared__ float4 shared[];
    int first_row, first_column;
    place_of_tile<Tile>(blockIdx.x, m, n, first_row, first_column);
    Tile tile;
    tile.multiply(reinterpret_cast<float *>(shared), a, b, m, n, k, first_row, first_column, 0, steps_along<Tile>(k));
    tile.finish(reinterpret_cast<float *>(shared), epilogue, bias, c, m, n, first_row, first_column);
}

// As in gemm_18_tuned.cu.
struct Large {
    static constexpr int BM = 128, BN = 256, BK = 32, WM = 64, WN = 64;
    static constexpr int SLICES = 1, STAGES = 3;
};
struct Square {
    static constexpr int BM = 128, BN = 128, BK = 16, WM = 64, WN = 64;
    static constexpr int SLICES = 2, STAGES = 8;
};
struct Medium {
    static constexpr int BM = 64, BN = 128, BK = 32, WM = 32, WN = 64;
    static constexpr int SLICES = 2, STAGES = 3;
};
struct Small {
    static constexpr int BM = 32, BN = 32, BK = 32, WM = 32, WN = 32;
    static constexpr int SLICES = 4, STAGES = 4;
};

#define TRANSPOSED_A(name, SHAPE, full)                                                                                 \
    GEMM_KERNEL_BOUNDED(name, (Geometry<SHAPE>::THREADS, 1), gemm<Tile<SHAPE, ROW_MAJOR, full, TRANSPOSED>>)
TRANSPOSED_A(gemm_tn_128x256, Large, true)
TRANSPOSED_A(gemm_tn_128x128, Square, true)
TRANSPOSED_A(gemm_tn_64x128, Medium, true)
TRANSPOSED_A(gemm_tn_64x128_any, Medium, false)
TRANSPOSED_A(gemm_tn_32x32, Small, true)
TRANSPOSED_A(gemm_tn_32x32_any, Small, false)
