// What fusion saves, as passes of their own over f16 in channels last, 16 bytes per thread: an epilogue saves BatchNorm, a sum and an
// activation; a product that normalises its rows saves LayerNorm.
//
// Limited by memory: 2 bytes read and 2 written per value, 4 and 2 for the sum.
// run: test fusion // trial: none, only its test prepares the inputs that it takes
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

__device__ inline float sum_across_warp(float value) {
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) {
        value += __shfl_xor_sync(~0u, value, apart);
    }
    return value;
}

// function(low, high) for all values of this lane in a row of a warp.
template <class Function>
__device__ inline void for_pairs(const uint4 *row, unsigned columns, Function function) {
    for (unsigned i = threadIdx.x % 32; i < columns / VALUES; i += 32) {
        uint4 vector = row[i];
        unsigned words[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
        for (unsigned j = 0; j < 4; j++) {
            function(F16::unpack(words[j] & 0xffff), F16::unpack(words[j] >> 16));
        }
    }
}

// LayerNorm of the rows of x [rows, columns], a warp each, which reads its row three times: twice from a cache. `columns` is a
// multiple of VALUES.
extern "C" __global__ void __launch_bounds__(THREADS)
    layer_norm(const unsigned short *__restrict__ x, const float *__restrict__ weight, const float *__restrict__ bias,
               unsigned short *__restrict__ y, float eps, unsigned rows, unsigned columns) {
    unsigned row = (blockIdx.x * THREADS + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) {
        return;
    }
    const uint4 *from = reinterpret_cast<const uint4 *>(x + (size_t)row * columns);
    float sum = 0.0f, squares = 0.0f;
    for_pairs(from, columns, [&](float low, float high) { sum += low + high; });
    float mean = sum_across_warp(sum) / columns;
    for_pairs(from, columns, [&](float low, float high) { squares += (low - mean) * (low - mean) + (high - mean) * (high - mean); });
    float scale = 1.0f / sqrtf(sum_across_warp(squares) / columns + eps);
    uint4 *to = reinterpret_cast<uint4 *>(y + (size_t)row * columns);
    for (unsigned i = lane; i < columns / VALUES; i += 32) {
        uint4 vector = from[i];
        unsigned words[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
        for (unsigned j = 0; j < 4; j++) {
            unsigned at = i * VALUES + 2 * j;
            float low = (F16::unpack(words[j] & 0xffff) - mean) * scale * weight[at] + bias[at];
            float high = (F16::unpack(words[j] >> 16) - mean) * scale * weight[at + 1] + bias[at + 1];
            words[j] = F16::pack(low, high);
        }
        to[i] = make_uint4(words[0], words[1], words[2], words[3]);
    }
}
