// Leaky ReLU with a predicate in PTX: all lanes pass the multiplication, those with x < 0 take part in it.
//
// Limited by memory.
// run: ptx

#include "ptx_03_branch.cuh"

// ANCHOR: leaky
__device__ float leaky(float x) {
    asm("{\n\t"
        ".reg .pred negative;\n\t"
        "setp.lt.f32 negative, %0, 0f00000000;\n\t"
        "@negative mul.f32 %0, %0, 0f3E000000;\n\t"  // 0.125
        "}"
        : "+f"(x));
    return x;
}
// ANCHOR_END: leaky
