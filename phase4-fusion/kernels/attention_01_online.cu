// Attention without its scores in memory: a block keeps 64 queries and walks over the keys; each row remembers its largest score and the
// sum of its exponentials so far, and what was added up before is scaled down whenever a larger score turns up (online softmax).
//
//     query      ├ lane 0 ┤├ lane 1 ┤├ lane 2 ┤├ lane 3 ┤   four lanes share two queries, four values of each in turn
//     keys       eight at a time: scores, their largest, weights, sums
//
// All in f32. Limited by shared memory, which each lane reads 16 bytes of for eight multiply-adds.
// run: attention // trial: attention
#include "attention.cuh"

constexpr int BM = 64;     // queries per block
constexpr int BN = 32;     // keys in shared memory
constexpr int LANES = 4;   // of a query
constexpr int EACH = 2;    // queries per thread
constexpr int TOGETHER = 8;  // keys whose scores a thread has at once
constexpr int THREADS = BM / EACH * LANES;

// ANCHOR: fetch
// Rows of one head into shared memory, with zeros beyond its last token and its last value.
template <int PIECES>
__device__ void fetch(float4 (&tile)[BN][PIECES], const float *from, long long stride, int rows, int head) {
    for (int at = threadIdx.x; at < BN * PIECES; at += THREADS) {
        int row = at / PIECES, piece = at % PIECES;
        bool inside = row < rows && piece * 4 < head;
        tile[row][piece] = inside ? *reinterpret_cast<const float4 *>(from + row * stride + piece * 4) : float4{};
    }
}
// ANCHOR_END: fetch

__device__ inline float dot(float4 a, float4 b, float sum) {
    return fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, fmaf(a.w, b.w, sum))));
}

// ANCHOR: kernel
template <int HEAD>
__device__ void attention(const float *q, const float *k, const float *v, float *out, float *lse, const Problem &problem) {
    constexpr int OWN = (HEAD + 15) / 16;  // pieces of four values per lane: `part`, `part` + 4, …
    __shared__ float4 k_tile[BN][OWN * LANES], v_tile[BN][OWN * LANES];
    int tiles = (problem.queries + BM - 1) / BM, matrix = blockIdx.x / tiles, first = blockIdx.x % tiles * BM;
    int image = matrix / problem.heads, of_head = matrix % problem.heads;
    int part = threadIdx.x % LANES, group = threadIdx.x / LANES;
    k += problem.of_kv(image, of_head, 0);
    v += problem.of_kv(image, of_head, 0);

    float4 own[EACH][OWN] = {}, sums[EACH][OWN] = {};
    float most[EACH], total[EACH] = {};
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        int query = first + group * EACH + e;
        most[e] = UNSEEN;
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            int x = (i * LANES + part) * 4;
            if (query < problem.queries && x < problem.head) {
                own[e][i] = *reinterpret_cast<const float4 *>(q + problem.of_q(image, of_head, query) + x);
            }
        }
    }
    int last = problem.seen(min(first + BM, problem.queries) - 1);  // of the block's last query
    for (int tile = 0; tile < last; tile += BN) {
        __syncthreads();  // all are done with the tile before
        fetch(k_tile, k + tile * problem.of_kv.token, problem.of_kv.token, problem.keys - tile, problem.head);
        fetch(v_tile, v + tile * problem.of_kv.token, problem.of_kv.token, problem.keys - tile, problem.head);
        __syncthreads();
        for (int key = 0; key < BN; key += TOGETHER) {
            float scores[EACH][TOGETHER] = {};
#pragma unroll
            for (int j = 0; j < TOGETHER; j++) {
#pragma unroll
                for (int i = 0; i < OWN; i++) {
                    float4 other = k_tile[key + j][i * LANES + part];
#pragma unroll
                    for (int e = 0; e < EACH; e++) {
                        scores[e][j] = dot(own[e][i], other, scores[e][j]);
                    }
                }
            }
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                int seen = problem.seen(first + group * EACH + e) - tile - key;
                float before = most[e];
#pragma unroll
                for (int j = 0; j < TOGETHER; j++) {  // of all four lanes
                    scores[e][j] += __shfl_xor_sync(~0u, scores[e][j], 1);
                    scores[e][j] += __shfl_xor_sync(~0u, scores[e][j], 2);
                    scores[e][j] = j < seen ? scores[e][j] : UNSEEN;
                    most[e] = fmaxf(most[e], scores[e][j]);
                }
                float correction = power_of_two((before - most[e]) * problem.scale);
                total[e] *= correction;
#pragma unroll
                for (int j = 0; j < TOGETHER; j++) {
                    scores[e][j] = power_of_two((scores[e][j] - most[e]) * problem.scale);
                    total[e] += scores[e][j];
                }
#pragma unroll
                for (int i = 0; i < OWN; i++) {
                    float4 &sum = sums[e][i];
                    sum = {sum.x * correction, sum.y * correction, sum.z * correction, sum.w * correction};
                }
            }
#pragma unroll
            for (int j = 0; j < TOGETHER; j++) {
#pragma unroll
                for (int i = 0; i < OWN; i++) {
                    float4 value = v_tile[key + j][i * LANES + part];
#pragma unroll
                    for (int e = 0; e < EACH; e++) {
                        float4 &sum = sums[e][i];
                        float weight = scores[e][j];
                        sum = {fmaf(weight, value.x, sum.x), fmaf(weight, value.y, sum.y), fmaf(weight, value.z, sum.z),
                               fmaf(weight, value.w, sum.w)};
                    }
                }
            }
        }
    }
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        int query = first + group * EACH + e;
        if (query < problem.queries) {
            float scale = 1.0f / total[e];
#pragma unroll
            for (int i = 0; i < OWN; i++) {
                int x = (i * LANES + part) * 4;
                if (x < problem.head) {
                    float4 sum = sums[e][i];
                    *reinterpret_cast<float4 *>(out + problem.of_out(image, of_head, query) + x) = {sum.x * scale, sum.y * scale,
                                                                                                   sum.z * scale, sum.w * scale};
                }
            }
            if (part == 0) {
                lse[(size_t)matrix * problem.queries + query] = log_sum_exp(most[e], total[e], problem.scale);
            }
        }
    }
}
// ANCHOR_END: kernel

ATTENTION_KERNEL(attention_40, float, (THREADS), 40)
ATTENTION_KERNEL(attention_64, float, (THREADS), 64)
ATTENTION_KERNEL(attention_80, float, (THREADS), 80)
ATTENTION_KERNEL(attention_128, float, (THREADS), 128)
ATTENTION_KERNEL(attention_160, float, (THREADS), 160)
