// The grid of the last steps stays: as many blocks as there is room for, each of which takes one tile of queries after the other, so that
// the producer has the next tile's Q and keys on their way while O is written. With a mask tiles are of different lengths. A block takes
// a head's longest with its shortest, the second longest with the second shortest: all pairs are of one length, and blocks that run together
// share a head's keys. Where a token is one box, all heads' tiles go from the longest to the shortest, dealt out to and fro: blocks come out
// evener, and the L2 cache still holds the keys of the heads under way.
// run: attention // trial: attention
#pragma once
#include "attention_roles.cuh"

// ANCHOR: share
// What a block does for each of its tiles of queries: with a mask, in pairs of one length or by length.
template <class T, class Take>
__device__ inline void each_tile(const Problem &problem, Take take) {
    int tiles = Work<T>::count(problem);
    if (problem.causal && T::BOXES > 1) {
        int pairs = (tiles + 1) / 2;
        for (int pair = blockIdx.x; pair < pairs * problem.matrices; pair += gridDim.x) {
            int first = pair % pairs, last = tiles - 1 - first;
            for (int tile = last; tile >= first; tile -= max(last - first, 1)) {
                take(Work<T>(problem, pair / pairs, tile));
            }
        }
        return;
    }
    for (int first = 0, own = blockIdx.x; first + own < tiles * problem.matrices; first += gridDim.x, own = gridDim.x - 1 - own) {
        int item = first + own;
        take(problem.causal ? Work<T>(problem, item % problem.matrices, tiles - 1 - item / problem.matrices)
                            : Work<T>(problem, item / tiles, item % tiles));
    }
}
// ANCHOR_END: share

// ANCHOR: kernel
template <class T>
__device__ void attention(const TensorMap &q, const TensorMap &k, const TensorMap &v, unsigned short *out, float *lse,
                          const Problem &problem) {
    static_assert(T::PRODUCER_REGISTERS + T::CONSUMERS * T::CONSUMER_REGISTERS <= (1 + T::CONSUMERS) * (65536 / T::THREADS / 8 * 8),
                  "groups share out what the launch has; a group that asks for more waits without end");
    extern __shared__ __align__(1024) unsigned char memory[];
    unsigned shared = shared_address(memory);
    if (threadIdx.x == 0) {
        Barriers<T>(shared).init();
    }
    __syncthreads();  // the barriers are ready

    Ring<T::STAGES> ring;
    unsigned q_parity = 0;
    if (threadIdx.x < GROUP_THREADS) {
        give_registers_back<T::PRODUCER_REGISTERS>();
        if (threadIdx.x == 0) {
            each_tile<T>(problem, [&](const Work<T> &work) {
                fetch<T>(q, k, v, shared, problem, work, q_parity, ring);
                q_parity ^= 1;
            });
        } else if (T::TURNS_V && threadIdx.x >= 32) {
            each_tile<T>(problem, [&](const Work<T> &work) { turn<T>(shared, work, ring); });
        }
    } else {
        take_registers<T::CONSUMER_REGISTERS>();
        // The same in all lanes, and the compiler sees it: descriptors that follow from it stay in uniform registers.
        Turns<T::CONSUMERS> turns{__shfl_sync(~0u, (int)threadIdx.x / GROUP_THREADS - 1, 0)};
        turns.begin();
        each_tile<T>(problem, [&](const Work<T> &work) {
            float sums[T::HEAD / 2] = {};
            SoftmaxRows rows;
            rows.lift = T::LIFT;
            attend<T>(sums, rows, shared, problem, work, q_parity, ring, turns);
            int first_query = work.first + turns.consumer * 64 + threadIdx.x % GROUP_THREADS / 32 * 16;  // of a warp
            write_rows<typename Product<typename T::Element>::Out>(sums, rows, out, lse, problem, work.matrix, first_query);
            q_parity ^= 1;
        });
        turns.end();
    }
}
// ANCHOR_END: kernel

#define ROLES_KERNEL(name, ...) ATTENTION_MAP_KERNEL(name, (__VA_ARGS__::THREADS, 1), __VA_ARGS__)
