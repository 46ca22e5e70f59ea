// Attention of a query at a time, as models that write token by token ask for it. Tensor cores would multiply 63 rows of zeros beside it, and
// each key is used once: what counts is to keep every SM reading.
//
//     cluster of 8 blocks     an eighth of the keys each
//     block of 16 warps       each warp takes 4 × KEYS keys at a time: 4 loads of K and 4 of V are on their way before the first is used
//     lanes                   8 or 16 share a key, 8 values (16 bytes) each; a warp has 4 or 2 keys side by side
//
// Whoever has seen some keys keeps a part of the row: its largest score, the sum of its weights, and O without the denominator. Parts add up
// in any order, so lanes, warps and blocks do it in turn. An SM has room for two blocks: with one, some clusters of eight would find no
// eight SMs of a part of the chip free, and come second. Limited by the bytes of K and V.
// nvrtc: --gpu-architecture=compute_90 // run: attention // trial: attention
#include "attention.cuh"
#include "copies.cuh"

constexpr int THREADS = 512, WARPS = THREADS / 32, AHEAD = 4, SLICES = 8;
constexpr int BM = 1, BN = THREADS / 16 * AHEAD;  // queries of a block, and keys per step, twice as many of small heads

// ANCHOR: parts
template <int HEAD>
struct Part {
    float most, sum, values[HEAD];
};

// A value of COUNT parts together, of which `read` gives the largest score, the sum and the value.
template <int COUNT, class Read>
__device__ inline float3 add_up(Read read) {
    float3 all = {UNSEEN, 0.0f, 0.0f};
#pragma unroll 8
    for (int i = 0; i < COUNT; i++) {
        all.x = fmaxf(all.x, read(i).x);
    }
#pragma unroll 8
    for (int i = 0; i < COUNT; i++) {
        float3 part = read(i);
        float weight = part.x == UNSEEN ? 0.0f : power_of_two(part.x - all.x);
        all.y = fmaf(weight, part.y, all.y);
        all.z = fmaf(weight, part.z, all.z);
    }
    return all;
}
// ANCHOR_END: parts

// Eight values of a key, which nobody reads again. `volatile` keeps the load where it stands, ahead of its use.
__device__ inline uint4 load_eight(const unsigned short *from) {
    uint4 words;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w) : "l"(from));
    return words;
}

__device__ inline void widen(float (&values)[8], const uint4 &words) {
    const unsigned of[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %2;\ncvt.f32.f16 %0, low;\ncvt.f32.f16 %1, high;\n}"
            : "=f"(values[2 * i]), "=f"(values[2 * i + 1]) : "r"(of[i]));
    }
}

// ANCHOR: stream
// What a lane keeps of a row: the largest score and the sum of the keys that its group of lanes has seen, and eight values of O.
template <int LANES>
struct Stream {
    static constexpr int KEYS = 32 / LANES;
    float query[8], most = UNSEEN, sum = 0.0f, values[8] = {};

    // Adds the keys from `key` on, of AHEAD steps of the warp; from `end` on the last one is read, and has no weight.
    __device__ void take(const unsigned short *k, const unsigned short *v, unsigned token, int key, int end) {
        auto place = [&](int i) { return (unsigned long long)(unsigned)min(key + i * KEYS, end - 1) * token; };
        uint4 of_k[AHEAD], of_v[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            of_k[i] = load_eight(k + place(i));
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            of_v[i] = load_eight(v + place(i));
        }
        float scores[AHEAD], largest = most;
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            float of_key[8], score = 0.0f;
            widen(of_key, of_k[i]);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                score = fmaf(query[j], of_key[j], score);
            }
#pragma unroll
            for (int other = 1; other < LANES; other *= 2) {
                score += __shfl_xor_sync(~0u, score, other);
            }
            scores[i] = key + i * KEYS < end ? score : UNSEEN;
            largest = fmaxf(largest, scores[i]);
        }
        float shift = largest == UNSEEN ? 0.0f : largest, correction = power_of_two(most - shift);
        most = largest;
        sum *= correction;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            values[j] *= correction;
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            float weight = power_of_two(scores[i] - shift), of_key[8];
            widen(of_key, of_v[i]);
            sum += weight;
