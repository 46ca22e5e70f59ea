// Flags in the data: each device stores its values in the staging memory of all others, and every 4 bytes of values travel beside the
// number of the sum. A device that sees the number has the values. NCCL calls this protocol LL, for low latency.
//
//     a line, 16 bytes   | values | epoch | values | epoch |     each half is stored and loaded as a whole
//
//     rank 0  values ──▶ staging of rank 1 ──▶ poll until the epochs are there ──▶ add up in the order of ranks ──▶ sums
//     rank 1  values ──▶ staging of rank 0 ──▶ poll until the epochs are there ──▶ add up in the order of ranks ──▶ sums
//
// Values cross the link once, and nothing follows them: no fence, no flag, no meeting.
// Why two halves of staging, used in turns, are enough: a rank ends sum e + 1 when it has the values of all, which they push after the
// end of their sum e. So when it overwrites the half of sum e, in sum e + 2, all have read it.
// Limit: twice the bytes on the links.
// nvrtc: --gpu-architecture=compute_80 // run: all-reduce
#include "all_reduce.cuh"

// ANCHOR: line
// Two words of values, each with the epoch above it.
struct Line {
    unsigned long long low, high;

    __device__ static Line of(uint2 words, unsigned epoch) {
        unsigned long long above = (unsigned long long)epoch << 32;
        return {above | words.x, above | words.y};
    }
    __device__ uint2 words() const { return make_uint2((unsigned)low, (unsigned)high); }
    __device__ bool is_of(unsigned epoch) const { return (unsigned)(low >> 32) == epoch && (unsigned)(high >> 32) == epoch; }
};

// Strong accesses, of two elements of 64 bits: each element is one access, so an epoch never comes without its values.
__device__ inline void push(Line *to, Line line) {
    asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(line.low), "l"(line.high) : "memory");
}

__device__ inline Line poll(const Line *from) {
    Line line;
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(line.low), "=l"(line.high) : "l"(from) : "memory");
    return line;
}
// ANCHOR_END: line

// ANCHOR: epoch
// The number of this sum, from 1 on. All blocks of a launch together add MAX_BLOCKS to `arrived`, so whichever comes first or last finds
// the same number, and none has to wait for the others or to reset anything.
__device__ inline unsigned begin_sum(unsigned long long *arrived) {
    __shared__ unsigned epoch;
    if (threadIdx.x == 0) {
        unsigned long long share = blockIdx.x == 0 ? MAX_BLOCKS - (gridDim.x - 1) : 1;
        epoch = (unsigned)(atomicAdd(arrived, share) / MAX_BLOCKS + 1);
    }
    __syncthreads();
    return epoch;
}
// ANCHOR_END: epoch

// Values that a line carries, or the last of them and zeros.
template <class Element>
__device__ uint2 load_words(const typename Element::Value *values, unsigned long long n, unsigned long long line) {
    using Value = typename Element::Value;
    constexpr int VALUES = Vector<Element, uint2>::VALUES;
    if ((line + 1) * VALUES <= n) {
        return reinterpret_cast<const uint2 *>(values)[line];
    }
    uint2 words{};
    for (int k = 0; k < VALUES; ++k) {
        if (line * VALUES + k < n) {
            reinterpret_cast<Value *>(&words)[k] = values[line * VALUES + k];
        }
    }
    return words;
}

template <class Element>
__device__ void store_words(typename Element::Value *values, unsigned long long n, unsigned long long line, uint2 words) {
    using Value = typename Element::Value;
    constexpr int VALUES = Vector<Element, uint2>::VALUES;
    if ((line + 1) * VALUES <= n) {
        reinterpret_cast<uint2 *>(values)[line] = words;
        return;
    }
    for (int k = 0; k < VALUES; ++k) {
        if (line * VALUES + k < n) {
            values[line * VALUES + k] = reinterpret_cast<const Value *>(&words)[k];
        }
    }
}

// Ranks whose lines a thread has under way.
constexpr unsigned AHEAD = 4;
// Epochs wrap around. Once in so many sums every line is pushed, so none is ever as old as the epoch that equals its own.
constexpr unsigned REFRESH = 1u << 30;

// ANCHOR: push
// `values` and `sums`, which may be the same, have `n`; `staging` of each device has two halves of `most` lines from each rank, 0 at
// first. All launches of a rank come one after the other, and all ranks' in the same order, each with the same n.
template <class Element>
__device__ void push_and_sum(const typename Element::Value *values, typename Element::Value *sums, unsigned long long n,
                             const Peers<Line> &staging, unsigned long long most, unsigned long long *arrived, unsigned rank,
                             unsigned ranks) {
    if (n == 0) {
        return; // No rank would wait for another, so this must not count as a sum.
    }
    unsigned epoch = begin_sum(arrived);
    auto lines_at = [&](unsigned to, unsigned from) { return staging.at[to] + (epoch % 2 * ranks + from) * most; };
    unsigned long long lines = (n - 1) / Vector<Element, uint2>::VALUES + 1, stride = gridDim.x * THREADS;
    unsigned long long first = blockIdx.x * THREADS + threadIdx.x;

    unsigned long long pushed = epoch % REFRESH < 2 ? most : lines;
    for (unsigned long long i = first; i < pushed; i += stride) {
        Line line = Line::of(load_words<Element>(values, n, i), epoch);
        for (unsigned k = 1; k < ranks; ++k) {
            push(lines_at((rank + k) % ranks, rank) + i, line);
        }
    }

    for (unsigned long long i = first; i < lines; i += stride) {
        Line own = Line::of(load_words<Element>(values, n, i), epoch);
        Vector<Element, uint2> sum;
        for (unsigned peer = 0; peer < ranks; peer += AHEAD) {
            Line seen[AHEAD];
            bool complete;
            do {
#pragma unroll
                for (unsigned k = 0; k < AHEAD; ++k) {
                    bool is_other = peer + k < ranks && peer + k != rank;
                    seen[k] = is_other ? poll(lines_at(rank, peer + k) + i) : own;
                }
                complete = true;
#pragma unroll
                for (unsigned k = 0; k < AHEAD; ++k) {
                    complete &= seen[k].is_of(epoch);
                }
            } while (!complete);
#pragma unroll
            for (unsigned k = 0; k < AHEAD; ++k) {
                if (peer + k < ranks) {
                    sum.add(seen[k].words());
                }
            }
        }
        store_words<Element>(sums, n, i, sum.bytes());
    }
}
// ANCHOR_END: push

#define KERNEL(name, Element)                                                                                                   \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                                       \
        name(const Element::Value *values, Element::Value *sums, unsigned long long n,                                          \
             const __grid_constant__ Peers<Line> staging, unsigned long long most, unsigned long long *arrived, unsigned rank,  \
             unsigned ranks) {                                                                                                  \
        push_and_sum<Element>(values, sums, n, staging, most, arrived, rank, ranks);                                            \
    }

KERNEL(push_f32, F32)
KERNEL(push_f16, F16)
