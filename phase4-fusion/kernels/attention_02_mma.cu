// Attention on tensor cores: a warp has 16 queries, multiplies them with 64 keys at a time, and its weights never leave the registers.
//
//     S = Q · Kᵀ      Q in registers from the beginning; K's rows are B's columns: ldmatrix
//     P = weights     f32 for the sums, then f16, in place: what a thread has of S is what it needs of A
//     O += P · V      V's rows are B's rows: ldmatrix, transposed on the way
//
// K and V of the next 64 keys come by cp.async meanwhile. Tiles are swizzled as those of gemm_05_swizzle.cu. Limited by ldmatrix: each
// warp reads all of K and V for its 16 rows.
// nvrtc: --gpu-architecture=compute_80 // run: attention // trial: attention
#include "attention_rows.cuh"
#include "cp_async.cuh"
#include "mma.cuh"

using Half = unsigned short;

constexpr int WARPS = 4;
constexpr int BM = WARPS * 16;  // queries per block
constexpr int BN = 64;          // keys per step
constexpr int STAGES = 2;       // tiles of K and V in shared memory
constexpr int THREADS = WARPS * 32;

// Of heads of up to HEAD values: how many a product takes, and the values from one row of a tile to the next.
template <int HEAD>
struct Tile {
    static constexpr int DEPTH = (HEAD + 15) / 16 * 16, ROW = (DEPTH + 63) / 64 * 64;
    static constexpr int VALUES = BN * ROW, SHARED = (BM * ROW + STAGES * 2 * VALUES) * 2;
    // Where a tile has a row's value: pieces of 16 bytes change places, in each row in another way.
    static __device__ int place(int row, int x) { return row * ROW + ((x / 8 ^ row % 8) * 8 | x % 8); }
};

// ANCHOR: fetch
// Sends rows of one head on their way into shared memory; zeros beyond the last token and the last value.
template <int HEAD>
__device__ void fetch(Half *tile, const Half *from, long long stride, int rows, int head) {
    constexpr int PIECES = Tile<HEAD>::DEPTH / 8;
#pragma unroll
    for (int at = threadIdx.x; at < BN * PIECES; at += THREADS) {
        int row = at / PIECES, x = at % PIECES * 8;
        bool inside = row < rows && x < head;
        copy16(tile + Tile<HEAD>::place(row, x), inside ? from + row * stride + x : from, inside);
    }
}
// ANCHOR_END: fetch

// ANCHOR: kernel
template <int HEAD>
__device__ void attention(const Half *q, const Half *k, const Half *v, Half *out, float *lse, const Problem &problem) {
    using T = Tile<HEAD>;
    static_assert(BM == BN, "Q's tile is fetched as K's");
    extern __shared__ __align__(128) Half memory[];
    Half *stages = memory + BM * T::ROW;  // of each K's tile, then V's
    int tiles = (problem.queries + BM - 1) / BM, matrix = blockIdx.x / tiles, first = blockIdx.x % tiles * BM;
    int image = matrix / problem.heads, of_head = matrix % problem.heads, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    q += problem.of_q(image, of_head, first);
    k += problem.of_kv(image, of_head, 0);
    v += problem.of_kv(image, of_head, 0);
    int last = problem.seen(min(first + BM, problem.queries) - 1), steps = (last + BN - 1) / BN;
    auto fetch_step = [&](int step) {  // a group, which may be empty
        if (step < steps) {
            Half *tile = stages + step % STAGES * 2 * T::VALUES;
            long long from = step * BN * problem.of_kv.token;
            fetch<HEAD>(tile, k + from, problem.of_kv.token, problem.keys - step * BN, problem.head);
            fetch<HEAD>(tile + T::VALUES, v + from, problem.of_kv.token, problem.keys - step * BN, problem.head);
        }
        end_copy_group();
    };
    fetch<HEAD>(memory, q, problem.of_q.token, problem.queries - first, problem.head);
    fetch_step(0);

    unsigned own[T::DEPTH / 16][4];
    float sums[T::DEPTH / 2] = {};
    SoftmaxRows rows;
    for (int step = 0; step < steps; step++) {
        copy_groups_arrived<0>();
        __syncthreads();  // this step's tiles are complete, and all warps are done with those of the step before
        fetch_step(step + 1);
        const Half *k_tile = stages + step % STAGES * 2 * T::VALUES, *v_tile = k_tile + T::VALUES;
        if (step == 0) {
#pragma unroll
            for (int i = 0; i < T::DEPTH; i += 16) {
                load_matrices(own[i / 16], memory + T::place(warp * 16 + lane % 16, i + lane / 16 * 8));
            }
        }
        float scores[BN / 2] = {};
#pragma unroll
        for (int i = 0; i < T::DEPTH; i += 16) {
#pragma unroll
            for (int key = 0; key < BN; key += 16) {
                unsigned columns[4];  // of 8 keys, then of 8 more
                load_matrices(columns, k_tile + T::place(key + lane / 16 * 8 + lane % 8, i + lane / 8 % 2 * 8));
                mma(F16(), &scores[key / 2], own[i / 16], columns);
                mma(F16(), &scores[key / 2 + 4], own[i / 16], columns + 2);
            }
        }
        int first_query = first + warp * 16;
        if ((step + 1) * BN > problem.seen(first_query)) {
            mask(scores, problem, first_query, step * BN);
        }
        float correction[2];
        rows.weigh(scores, correction, problem.scale);
        scale_rows(sums, correction);
        unsigned weights[BN / 16][4];
        pack_weights<F16>(weights, scores);
#pragma unroll
        for (int key = 0; key < BN; key += 16) {
#pragma unroll
            for (int x = 0; x < T::DEPTH; x += 16) {
                unsigned columns[4];
                load_transposed(columns, v_tile + T::place(key + lane % 16, x + lane / 16 * 8));
                mma(F16(), &sums[x / 2], weights[key / 16], columns);
                mma(F16(), &sums[x / 2 + 4], weights[key / 16], columns + 2);
            }
        }
    }
    write_rows<F16>(sums, rows, out, lse, problem, matrix, first + warp * 16);
}
// ANCHOR_END: kernel

constexpr int attention_40_shared = Tile<40>::SHARED, attention_64_shared = Tile<64>::SHARED;
constexpr int attention_80_shared = Tile<80>::SHARED, attention_128_shared = Tile<128>::SHARED;
constexpr int attention_160_shared = Tile<160>::SHARED;
ATTENTION_KERNEL(attention_40, Half, (THREADS), 40)
ATTENTION_KERNEL(attention_64, Half, (THREADS), 64)
ATTENTION_KERNEL(attention_80, Half, (THREADS), 80)
ATTENTION_KERNEL(attention_128, Half, (THREADS), 128)
ATTENTION_KERNEL(attention_160, Half, (THREADS), 160)
