// Attention over f32 on tensor cores, which take 19 of a value's 32 bits: with a value rounded to those, or as the sum of two such.
//
//     x = high + low      high: x rounded to tf32; low: the rest, of which tf32 keeps all but 2⁻²¹ of x
//     x · y ≈ high · high' + high · low' + low · high'      three products; the fourth is smaller than what is lost anyway
//
// A warp has 16 queries, or 32, in registers. A block has two groups of four warps with the same queries: they take
// the keys' steps in turn, and in the end add up what they have, so that a scheduler has two warps where queries are few. The steps of a product may come in any order, if A and B have the same: so a thread takes
// two neighbouring values of a key at once, and its weights of two neighbouring keys stay where the scores were.
//
//     mma's step along K:   0  1  2  3  4  5  6  7      thread t of four holds steps t and t + 4 of A and B
//     value, or key:        0  2  4  6  1  3  5  7      so that it holds 2t and 2t + 1
//
// What a step adds to O is added up for itself first: 4096 keys one after the other in a sum of the tensor cores, which cut it, lose more
// than f32 does.
// run: attention // trial: attention
#pragma once
#include "attention_rows.cuh"
#include "cp_async.cuh"

constexpr int WARPS = 4;   // of a group
constexpr int GROUPS = 2;  // with every second step each
constexpr int STAGES = 2;  // tiles of K and V in shared memory, of a group
constexpr int GROUP_THREADS = WARPS * 32;
constexpr int THREADS = GROUPS * GROUP_THREADS;

// Of heads of up to HEAD values: the keys of a step, and the values from one row of a tile to the next, so that no two threads that read
// at once meet in a bank.
template <int HEAD>
struct Tile {
    static_assert(HEAD % 8 == 0, "a step of a product takes eight values");
    static constexpr int BN = HEAD > 128 ? 16 : 32;
    static constexpr int K_ROW = HEAD % 16 == 8 ? HEAD : HEAD + 8, V_ROW = HEAD + 4;
    static constexpr int VALUES = BN * (K_ROW + V_ROW), SHARED = GROUPS * STAGES * VALUES * 4;
};

// ANCHOR: parts
// The same value, which the compiler does not know: what is computed from it is computed where it is needed, and not kept.
__device__ inline float afresh(float x) {
    asm volatile("" : "+f"(x));
    return x;
}
__device__ inline int afresh(int x) {
    asm volatile("" : "+r"(x));
    return x;
}

// A value as the tensor cores take it: rounded (COUNT = 1), and what that leaves out (COUNT = 2).
template <int COUNT>
struct Parts {
    unsigned high, low;
    Parts() = default;
    __device__ Parts(float x) {
        high = __float_as_uint(x) + (1 << 12) & ~0u << 13;  // cvt.rna.tf32 without its care for NaNs and infinities: two instructions, not four
        low = __float_as_uint(x - __uint_as_float(high));  // exact; the tensor cores leave its last bits out
    }
};

__device__ inline void mma_tf32(float *d, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// sums + small += A · B for 16 rows, 8 columns and 8 steps along K: `small` has the small products. They may go to one place; two wait less
// for one another.
template <int COUNT>
__device__ inline void multiply(float *sums, float *small, const Parts<COUNT> (&a)[4], const Parts<COUNT> (&b)[2]) {
    if (COUNT == 2) {
        mma_tf32(small, a[0].low, a[1].low, a[2].low, a[3].low, b[0].high, b[1].high);
        mma_tf32(small, a[0].high, a[1].high, a[2].high, a[3].high, b[0].low, b[1].low);
    }
    mma_tf32(sums, a[0].high, a[1].high, a[2].high, a[3].high, b[0].high, b[1].high);
}
// ANCHOR_END: parts

// Sends rows of one head on their way into shared memory; zeros beyond the last token and the last value.
template <int HEAD>
__device__ void fetch(float *tile, int row_values, const float *from, long long stride, int rows, int head) {
    constexpr int PIECES = HEAD / 4;
#pragma unroll
    for (int at = afresh((int)threadIdx.x % GROUP_THREADS); at < Tile<HEAD>::BN * PIECES; at += GROUP_THREADS) {
        int row = at / PIECES, x = at % PIECES * 4;
        bool inside = row < rows && x < head;
        copy16(tile + row * row_values + x, inside ? from + row * stride + x : from, inside);
    }
}

// ANCHOR: meet
// What a group has of 16 queries, in the place of its thread of a warp: sums, and of two rows the largest score and the sum. The next of a
// thread's values lies GROUP_THREADS further, so that a warp's lie side by side.
template <int COUNT>
__device__ void put(float *place, const float (&sums)[COUNT], const SoftmaxRows &rows) {
#pragma unroll
    for (int i = 0; i < COUNT + 4; i++) {
        place[i * GROUP_THREADS] = i < COUNT ? sums[i] : i < COUNT + 2 ? rows.most[i - COUNT] : rows.sum[i - COUNT - 2];
    }
}

// Adds what another group has put there.
template <int COUNT>
__device__ void join(const float *place, float (&sums)[COUNT], SoftmaxRows &rows, float scale) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float most = place[(COUNT + half) * GROUP_THREADS], sum = place[(COUNT + 2 + half) * GROUP_THREADS];
        float largest = fmaxf(rows.most[half], most), shift = largest == UNSEEN ? 0.0f : largest * scale;
        float own = power_of_two(fmaf(rows.most[half], scale, -shift)), theirs = power_of_two(fmaf(most, scale, -shift));
        rows.most[half] = largest;
        rows.sum[half] = fmaf(rows.sum[half], own, sum * theirs);
#pragma unroll
        for (int i = half * 2; i < COUNT; i += i % 2 ? 3 : 1) {
            sums[i] = fmaf(sums[i], own, place[i * GROUP_THREADS] * theirs);
        }
    }
}
// ANCHOR_END: meet

