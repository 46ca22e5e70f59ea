// The activations of `epilogue.cuh`, of one value.
// run: gemm
#pragma once
#include "epilogue.cuh"

__device__ inline float activated(float value, int activation) {
    switch (activation) {
        case RELU: return value < 0.0f ? 0.0f : value;  // NaN stays NaN
        case GELU: return value * 0.5f * (1.0f + erff(value * 0.70710678f));
        case SILU: return __fdividef(value, 1.0f + __expf(-value));
        default: return value;
    }
}