#pragma unroll
            for (int j = 0; j < 8; j++) {
                values[j] = fmaf(weight, of_key[j], values[j]);
            }
        }
    }
};
// ANCHOR_END: stream

// ANCHOR: kernel
template <int HEAD>
__device__ void attention(const unsigned short *__restrict__ q, const unsigned short *__restrict__ k, const unsigned short *__restrict__ v,
                          unsigned short *__restrict__ out, float *__restrict__ lse, const Problem &problem) {
    constexpr int LANES = HEAD <= 64 ? 8 : 16, KEYS = 32 / LANES, PARTS = WARPS * KEYS;
    __shared__ Part<HEAD> parts[PARTS], own;
    int row = blockIdx.x / SLICES, rank = cluster_rank(), matrix = row / problem.queries, query = row % problem.queries;
    int image = matrix / problem.heads, of_head = matrix % problem.heads;
    int group = threadIdx.x / LANES, column = threadIdx.x % LANES * 8;
    bool is_within = column < problem.head;

    // A lane beyond the head reads its last values, and multiplies them by zeros.
    int place = min(column, problem.head - 8);
    Stream<LANES> stream;
    widen(stream.query, load_eight(q + problem.of_q(image, of_head, query) + place));
#pragma unroll
    for (int i = 0; i < 8; i++) {
        stream.query[i] *= is_within ? problem.scale : 0.0f;
    }
    long long seen = problem.seen(query), from = problem.of_kv(image, of_head, 0) + place;
    int end = (int)((rank + 1) * seen / SLICES);
    unsigned token = (unsigned)problem.of_kv.token;  // the host counts to 31 bits
    for (int key = (int)(rank * seen / SLICES) + group / KEYS * KEYS * AHEAD + group % KEYS; key - group % KEYS < end; key += PARTS * AHEAD) {
        stream.take(k + from, v + from, token, key, end);
    }

    if (is_within) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            parts[group].values[column + i] = stream.values[i];
        }
    }
    if (column == 0) {
        parts[group].most = stream.most;
        parts[group].sum = stream.sum;
    }
    __syncthreads();
    int value = threadIdx.x;
    bool adds = value < problem.head;
    if (adds) {
        float3 all = add_up<PARTS>([&](int i) { return make_float3(parts[i].most, parts[i].sum, parts[i].values[value]); });
        own.values[value] = all.z;
        if (value == 0) {
            own.most = all.x;
            own.sum = all.y;
        }
    }
    cluster_sync();  // the parts of all blocks are there
    if (rank == 0 && adds) {
        float3 of_blocks[SLICES];
#pragma unroll
        for (int i = 0; i < SLICES; i++) {
            of_blocks[i] = make_float3(peer_value(&own.most, i), peer_value(&own.sum, i), peer_value(&own.values[value], i));
        }
        float3 all = add_up<SLICES>([&](int i) { return of_blocks[i]; });
        out[problem.of_out(image, of_head, query) + value] = (unsigned short)F16::pack(all.z / all.y, 0.0f);
        if (value == 0) {
            lse[row] = log_sum_exp(all.x, all.y, 1.0f);
        }
    }
    cluster_sync();  // no block leaves while another may still read its part
}
// ANCHOR_END: kernel

#define STREAM_KERNEL(HEAD) ATTENTION_KERNEL(attention_##HEAD, unsigned short, (THREADS, 2) __cluster_dims__(SLICES, 1, 1), HEAD)
STREAM_KERNEL(40)
STREAM_KERNEL(64)
STREAM_KERNEL(80)
STREAM_KERNEL(128)