// ANCHOR: kernel
// ROWS: how often a warp has 16 queries. COUNT: parts of a value.
template <int HEAD, int ROWS, int COUNT>
__device__ void attention(const float *q, const float *k, const float *v, float *out, float *lse, const Problem &problem) {
    using T = Tile<HEAD>;
    constexpr int BM = WARPS * ROWS * 16, BN = T::BN;
    extern __shared__ __align__(128) float memory[];  // of each group and stage K's tile, then V's
    int group = __shfl_sync(~0u, (int)threadIdx.x / GROUP_THREADS, 0);  // the compiler sees that a warp agrees
    float *stages = memory + group * STAGES * T::VALUES;
    int tiles = (problem.queries + BM - 1) / BM, matrix = blockIdx.x / tiles, first = blockIdx.x % tiles * BM;
    int image = matrix / problem.heads, of_head = matrix % problem.heads;
    int own = first + threadIdx.x / 32 % WARPS * ROWS * 16;  // the warp's first query
    k += problem.of_kv(image, of_head, 0);
    v += problem.of_kv(image, of_head, 0);
    int last = problem.seen(min(first + BM, problem.queries) - 1), steps = (last + BN - 1) / BN;
    auto fetch_step = [&](int step) {  // a group, which may be empty
        if (step < steps) {
            float *tile = stages + step / GROUPS % STAGES * T::VALUES;
            long long from = step * BN * problem.of_kv.token;
            fetch<HEAD>(tile, T::K_ROW, k + from, problem.of_kv.token, problem.keys - step * BN, problem.head);
            fetch<HEAD>(tile + BN * T::K_ROW, T::V_ROW, v + from, problem.of_kv.token, problem.keys - step * BN, problem.head);
        }
        end_copy_group();
    };
    fetch_step(group);

    float queries[ROWS][HEAD / 2], sums[ROWS][HEAD / 2] = {};
    SoftmaxRows rows[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int query = own + r * 16 + half * 8 + own_row();
            const float *from = q + problem.of_q(image, of_head, query);
#pragma unroll
            for (int i = 0; i < HEAD; i += 8) {
                bool inside = query < problem.queries && i < problem.head;
                float2 two = inside ? *reinterpret_cast<const float2 *>(from + i + own_column()) : float2{};
                queries[r][i / 2 + half] = two.x;
                queries[r][i / 2 + half + 2] = two.y;
            }
        }
    }
    for (int step = group; step < steps; step += GROUPS) {
        copy_groups_arrived<0>();
        __barrier_sync_count(1 + group, GROUP_THREADS);  // this step's tiles are complete, and all warps are done with those of the last one
        fetch_step(step + GROUPS);
        const float *k_tile = stages + step / GROUPS % STAGES * T::VALUES, *v_tile = k_tile + BN * T::K_ROW;
        float scores[ROWS][BN / 2] = {}, small[ROWS][BN / 2] = {};
#pragma unroll
        for (int i = 0; i < HEAD; i += 8) {
            Parts<COUNT> a[ROWS][4];
#pragma unroll
            for (int at = 0; at < 4 * ROWS; at++) {
                float value = queries[at / 4][i / 2 + at % 4];
                a[at / 4][at % 4] = COUNT == 1 ? value : afresh(value);
            }
#pragma unroll
            for (int key = 0; key < BN; key += 8) {
                float2 two = *reinterpret_cast<const float2 *>(k_tile + (key + own_row()) * T::K_ROW + i + own_column());
                Parts<COUNT> b[2] = {two.x, two.y};
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    multiply(scores[r] + key / 2, small[r] + key / 2, a[r], b);
                }
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
#pragma unroll
            for (int i = 0; i < BN / 2; i++) {
                scores[r][i] += small[r][i];
            }
        }
        float correction[ROWS][2];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if ((step + 1) * BN > problem.seen(afresh(own) + r * 16)) {
                mask(scores[r], problem, own + r * 16, step * BN);
            }
            rows[r].weigh(scores[r], correction[r], problem.scale);
        }
