// What the steps on Hopper share: boxes of a head's tokens in shared memory, as TMA brings them, and the two products of a warpgroup.
//
//     a box         128 bytes of a head's values, 64 of f16, for as many tokens as the tile has; swizzled. What lies beyond the head, or beyond
//                   the last token, arrives as zeros, so a head of 40 has one box, and one of 80 two
//     S = Q · Kᵀ    both from shared memory; K's rows are the transpose of B
//     O += P · V    P from registers; V's rows are those of B
// run: attention // trial: attention
#pragma once
#include "attention_rows.cuh"
#include "gemm_hopper.cuh"
#include "wgmma_weights.cuh"

// ANCHOR: tile
// What follows from a shape: Element, HEAD, CONSUMERS, KEYS and STAGES.
//     Element     type of the tensors and weights, of two bytes or of one; then V is turned, [head, keys], as products of bytes take it
//     HEAD        values of a head, at most
//     CONSUMERS   warpgroups with 64 queries each
//     KEYS        per step
//     STAGES      tiles of K and of V in shared memory
template <class Shape>
struct Tile : Shape {
    static constexpr int QUERIES = Shape::CONSUMERS * 64;
    static constexpr bool TURNS_V = sizeof(typename Shape::Element::Value) == 1;
    static constexpr float LIFT = TURNS_V ? 8.0f : 0.0f;  // weights are up to 2^LIFT
    static constexpr int VALUES = ROW_BYTES / sizeof(typename Shape::Element::Value);            // of a row of a box
    static constexpr int STEP = INSTRUCTION_BYTES / sizeof(typename Shape::Element::Value);      // values of a wgmma
    static constexpr int BOXES = (Shape::HEAD + VALUES - 1) / VALUES;
    static constexpr int Q_BOX = QUERIES * ROW_BYTES, K_BOX = Shape::KEYS * ROW_BYTES, V_BOX = (TURNS_V ? Shape::HEAD : Shape::KEYS) * ROW_BYTES;
    static constexpr int Q_BYTES = BOXES * Q_BOX, K_BYTES = BOXES * K_BOX, V_BYTES = BOXES * V_BOX;
    static constexpr int K = Q_BYTES, V = K + Shape::STAGES * K_BYTES, COPY = V + Shape::STAGES * V_BYTES;
    static constexpr int BARRIERS = COPY + (TURNS_V ? Shape::STAGES * K_BYTES : 0);  // COPY: V as it comes, to be turned
    static constexpr int SHARED = BARRIERS + (2 + 6 * Shape::STAGES) * 8;
    static_assert(!TURNS_V || (BOXES == 1 && Shape::KEYS <= VALUES), "V is turned from one box to another");
    static_assert(SHARED <= 227 * 1024, "a block has 227 KiB of shared memory at most");
};
// ANCHOR_END: tile

// ANCHOR: copies
// A box of a head's tokens.
__device__ inline void copy_tokens(unsigned to, const TensorMap &map, int value, int token, int of_head, int image, unsigned barrier) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
        "l"(&map), "r"(value), "r"(token), "r"(of_head), "r"(image), "r"(barrier)
        : "memory");
}

// All boxes of a tile of tokens; their bytes arrive at `barrier`.
template <class T>
__device__ inline void copy_tile(unsigned to, int box_bytes, const TensorMap &map, int token, int matrix, const Problem &problem,
                                 unsigned barrier) {
    barrier_expect(barrier, T::BOXES * box_bytes);
#pragma unroll
    for (int box = 0; box < T::BOXES; box++) {
        copy_tokens(to + box * box_bytes, map, box * T::VALUES, token, matrix % problem.heads, matrix / problem.heads, barrier);
    }
}
// ANCHOR_END: copies

// ANCHOR: products
// Begins S = Q · Kᵀ of a warpgroup, whose rows of Q begin at `q_rows`.
template <class T>
__device__ inline void begin_scores(float (&scores)[T::KEYS / 2], unsigned q_rows, unsigned k_tile) {
#pragma unroll
    for (int i = 0; i < (T::HEAD + T::STEP - 1) / T::STEP; i++) {
        int within = i % 4 * INSTRUCTION_BYTES;
        unsigned long long q = descriptor(q_rows + i / 4 * T::Q_BOX, 16, 1024) + (within >> 4);
        unsigned long long k = descriptor(k_tile + i / 4 * T::K_BOX, 16, 1024) + (within >> 4);
        wgmma<false>(typename T::Element(), scores, q, k, i > 0);
    }
    wgmma_commit();
}

// Begins O += P · V.
template <class T>
__device__ inline void begin_values(float (&sums)[T::HEAD / 2], unsigned (&weights)[T::KEYS / T::STEP][4], unsigned v_tile) {
#pragma unroll
    for (int i = 0; i < T::KEYS / T::STEP; i++) {
        int place = T::TURNS_V ? i * INSTRUCTION_BYTES : i * T::STEP * ROW_BYTES;
        wgmma_weights(typename T::Element(), sums, weights[i], descriptor(v_tile, T::V_BOX, 1024) + (place >> 4));
    }
    wgmma_commit();
}
// ANCHOR_END: products

// A kernel `name` of a shape, and the sizes that the host side reads.
#define ATTENTION_MAP_KERNEL(name, bounds, ...)                                                                       \
    constexpr int name##_queries = Tile<__VA_ARGS__>::QUERIES, name##_keys = Tile<__VA_ARGS__>::KEYS;                 \
    constexpr int name##_threads = Tile<__VA_ARGS__>::THREADS, name##_shared = Tile<__VA_ARGS__>::SHARED;             \
    extern "C" __global__ void __launch_bounds__ bounds                                                               \
        name(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k, const __grid_constant__ TensorMap v, \
             unsigned short *out, float *lse, const __grid_constant__ Problem problem) {                              \
        attention<Tile<__VA_ARGS__>>(q, k, v, out, lse, problem);                                                     \
    }
