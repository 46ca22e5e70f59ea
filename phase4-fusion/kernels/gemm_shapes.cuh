// Kernels of the last steps for a shape of tile, a struct with the sizes that `Geometry` in gemm_hopper.cuh names.
// run: gemm // trial: gemm
#pragma once
#include "gemm_hopper.cuh"

// A and B are tensor maps, and so is C; or it is the memory itself, where slices share a tile.
#define GEMM_SHAPE_KERNEL_TO(PLACE, name, SHAPE, ELEMENT, LAYOUT)                                                     \
    extern "C" __global__ void __cluster_dims__(Geometry<SHAPE<ELEMENT>>::CLUSTER, 1, 1)                              \
        __launch_bounds__(Geometry<SHAPE<ELEMENT>>::THREADS, 1)                                                       \
            name(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, PLACE c,                   \
                 GEMM_PARAMETERS(ELEMENT)) {                                                                          \
        gemm<SHAPE<ELEMENT>, LAYOUT>(a, b, c, m, n, k, GEMM_EPILOGUE);                                                \
    }
#define GEMM_SHAPE_KERNEL(name, SHAPE, ELEMENT, LAYOUT)                                                               \
    GEMM_SHAPE_KERNEL_TO(const __grid_constant__ TensorMap, name, SHAPE, ELEMENT, LAYOUT)
#define GEMM_SLICED_KERNEL(name, SHAPE, ELEMENT, LAYOUT)                                                              \
    GEMM_SHAPE_KERNEL_TO(Product<ELEMENT>::Out::Value *, name, SHAPE, ELEMENT, LAYOUT)

// Both layouts of B, for types of 16 bits: gemm_nn_TYPE and gemm_nt_TYPE, each with this suffix.
#define GEMM_SHAPE_KERNELS(SHAPE, ELEMENT, type, suffix)                                                              \
    GEMM_SHAPE_KERNEL(gemm_nn_##type##suffix, SHAPE, ELEMENT, ROW_MAJOR)                                              \
    GEMM_SHAPE_KERNEL(gemm_nt_##type##suffix, SHAPE, ELEMENT, TRANSPOSED)
#define GEMM_SLICED_KERNELS(SHAPE, ELEMENT, type, suffix)                                                             \
    GEMM_SLICED_KERNEL(gemm_nn_##type##suffix, SHAPE, ELEMENT, ROW_MAJOR)                                             \
    GEMM_SLICED_KERNEL(gemm_nt_##type##suffix, SHAPE, ELEMENT, TRANSPOSED)
