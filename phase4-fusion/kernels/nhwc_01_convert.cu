// Between f32 images, a plane per channel, and images channels last: what a network on tensor cores does at its two ends, and wherever a
// layer has no kernel that reads channels last.
//
// Towards channels last a thread makes 16 bytes that lie next to each other; its reads meet those of its neighbours in each plane.
// Where the result has more channels than the image, the rest are zeros: tensor cores take whole steps of channels.
//
// Limited by memory for few channels. With many, the planes of one pixel lie far apart, and a warp reads a sector for each value.
// nvrtc: --gpu-architecture=compute_90 // run: test nhwc // trial: nhwc_images
#include "nhwc.cuh"

struct Image {
    unsigned pixels;    // H · W
    unsigned channels;  // C
    unsigned padded;    // channels with the zeros
};

// ANCHOR: kernel
template <class Out>
__device__ inline void to_channels_last(const float *x, typename Out::Value *y, unsigned values, Image image) {
    launch_dependents();
    wait_for_launches_before();
    unsigned first = (blockIdx.x * blockDim.x + threadIdx.x) * EACH<Out>;
    if (first >= values) {
        return;
    }
    unsigned pixel = first / image.padded, channel = first - pixel * image.padded;
    unsigned n = pixel / image.pixels, in_image = pixel - n * image.pixels;
    float wide[EACH<Out>];
#pragma unroll
    for (int i = 0; i < EACH<Out>; i++) {
        bool inside = channel < image.channels && first + i < values;
        wide[i] = inside ? x[((size_t)n * image.channels + channel) * image.pixels + in_image] : 0.0f;
        if (++channel == image.padded) {
            channel = 0;
            if (++in_image == image.pixels) {
                in_image = 0;
                n++;
            }
        }
    }
    Channels<Out> channels;
#pragma unroll
    for (int i = 0; i < EACH<Out>; i += 2) {
        Out::store_pair(&channels.values[i], wide[i], wide[i + 1]);
    }
    if (first + EACH<Out> <= values) {
        write_channels<Out>(y + first, channels);
    } else {
#pragma unroll
        for (int i = 0; i < EACH<Out>; i++) {
            if (first + i < values) {
                y[first + i] = channels.values[i];
            }
        }
    }
}
// ANCHOR_END: kernel

template <class In>
__device__ inline void to_channels_first(const typename In::Value *x, float *y, unsigned values, Image image) {
    launch_dependents();
    wait_for_launches_before();
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= values) {
        return;
    }
    unsigned plane = i / image.pixels, in_image = i - plane * image.pixels;
    unsigned n = plane / image.channels, channel = plane - n * image.channels;
    y[i] = In::unpack(x[((size_t)n * image.pixels + in_image) * image.padded + channel]);
}

#define CONVERT_KERNELS(type, ELEMENT)                                                                                \
    extern "C" __global__ void __launch_bounds__(256)                                                                 \
        to_channels_last_##type(const float *x, ELEMENT::Value *y, unsigned values, Image image) {                    \
        to_channels_last<ELEMENT>(x, y, values, image);                                                               \
    }                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(256)                                                                 \
        to_channels_first_##type(const ELEMENT::Value *x, float *y, unsigned values, Image image) {                   \
        to_channels_first<ELEMENT>(x, y, values, image);                                                              \
    }

CONVERT_KERNELS(f16, F16)
CONVERT_KERNELS(f32, F32)
