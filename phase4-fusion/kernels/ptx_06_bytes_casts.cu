// 8-bit weights by casts: each byte is cut out of the word, its sign extended, and converted.
//
// Limited, next to a matrix product, by conversions: an SM does 64 of them per cycle, and 128 other instructions.
// run: ptx

#include "ptx_06_bytes.cuh"

// ANCHOR: halves
__device__ Halves halves(unsigned word) {
    const signed char *q = reinterpret_cast<const signed char *>(&word);
    return {__halves2half2(__short2half_rn(q[0]), __short2half_rn(q[1])),
            __halves2half2(__short2half_rn(q[2]), __short2half_rn(q[3]))};
}
// ANCHOR_END: halves
