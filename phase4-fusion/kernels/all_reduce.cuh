// What the kernels of the all-reduce ladder share: the memory of all devices, sums of 16 bytes at a time, and flags between devices.
#pragma once
#include "elements.cuh"

constexpr int MAX_RANKS = 16;

// A buffer of each device, by rank; the rest is null.
template <class T>
struct Peers {
    T *at[MAX_RANKS];
};

// ANCHOR: vector
// 16 bytes of values, and their sum in f32.
template <class Element>
struct Vector {
    using Value = typename Element::Value;
    static constexpr int VALUES = 16 / sizeof(Value);
    float sum[VALUES];

    __device__ Vector() {
        for (int i = 0; i < VALUES; ++i) {
            sum[i] = 0;
        }
    }
    __device__ void add(uint4 bytes) {
        const Value *values = reinterpret_cast<const Value *>(&bytes);
        for (int i = 0; i < VALUES; ++i) {
            sum[i] += Element::unpack(values[i]);
        }
    }
    __device__ uint4 bytes() const {
        uint4 bytes;
        Value *values = reinterpret_cast<Value *>(&bytes);
        for (int i = 0; i < VALUES; i += 2) {
            Element::store_pair(values + i, sum[i], sum[i + 1]);
        }
        return bytes;
    }
};

template <class Element>
__device__ void store_one(typename Element::Value *to, float sum) {
    typename Element::Value pair[2];
    Element::store_pair(pair, sum, 0);
    *to = pair[0];
}
// ANCHOR_END: vector

// ANCHOR: flags
// All that this thread knows to be written, by itself or by others before a barrier of its block, comes before the flag.
__device__ inline void raise(unsigned *flag, unsigned value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

// Waits until the flag has come to `value`, which wraps around; then all that comes before the flag can be read.
__device__ inline void await(const unsigned *flag, unsigned value) {
    unsigned seen;
    do {
        asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
    } while ((int)(seen - value) < 0);
}
// ANCHOR_END: flags
