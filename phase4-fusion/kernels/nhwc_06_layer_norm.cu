// LayerNorm of the pixels of an image channels last: they are the rows of its tokens, so nothing is transposed. As many lanes as have
// five vectors of 16 bytes each share a pixel; they read it once and keep it in registers for the mean, for the variance around it, and
// for the result.
//
//     320 channels of f16     640                   1280
//     ┌─ 8 lanes ─┬─ 8 ─┐…    ┌─ 16 lanes ─┬─ …     ┌─ 32 lanes
//     │ pixel 0   │  1  │     │ pixel 0    │ 1      │ pixel 0          a warp has 4, 2 or 1 of them
//
// All loads are on their way before the first sum: weight and bias even before the launch before this one is complete, since it does not
// write them. Sums are f32, whatever the type in memory. Limited by the latency of one load and of two sums over lanes; for large
// images by memory.
// nvrtc: --gpu-architecture=compute_90 // run: test nhwc // trial: nhwc
#include "nhwc.cuh"

constexpr int THREADS = 128;

struct Pixels {
    unsigned count;
    unsigned channels;  // C
    unsigned vectors;   // of a pixel, with the zeros
    float eps;
};

// Over groups of LANES neighbours.
template <int LANES>
__device__ inline float sum_of_lanes(float value) {
#pragma unroll
    for (int other = LANES / 2; other > 0; other /= 2) {
        value += __shfl_xor_sync(~0u, value, other);
    }
    return value;
}

// Values of f32 that belong to a vector.
template <class Element>
struct Wide {
    float values[EACH<Element>];

    // Those of a parameter from `channel` on; in whole vectors, or one by one up to `channels`.
    template <bool WHOLE>
    __device__ void read(const float *from, unsigned channel, unsigned channels) {
#pragma unroll
        for (int j = 0; j < EACH<Element>; j += WHOLE ? 4 : 1) {
            if (WHOLE) {
                *reinterpret_cast<float4 *>(&values[j]) = *reinterpret_cast<const float4 *>(from + channel + j);
            } else {
                values[j] = channel + j < channels ? from[channel + j] : 0.0f;
            }
        }
    }
};

// ANCHOR: kernel
// LANES share a pixel, and each holds up to HELD vectors. WHOLE says that no channels were filled up; else these take no part, and
// stay zeros.
template <class Element, int LANES, int HELD, bool WHOLE>
__device__ inline void layer_norm(const typename Element::Value *x, const float *weight, const float *bias, typename Element::Value *y,
                                  Pixels pixels) {
    constexpr int EACH_HELD = EACH<Element>;
    launch_dependents();
    unsigned lane = threadIdx.x % LANES, pixel = (blockIdx.x * THREADS + threadIdx.x) / LANES;
    auto there = [&](int i) { return i * LANES + lane < pixels.vectors; };
    auto counts = [&](int i, int j) { return WHOLE || (i * LANES + lane) * EACH_HELD + j < pixels.channels; };
    Wide<Element> scales[WHOLE ? HELD : 1], shifts[WHOLE ? HELD : 1];
    if (WHOLE) {
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            if (there(i)) {
                unsigned channel = (i * LANES + lane) * EACH_HELD;
                scales[i].template read<true>(weight, channel, pixels.channels);
                shifts[i].template read<true>(bias, channel, pixels.channels);
            }
        }
    }
    wait_for_launches_before();
    // Lanes without a pixel read the last one, since the sums need all lanes of a warp.
    size_t row = (size_t)min(pixel, pixels.count - 1) * pixels.vectors;
    Channels<Element> held[HELD] = {};
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        if (there(i)) {
            held[i] = read_channels<Element>(x + (row + i * LANES + lane) * EACH_HELD);
        }
    }
    float sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int i = 0; i < HELD; i++) {
#pragma unroll
        for (int j = 0; j < EACH_HELD; j++) {
            sum += counts(i, j) ? Element::unpack(held[i].values[j]) : 0.0f;
        }
    }
    float mean = sum_of_lanes<LANES>(sum) / pixels.channels;
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        if (there(i)) {
#pragma unroll
            for (int j = 0; j < EACH_HELD; j++) {
                float distance = counts(i, j) ? Element::unpack(held[i].values[j]) - mean : 0.0f;
                squares += distance * distance;
            }
        }
    }
    float scale = 1.0f / sqrtf(sum_of_lanes<LANES>(squares) / pixels.channels + pixels.eps);
    if (pixel >= pixels.count) {
        return;
    }
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        if (there(i)) {
            Wide<Element> &by = scales[WHOLE ? i : 0], &plus = shifts[WHOLE ? i : 0];
            if (!WHOLE) {
                by.template read<false>(weight, (i * LANES + lane) * EACH_HELD, pixels.channels);
                plus.template read<false>(bias, (i * LANES + lane) * EACH_HELD, pixels.channels);
            }
            Channels<Element> out;
#pragma unroll
            for (int j = 0; j < EACH_HELD; j += 2) {
                // Where there is no channel, both parameters are zero.
                auto normalised = [&](int j) {
                    return (Element::unpack(held[i].values[j]) - mean) * scale * by.values[j] + plus.values[j];
                };
                Element::store_pair(&out.values[j], normalised(j), normalised(j + 1));
            }
            write_channels<Element>(y + (row + i * LANES + lane) * EACH_HELD, out);
        }
    }
}
// ANCHOR_END: kernel

#define LAYER_NORM_KERNEL(name, ELEMENT, LANES, HELD, whole)                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                             \
        name(const ELEMENT::Value *x, const float *weight, const float *bias, ELEMENT::Value *y, Pixels pixels) {     \
        layer_norm<ELEMENT, LANES, HELD, whole>(x, weight, bias, y, pixels);                                          \
    }

#define LAYER_NORM_KERNELS(type, ELEMENT)                                                                             \
    LAYER_NORM_KERNEL(layer_norm_8x5_##type, ELEMENT, 8, 5, true)                                                     \
    LAYER_NORM_KERNEL(layer_norm_16x5_##type, ELEMENT, 16, 5, true)                                                   \
    LAYER_NORM_KERNEL(layer_norm_32x5_##type, ELEMENT, 32, 5, true)                                                   \
    LAYER_NORM_KERNEL(layer_norm_32x10_##type, ELEMENT, 32, 10, true)                                                 \
    LAYER_NORM_KERNEL(layer_norm_any_##type, ELEMENT, 32, 10, false)

LAYER_NORM_KERNELS(f16, F16)
LAYER_NORM_KERNELS(f32, F32)
