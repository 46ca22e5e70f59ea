// Step 12's products of 8-bit floats whose blocks have scales, with bf16 for C:
//
//     C[m][n] = Σ over blocks b of scale_a[b][m] · scale_b[n / 128][b] · Σ over the 128 values i of b of A[m][i] · B[n][i]
//
// The tensor cores begin anew with each block, so that their 14 bits hold sums of 128 products at most; the consumers add up in f32.
// nvrtc: --gpu-architecture=compute_90a // run: gemm // trial: gemm
#include "gemm_scaled.cuh"
#include "shapes.cuh"

// ANCHOR: shapes
// Twice the rows of `Square`: a consumer multiplies 64 of them and adds, then the next 64, with 128 registers of sums and 64 of products.
template <class Type>
struct Tall {
    using Element = Type;
    static constexpr int BM = 256, BN = 128;
    static constexpr int CONSUMERS = 2;
    static constexpr int STAGES = 4, OUT_BOXES = 1;
    static constexpr int ROWS = 1, COLUMNS = 1, SLICES = 1;
};
// ANCHOR_END: shapes

#define GEMM_SCALED_KERNEL(name, SHAPE)                                                                               \
    extern "C" __global__ void __cluster_dims__(Geometry<SHAPE<ScaledE4M3>>::CLUSTER, 1, 1)                           \
        __launch_bounds__(Geometry<SHAPE<ScaledE4M3>>::THREADS, 1)                                                    \
            name(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,                            \
                 const __grid_constant__ TensorMap c, const __grid_constant__ TensorMap scales_of_a,                  \
                 const float *__restrict__ scales_of_b, GEMM_PARAMETERS(ScaledE4M3)) {                                \
        ScaledRows source = {{}, scales_of_a, scales_of_b, (k + 127) / 128};                                          \
        gemm<SHAPE<ScaledE4M3>, TRANSPOSED>(a, b, c, m, n, k, GEMM_EPILOGUE, source);                                 \
    }

GEMM_SCALED_KERNEL(gemm_nt_scaled_e4m3_256x128, Tall)
GEMM_SCALED_KERNEL(gemm_nt_scaled_e4m3_128x128, Square)
GEMM_SCALED_KERNEL(gemm_nt_scaled_e4m3_64x128, Medium)
GEMM_SCALED_KERNEL(gemm_nt_scaled_e4m3_64x64, Small)
