// The main loop of the last steps: a producer copies, warpgroups take turns at the tensor cores.
//
//     producer     K 0 V 0 │ K 1 V 1 │ …            rings of K and of V, each with barriers: `full` counts bytes, `empty` warps
//     consumer 0   S 0 │ weigh 0 │ S 1, O 0 │ weigh 1 │ S 2, O 1 │ …
//     consumer 1             S 0 │ weigh 0 │ S 1, O 0 │ weigh 1 │ …
//
// Two overlaps. Among consumers: one weighs while another's products run, and each begins its products in turn (`Turns`). Within one:
// the next scores are begun before the values of the last ones, so that they are complete while those still run.
//
// Steps go from the last keys to the first: what has to be masked comes first. The idea is that of FlashAttention-3 (Shah et al., 2024).
// run: attention // trial: attention
#pragma once
#include "attention_hopper.cuh"

// ANCHOR: turns
// Consumers begin their products in turn: each waits at its own barrier of the block, and then lets the next one go on.
template <int CONSUMERS>
struct Turns {
    int consumer;
    __device__ void wait() const { sync_warps(1 + consumer, 2 * GROUP_THREADS); }
    __device__ void pass() const { arrive(consumer + 1 == CONSUMERS ? 0 : consumer + 1); }
    // Before the first turn, the last consumer lets the first one go on; after the last turn, that is taken back.
    __device__ void begin() const {
        if (consumer + 1 == CONSUMERS) {
            arrive(0);
        }
    }
    __device__ void end() const {
        if (consumer == 0) {
            wait();
        }
    }
    static __device__ void arrive(int other) {
        asm volatile("bar.arrive %0, %1;" ::"r"(1 + other), "r"(2 * GROUP_THREADS) : "memory");
    }
};
template <>
struct Turns<1> {
    int consumer;
    __device__ void wait() const {}
    __device__ void pass() const {}
    __device__ void begin() const {}
    __device__ void end() const {}
};
// ANCHOR_END: turns

// Which queries a block has, and which steps of keys.
template <class T>
struct Work {
    int matrix, first, last_step, steps;
    // Tile `tile` of a head.
    __device__ Work(const Problem &problem, int of_matrix, int tile) {
        matrix = of_matrix;
        first = tile * T::QUERIES;
        steps = (problem.seen(min(first + T::QUERIES, problem.queries) - 1) + T::KEYS - 1) / T::KEYS;
        last_step = steps - 1;
    }
    // Tiles of a head.
    static __device__ int count(const Problem &problem) { return (problem.queries + T::QUERIES - 1) / T::QUERIES; }
};

// The barriers of a block: of Q, and of a ring's stage for K and V.
template <class T>
struct Barriers {
    unsigned q_full;
    __device__ explicit Barriers(unsigned shared) : q_full(shared + T::BARRIERS) {}
    __device__ unsigned q_empty() const { return q_full + 8; }
    __device__ unsigned k_full(int stage) const { return q_full + 16 + stage * 32; }
    __device__ unsigned k_empty(int stage) const { return k_full(stage) + 8; }
    __device__ unsigned v_full(int stage) const { return k_full(stage) + 16; }
    __device__ unsigned v_empty(int stage) const { return k_full(stage) + 24; }
    __device__ void init() const {
        barrier_init(q_full, 1);
        barrier_init(q_empty(), T::CONSUMERS * 4);  // a warp each
        for (int stage = 0; stage < T::STAGES; stage++) {
            barrier_init(k_full(stage), 1);
            barrier_init(k_empty(stage), T::CONSUMERS * 4);
            barrier_init(v_full(stage), 1);
            barrier_init(v_empty(stage), T::CONSUMERS * 4);
        }
        fence_barrier_init();
    }
};

