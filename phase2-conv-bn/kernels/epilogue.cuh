// What becomes of a finished sum before it is written, the same in every kernel of this phase that ends a product:
//
//     C = activation(alpha · sum + bias + beta · C)
//
// The products know nothing of it: they hand over a sum, and a later phase adds to this file and not to them. Host side:
// `gemm::Epilogue`, whose scalars come by value as this struct.
#pragma once

struct Epilogue {
    float alpha;
    float beta;  // 0: C is not read, so it may hold anything
    int relu;

    // One element, whose present value is at `c`.
    __device__ float apply(float sum, float bias, const float *c) const {
        float value = alpha * sum + bias;
        if (beta != 0.0f) {
            value += beta * *c;
        }
        // Not fmaxf: that would turn NaN into 0 and hide what went wrong before.
        return relu && value < 0.0f ? 0.0f : value;
    }

    // Four neighbours in a row; `c` is a multiple of 16 bytes.
    __device__ float4 apply(float4 sum, float4 bias, const float *c) const {
        float4 old = beta != 0.0f ? *reinterpret_cast<const float4 *>(c) : float4();
        return make_float4(apply(sum.x, bias.x, &old.x), apply(sum.y, bias.y, &old.y), apply(sum.z, bias.z, &old.z),
                           apply(sum.w, bias.w, &old.w));
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
