// Kernels of the last steps for a shape of tile, a struct with the sizes that `Geometry` in gemm_hopper.cuh names.
#pragma once
#include "gemm_hopper.cuh"

// A, B and C are tensor maps.
#define GEMM_SHAPE_KERNEL(name, SHAPE, ELEMENT, LAYOUT)                                                               \
    extern "C" __global__ void __cluster_dims__(Geometry<SHAPE<ELEMENT>>::CLUSTER, 1, 1)                              \
        __launch_bounds__(Geometry<SHAPE<ELEMENT>>::THREADS, 1)                                                       \
            name(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,                            \
                 const __grid_constant__ TensorMap c, GEMM_PARAMETERS(ELEMENT)) {                                     \
        gemm<SHAPE<ELEMENT>, LAYOUT>(a, b, c, m, n, k, GEMM_EPILOGUE);                                                \
    }

// Both layouts of B, for types of 16 bits: gemm_nn_TYPE and gemm_nt_TYPE, each with this suffix.
#define GEMM_SHAPE_KERNELS(SHAPE, ELEMENT, type, suffix)                                                              \
    GEMM_SHAPE_KERNEL(gemm_nn_##type##suffix, SHAPE, ELEMENT, ROW_MAJOR)                                              \
    GEMM_SHAPE_KERNEL(gemm_nt_##type##suffix, SHAPE, ELEMENT, TRANSPOSED)
