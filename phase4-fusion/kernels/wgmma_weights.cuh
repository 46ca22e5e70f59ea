// What attention asks of wgmma beside the products of wgmma.cuh: A in registers, the weights, for all sizes of head. A lane's four words
// of A are those of `mma.sync`; V is B as it lies, [keys, head], so it is transposed. Products of bytes transpose nothing.
//
// PTX ISA, "wgmma.mma_async".
// run: gemm
#pragma once
#include "wgmma.cuh"

// The registers of D of 40, 80 and 96 columns.
#define WGMMA_REGISTERS_20 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19"
#define WGMMA_REGISTERS_40 WGMMA_REGISTERS_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_REGISTERS_48 WGMMA_REGISTERS_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_OPERANDS_20(KIND) \
    WGMMA_8(KIND, 0), WGMMA_8(KIND, 8), KIND(d[16]), KIND(d[17]), KIND(d[18]), KIND(d[19])
#define WGMMA_OPERANDS_40(KIND) WGMMA_OPERANDS_32(KIND), WGMMA_8(KIND, 32)
#define WGMMA_OPERANDS_48(KIND) WGMMA_OPERANDS_40(KIND), WGMMA_8(KIND, 40)
#define WGMMA_FLOATS_48 "%48, %49, p, 1, 1"

// The scores of 96 keys in e4m3.
WGMMA_FUNCTION(E4M3, "k32.f32.e4m3.e4m3", float, WGMMA_FLOAT, FLOATS, "96", 48, "50")

// sums += weights · V for the keys of one instruction, 32 bytes. The registers after D: A's words, and V's descriptor; then whether to add,
// the signs of A and B, and, for types of 16 bits, that V is transposed.
#define WGMMA_WEIGHTS(ELEMENT, TYPES, TRANSPOSED, N, COUNT, WORDS, V)                                                  \
    __device__ inline void wgmma_weights(ELEMENT, float (&d)[COUNT], const unsigned (&a)[4], unsigned long long v) {   \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" N TYPES " {" WGMMA_REGISTERS_##COUNT "}, {" WORDS             \
                     "}, " V ", 1, 1, 1" TRANSPOSED ";"                                                                \
                     : WGMMA_OPERANDS_##COUNT(WGMMA_FLOAT)                                                             \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(v));                                            \
    }
#define WGMMA_WEIGHTS_OF(ELEMENT, TYPES)                                          \
    WGMMA_WEIGHTS(ELEMENT, TYPES, ", 1", "40", 20, "%20, %21, %22, %23", "%24")    \
    WGMMA_WEIGHTS(ELEMENT, TYPES, ", 1", "64", 32, "%32, %33, %34, %35", "%36")    \
    WGMMA_WEIGHTS(ELEMENT, TYPES, ", 1", "80", 40, "%40, %41, %42, %43", "%44")    \
    WGMMA_WEIGHTS(ELEMENT, TYPES, ", 1", "128", 64, "%64, %65, %66, %67", "%68")
WGMMA_WEIGHTS_OF(F16, "k16.f32.f16.f16")
WGMMA_WEIGHTS_OF(BF16, "k16.f32.bf16.bf16")
WGMMA_WEIGHTS(E4M3, "k32.f32.e4m3.e4m3", "", "64", 32, "%32, %33, %34, %35", "%36")
WGMMA_WEIGHTS(E4M3, "k32.f32.e4m3.e4m3", "", "128", 64, "%64, %65, %66, %67", "%68")