#pragma unroll
        for (int x = 0; x < HEAD; x += 8) {
            float added[ROWS][4] = {};
#pragma unroll
            for (int key = 0; key < BN; key += 8) {
                const float *of_key = v_tile + (key + own_column()) * T::V_ROW + x + own_row();
                Parts<COUNT> b[2] = {of_key[0], of_key[T::V_ROW]};
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    const float *weights = scores[r] + key / 2;  // of two keys and row, then of two keys eight rows below
                    Parts<COUNT> a[4] = {weights[0], weights[2], weights[1], weights[3]};
                    multiply(added[r], added[r], a, b);
                }
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    sums[r][x / 2 + i] = fmaf(sums[r][x / 2 + i], correction[r][i / 2], added[r][i]);
                }
            }
        }
    }
    constexpr int SUMS = (HEAD / 2 + 4) * GROUP_THREADS;
    static_assert(ROWS * SUMS * 4 <= T::SHARED, "the tiles' place must hold a group's sums");
    float *place = memory + threadIdx.x % GROUP_THREADS;
    __syncthreads();  // no warp reads a tile any more
    if (group == 1) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            put(place + r * SUMS, sums[r], rows[r]);
        }
    }
    __syncthreads();
    if (group == 1) {
        return;
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        join(place + r * SUMS, sums[r], rows[r], problem.scale);
    }
    int block = afresh((int)blockIdx.x);  // all registers were needed for something else meanwhile
    own = block % tiles * BM + threadIdx.x / 32 * ROWS * 16;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        write_rows<F32>(sums[r], rows[r], out, lse, problem, block / tiles, own + r * 16);
    }
}
// ANCHOR_END: kernel

// A kernel for heads of up to HEAD values whose values have COUNT parts: `attention_HEAD`, or `attention_HEAD_wide` with two rows.
#define F32_KERNEL(name, HEAD, ROWS, COUNT)                                                                                  \
    constexpr int name##_shared = Tile<HEAD>::SHARED, name##_queries = WARPS * ROWS * 16, name##_keys = Tile<HEAD>::BN;      \
    extern "C" __global__ void __launch_bounds__(THREADS, 1)                                                                    \
        name(const float *__restrict__ q, const float *__restrict__ k, const float *__restrict__ v, float *__restrict__ out, \
             float *__restrict__ lse, Problem problem) {                                                                     \
        attention<HEAD, ROWS, COUNT>(q, k, v, out, lse, problem);                                                            \
    }
#define F32_KERNELS(COUNT)                         \
    F32_KERNEL(attention_8, 8, 1, COUNT)           \
    F32_KERNEL(attention_16, 16, 1, COUNT)         \
    F32_KERNEL(attention_24, 24, 1, COUNT)         \
    F32_KERNEL(attention_40, 40, 1, COUNT)         \
    F32_KERNEL(attention_64, 64, 1, COUNT)         \
    F32_KERNEL(attention_80, 80, 1, COUNT)         \
    F32_KERNEL(attention_128, 128, 1, COUNT)       \
    F32_KERNEL(attention_160, 160, 1, COUNT)       \
    F32_KERNEL(attention_8_wide, 8, 2, COUNT)      \
    F32_KERNEL(attention_16_wide, 16, 2, COUNT)    \
    F32_KERNEL(attention_24_wide, 24, 2, COUNT)    \
    F32_KERNEL(attention_40_wide, 40, 2, COUNT)
