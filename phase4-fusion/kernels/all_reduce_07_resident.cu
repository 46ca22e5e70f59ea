// The sum in place, as often as wanted, without the host: each block copies its values to where the other devices can read them, tells
// the same block of each that they are there, waits for theirs, and adds up.
//
//     rank 0  values ──▶ staging[epoch % 2] ──┐ flag ▲         values of all ranks, in the order of ranks,
//     rank 1  values ──▶ staging[epoch % 2] ──┼──────┘────▶   added in f32 ──▶ values
//     rank 2  values ──▶ staging[epoch % 2] ──┘
//
// The kernel numbers its own launches, so a graph can be replayed: nothing has to be reset, and no argument changes.
// Why two halves of staging are enough: launch e + 2 overwrites the half that others read in their launch e. It begins after launch
// e + 1 of its own device, whose blocks waited for flags that the others raised in their launch e + 1, after the end of their launch e.
// Limit: every device reads all values of all others, and copies its own within its memory first.
#include "all_reduce.cuh"

constexpr int THREADS = 512;
// All of them, on all devices, must run at the same time.
constexpr int MAX_BLOCKS = 64;
// Loads of 16 bytes from one device that a thread has under way.
constexpr int AHEAD = 4;

// Of one device's own memory.
struct State {
    unsigned launches; // that have ended
    unsigned ended;    // blocks of this launch that have ended
};

// ANCHOR: resident
// `values` has `n`, `staging` of each device two halves of `half` times 16 bytes, `flags` of each device MAX_BLOCKS per rank that
// raises them. All launches of a rank come one after the other, and all ranks' in the same order, each with the same n.
template <class Element>
__device__ void all_reduce(typename Element::Value *values, unsigned long long n, const Peers<uint4> &staging,
                           unsigned long long half, const Peers<unsigned> &flags, State *state, unsigned rank, unsigned ranks) {
    using Value = typename Element::Value;
    constexpr int PER_VECTOR = Vector<Element>::VALUES;
    unsigned epoch = state->launches + 1;
    unsigned long long offset = epoch % 2 * half;
    unsigned long long vectors = n / PER_VECTOR, stride = gridDim.x * THREADS;
    unsigned long long first = blockIdx.x * THREADS + threadIdx.x;
    // The values that fill no vector, one for each of the first threads.
    unsigned long long last = vectors * PER_VECTOR + first;

    uint4 *own = reinterpret_cast<uint4 *>(values), *staged = staging.at[rank] + offset;
    for (unsigned long long i = first; i < vectors; i += stride) {
        staged[i] = own[i];
    }
    if (last < n) {
        reinterpret_cast<Value *>(staged)[last] = values[last];
    }

    __syncthreads();
    if (threadIdx.x < ranks && threadIdx.x != rank) {
        raise(flags.at[threadIdx.x] + rank * MAX_BLOCKS + blockIdx.x, epoch);
        await(flags.at[rank] + threadIdx.x * MAX_BLOCKS + blockIdx.x, epoch);
    }
    __syncthreads();

    for (unsigned long long i = first; i < vectors; i += AHEAD * stride) {
        Vector<Element> sums[AHEAD];
        for (unsigned peer = 0; peer < ranks; ++peer) {
            const uint4 *from = peer == rank ? own : staging.at[peer] + offset;
            uint4 loaded[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) {
                loaded[k] = i + k * stride < vectors ? from[i + k * stride] : uint4{};
            }
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) {
                sums[k].add(loaded[k]);
            }
        }
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            if (i + k * stride < vectors) {
                own[i + k * stride] = sums[k].bytes();
            }
        }
    }
    if (last < n) {
        float sum = 0;
        for (unsigned peer = 0; peer < ranks; ++peer) {
            const uint4 *from = peer == rank ? own : staging.at[peer] + offset;
            sum += Element::unpack(reinterpret_cast<const Value *>(from)[last]);
        }
        store_one<Element>(values + last, sum);
    }

    // The last block counts the launch, when all have read how many there were.
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        if (atomicAdd(&state->ended, 1) == gridDim.x - 1) {
            __threadfence();
            state->ended = 0;
            state->launches = epoch;
        }
    }
}
// ANCHOR_END: resident

#define KERNEL(name, Element)                                                                                                   \
    extern "C" __global__ void __launch_bounds__(THREADS) name(                                                                 \
        Element::Value *values, unsigned long long n, const __grid_constant__ Peers<uint4> staging, unsigned long long half,    \
        const __grid_constant__ Peers<unsigned> flags, State *state, unsigned rank, unsigned ranks) {                           \
        all_reduce<Element>(values, n, staging, half, flags, state, rank, ranks);                                               \
    }

KERNEL(resident_f32, F32)
KERNEL(resident_f16, F16)
