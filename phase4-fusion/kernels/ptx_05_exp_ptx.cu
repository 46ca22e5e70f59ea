// Softmax with `ex2.approx.ftz`: log₂ e goes into one multiply-add with the maximum, so that a power is two instructions.
// What `prepare` rounds is the same for all values of a row, and the division takes it out again.
//
// Limited by memory. Beside a matrix product, as in attention, these instructions count.
// run: ptx

#include "ptx_05_exp.cuh"

// ANCHOR: power
constexpr float LOG2_E = 1.44269504f;

__device__ float prepare(float most) {
    return -most * LOG2_E;
}

__device__ float power(float x, float prepared) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(fmaf(x, LOG2_E, prepared)));
    return power;
}
// ANCHOR_END: power
