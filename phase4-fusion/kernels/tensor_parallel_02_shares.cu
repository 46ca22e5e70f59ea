// The same sums, shared out: each rank adds and finishes a share of the values, and stores them on all devices.
//
//     rank 0   terms ──▶ sums of the first half  ──▶ y of rank 0 and of rank 1        a flag says: my terms are there
//     rank 1   terms ──▶ sums of the second half ──▶ y of rank 0 and of rank 1        another one: my share of your y is there
//
// A value is read once by the one rank that adds it, and written once to each: of N devices each gets 2 (N − 1) / N times the terms over
// its link, in place of N − 1 times. With two that is the same; with four, half.
// Limit: all ranks wait for each other twice.
// nvrtc: --gpu-architecture=compute_90 // run: test tensor_parallel // trial: none, several devices run it together
#include "tensor_parallel.cuh"

// True for the last block to come here, whose threads know all that the others have stored.
__device__ inline bool is_last(State *state) {
    __shared__ bool last;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence_system();
        last = atomicAdd(&state->ended, 1) == gridDim.x - 1;
        __threadfence_system();
    }
    __syncthreads();
    return last;
}

// ANCHOR: kernel
// `terms` and `y` of each device have `n` values; `flags` of each device two for each rank that raises them.
template <class Element>
__device__ void sum_shares(const Peers<typename Element::Value> &terms, const Peers<typename Element::Value> &y, unsigned long long n,
                           const Peers<unsigned> &flags, State *state, unsigned rank, unsigned ranks, const Finish &finish) {
    launch_dependents();
    wait_for_launches_before();
    unsigned epoch = state->launches + 1;
    wait_for_terms(flags, rank, ranks, epoch);

    unsigned long long vectors = n / EACH<Element>, stride = (unsigned long long)gridDim.x * THREADS;
    unsigned long long share = (vectors + ranks - 1) / ranks, begin = rank * share;
    unsigned long long end = begin + share < vectors ? begin + share : vectors;
    for (unsigned long long i = begin + (unsigned long long)blockIdx.x * THREADS + threadIdx.x; i < end; i += stride) {
        Channels<Element> sum = summed<Element>(terms, ranks, i, finish);
#pragma unroll
        for (unsigned peer = 0; peer < MAX_RANKS; peer++) {
            if (peer < ranks) {
                write_channels<Element>(y.at[peer] + i * EACH<Element>, sum);
            }
        }
    }
    // Values that fill no vector are the last rank's.
    unsigned long long at = vectors * EACH<Element> + threadIdx.x;
    if (rank == ranks - 1 && blockIdx.x == 0 && at < n) {
        float sum = summed_one<Element>(terms, ranks, at, finish);
        for (unsigned peer = 0; peer < ranks; peer++) {
            store_one<Element>(of_rank(y, peer) + at, sum);
        }
    }
    if (is_last(state)) {
        if (threadIdx.x < ranks && threadIdx.x != rank) {
            raise(of_rank(flags, threadIdx.x) + ranks + rank, epoch);
            await(of_rank(flags, rank) + ranks + threadIdx.x, epoch);
        }
        if (threadIdx.x == 0) {  // all blocks have read how many launches there were
            state->ended = 0;
            state->launches = epoch;
        }
    }
}
// ANCHOR_END: kernel

#define SHARES_KERNEL(type, ELEMENT)                                                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                                     \
        sum_shares_##type(Peers<ELEMENT::Value> terms, Peers<ELEMENT::Value> y, unsigned long long n, Peers<unsigned> flags,  \
                          State *state, unsigned rank, unsigned ranks, const float *scale, const float *shift,                \
                          const void *image, unsigned channels, int activation) {                                            \
        sum_shares<ELEMENT>(terms, y, n, flags, state, rank, ranks, {scale, shift, image, channels, activation});             \
    }

SHARES_KERNEL(f16, F16)
SHARES_KERNEL(f32, F32)
