// What a network does to each value of an image channels last between two products: y = activation(scale · x + shift) + e + r, with a scale
// and a shift per channel, e per image and channel, and another image r.
//
//     BatchNorm, SiLU          scale, shift, activation
//     + embedding              e: a value for all pixels of an image's channel
//     + what came in           r
//
// A thread has 16 bytes of neighbouring channels. What is null is left out; where channels were filled up with zeros, e is 0 too.
// Limited by memory.
// nvrtc: --gpu-architecture=compute_90 // run: test nhwc // trial: nhwc_images
#include "activation.cuh"
#include "nhwc.cuh"

struct Terms {
    const float *scale;     // [C'], or null
    const float *shift;     // [C'], or null
    const float *channels;  // e [N, pitch], or null
    const void *image;      // r, of x's type and shape, or null
    unsigned pixels;        // H · W
    unsigned vectors;       // of a pixel
    unsigned of_e;          // C
    unsigned first, pitch;  // of e: the column that the first channel gets, and all columns
    int activation;
};

// ANCHOR: kernel
template <class Element>
__device__ inline void pointwise(const typename Element::Value *x, typename Element::Value *y, unsigned outputs, const Terms &terms) {
    launch_dependents();
    wait_for_launches_before();
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= outputs) {
        return;
    }
    unsigned pixel = i / terms.vectors, first = (i - pixel * terms.vectors) * EACH<Element>;
    unsigned image = pixel / terms.pixels;
    Channels<Element> in = read_channels<Element>(x + (size_t)i * EACH<Element>), other, out;
    if (terms.image) {
        other = read_channels<Element>(static_cast<const typename Element::Value *>(terms.image) + (size_t)i * EACH<Element>);
    }
    float wide[EACH<Element>];
#pragma unroll
    for (int j = 0; j < EACH<Element>; j++) {
        unsigned channel = first + j;
        float value = Element::unpack(in.values[j]);
        if (terms.scale) {
            value *= terms.scale[channel];
        }
        if (terms.shift) {
            value += terms.shift[channel];
        }
        value = activated(value, terms.activation);
        if (terms.channels && channel < terms.of_e) {
            value += terms.channels[(size_t)image * terms.pitch + terms.first + channel];
        }
        wide[j] = terms.image ? value + Element::unpack(other.values[j]) : value;
    }
#pragma unroll
    for (int j = 0; j < EACH<Element>; j += 2) {
        Element::store_pair(&out.values[j], wide[j], wide[j + 1]);
    }
    write_channels<Element>(y + (size_t)i * EACH<Element>, out);
}
// ANCHOR_END: kernel

#define POINTWISE_KERNEL(type, ELEMENT)                                                                               \
    extern "C" __global__ void __launch_bounds__(256)                                                                 \
        pointwise_##type(const ELEMENT::Value *x, ELEMENT::Value *y, unsigned outputs, const float *scale,            \
                         const float *shift, const float *channels, const void *image, unsigned pixels,               \
                         unsigned vectors, unsigned of_e, unsigned first, unsigned pitch, int activation) {           \
        pointwise<ELEMENT>(x, y, outputs, {scale, shift, channels, image, pixels, vectors, of_e, first, pitch, activation}); \
    }

POINTWISE_KERNEL(f16, F16)
POINTWISE_KERNEL(f32, F32)
