// Leaky ReLU with a branch in PTX: where signs differ within a warp, its lanes part and meet again.
//
// Limited by memory. ptxas may turn the branch into a predicate all the same.
// run: ptx
#include "ptx_03_branch.cuh"

// ANCHOR: leaky
__device__ float leaky(float x) {
    asm("{\n\t"
        ".reg .pred positive;\n\t"
        "setp.geu.f32 positive, %0, 0f00000000;\n\t"
        "@positive bra done;\n\t"
        "mul.f32 %0, %0, 0f3E000000;\n"  // 0.125
        "done:\n\t"
        "}"
        : "+f"(x));
    return x;
}
// ANCHOR_END: leaky
