// Applied to each sum before it is stored: y = activation(scale[column] · (alpha · sum) + shift[column] + residual).
//
// BatchNorm is a scale and a shift, a bias is a shift alone. What is null is left out.
#pragma once
#include "elements.cuh"

enum Activation { NONE, RELU, GELU, SILU };

// Made of a kernel's parameters: `src/gemm/epilogue.rs` gives them.
struct Epilogue {
    const float *scale;  // [N], or null
    const float *shift;  // [N], or null
    const void *residual;  // [M, N] of the type of C, or null
    float alpha;
    int activation;
};

// ANCHOR: finish
// All sums of a thread, as the tensor cores deal them out: of four, two lie next to each other in a row, and two in another. For an
// even i `place(i)` is the row and column of sums[i]; sums[i + 1] is to the right of it. One test for
// all sums, and indices cut at the edge in place of a test for each: the compiler then sees straight lines. What lies outside is
// computed too, and not stored.
template <class Out, int COUNT, class Place>
__device__ inline void finish(const Epilogue &epilogue, float (&sums)[COUNT], Place place, int rows, int columns) {
#define FOR_EACH _Pragma("unroll") for (int i = 0; i < COUNT; i++)
    if (epilogue.alpha != 1.0f) {
        FOR_EACH sums[i] *= epilogue.alpha;
    }
    if (epilogue.scale) {
        FOR_EACH sums[i] *= epilogue.scale[min(place(i).y + i % 2, columns - 1)];
    }
    if (epilogue.shift) {
        FOR_EACH sums[i] += epilogue.shift[min(place(i).y + i % 2, columns - 1)];
    }
    if (epilogue.residual) {
        using Value = typename Out::Value;
#pragma unroll
        for (int half = 0; half < COUNT && half < 4; half += 2) {  // one pointer for all sums of a row: few registers are left
            const char *row = static_cast<const char *>(epilogue.residual) + (size_t)min(place(half).x, rows - 1) * columns * sizeof(Value);
#pragma unroll
            for (int i = half; i < COUNT; i += i % 2 ? 3 : 1) {
                unsigned column = min(place(i).y + i % 2, columns - 1);
                sums[i] += Out::unpack(*reinterpret_cast<const Value *>(row + column * (unsigned)sizeof(Value)));
            }
        }
    }
    if (epilogue.activation == RELU) {
        FOR_EACH sums[i] = sums[i] < 0.0f ? 0.0f : sums[i];  // NaN stays NaN
    } else if (epilogue.activation == GELU) {
        FOR_EACH sums[i] *= 0.5f * (1.0f + erff(sums[i] * 0.70710678f));
    } else if (epilogue.activation == SILU) {
        FOR_EACH sums[i] = __fdividef(sums[i], 1.0f + __expf(-sums[i]));
    }
}

// Integers are stored as they are.
template <class Out, int COUNT, class Place>
__device__ inline void finish(const Epilogue &, int (&)[COUNT], Place, int, int) {}
// ANCHOR_END: finish
