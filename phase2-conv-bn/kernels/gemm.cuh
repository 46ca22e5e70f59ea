// What the steps of the GEMM ladder share from step 3 on: C = epilogue(A · B) with
//
//     A [M, K], C [M, N], row-major        B [K, N] row-major (_nn), or given as its transpose [N, K] (_nt)
//
// Blocks are numbered in one dimension, along the rows of tiles of C: a grid may be 2³¹ − 1 wide and only 65,535 high.
// M, N and K are at most 2³⁰, so that the index of a row or column never wraps around; places in memory have 64 bits.
// run: gemm // trial: gemm
#pragma once

#include "epilogue.cuh"

enum Layout { ROW_MAJOR, TRANSPOSED };

// The place of B's element in row `i` ∈ [0, K), column `column` ∈ [0, N).
template <Layout LAYOUT> __device__ size_t place_in_b(int i, int column, int n, int k) {
    return LAYOUT == ROW_MAJOR ? (size_t)i * n + column : (size_t)column * k + i;
}

// A kernel `name` for blocks of `threads`, whose body is the function given last.
#define GEMM_KERNEL(name, threads, ...) GEMM_KERNEL_BOUNDED(name, (threads), __VA_ARGS__)

// The same with the whole of `__launch_bounds__`: (threads, blocks that fit an SM at a time), which limits the
// registers of a thread to 65,536 / (threads · blocks).
#define GEMM_KERNEL_BOUNDED(name, bounds, ...)                                                                        \
    extern "C" __global__ void __launch_bounds__ bounds                                                               \
        name(const float *__restrict__ a, const float *__restrict__ b, const float *__restrict__ bias,                \
             float *__restrict__ c, int m, int n, int k, Epilogue epilogue) {                                         \
        __VA_ARGS__(a, b, bias, c, m, n, k, epilogue);                                                                \
    }
