// What the ranks of a split network sum, with what follows the sum: y = activation(scale · (terms of rank 0 + rank 1 + …) + shift) + image,
// by one kernel per device, which reads the terms where the others' products have left them.
//
//     rank 0   product ──▶ terms ──┬──▶ sum ──▶ y        a flag says: my terms are there
//                                  ╳
//     rank 1   product ──▶ terms ──┴──▶ sum ──▶ y        all ranks add in the order of ranks, and get the same bits
//
// No rank tells another that it has read its terms. Their memory may be used again when the next sum is done: that one waited for flags
// which the others raised after the end of this one. The kernel numbers its own launches, so a graph can be replayed.
// Limit: each device reads the terms of all others. With two there is no better way; with more, most of that is read more than once.
// nvrtc: --gpu-architecture=compute_90 // run: test tensor_parallel // trial: none, several devices run it together
#include "tensor_parallel.cuh"

// ANCHOR: kernel
// `terms` of each device and `y` have `n` values; `flags` of each device one for each rank that raises it.
template <class Element>
__device__ void sum_ranks(const Peers<typename Element::Value> &terms, typename Element::Value *y, unsigned long long n,
                          const Peers<unsigned> &flags, State *state, unsigned rank, unsigned ranks, const Finish &finish) {
    launch_dependents();
    wait_for_launches_before();
    unsigned epoch = state->launches + 1;
    wait_for_terms(flags, rank, ranks, epoch);

    unsigned long long vectors = n / EACH<Element>, stride = (unsigned long long)gridDim.x * THREADS;
    unsigned long long first = (unsigned long long)blockIdx.x * THREADS + threadIdx.x;
    for (unsigned long long i = first; i < vectors; i += stride) {
        write_channels<Element>(y + i * EACH<Element>, summed<Element>(terms, ranks, i, finish));
    }
    // Values that fill no vector, fewer than a block has threads.
    unsigned long long at = vectors * EACH<Element> + first;
    if (at < n) {
        store_one<Element>(y + at, summed_one<Element>(terms, ranks, at, finish));
    }
    end_launch(state);
}
// ANCHOR_END: kernel

#define SUM_KERNEL(type, ELEMENT)                                                                                            \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                                    \
        sum_ranks_##type(Peers<ELEMENT::Value> terms, Peers<ELEMENT::Value> y, unsigned long long n, Peers<unsigned> flags,  \
                         State *state, unsigned rank, unsigned ranks, const float *scale, const float *shift,                \
                         const void *image, unsigned channels, int activation) {                                            \
        sum_ranks<ELEMENT>(terms, of_rank(y, rank), n, flags, state, rank, ranks, {scale, shift, image, channels, activation});    \
    }

SUM_KERNEL(f16, F16)
SUM_KERNEL(f32, F32)
