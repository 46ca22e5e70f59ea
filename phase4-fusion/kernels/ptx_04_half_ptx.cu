// The series, two f16 at a time, in PTX.
//
// Limited by multiply-adds, as ptx_04_half_split.cu.
// run: ptx

#include "ptx_04_half.cuh"

// ANCHOR: step
__device__ __half2 step(__half2 p, __half2 x) {
    unsigned &at = reinterpret_cast<unsigned &>(p);
    asm("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(at) : "r"(reinterpret_cast<unsigned &>(x)), "r"(ONES));
    return p;
}
// ANCHOR_END: step
