// Attention with the products of warpgroups: Q, K and V come by TMA, S = Q · Kᵀ is read from shared memory alone, and the weights go
// from registers into O += P · V.
//
//     step       0   1   2        Two warpgroups with 64 queries each, two stages. All wait for a stage's barrier, multiply, weigh,
//     copy     1   2   3          multiply, and meet; then thread 0 asks for the tiles that come there next.
//     S P O      0   1   2
//
// Limited by its order: while weights are computed, the tensor cores rest, and the other way round.
// nvrtc: --gpu-architecture=compute_90a // run: attention // trial: attention
#include "attention_hopper.cuh"

template <int OF_HEAD>
struct Shape {
    using Element = F16;
    static constexpr int HEAD = OF_HEAD, CONSUMERS = 2, KEYS = 128, STAGES = 2;
    static constexpr int THREADS = CONSUMERS * GROUP_THREADS;
};

// ANCHOR: kernel
template <class T>
__device__ void attention(const TensorMap &q, const TensorMap &k, const TensorMap &v, unsigned short *out, float *lse,
                          const Problem &problem) {
    extern __shared__ __align__(1024) unsigned char memory[];
    unsigned shared = shared_address(memory), q_full = shared + T::BARRIERS, full = q_full + 8;
    int tiles = (problem.queries + T::QUERIES - 1) / T::QUERIES, matrix = blockIdx.x / tiles, first = blockIdx.x % tiles * T::QUERIES;
    int last = problem.seen(min(first + T::QUERIES, problem.queries) - 1), steps = (last + T::KEYS - 1) / T::KEYS;
    auto copy = [&](int step) {
        int stage = step % T::STAGES;
        copy_tile<T>(shared + T::K + stage * T::K_BYTES, T::K_BOX, k, step * T::KEYS, matrix, problem, full + stage * 16);
        copy_tile<T>(shared + T::V + stage * T::V_BYTES, T::V_BOX, v, step * T::KEYS, matrix, problem, full + stage * 16 + 8);
    };
    if (threadIdx.x == 0) {
        barrier_init(q_full, 1);
        for (int i = 0; i < 2 * T::STAGES; i++) {
            barrier_init(full + i * 8, 1);
        }
        fence_barrier_init();
        copy_tile<T>(shared, T::Q_BOX, q, first, matrix, problem, q_full);
        for (int step = 0; step < T::STAGES && step < steps; step++) {
            copy(step);
        }
    }
    __syncthreads();  // the barriers are ready

    int group = threadIdx.x / GROUP_THREADS, first_query = first + threadIdx.x / 32 * 16;  // of a warp
    float sums[T::HEAD / 2] = {}, scores[T::KEYS / 2];
    SoftmaxRows rows;
    barrier_wait(q_full, 0);
    for (int step = 0; step < steps; step++) {
        int stage = step % T::STAGES;
        unsigned barrier = full + stage * 16, parity = step / T::STAGES % 2;
        barrier_wait(barrier, parity);
        hold(scores);
        wgmma_fence();
        begin_scores<T>(scores, shared + group * 64 * ROW_BYTES, shared + T::K + stage * T::K_BYTES);
        wgmma_wait<0>();
        hold(scores);
        if ((step + 1) * T::KEYS > problem.seen(first_query)) {
            mask(scores, problem, first_query, step * T::KEYS);
        }
        float correction[2];
        rows.weigh(scores, correction, problem.scale);
        scale_rows(sums, correction);
        unsigned weights[T::KEYS / 16][4];
        pack_weights<F16>(weights, scores);
        barrier_wait(barrier + 8, parity);
        hold(weights);
        hold(sums);
        wgmma_fence();
        begin_values<T>(sums, weights, shared + T::V + stage * T::V_BYTES);
        wgmma_wait<0>();
        hold(sums);
        __syncthreads();  // both groups are done with this stage
        if (threadIdx.x == 0 && step + T::STAGES < steps) {
            copy(step + T::STAGES);
        }
    }
    write_rows<F16>(sums, rows, out, lse, problem, matrix, first_query);
}
// ANCHOR_END: kernel

ATTENTION_MAP_KERNEL(attention_40, (Shape<40>::THREADS, 1), Shape<40>)
ATTENTION_MAP_KERNEL(attention_64, (Shape<64>::THREADS, 1), Shape<64>)
ATTENTION_MAP_KERNEL(attention_80, (Shape<80>::THREADS, 1), Shape<80>)
ATTENTION_MAP_KERNEL(attention_128, (Shape<128>::THREADS, 1), Shape<128>)
