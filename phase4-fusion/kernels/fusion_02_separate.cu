// What an epilogue saves: BatchNorm, a sum and an activation as passes of their own over f16 in channels last, 16 bytes a thread.
//
// Limited by memory: 2 bytes read and 2 written per value, 4 and 2 for the sum.
#include "elements.cuh"

constexpr unsigned THREADS = 256;
constexpr unsigned VALUES = 8;  // of a thread: 16 bytes

// ANCHOR: values
// A thread's values of x [n], changed by `function(value, index)`. n is a multiple of VALUES.
template <class Function>
__device__ inline void for_values(unsigned short *x, unsigned n, Function function) {
    unsigned first = (blockIdx.x * THREADS + threadIdx.x) * VALUES;
    if (first < n) {
        uint4 *at = reinterpret_cast<uint4 *>(x + first);
        uint4 vector = *at;
        unsigned words[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
        for (unsigned j = 0; j < 4; j++) {
            float low = function(F16::unpack(words[j] & 0xffff), first + 2 * j);
            float high = function(F16::unpack(words[j] >> 16), first + 2 * j + 1);
            words[j] = F16::pack(low, high);
        }
        *at = make_uint4(words[0], words[1], words[2], words[3]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    scale_shift(unsigned short *x, const float *__restrict__ scale, const float *__restrict__ shift, unsigned channels, unsigned n) {
    for_values(x, n, [=](float value, unsigned i) { return fmaf(value, scale[i % channels], shift[i % channels]); });
}
// ANCHOR_END: values

extern "C" __global__ void __launch_bounds__(THREADS) add(unsigned short *x, const unsigned short *__restrict__ residual, unsigned n) {
    for_values(x, n, [=](float value, unsigned i) { return value + F16::unpack(residual[i]); });
}

extern "C" __global__ void __launch_bounds__(THREADS) relu(unsigned short *x, unsigned n) {
    for_values(x, n, [](float value, unsigned) { return value < 0.0f ? 0.0f : value; });  // NaN stays NaN
}

extern "C" __global__ void __launch_bounds__(THREADS) gelu(unsigned short *x, unsigned n) {
    for_values(x, n, [](float value, unsigned) { return value * 0.5f * (1.0f + erff(value * 0.70710678f)); });
}

extern "C" __global__ void __launch_bounds__(THREADS) silu(unsigned short *x, unsigned n) {
    for_values(x, n, [](float value, unsigned) { return __fdividef(value, 1.0f + __expf(-value)); });
}

// b·c, for silu(a + b·c) in three passes. The tensors are f32, n is a multiple of 4.
extern "C" __global__ void __launch_bounds__(THREADS)
    multiply(const float4 *__restrict__ b, const float4 *__restrict__ c, float4 *__restrict__ y, unsigned n) {
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n / 4) {
        float4 p = b[i], q = c[i];
        y[i] = make_float4(__fmul_rn(p.x, q.x), __fmul_rn(p.y, q.y), __fmul_rn(p.z, q.z), __fmul_rn(p.w, q.w));
    }
}
