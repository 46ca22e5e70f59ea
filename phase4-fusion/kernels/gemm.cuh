// What the steps of the tensor-core ladder share: C = epilogue(A · B) with
//
//     A [M, K], C [M, N], row-major        B [K, N] row-major (_nn), or given as its transpose [N, K] (_nt)
//
// A and B are of one type, sums are f32 (of integers i32), and C is of the type that `Product` says. Blocks are numbered in one
// dimension, along the rows of tiles of C.
// run: gemm // trial: gemm
#pragma once
#include "epilogue.cuh"

enum Layout { ROW_MAJOR, TRANSPOSED };  // B as [K, N] or [N, K]

// ANCHOR: place
// Where the sums are that a tensor core leaves in a thread: of every four, two next to each other in one row, and two eight rows
// below; the next four are eight columns to the right.
struct SumPlace {
    int row, column;  // of the first
    // For a warp whose part of C begins here.
    __device__ SumPlace(int first_row, int first_column)
        : row(first_row + threadIdx.x % 32 / 4), column(first_column + threadIdx.x % 4 * 2) {}
    __device__ int2 operator()(int i) const { return make_int2(row + i / 2 % 2 * 8, column + i / 4 * 8); }
};
// ANCHOR_END: place

// ANCHOR: write
// The sums to C, two at a time where rows begin at multiples of 4 bytes.
template <class Out, int COUNT>
__device__ inline void write(typename Out::Value *c, const float (&sums)[COUNT], SumPlace place, int m, int n) {
#pragma unroll
    for (int i = 0; i < COUNT; i += 2) {
        int2 at = place(i);
        if (at.x < m && at.y < n) {
            typename Out::Value *to = c + (size_t)at.x * n + at.y;
            unsigned pair = Out::pack(sums[i], sums[i + 1]);
            if (n % 2 == 0) {
                *reinterpret_cast<unsigned *>(to) = pair;
            } else {
                to[0] = (unsigned short)pair;
                if (at.y + 1 < n) {
                    to[1] = (unsigned short)(pair >> 16);
                }
            }
        }
    }
}
// ANCHOR_END: write

// The parameters that all kernels end with, and the epilogue that they make.
#define GEMM_PARAMETERS(ELEMENT)                                                                                      \
    const float *__restrict__ scale, const float *__restrict__ shift,                                                 \
        const Product<ELEMENT>::Out::Value *__restrict__ residual, int m, int n, int k, float alpha, int activation
#define GEMM_EPILOGUE                                                                                                 \
    Epilogue { scale, shift, residual, alpha, activation }

// A kernel `name` with these `__launch_bounds__`, in parentheses, whose body is the function given last.
#define GEMM_KERNEL(name, ELEMENT, bounds, ...)                                                                       \
    extern "C" __global__ void __launch_bounds__ bounds                                                               \
        name(const ELEMENT::Value *__restrict__ a, const ELEMENT::Value *__restrict__ b,                              \
             Product<ELEMENT>::Out::Value *__restrict__ c, GEMM_PARAMETERS(ELEMENT)) {                                \
        __VA_ARGS__(a, b, c, m, n, k, GEMM_EPILOGUE);                                                                 \
    }

// The same where A and B are tensor maps.
#define GEMM_MAP_KERNEL(name, ELEMENT, bounds, ...)                                                                   \
    extern "C" __global__ void __launch_bounds__ bounds                                                               \
        name(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,                                \
             Product<ELEMENT>::Out::Value *__restrict__ c, GEMM_PARAMETERS(ELEMENT)) {                                \
        __VA_ARGS__(a, b, c, m, n, k, GEMM_EPILOGUE);                                                                 \
    }

// Both layouts and both types of 16 bits, with KERNEL one of the above.
#define GEMM_KERNELS(KERNEL, bounds, body)                                                                            \
    KERNEL(gemm_nn_f16, F16, bounds, body<F16, ROW_MAJOR>)                                                            \
    KERNEL(gemm_nt_f16, F16, bounds, body<F16, TRANSPOSED>)                                                           \
    KERNEL(gemm_nn_bf16, BF16, bounds, body<BF16, ROW_MAJOR>)                                                         \
    KERNEL(gemm_nt_bf16, BF16, bounds, body<BF16, TRANSPOSED>)
