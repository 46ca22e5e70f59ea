// A warp's product of 16 × 16 × 16 (PTX ISA, "wmma"; compute capability 8.0 and up for bf16). Which lane holds which value is the
// instruction's secret: fragments are loaded, multiplied and stored as wholes.
// run: gemm
#pragma once
#include "gemm.cuh"

// A fragment of A or B is eight registers in f16, where each value is held twice, and four in bf16.
template <class Element> struct Fragment;
template <> struct Fragment<F16> {
    unsigned x[8];
};
template <> struct Fragment<BF16> {
    unsigned x[4];
};

// ANCHOR: wmma
#define WMMA_LOAD_8(name, text)                                                                                       \
    __device__ inline void name(Fragment<F16> &to, const unsigned short *from, int stride) {                          \
        unsigned(&x)[8] = to.x;                                                                                       \
        asm volatile(text ".f16 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], %9;"                                          \
                     : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]), "=r"(x[4]), "=r"(x[5]), "=r"(x[6]), "=r"(x[7]) \
                     : "l"(from), "r"(stride)                                                                         \
                     : "memory");                                                                                     \
    }
#define WMMA_LOAD_4(name, text)                                                                                       \
    __device__ inline void name(Fragment<BF16> &to, const unsigned short *from, int stride) {                         \
        unsigned(&x)[4] = to.x;                                                                                       \
        asm volatile(text ".bf16 {%0, %1, %2, %3}, [%4], %5;"                                                         \
                     : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])                                                 \
                     : "l"(from), "r"(stride)                                                                         \
                     : "memory");                                                                                     \
    }
#define WMMA_LOAD(name, text) WMMA_LOAD_8(name, text) WMMA_LOAD_4(name, text)

// 16 × 16 values from memory, whose rows are `stride` values apart: of A; of B as [K, N]; of B as [N, K].
WMMA_LOAD(load_a, "wmma.load.a.sync.aligned.row.m16n16k16")
WMMA_LOAD(load_b_rows, "wmma.load.b.sync.aligned.row.m16n16k16")
WMMA_LOAD(load_b_columns, "wmma.load.b.sync.aligned.col.m16n16k16")

template <Layout LAYOUT, class Part>
__device__ inline void load_b(Part &to, const unsigned short *from, int stride) {
    LAYOUT == ROW_MAJOR ? load_b_rows(to, from, stride) : load_b_columns(to, from, stride);
}

// sums += A · B, a lane's eight of the 256 sums. What `row` and `col` say must be what the loads said.
template <Layout LAYOUT>
__device__ inline void multiply(float (&d)[8], const Fragment<F16> &a, const Fragment<F16> &b) {
#define WMMA_F16(order)                                                                                               \
    asm volatile("wmma.mma.sync.aligned.row." order ".m16n16k16.f32.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, "           \
                 "{%8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19, %20, %21, %22, %23}, "                 \
                 "{%0, %1, %2, %3, %4, %5, %6, %7};"                                                                  \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])     \
                 : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(a.x[4]), "r"(a.x[5]), "r"(a.x[6]),         \
                   "r"(a.x[7]), "r"(b.x[0]), "r"(b.x[1]), "r"(b.x[2]), "r"(b.x[3]), "r"(b.x[4]), "r"(b.x[5]),         \
                   "r"(b.x[6]), "r"(b.x[7]))
    if (LAYOUT == ROW_MAJOR) {
        WMMA_F16("row");
    } else {
        WMMA_F16("col");
    }
}

template <Layout LAYOUT>
__device__ inline void multiply(float (&d)[8], const Fragment<BF16> &a, const Fragment<BF16> &b) {
#define WMMA_BF16(order)                                                                                              \
    asm volatile("wmma.mma.sync.aligned.row." order ".m16n16k16.f32.bf16.bf16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, " \
                 "{%8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3, %4, %5, %6, %7};"                        \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])     \
                 : "r"(a.x[0]), "r"(a.x[1]), "r"(a.x[2]), "r"(a.x[3]), "r"(b.x[0]), "r"(b.x[1]), "r"(b.x[2]),         \
                   "r"(b.x[3]))
    if (LAYOUT == ROW_MAJOR) {
        WMMA_BF16("row");
    } else {
        WMMA_BF16("col");
    }
}

// The 16 × 16 sums of a warp, row by row.
__device__ inline void store_sums(float *to, const float (&d)[8]) {
    asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.f32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8}, 16;" ::"l"(to),
                 "f"(d[0]), "f"(d[1]), "f"(d[2]), "f"(d[3]), "f"(d[4]), "f"(d[5]), "f"(d[6]), "f"(d[7])
                 : "memory");
}
// ANCHOR_END: wmma

// ANCHOR: finish
// The sums of a warp to C. Their places are a secret until they have been stored: so by way of shared memory, 16 × 16 floats that
// belong to this warp.
template <class Out>
__device__ inline void finish_fragment(float *place, const float (&d)[8], const Epilogue &epilogue, typename Out::Value *c,
                                       int first_row, int first_column, int m, int n) {
    store_sums(place, d);
    __syncwarp();
    SumPlace here(0, 0);
    float sums[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        sums[i] = place[here(i).x * 16 + here(i).y + i % 2];
    }
    __syncwarp();  // the place is free again
    SumPlace at(first_row, first_column);
    finish<Out>(epilogue, sums, at, m, n);
    write<Out>(c, sums, at, m, n);
}
// ANCHOR_END: finish
