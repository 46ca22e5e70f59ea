// What becomes of a finished sum before it is written, the same in every kernel of this phase that ends a product:
//
//     C = max(floor, alpha · sum + bias + beta · C)
//
// The products know nothing of it: they hand over a sum, and a later phase adds to this file and not to them.
// Host side: `gemm::Epilogue`, whose scalars come by value as this struct.
#pragma once

struct Epilogue {
    float alpha;
    float beta;   // 0: C is not read, so it may hold anything
    float floor;  // what is below becomes it: 0 for ReLU, −∞ for nothing

    __device__ float apply(float sum, float bias, float old) const {
        float value = alpha * sum + bias + beta * old;
        // Not fmaxf: that would turn NaN into the floor and hide what went wrong before.
        return value < floor ? floor : value;
    }

    // Finishes one element, in its place.
    __device__ void finish(float *place, float sum, float bias) const {
        *place = apply(sum, bias, beta != 0.0f ? *place : 0.0f);
    }

    // Four neighbours, at a multiple of 16 bytes.
    __device__ void finish(float4 *place, float4 sum, float4 bias) const {
        float4 old = beta != 0.0f ? *place : float4();
        *place = make_float4(apply(sum.x, bias.x, old.x), apply(sum.y, bias.y, old.y), apply(sum.z, bias.z, old.z),
                             apply(sum.w, bias.w, old.w));
    }
};

// What is added in this place of `bias`, which is null for none.
__device__ inline float bias_at(const float *bias, int i) {
    return bias ? bias[i] : 0.0f;
}

// The same for four neighbours, `i` a multiple of 4.
__device__ inline float4 bias4_at(const float *bias, int i) {
    return bias ? *reinterpret_cast<const float4 *>(bias + i) : float4();
}
