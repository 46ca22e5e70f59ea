// What the sums over ranks share: what is done to each sum, and how ranks know of each other.
// run: test tensor_parallel // trial: none, several devices run it together
#pragma once
#include "activation.cuh"
#include "all_reduce.cuh"
#include "nhwc.cuh"

// Done to each sum; what is null is left out.
struct Finish {
    const float *scale;  // [C'], or null
    const float *shift;  // [C'], or null
    const void *image;   // of y's type and shape, or null
    unsigned channels;   // C': y is [pixels, C']
    int activation;
};

// ANCHOR: finish
__device__ inline float finished(float sum, unsigned channel, float of_image, const Finish &finish) {
    if (finish.scale) {
        sum *= finish.scale[channel];
    }
    if (finish.shift) {
        sum += finish.shift[channel];
    }
    return activated(sum, finish.activation) + of_image;
}

// The channel of a value. A division, so only where it is needed.
__device__ inline unsigned channel_of(unsigned long long at, const Finish &finish) {
    return finish.scale || finish.shift ? at % finish.channels : 0;
}
// ANCHOR_END: finish

// The memory of a rank that only a thread knows. Where the rank is a constant, write `at[rank]`: that address is read from the launch's
// parameters, where this may make the thread copy all of them first.
template <class T>
__device__ inline T *of_rank(const Peers<T> &peers, unsigned rank) {
    T *found = peers.at[0];
#pragma unroll
    for (unsigned i = 1; i < MAX_RANKS; i++) {
        found = rank == i ? peers.at[i] : found;
    }
    return found;
}

// Ranks whose vectors a thread has under way at once.
constexpr int AT_ONCE = 4;

// ANCHOR: vector
// The finished sum of a vector of all ranks' terms, in the order of the ranks. With a scale or a shift, pixels are whole vectors.
template <class Element>
__device__ inline Channels<Element> summed(const Peers<typename Element::Value> &terms, unsigned ranks, unsigned long long vector,
                                           const Finish &finish) {
    using Value = typename Element::Value;
    unsigned long long first = vector * EACH<Element>;
    Channels<Element> image = {};
    if (finish.image) {
        image = read_channels<Element>(static_cast<const Value *>(finish.image) + first);
    }
    float sums[EACH<Element>] = {};
#pragma unroll
    for (unsigned some = 0; some < MAX_RANKS; some += AT_ONCE) {
        if (some >= ranks) {
            break;
        }
        Channels<Element> parts[AT_ONCE];
#pragma unroll
        for (unsigned k = 0; k < AT_ONCE; k++) {
            if (some + k < ranks) {
                parts[k] = read_channels<Element>(terms.at[some + k] + first);
            }
        }
#pragma unroll
        for (unsigned k = 0; k < AT_ONCE; k++) {
            for (int j = 0; j < EACH<Element> && some + k < ranks; j++) {
                sums[j] += Element::unpack(parts[k].values[j]);
            }
        }
    }
    unsigned channel = channel_of(first, finish);
    for (int j = 0; j < EACH<Element>; j++) {
        sums[j] = finished(sums[j], channel + j, Element::unpack(image.values[j]), finish);
    }
    Channels<Element> out;
    for (int j = 0; j < EACH<Element>; j += 2) {
        Element::store_pair(&out.values[j], sums[j], sums[j + 1]);
    }
    return out;
}

// The same of one value.
template <class Element>
__device__ inline float summed_one(const Peers<typename Element::Value> &terms, unsigned ranks, unsigned long long at,
                                   const Finish &finish) {
    using Value = typename Element::Value;
    float sum = 0;
    for (unsigned peer = 0; peer < ranks; peer++) {
        sum += Element::unpack(of_rank(terms, peer)[at]);
    }
    float of_image = finish.image ? Element::unpack(static_cast<const Value *>(finish.image)[at]) : 0.0f;
    return finished(sum, channel_of(at, finish), of_image, finish);
}

template <class Element>
__device__ inline void store_one(typename Element::Value *to, float value) {
    typename Element::Value pair[2];
    Element::store_pair(pair, value, 0);
    *to = pair[0];
}
// ANCHOR_END: vector

// ANCHOR: terms
// Waits until all ranks have come to this launch, which is the `epoch`-th: then their terms are there. The first block says so of this
// rank, before it waits; so a device needs no room for all blocks at once.
__device__ inline void wait_for_terms(const Peers<unsigned> &flags, unsigned rank, unsigned ranks, unsigned epoch) {
    if (threadIdx.x < ranks && threadIdx.x != rank) {
        if (blockIdx.x == 0) {
            raise(of_rank(flags, threadIdx.x) + rank, epoch);
        }
        await(of_rank(flags, rank) + threadIdx.x, epoch);
    }
    __syncthreads();
}
// ANCHOR_END: terms
