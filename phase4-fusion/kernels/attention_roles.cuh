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

constexpr int TURNERS = 3;  // warps that turn V, where products need it

// The barriers of a block: of Q, and of a ring's stage for K and V.
template <class T>
struct Barriers {
    unsigned q_full;
    __device__ explicit Barriers(unsigned shared) : q_full(shared + T::BARRIERS) {}
    __device__ unsigned q_empty() const { return q_full + 8; }
    __device__ unsigned k_full(int stage) const { return q_full + 16 + stage * 48; }
    __device__ unsigned k_empty(int stage) const { return k_full(stage) + 8; }
    __device__ unsigned v_full(int stage) const { return k_full(stage) + 16; }
    __device__ unsigned v_empty(int stage) const { return k_full(stage) + 24; }
    // Of V as it comes: another tile if it is turned.
    __device__ unsigned copy_full(int stage) const { return T::TURNS_V ? k_full(stage) + 32 : v_full(stage); }
    __device__ unsigned copy_empty(int stage) const { return T::TURNS_V ? k_full(stage) + 40 : v_empty(stage); }
    __device__ void init() const {
        barrier_init(q_full, 1);
        barrier_init(q_empty(), T::CONSUMERS * 4);  // a warp each
        for (int stage = 0; stage < T::STAGES; stage++) {
            barrier_init(k_full(stage), 1);
            barrier_init(k_empty(stage), T::CONSUMERS * 4);
            barrier_init(v_full(stage), T::TURNS_V ? TURNERS : 1);
            barrier_init(v_empty(stage), T::CONSUMERS * 4);
            if (T::TURNS_V) {
                barrier_init(copy_full(stage), 1);
                barrier_init(copy_empty(stage), TURNERS);
            }
        }
        fence_barrier_init();
    }
};

// One arrival for each warp.
__device__ inline void release(unsigned barrier) {
    if (threadIdx.x % 32 == 0) {
        barrier_arrive(barrier);
    }
}

// ANCHOR: fetch
// The producer's copies for one tile of queries.
template <class T>
__device__ inline void fetch(const TensorMap &q, const TensorMap &k, const TensorMap &v, unsigned shared, const Problem &problem,
                             const Work<T> &work, unsigned q_parity, Ring<T::STAGES> &ring) {
    Barriers<T> barriers(shared);
    auto fetch_keys = [&](int step) {
        barrier_wait(barriers.k_empty(ring.stage), ring.parity ^ 1);
        copy_tile<T>(shared + T::K + ring.stage * T::K_BYTES, T::K_BOX, k, step * T::KEYS, work.matrix, problem, barriers.k_full(ring.stage));
    };
    fetch_keys(work.last_step);                      // while the queries of the last tile may still be read
    barrier_wait(barriers.q_empty(), q_parity ^ 1);  // at once the first time
    copy_tile<T>(shared, T::Q_BOX, q, work.first, work.matrix, problem, barriers.q_full);
#pragma unroll 1
    for (int step = work.last_step; step > work.last_step - work.steps; step--, ring.next()) {
        if (step < work.last_step) {
            fetch_keys(step);
        }
        barrier_wait(barriers.copy_empty(ring.stage), ring.parity ^ 1);
        copy_tile<T>(shared + (T::TURNS_V ? T::COPY : T::V) + ring.stage * T::K_BYTES, T::K_BOX, v, step * T::KEYS, work.matrix, problem,
                     barriers.copy_full(ring.stage));
    }
}
// ANCHOR_END: fetch

// ANCHOR: turn
// What the producer's other warps do if products are of bytes, which take V along the keys only: write it as [head, keys]. `ldmatrix` turns
// pairs of bytes, and a permutation of bytes does the rest.
//
//     16 keys, 16 values: two words of a lane, t = lane % 4, c = lane / 4         its words of row 2c, and of row 2c + 1
//     key 2t      2c  2c + 1 ┐                                                    2t  2t + 1  8 + 2t  9 + 2t   of value 2c
//     key 2t + 1  2c  2c + 1 ┘ and the same of keys 8 + 2t, 9 + 2t                2t  2t + 1  8 + 2t  9 + 2t   of value 2c + 1
//
// So keys come in another order, 0 1 8 9, 2 3 10 11, …: the one in which lanes have the weights (`pack_weights`).
__device__ inline void load_turned(unsigned (&words)[4], unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(row) : "memory");
}

__device__ inline void store_matrices(unsigned row, unsigned first, unsigned second, unsigned third, unsigned fourth) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(first), "r"(second), "r"(third),
                 "r"(fourth) : "memory");
}

template <class T>
__device__ inline void turn(unsigned shared, const Work<T> &work, Ring<T::STAGES> &ring) {
    Barriers<T> barriers(shared);
    // A lane's rows of 16 keys and of 32 values, and by what TMA and `descriptor` swizzle them.
    unsigned lane = threadIdx.x % 32, key_row = lane % 16, value_row = lane / 16 * 16 + lane % 8 * 2 + lane / 8 % 2;
    unsigned read = (lane / 16 ^ lane % 8) * 16, written = value_row % 8 * 16;
#pragma unroll 1
    for (int step = 0; step < work.steps; step++, ring.next()) {
        unsigned from = shared + T::COPY + ring.stage * T::K_BYTES + key_row * ROW_BYTES;
        unsigned to = shared + T::V + ring.stage * T::V_BYTES + value_row * ROW_BYTES;
        barrier_wait(barriers.copy_full(ring.stage), ring.parity);
        barrier_wait(barriers.v_empty(ring.stage), ring.parity ^ 1);
#pragma unroll 1
        for (unsigned key = (threadIdx.x / 32 - 1) * 16; key < T::KEYS; key += TURNERS * 16) {
            unsigned words[T::HEAD / 32][4];  // all on their way at once
#pragma unroll
            for (int i = 0; i < T::HEAD / 32; i++) {
                load_turned(words[i], from + key * ROW_BYTES + (read ^ i * 32));
            }
#pragma unroll
            for (int i = 0; i < T::HEAD / 32; i++) {
                store_matrices(to + i * 32 * ROW_BYTES + (key ^ written),
                               __byte_perm(words[i][0], words[i][1], 0x6420), __byte_perm(words[i][0], words[i][1], 0x7531),
                               __byte_perm(words[i][2], words[i][3], 0x6420), __byte_perm(words[i][2], words[i][3], 0x7531));
            }
        }
        fence_async_proxy();
        __syncwarp();
        release(barriers.v_full(ring.stage));
        release(barriers.copy_empty(ring.stage));
    }
}
// ANCHOR_END: turn

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
    unsigned weights[T::KEYS / T::STEP][4];
    auto k_tile = [&](int stage) { return shared + T::K + stage * T::K_BYTES; };
    auto v_tile = [&](int stage) { return shared + T::V + stage * T::V_BYTES; };
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
        // After some steps hardly any row gets a larger score; asked before the wait, the answer costs no time.
        bool grows = !T::TURNS_V || __any_sync(~0u, correction[0] != 1.0f || correction[1] != 1.0f);
        wgmma_wait<0>();  // and the values
        hold(sums);
        hold(weights);
        release(barriers.v_empty(before.stage));
        if (grows) {
            scale_rows(sums, correction);
        }
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
