// The online softmax where tensor cores leave the scores: a thread has a part of two rows, as `mma.sync` and `wgmma` deal sums out.
// Weights go back into the tensor cores without a word moved: what a thread has of the scores is what it needs of A.
//
//     scores, of 16 keys: 0 1 │ 4 5   row lane / 4           A of 16 rows and 16 keys: 0 │ 2   words of two weights
//                         2 3 │ 6 7   8 rows below                                     1 │ 3
// run: attention // trial: attention
#pragma once
#include "attention.cuh"
#include "elements.cuh"

// Which row of a warp's 16 the first of a thread's two is, and its first column of 8; the second row is 8 further on.
__device__ inline int own_row() { return threadIdx.x % 32 / 4; }
__device__ inline int own_column() { return threadIdx.x % 4 * 2; }

// ANCHOR: mask
// No weight for what a row does not see: keys from `seen` on, of which there may be none.
template <int COUNT>
__device__ inline void mask(float (&scores)[COUNT], const Problem &problem, int first_query, int first_key) {
    int seen[2] = {problem.seen(first_query + own_row()) - first_key, problem.seen(first_query + own_row() + 8) - first_key};
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        if (i / 4 * 8 + own_column() + i % 2 >= seen[i / 2 % 2]) {
            scores[i] = UNSEEN;
        }
    }
}
// ANCHOR_END: mask

// ANCHOR: rows
struct SoftmaxRows {
    float most[2] = {UNSEEN, UNSEEN};  // the largest score so far
    float sum[2] = {};                 // of this thread's weights
    float lift = 0.0f;                 // weights are up to 2^lift; the sum of a row is as much too large, and O is right

    // Makes weights of scores; returns in `correction` what the weights before were too large by.
    template <int COUNT>
    __device__ void weigh(float (&scores)[COUNT], float (&correction)[2], float scale) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float largest = most[half];
#pragma unroll
            for (int i = half * 2; i < COUNT; i += 4) {  // by pairs: half as many wait for one another
                largest = fmaxf(largest, fmaxf(scores[i], scores[i + 1]));
            }
            largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
            largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
            float shift = largest == UNSEEN ? 0.0f : largest * scale;  // nothing seen yet: all weights are 0
            correction[half] = power_of_two(fmaf(most[half], scale, -shift));
            most[half] = largest;
            float base = shift - lift, added = 0.0f;
#pragma unroll
            for (int i = half * 2; i < COUNT; i += 4) {
                scores[i] = power_of_two(fmaf(scores[i], scale, -base));
                scores[i + 1] = power_of_two(fmaf(scores[i + 1], scale, -base));
                added += scores[i] + scores[i + 1];
            }
            sum[half] = fmaf(sum[half], correction[half], added);
        }
    }

    // The sum of a row, of all four threads.
    __device__ float total(int half) const {
        float all = sum[half] + __shfl_xor_sync(~0u, sum[half], 1);
        return all + __shfl_xor_sync(~0u, all, 2);
    }
};

// Of two rows, what was added up before a larger score turned up.
template <int COUNT>
__device__ inline void scale_rows(float (&sums)[COUNT], const float (&by)[2]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        sums[i] *= by[i / 2 % 2];
    }
}

// Weights as words of two values of `Type`: A of `COUNT / 8` steps of 16 keys.
template <class Type, int COUNT>
__device__ inline void pack_weights(unsigned (&weights)[COUNT / 8][4], const float (&scores)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i += 2) {
        weights[i / 8][i / 2 % 4] = Type::pack(scores[i], scores[i + 1]);
    }
}
// ANCHOR_END: rows

// ANCHOR: bytes
// Four numbers of e4m3, the first in the lowest byte.
__device__ inline unsigned pack_bytes(float first, float second, float third, float fourth) {
    unsigned four;
    asm("{\n.reg .b16 low, high;\n"
        "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
        "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
        "mov.b32 %0, {low, high};\n}"
        : "=r"(four) : "f"(first), "f"(second), "f"(third), "f"(fourth));
    return four;
}

// Weights of e4m3: A of `COUNT / 16` steps of 32 keys. A word takes four neighbours along the keys, and the thread has two and two, eight
// keys apart; so A's order of keys is another one, and V's has to be the same (attention_09_e4m3.cu).
template <class Type, int COUNT>
__device__ inline void pack_weights(unsigned (&weights)[COUNT / 16][4], const float (&scores)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT / 4; i++) {
        const float *from = scores + i / 2 * 8 + i % 2 * 2;
        weights[i / 4][i % 4] = pack_bytes(from[0], from[1], from[4], from[5]);
    }
}
// ANCHOR_END: bytes

// ANCHOR: write
// The rows of a warp from `first` on to O and their log-sum-exp.
template <class Type, int COUNT>
__device__ inline void write_rows(const float (&sums)[COUNT], const SoftmaxRows &rows, typename Type::Value *out, float *lse,
                                  const Problem &problem, int matrix, int first) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int query = first + own_row() + half * 8;
        float total = rows.total(half), scale = problem.of_values / total;
        if (query < problem.queries) {
            typename Type::Value *to = out + problem.of_out(matrix / problem.heads, matrix % problem.heads, query);
#pragma unroll
            for (int i = half * 2; i < COUNT; i += 4) {
                int x = i / 4 * 8 + own_column();
                if (x < problem.head) {
                    Type::store_pair(to + x, sums[i] * scale, sums[i + 1] * scale);
                }
            }
            if (own_column() == 0) {
                float of_row = log_sum_exp(rows.most[half], total, problem.scale) - rows.lift * 0.69314718f;
                lse[(size_t)matrix * problem.queries + query] = of_row;
            }
        }
    }
}
// ANCHOR_END: write
