// What attention asks of wgmma beside the products of wgmma.cuh: A in registers, the weights, for all sizes of head. A lane's four words
// of A are those of `mma.sync`; V is B as it lies, [keys, head], so it is transposed.
//
// PTX ISA, "wgmma.mma_async".
// run: gemm
#pragma once
#include "wgmma.cuh"

// The registers of D of 40 and 80 columns.
#define WGMMA_REGISTERS_20 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19"
#define WGMMA_REGISTERS_40 WGMMA_REGISTERS_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_OPERANDS_20(KIND) \
    WGMMA_8(KIND, 0), WGMMA_8(KIND, 8), KIND(d[16]), KIND(d[17]), KIND(d[18]), KIND(d[19])
#define WGMMA_OPERANDS_40(KIND) WGMMA_OPERANDS_32(KIND), WGMMA_8(KIND, 32)

// sums += weights · V for 16 keys. The registers after D: A's words, and V's descriptor.
#define WGMMA_WEIGHTS(ELEMENT, TYPES, N, COUNT, WORDS, V)                                                              \
    __device__ inline void wgmma_weights(ELEMENT, float (&d)[COUNT], const unsigned (&a)[4], unsigned long long v) {   \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" N "k16.f32." TYPES " {" WGMMA_REGISTERS_##COUNT "}, {" WORDS  \
                     "}, " V ", 1, 1, 1, 1;"                                                                           \
                     : WGMMA_OPERANDS_##COUNT(WGMMA_FLOAT)                                                             \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(v));                                            \
    }
#define WGMMA_WEIGHTS_OF(ELEMENT, TYPES)                                    \
    WGMMA_WEIGHTS(ELEMENT, TYPES, "40", 20, "%20, %21, %22, %23", "%24")    \
    WGMMA_WEIGHTS(ELEMENT, TYPES, "64", 32, "%32, %33, %34, %35", "%36")    \
    WGMMA_WEIGHTS(ELEMENT, TYPES, "80", 40, "%40, %41, %42, %43", "%44")    \
    WGMMA_WEIGHTS(ELEMENT, TYPES, "128", 64, "%64, %65, %66, %67", "%68")
WGMMA_WEIGHTS_OF(F16, "f16.f16")
WGMMA_WEIGHTS_OF(BF16, "bf16.bf16")
