// What the sums over ranks share: what is done to each sum, and how ranks know of each other.
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
template <class Element>
__device__ inline float finished(float sum, unsigned long long at, const Finish &finish) {
    using Value = typename Element::Value;
    unsigned channel = at % finish.channels;
    if (finish.scale) {
        sum *= finish.scale[channel];
    }
    if (finish.shift) {
        sum += finish.shift[channel];
    }
    sum = activated(sum, finish.activation);
    return finish.image ? sum + Element::unpack(static_cast<const Value *>(finish.image)[at]) : sum;
}
// ANCHOR_END: finish

// ANCHOR: vector
// The finished sum of a vector of all ranks' terms, in the order of the ranks.
template <class Element>
__device__ inline Channels<Element> summed(const Peers<typename Element::Value> &terms, unsigned ranks, unsigned long long vector,
                                           const Finish &finish) {
    float sums[EACH<Element>] = {};
    unsigned long long first = vector * EACH<Element>;
#pragma unroll 4
    for (unsigned peer = 0; peer < ranks; peer++) {
        Channels<Element> part = read_channels<Element>(terms.at[peer] + first);
        for (int j = 0; j < EACH<Element>; j++) {
            sums[j] += Element::unpack(part.values[j]);
        }
    }
    Channels<Element> out;
    for (int j = 0; j < EACH<Element>; j += 2) {
        Element::store_pair(&out.values[j], finished<Element>(sums[j], first + j, finish),
                            finished<Element>(sums[j + 1], first + j + 1, finish));
    }
    return out;
}

// The same of one value.
template <class Element>
__device__ inline float summed_one(const Peers<typename Element::Value> &terms, unsigned ranks, unsigned long long at,
                                   const Finish &finish) {
    float sum = 0;
    for (unsigned peer = 0; peer < ranks; peer++) {
        sum += Element::unpack(terms.at[peer][at]);
    }
    return finished<Element>(sum, at, finish);
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
            raise(flags.at[threadIdx.x] + rank, epoch);
        }
        await(flags.at[rank] + threadIdx.x, epoch);
    }
    __syncthreads();
}
// ANCHOR_END: terms
