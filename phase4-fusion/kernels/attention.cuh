// What the steps of the attention ladder share: O = softmax(Q · Kᵀ · scale) · V for each image and head, and of each row the logarithm
// of the sum of its exponentials (log-sum-exp), which a backward pass needs, and whoever adds up parts of a row.
//
//     Q [queries, head]     K, V [keys, head]     O [queries, head]     of one head: values of a token lie next to each other
//
// The host side is src/attention/mod.rs.
// run: attention // trial: attention
#pragma once

// From one image, head and token to the next, in values.
struct Strides {
    long long image, head, token;
    __device__ long long operator()(int in_image, int of_head, long long at_token) const {
        return in_image * image + of_head * head + at_token * token;
    }
};

// ANCHOR: problem
struct Problem {
    Strides of_q, of_kv, of_out;
    int matrices, heads, queries, keys;  // matrices: heads of all images
    int head;                        // values of a token, a multiple of 8
    int causal;                      // whether a query sees the keys up to its own alone; the last query sees all
    float scale;                     // of the scores, times log2(e): the exponentials are powers of two
    float of_values;                 // factor of V, where it is given as multiples of something; or 1

    // How many keys a query sees.
    __device__ int seen(int query) const { return causal ? min(keys, query + 1 + keys - queries) : keys; }
};
// ANCHOR_END: problem

// The score of a key that a query does not see: −∞, whose weight is 0.
#define UNSEEN (-__int_as_float(0x7f800000))

__device__ inline float power_of_two(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

// The log-sum-exp of a row whose weights are powers of two: `most` is its largest score without the scale.
__device__ inline float log_sum_exp(float most, float sum, float scale) {
    return (most * scale + log2f(sum)) * 0.69314718f;
}

// A kernel `name` with these `__launch_bounds__`, in parentheses, for heads of up to HEAD values.
#define ATTENTION_KERNEL(name, VALUE, bounds, HEAD)                                                                   \
    extern "C" __global__ void __launch_bounds__ bounds                                                               \
        name(const VALUE *__restrict__ q, const VALUE *__restrict__ k, const VALUE *__restrict__ v,                   \
             VALUE *__restrict__ out, float *__restrict__ lse, Problem problem) {                                     \
        attention<HEAD>(q, k, v, out, lse, problem);                                                                  \
    }
