// LayerNorm of the pixels of an image channels last: they are the rows of its tokens, so nothing is transposed. A warp has a pixel, reads
// it once, in vectors of 16 bytes, and keeps it in registers for the mean, for the variance around it, and for the result.
//
//     lane 0 │ lane 1 │ … │ lane 31 │ lane 0 │ …      channels of a pixel; those that were filled up take no part, and stay zeros
//
// Sums are f32, whatever the type in memory. Limited by memory.
// nvrtc: --gpu-architecture=compute_90
#include "nhwc.cuh"

constexpr int THREADS = 256;
constexpr int HELD = 10;  // vectors per lane: 2560 channels of f16, or 1280 of f32

struct Pixels {
    unsigned count;
    unsigned channels;  // C
    unsigned vectors;   // of a pixel, with the zeros
    float eps;
};

__device__ inline float sum_of_warp(float value) {
#pragma unroll
    for (int other = 16; other > 0; other /= 2) {
        value += __shfl_xor_sync(~0u, value, other);
    }
    return value;
}

// of(i, j) for each value of this lane that is no filling: value j of its vector i.
template <int EACH_HELD, class Of>
__device__ inline void for_each_value(unsigned channels, Of of) {
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        unsigned first = (i * 32 + threadIdx.x % 32) * EACH_HELD;
#pragma unroll
        for (int j = 0; j < EACH_HELD; j++) {
            if (first + j < channels) {
                of(i, j);
            }
        }
    }
}

// ANCHOR: kernel
template <class Element>
__device__ inline void layer_norm(const typename Element::Value *x, const float *weight, const float *bias, typename Element::Value *y,
                                  Pixels pixels) {
    constexpr int EACH_HELD = EACH<Element>;
    launch_dependents();
    wait_for_launches_before();
    unsigned pixel = blockIdx.x * (THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (pixel >= pixels.count) {
        return;  // the whole warp
    }
    x += (size_t)pixel * pixels.vectors * EACH_HELD;
    y += (size_t)pixel * pixels.vectors * EACH_HELD;
    Channels<Element> held[HELD];
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        if (i * 32 + lane < pixels.vectors) {
            held[i] = read_channels<Element>(x + (i * 32 + lane) * EACH_HELD);
        }
    }
    float sum = 0.0f, squares = 0.0f;
    for_each_value<EACH_HELD>(pixels.channels, [&](int i, int j) { sum += Element::unpack(held[i].values[j]); });
    float mean = sum_of_warp(sum) / pixels.channels;
    for_each_value<EACH_HELD>(pixels.channels, [&](int i, int j) {
        float distance = Element::unpack(held[i].values[j]) - mean;
        squares += distance * distance;
    });
    float scale = 1.0f / sqrtf(sum_of_warp(squares) / pixels.channels + pixels.eps);
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        unsigned vector = i * 32 + lane;
        if (vector < pixels.vectors) {
            float wide[EACH_HELD];
#pragma unroll
            for (int j = 0; j < EACH_HELD; j++) {
                unsigned channel = vector * EACH_HELD + j;
                bool inside = channel < pixels.channels;
                wide[j] = inside ? (Element::unpack(held[i].values[j]) - mean) * scale * weight[channel] + bias[channel] : 0.0f;
            }
            Channels<Element> out;
#pragma unroll
            for (int j = 0; j < EACH_HELD; j += 2) {
                Element::store_pair(&out.values[j], wide[j], wide[j + 1]);
            }
            write_channels<Element>(y + vector * EACH_HELD, out);
        }
    }
}
// ANCHOR_END: kernel

#define LAYER_NORM_KERNEL(type, ELEMENT)                                                                              \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                             \
        layer_norm_##type(const ELEMENT::Value *x, const float *weight, const float *bias, ELEMENT::Value *y,         \
                          Pixels pixels) {                                                                            \
        layer_norm<ELEMENT>(x, weight, bias, y, pixels);                                                              \
    }

LAYER_NORM_KERNEL(f16, F16)
LAYER_NORM_KERNEL(f32, F32)
