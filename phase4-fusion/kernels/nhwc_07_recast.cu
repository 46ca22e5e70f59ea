// From one type to another, channels last, and from one number of channels to another: what lies between two layers that compute with
// different formats.
//
//     f32  a b c … 32 channels   →   f16  a b c … 0 0 0   64 channels, with zeros
//     f16  a b c … 64 channels   →   s8, e4m3   of a · 1/step, cut off at the largest there is
//
// A thread makes 8 neighbouring channels of a pixel. Limited by memory.
// nvrtc: --gpu-architecture=compute_90 // run: test precision // trial: recast
#include "nhwc.cuh"

struct Pixels {
    unsigned threads;  // one per 8 channels of y
    unsigned from;     // channels of x, a multiple of 8
    unsigned groups;   // of 8 channels of a pixel of y
    float times;
};

template <class Element>
struct alignas(8 * sizeof(typename Element::Value)) Eight {
    typename Element::Value values[8];
};

// ANCHOR: bytes
// The nearest of −128 … 127, and of ±448: neither has an infinity.
__device__ inline void put(Eight<S8> &to, int at, float left, float right) {
    int low, high;
    asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(low) : "f"(left));
    asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(high) : "f"(right));
    to.values[at] = (signed char)low;
    to.values[at + 1] = (signed char)high;
}
__device__ inline void put(Eight<E4M3> &to, int at, float left, float right) {
    unsigned short pair;  // the second operand goes to the lower half
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(right), "f"(left));
    to.values[at] = (unsigned char)pair;
    to.values[at + 1] = (unsigned char)(pair >> 8);
}
// ANCHOR_END: bytes
__device__ inline void put(Eight<F16> &to, int at, float left, float right) { F16::store_pair(&to.values[at], left, right); }
__device__ inline void put(Eight<F32> &to, int at, float left, float right) { F32::store_pair(&to.values[at], left, right); }

// ANCHOR: kernel
template <class From, class To>
__device__ inline void recast(const typename From::Value *x, typename To::Value *y, Pixels pixels) {
    launch_dependents();
    wait_for_launches_before();
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pixels.threads) {
        return;
    }
    unsigned pixel = i / pixels.groups, channel = (i - pixel * pixels.groups) * 8;
    Eight<From> in = {};
    if (channel < pixels.from) {
        in = *reinterpret_cast<const Eight<From> *>(x + (size_t)pixel * pixels.from + channel);
    }
    Eight<To> out;
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
        put(out, j, From::unpack(in.values[j]) * pixels.times, From::unpack(in.values[j + 1]) * pixels.times);
    }
    *reinterpret_cast<Eight<To> *>(y + (size_t)i * 8) = out;
}
// ANCHOR_END: kernel

#define RECAST_KERNEL(from, FROM, to, TO)                                                                             \
    extern "C" __global__ void __launch_bounds__(256)                                                                 \
        recast_##from##_##to(const FROM::Value *x, TO::Value *y, Pixels pixels) {                                     \
        recast<FROM, TO>(x, y, pixels);                                                                               \
    }

RECAST_KERNEL(f16, F16, f32, F32)
RECAST_KERNEL(f32, F32, f16, F16)
RECAST_KERNEL(f16, F16, s8, S8)
RECAST_KERNEL(f32, F32, s8, S8)
RECAST_KERNEL(f16, F16, e4m3, E4M3)
RECAST_KERNEL(f32, F32, e4m3, E4M3)
