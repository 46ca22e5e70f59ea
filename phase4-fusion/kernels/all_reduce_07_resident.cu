// One meeting, in place: each block copies its values to where the other devices can read them, tells
// the same block of each that they are there, waits for theirs, and adds up.
//
//     rank 0  values ──▶ staging[epoch % 2] ──┐ flag ▲         values of all ranks, in the order of ranks,
//     rank 1  values ──▶ staging[epoch % 2] ──┼──────┘────▶   added in f32 ──▶ sums
//     rank 2  values ──▶ staging[epoch % 2] ──┘
//
// The kernel numbers its own launches, so a graph can be replayed: nothing has to be reset, and no argument changes.
// Why two halves of staging are enough: launch e + 2 overwrites the half that others read in their launch e. It begins after launch
// e + 1 of its own device, whose blocks waited for flags that the others raised in their launch e + 1, after the end of their launch e.
// Limit: every device reads all values of all others, and copies its own within its memory first.
// nvrtc: --gpu-architecture=compute_80 // run: all-reduce
#include "all_reduce.cuh"

// ANCHOR: resident
// `values` and `sums`, which may be the same, have `n`; `staging` of each device has two halves of `half` times 16 bytes. All launches of
// a rank come one after the other, and all ranks' in the same order, each with the same n.
template <class Element>
__device__ void all_reduce(const typename Element::Value *values, typename Element::Value *sums, unsigned long long n,
                           const Peers<uint4> &staging, unsigned long long half, const Peers<unsigned> &flags, State *state,
                           unsigned rank, unsigned ranks) {
    using Value = typename Element::Value;
    unsigned epoch = state->launches + 1;
    unsigned long long offset = epoch % 2 * half;
    unsigned long long vectors = n / Vector<Element>::VALUES, stride = gridDim.x * THREADS;
    unsigned long long first = blockIdx.x * THREADS + threadIdx.x;
    // The values that fill no vector, one for each of the first threads.
    unsigned long long last = vectors * Vector<Element>::VALUES + first;

    const uint4 *own = reinterpret_cast<const uint4 *>(values);
    uint4 *staged = staging.at[rank] + offset;
    for (unsigned long long i = first; i < vectors; i += stride) {
        staged[i] = own[i];
    }
    if (last < n) {
        reinterpret_cast<Value *>(staged)[last] = values[last];
    }

    meet(flags, epoch, rank, ranks);

    auto from = [&](unsigned peer) { return peer == rank ? own : staging.at[peer] + offset; };
    auto to = [&](unsigned long long i, uint4 sum) { reinterpret_cast<uint4 *>(sums)[i] = sum; };
    sum_vectors<Element, 4>(0, vectors, ranks, from, to);
    if (last < n) {
        float sum = 0;
        for (unsigned peer = 0; peer < ranks; ++peer) {
            sum += Element::unpack(reinterpret_cast<const Value *>(from(peer))[last]);
        }
        alignas(8) Value pair[2];
        Element::store_pair(pair, sum, 0);
        sums[last] = pair[0];
    }
    end_launch(state);
}
// ANCHOR_END: resident

#define KERNEL(name, Element)                                                                                                   \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                                       \
        name(const Element::Value *values, Element::Value *sums, unsigned long long n,                                          \
             const __grid_constant__ Peers<uint4> staging, unsigned long long half,                                             \
             const __grid_constant__ Peers<unsigned> flags, State *state, unsigned rank, unsigned ranks) {                      \
        all_reduce<Element>(values, sums, n, staging, half, flags, state, rank, ranks);                                         \
    }

KERNEL(resident_f32, F32)
KERNEL(resident_f16, F16)
