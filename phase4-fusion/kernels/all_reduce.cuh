// What the kernels of the all-reduce ladder share: the memory of all devices, sums of 16 bytes at a time, and flags between devices.
// run: all-reduce
#pragma once
#include "elements.cuh"

constexpr int MAX_RANKS = 16;
constexpr int THREADS = 512;
// Where blocks wait for others, all of them must run at the same time: there are at most as many as SMs, and as these.
constexpr int MAX_BLOCKS = 128;

// A buffer of each device, by rank; the rest is null.
template <class T>
struct Peers {
    T *at[MAX_RANKS];
};

// ANCHOR: vector
// 16 bytes of values, or as many as `Bytes` has, and their sum in f32.
template <class Element, class Bytes = uint4>
struct Vector {
    using Value = typename Element::Value;
    static constexpr int VALUES = sizeof(Bytes) / sizeof(Value);
    float sum[VALUES];

    __device__ Vector() {
        for (int i = 0; i < VALUES; ++i) {
            sum[i] = 0;
        }
    }
    __device__ void add(Bytes bytes) {
        const Value *values = reinterpret_cast<const Value *>(&bytes);
        for (int i = 0; i < VALUES; ++i) {
            sum[i] += Element::unpack(values[i]);
        }
    }
    __device__ Bytes bytes() const {
        Bytes bytes;
        Value *values = reinterpret_cast<Value *>(&bytes);
        for (int i = 0; i < VALUES; i += 2) {
            Element::store_pair(values + i, sum[i], sum[i + 1]);
        }
        return bytes;
    }
};

// The sums of [begin, end) by the whole grid, in the order of ranks: `from(rank)` is where a rank's values begin, `to(i, sum)` takes them.
// A thread has AHEAD loads from a device under way.
template <class Element, int AHEAD, class From, class To>
__device__ void sum_vectors(unsigned long long begin, unsigned long long end, unsigned ranks, From from, To to) {
    unsigned long long stride = gridDim.x * blockDim.x;
    for (unsigned long long i = begin + blockIdx.x * blockDim.x + threadIdx.x; i < end; i += AHEAD * stride) {
        Vector<Element> sums[AHEAD];
        for (unsigned peer = 0; peer < ranks; ++peer) {
            const uint4 *values = from(peer);
            uint4 loaded[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) {
                loaded[k] = i + k * stride < end ? values[i + k * stride] : uint4{};
            }
#pragma unroll
            for (int k = 0; k < AHEAD; ++k) {
                sums[k].add(loaded[k]);
            }
        }
#pragma unroll
        for (int k = 0; k < AHEAD; ++k) {
            if (i + k * stride < end) {
                to(i + k * stride, sums[k].bytes());
            }
        }
    }
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

// ANCHOR: meet
// The blocks of this number, one of each device, wait for each other. `meeting` grows with each, from one launch to the next too, so no
// flag is ever reset. `flags` of each device has MAX_BLOCKS for each rank that raises them.
__device__ inline void meet(const Peers<unsigned> &flags, unsigned meeting, unsigned rank, unsigned ranks) {
    __syncthreads();
    if (threadIdx.x < ranks && threadIdx.x != rank) {
        raise(flags.at[threadIdx.x] + rank * MAX_BLOCKS + blockIdx.x, meeting);
        await(flags.at[rank] + threadIdx.x * MAX_BLOCKS + blockIdx.x, meeting);
    }
    __syncthreads();
}

// Of one device's own memory, 0 at first.
struct State {
    unsigned launches; // that have ended
    unsigned ended;    // blocks of this launch that have ended
};

// The last block counts the launch, when all have read how many there were.
__device__ inline void end_launch(State *state) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        if (atomicAdd(&state->ended, 1) == gridDim.x - 1) {
            __threadfence();
            state->ended = 0;
            state->launches += 1;
        }
    }
}
// ANCHOR_END: meet
