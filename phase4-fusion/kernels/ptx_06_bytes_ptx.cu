// 8-bit weights without a conversion: a byte u below 256 in the lower half of 0x6400 is the f16 1024 + u, exactly. Flipping
// the sign bit makes q + 128 of q; so subtracting 1152 leaves q.
//
//     word     q₃       q₂       q₁       q₀
//     lop3     q₃+128   q₂+128   q₁+128   q₀+128        all four at once: (word & ~0) ^ 0x80808080
//     prmt     64  q₁+128  64  q₀+128                   two f16: 1024 + q₁ + 128, 1024 + q₀ + 128
//     sub      q₁          q₀                           by f16x2
//
// Limited by memory; five instructions for four weights.
// run: ptx

#include "ptx_06_bytes.cuh"

// ANCHOR: halves
__device__ Halves halves(unsigned word) {
    Halves four;
    unsigned &low = reinterpret_cast<unsigned &>(four.low);
    unsigned &high = reinterpret_cast<unsigned &>(four.high);
    asm("{\n\t"
        ".reg .b32 shifted;\n\t"
        "lop3.b32 shifted, %2, 0xffffffff, 0x80808080, 0x6a;\n\t"  // (a & b) ^ c
        "prmt.b32 %0, shifted, 0x64646464, 0x4140;\n\t"            // bytes: 64, byte 1, 64, byte 0
        "prmt.b32 %1, shifted, 0x64646464, 0x4342;\n\t"            // bytes: 64, byte 3, 64, byte 2
        "sub.f16x2 %0, %0, %3;\n\t"
        "sub.f16x2 %1, %1, %3;\n\t"
        "}"
        : "=&r"(low), "=&r"(high)
        : "r"(word), "r"(0x64806480));  // twice 1152
    return four;
}
// ANCHOR_END: halves
