// Applied to each sum before it is stored, the same in every kernel of this phase that ends a product or a convolution:
//
//     C = max(floor, alpha · sum + bias + beta · C)
//
// A residual is what C held before: with beta = 1 a sum is added to it in its place. The products know nothing of it: they hand
// over a sum, and a later phase extends this file rather than them.
// Host side: `gemm::Epilogue`, whose scalars come by value as this struct.
// run: gemm // trial: gemm
#pragma once

struct Epilogue {
    float alpha;
    float beta;   // 0: C is not read, so it may hold anything
    float floor;  // the least value: 0 for ReLU, −∞ for none

    // The sum as it is.
    __device__ static Epilogue nothing() { return {1.0f, 0.0f, __int_as_float(0xff800000)}; }

    __device__ float apply(float sum, float bias, float old) const {
        float value = alpha * sum + bias + beta * old;
        // Not fmaxf: that would turn NaN into the floor and hide what went wrong before.
        return value < floor ? floor : value;
    }

    // Finishes one element, in its place.
    __device__ void finish(float *place, float sum, float bias) const {
        *place = apply(sum, bias, beta != 0.0f ? *place : 0.0f);
    }

    // Two neighbours, at a multiple of 8 bytes.
    __device__ void finish(float2 *place, float2 sum, float2 bias) const {
        float2 old = beta != 0.0f ? *place : float2();
        *place = make_float2(apply(sum.x, bias.x, old.x), apply(sum.y, bias.y, old.y));
    }

    // Four neighbours, at a multiple of 16 bytes.
    __device__ void finish(float4 *place, float4 sum, float4 bias) const {
        float4 old = beta != 0.0f ? *place : float4();
        *place = make_float4(apply(sum.x, bias.x, old.x), apply(sum.y, bias.y, old.y), apply(sum.z, bias.z, old.z),
                             apply(sum.w, bias.w, old.w));
    }
};

// The value of `bias` at `i`; 0 if `bias` is null.
__device__ inline float bias_at(const float *bias, int i) {
    return bias ? bias[i] : 0.0f;
}

// The same for four neighbours, `i` a multiple of 4.
__device__ inline float4 bias4_at(const float *bias, int i) {
    return bias ? *reinterpret_cast<const float4 *>(bias + i) : float4();
}
