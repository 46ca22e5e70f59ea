// Applied to each sum before it is stored: y = activation(scale[column] · (alpha · sum) + shift[column] + residual), then what is added
// later.
//
// BatchNorm is a scale and a shift, a bias is a shift alone. What is null is left out.
// run: gemm
#pragma once
#include "elements.cuh"

enum Activation { NONE, RELU, GELU, SILU };

// Added after the activation, by convolutions alone: rows are the pixels of images.
struct Later {
    const void *image;      // [M, N] of the type of C, or null
    const float *channels;  // e [images, pitch], or null
    int pixels;             // of an image
    int of_e;               // columns that have a value in e
    int first, pitch;       // of e: the column of the first one, and all columns
};

// Made of a kernel's parameters: `src/gemm/epilogue.rs` gives them.
struct Epilogue {
    const float *scale;  // [N], or null
    const float *shift;  // [N], or null
    const void *residual;  // [M, N] of the type of C, or null
    float alpha;
    int activation;
    Later later = {};

    // Whether sums are stored as they are.
    __device__ bool is_plain() const {
        return alpha == 1.0f && activation == NONE && !scale && !shift && !residual && !later.image && !later.channels;
    }
};

// ANCHOR: later
template <class Value>
struct alignas(2 * sizeof(Value)) Two {
    Value left, right;
};

// The same sums as `finish`, whose rows have an even number of columns. Places are counted from the first sum's, so that all of them are
// constants beside two pointers: few registers are left.
template <class Out, int COUNT, class Place>
__device__ inline void add_image(const void *image, float (&sums)[COUNT], Place place, int rows, int columns) {
    using Value = typename Out::Value;
#pragma unroll
    for (int half = 0; half < COUNT && half < 4; half += 2) {
        const Value *row = static_cast<const Value *>(image) + (size_t)min(place(half).x, rows - 1) * columns + place(0).y;
        int inside = columns - place(0).y;
#pragma unroll
        for (int i = half; i < COUNT; i += 4) {
            int across = place(i).y - place(0).y;
            if (across < inside) {
                Two<Value> two = *reinterpret_cast<const Two<Value> *>(row + across);
                sums[i] += Out::unpack(two.left);
                sums[i + 1] += Out::unpack(two.right);
            }
        }
    }
}

template <class Out, int COUNT, class Place>
__device__ inline void add_later(const Later &later, float (&sums)[COUNT], Place place, int rows, int columns) {
    if (later.image) {
        add_image<Out>(later.image, sums, place, rows, columns);
    }
    if (later.channels) {
#pragma unroll
        for (int half = 0; half < COUNT && half < 4; half += 2) {
            int image = min(place(half).x, rows - 1) / later.pixels, inside = later.of_e - place(0).y;
            const float *row = later.channels + (size_t)image * later.pitch + later.first + place(0).y;
#pragma unroll
            for (int i = half; i < COUNT; i += i % 2 ? 3 : 1) {
                int across = place(i).y - place(0).y + i % 2;
                if (across < inside) {
                    sums[i] += row[across];
                }
            }
        }
    }
}
// ANCHOR_END: later

// x · Φ(x) = max(x, 0) − |x| / 2 · erfc(|x| / √2), with erfc by a polynomial and eˣ: Abramowitz and Stegun, 7.1.26, wrong by less than
// 1.5 · 10⁻⁷. Half of erff's instructions, which are exact to the last bits where nobody sees them.
__device__ inline float gelu(float x) {
    float t, power, size = fabsf(x), root = 0.84932180f * size;  // √(log2(e) / 2)
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(t) : "f"(fmaf(0.23164189f, size, 1.0f)));
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(-root * root));
    float half = t * (0.127414796f + t * (-0.142248368f + t * (0.7107068705f + t * (-0.7265760135f + t * 0.5307027145f))));
    return fmaxf(x, 0.0f) - size * (half * power);
}

// ANCHOR: finish
// All sums of a thread, as the tensor cores deal them out: of four, two lie next to each other in a row, and two in another. For an
// even i `place(i)` is the row and column of sums[i]; sums[i + 1] is to the right of it. One test for
// all sums, and indices cut at the edge in place of a test for each: the compiler then sees straight lines. What lies outside is
// computed too, and not stored. With PAIRS rows have an even number of columns.
template <class Out, bool PAIRS = false, int COUNT, class Place>
__device__ inline void finish(const Epilogue &epilogue, float (&sums)[COUNT], Place place, int rows, int columns) {
#define FOR_EACH _Pragma("unroll") for (int i = 0; i < COUNT; i++)
    if (PAIRS && epilogue.is_plain()) {
        return;  // each jump over code that no warp has run yet waits for instructions: 0.2 µs for all of them
    }
    if (epilogue.alpha != 1.0f) {
        FOR_EACH sums[i] *= epilogue.alpha;
    }
    if (epilogue.scale) {
        FOR_EACH sums[i] *= epilogue.scale[min(place(i).y + i % 2, columns - 1)];
    }
    if (epilogue.shift) {
        FOR_EACH sums[i] += epilogue.shift[min(place(i).y + i % 2, columns - 1)];
    }
    if (PAIRS && epilogue.residual) {
        add_image<Out>(epilogue.residual, sums, place, rows, columns);
    } else if (epilogue.residual) {
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
        if (PAIRS) {
            FOR_EACH sums[i] = gelu(sums[i]);
        } else {  // the first steps have no registers left for the polynomial
            FOR_EACH sums[i] *= 0.5f * (1.0f + erff(sums[i] * 0.70710678f));
        }
    } else if (epilogue.activation == SILU) {
        FOR_EACH sums[i] = __fdividef(sums[i], 1.0f + __expf(-sums[i]));
    }
    add_later<Out>(epilogue.later, sums, place, rows, columns);
}

// Integers are stored as they are.
template <class Out, bool PAIRS = false, int COUNT, class Place>
__device__ inline void finish(const Epilogue &, int (&)[COUNT], Place, int, int) {}
// ANCHOR_END: finish
