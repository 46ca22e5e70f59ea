// The tensor cores of one warp without secrets: matrices of 8 × 8 come from shared memory into registers whose places are known
// (PTX ISA, "ldmatrix"), and are multiplied there (PTX ISA, "mma.sync", m16n8k16).
//
//     A, 16 rows × 16 of K: four matrices        B, 16 of K × 8 columns: two        C, 16 × 8: four sums per lane
//       0 │ 2     lane l tells where row           0                                   0 1 │  row lane / 4, columns 2 · (lane % 4)
//       ──┼──     l % 8 of matrix l / 8            ──                                  ────┤  and the next
//       1 │ 3     begins                           1                                   2 3 │  eight rows below
// run: gemm
#pragma once
#include "gemm.cuh"

// ANCHOR: load
// Four matrices of 8 × 8 values of 16 bits; `row` is where this lane's row of them begins, at a multiple of 16 bytes.
__device__ inline void load_matrices(unsigned *to, const unsigned short *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
}

// The same, each matrix transposed on the way.
__device__ inline void load_transposed(unsigned *to, const unsigned short *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
}
// ANCHOR_END: load

// ANCHOR: mma
// sums += A · B for 16 rows, 8 columns and 16 values of i.
__device__ inline void mma(F16, float *d, const unsigned *a, const unsigned *b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ inline void mma(BF16, float *d, const unsigned *a, const unsigned *b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// ANCHOR_END: mma
