// The tensor cores' product for a warpgroup: D = A·B + D, or A·B alone, for 64 rows of A, all columns of B, and the 32 bytes of K
// that one instruction takes. With TRANSPOSED B lies row by row, [K, N].
//
// PTX ISA, "wgmma.mma_async". A thread's part of D: row = 16 · warp + lane / 4 + 8 · (i / 2 % 2),
// column = 8 · (i / 4) + 2 · (lane % 4) + i % 2.
// run: gemm
#pragma once
#include "hopper.cuh"
// The registers of D, as the instruction names them.
#define WGMMA_REGISTERS_32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_REGISTERS_64 \
    WGMMA_REGISTERS_32 ", " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_REGISTERS_80 \
    WGMMA_REGISTERS_64 ", " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define WGMMA_REGISTERS_88 WGMMA_REGISTERS_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define WGMMA_REGISTERS_128 \
    WGMMA_REGISTERS_88 ", " \
    "%88, %89, %90, %91, %92, %93, %94, %95, " \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

// The same as operands.
#define WGMMA_8(KIND, i)                                                                                              \
    KIND(d[i]), KIND(d[i + 1]), KIND(d[i + 2]), KIND(d[i + 3]), KIND(d[i + 4]), KIND(d[i + 5]), KIND(d[i + 6]),       \
        KIND(d[i + 7])
#define WGMMA_OPERANDS_32(KIND) WGMMA_8(KIND, 0), WGMMA_8(KIND, 8), WGMMA_8(KIND, 16), WGMMA_8(KIND, 24)
#define WGMMA_OPERANDS_64(KIND)                                                                                       \
    WGMMA_OPERANDS_32(KIND), WGMMA_8(KIND, 32), WGMMA_8(KIND, 40), WGMMA_8(KIND, 48), WGMMA_8(KIND, 56)
#define WGMMA_OPERANDS_80(KIND) WGMMA_OPERANDS_64(KIND), WGMMA_8(KIND, 64), WGMMA_8(KIND, 72)
#define WGMMA_OPERANDS_88(KIND) WGMMA_OPERANDS_80(KIND), WGMMA_8(KIND, 80)
#define WGMMA_OPERANDS_128(KIND)                                                                                      \
    WGMMA_OPERANDS_88(KIND), WGMMA_8(KIND, 88), WGMMA_8(KIND, 96), WGMMA_8(KIND, 104),             \
        WGMMA_8(KIND, 112), WGMMA_8(KIND, 120)

// The other operands, after so many registers of D: both descriptors, whether to add, and for floats the signs of A and B; for
// types of 16 bits whether A and B lie transposed.
#define WGMMA_HALVES_32 "%32, %33, p, 1, 1, 0, %35"
#define WGMMA_HALVES_64 "%64, %65, p, 1, 1, 0, %67"
#define WGMMA_HALVES_80 "%80, %81, p, 1, 1, 0, %83"
#define WGMMA_HALVES_88 "%88, %89, p, 1, 1, 0, %91"
#define WGMMA_HALVES_128 "%128, %129, p, 1, 1, 0, %131"
#define WGMMA_FLOATS_32 "%32, %33, p, 1, 1"
#define WGMMA_FLOATS_64 "%64, %65, p, 1, 1"
#define WGMMA_FLOATS_80 "%80, %81, p, 1, 1"
#define WGMMA_FLOATS_88 "%88, %89, p, 1, 1"
#define WGMMA_FLOATS_128 "%128, %129, p, 1, 1"
#define WGMMA_INTEGERS_32 "%32, %33, p"
#define WGMMA_INTEGERS_64 "%64, %65, p"
#define WGMMA_INTEGERS_80 "%80, %81, p"
#define WGMMA_INTEGERS_88 "%88, %89, p"
#define WGMMA_INTEGERS_128 "%128, %129, p"

// One function: N columns are COUNT registers of D, and the register after the descriptors says whether to add.
#define WGMMA_FUNCTION(ELEMENT, TYPES, SUM, KIND, REST, N, COUNT, ADD)                                                \
    template <bool TRANSPOSED>                                                                                        \
    __device__ inline void wgmma(ELEMENT, SUM (&d)[COUNT], unsigned long long a, unsigned long long b, bool add) {    \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" ADD ", 0;\nwgmma.mma_async.sync.aligned.m64n" N TYPES        \
                     " {" WGMMA_REGISTERS_##COUNT "}, " WGMMA_##REST##_##COUNT ";\n}"                                 \
                     : WGMMA_OPERANDS_##COUNT(KIND)                                                                   \
                     : "l"(a), "l"(b), "r"((int)add), "n"(TRANSPOSED));                                               \
    }
#define WGMMA_FLOAT(i) "+f"(i)
#define WGMMA_INTEGER(i) "+r"(i)
#define WGMMA(ELEMENT, TYPES, SUM, KIND, REST)                                                                        \
    WGMMA_FUNCTION(ELEMENT, TYPES, SUM, KIND, REST, "64", 32, "34")                                                   \
    WGMMA_FUNCTION(ELEMENT, TYPES, SUM, KIND, REST, "128", 64, "66")                                                  \
    WGMMA_FUNCTION(ELEMENT, TYPES, SUM, KIND, REST, "160", 80, "82")                                                  \
    WGMMA_FUNCTION(ELEMENT, TYPES, SUM, KIND, REST, "176", 88, "90")                                                   \
    WGMMA_FUNCTION(ELEMENT, TYPES, SUM, KIND, REST, "256", 128, "130")

WGMMA(F16, "k16.f32.f16.f16", float, WGMMA_FLOAT, HALVES)
WGMMA(BF16, "k16.f32.bf16.bf16", float, WGMMA_FLOAT, HALVES)
WGMMA(TF32, "k8.f32.tf32.tf32", float, WGMMA_FLOAT, FLOATS)
WGMMA(E4M3, "k32.f32.e4m3.e4m3", float, WGMMA_FLOAT, FLOATS)
WGMMA(S8, "k32.s32.s8.s8", int, WGMMA_INTEGER, INTEGERS)

// The same with A in registers, 64 columns of B: a lane's four are those of `mma.sync`'s A, words of 4 bytes of rows lane / 4 and
// lane / 4 + 8, at lane % 4 and, the last two, 4 words further on.
#define WGMMA_FROM_REGISTERS(ELEMENT, TYPES, REST)                                                                     \
    __device__ inline void wgmma_from_registers(ELEMENT, float (&d)[32], const unsigned (&a)[4], unsigned long long b, \
                                                bool add) {                                                            \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\nwgmma.mma_async.sync.aligned.m64n64" TYPES             \
                     " {" WGMMA_REGISTERS_32 "}, {%32, %33, %34, %35}, %36, p, 1, 1" REST ";\n}"                       \
                     : WGMMA_OPERANDS_32(WGMMA_FLOAT)                                                                  \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add));                             \
    }
WGMMA_FROM_REGISTERS(F16, "k16.f32.f16.f16", ", 0")
WGMMA_FROM_REGISTERS(TF32, "k8.f32.tf32.tf32", "")