// ANCHOR: fetch
// The producer's copies for one tile of queries.
template <class T>
__device__ inline void fetch(const TensorMap &q, const TensorMap &k, const TensorMap &v, unsigned shared, const Problem &problem,
                             const Work<T> &work, unsigned q_parity, Ring<T::STAGES> &ring) {
    Barriers<T> barriers(shared);
    auto fetch_keys = [&](int step) {
        barrier_wait(barriers.k_empty(ring.stage), ring.parity ^ 1);
        copy_tile<T::BOXES>(shared + T::K + ring.stage * T::KV_BYTES, T::KV_BOX, k, step * T::KEYS, work.matrix, problem,
                            barriers.k_full(ring.stage));
    };
    fetch_keys(work.last_step);                      // while the queries of the last tile may still be read
    barrier_wait(barriers.q_empty(), q_parity ^ 1);  // at once the first time
    copy_tile<T::BOXES>(shared, T::Q_BOX, q, work.first, work.matrix, problem, barriers.q_full);
#pragma unroll 1
    for (int step = work.last_step; step > work.last_step - work.steps; step--, ring.next()) {
        if (step < work.last_step) {
            fetch_keys(step);
        }
        barrier_wait(barriers.v_empty(ring.stage), ring.parity ^ 1);
        copy_tile<T::BOXES>(shared + T::V + ring.stage * T::KV_BYTES, T::KV_BOX, v, step * T::KEYS, work.matrix, problem,
                            barriers.v_full(ring.stage));
    }
}
// ANCHOR_END: fetch

// One arrival for each warp.
__device__ inline void release(unsigned barrier) {
    if (threadIdx.x % 32 == 0) {
        barrier_arrive(barrier);
    }
}

// ANCHOR: attend
// A consumer's rows of one tile: O without its denominator in `sums`.
template <class T>
__device__ inline void attend(float (&sums)[T::HEAD / 2], SoftmaxRows &rows, unsigned shared, const Problem &problem, const Work<T> &work,
                               unsigned q_parity, Ring<T::STAGES> &ring, Turns<T::CONSUMERS> turns) {
    Barriers<T> barriers(shared);
    unsigned q_rows = shared + turns.consumer * 64 * ROW_BYTES;
    int first_query = work.first + turns.consumer * 64 + threadIdx.x % GROUP_THREADS / 32 * 16;  // of a warp
    int seen = problem.seen(first_query);
    float scores[T::KEYS / 2], correction[2];
    unsigned weights[T::KEYS / 16][4];
    auto k_tile = [&](int stage) { return shared + T::K + stage * T::KV_BYTES; };
    auto v_tile = [&](int stage) { return shared + T::V + stage * T::KV_BYTES; };
    auto weigh = [&](int step) {
        if ((step + 1) * T::KEYS > seen) {
            mask(scores, problem, first_query, step * T::KEYS);
        }
        rows.weigh(scores, correction, problem.scale);
    };
    barrier_wait(barriers.q_full, q_parity);
    barrier_wait(barriers.k_full(ring.stage), ring.parity);
    turns.wait();
    hold(scores);
    wgmma_fence();
    begin_scores<T>(scores, q_rows, k_tile(ring.stage));
    turns.pass();
    wgmma_wait<0>();
    hold(scores);
    release(barriers.k_empty(ring.stage));
    weigh(work.last_step);
    pack_weights<typename T::Element>(weights, scores);
#pragma unroll 1
    for (int step = work.last_step - 1; step > work.last_step - work.steps; step--) {
        Ring<T::STAGES> before = ring;
        ring.next();
        barrier_wait(barriers.k_full(ring.stage), ring.parity);
        turns.wait();
        hold(scores);
        wgmma_fence();
        begin_scores<T>(scores, q_rows, k_tile(ring.stage));
        barrier_wait(barriers.v_full(before.stage), before.parity);
        hold(weights);
        hold(sums);
        wgmma_fence();
        begin_values<T>(sums, weights, v_tile(before.stage));
        turns.pass();
        wgmma_wait<1>();  // the scores are complete
        hold(scores);
        release(barriers.k_empty(ring.stage));
        weigh(step);
        wgmma_wait<0>();  // and the values
        hold(sums);
        hold(weights);
        release(barriers.v_empty(before.stage));
        scale_rows(sums, correction);
        pack_weights<typename T::Element>(weights, scores);
    }
    release(barriers.q_empty());
    barrier_wait(barriers.v_full(ring.stage), ring.parity);
    hold(weights);
    hold(sums);
    wgmma_fence();
    begin_values<T>(sums, weights, v_tile(ring.stage));
    wgmma_wait<0>();
    hold(sums);
    release(barriers.v_empty(ring.stage));
    ring.next();
}
// ANCHOR_END: attend
