// Images channels last that are made of others: two joined, pixel by pixel, and one enlarged by repeating its pixels. A thread moves 16
// bytes of neighbouring channels, so both are copies whose reads and writes are whole sectors.
//
//     concatenate    pixel: │ a's channels │ b's channels │ zeros, up to whole steps of a product │
//     upsample       pixel (y, x) of the result is pixel (y / factor, x / factor)
//
// Limited by memory.
// nvrtc: --gpu-architecture=compute_90 // run: test nhwc // trial: nhwc
#include "nhwc.cuh"

// ANCHOR: concatenate
// Vectors of a pixel: of a and of b those with values, then those that each has in memory, and the result's.
struct Joined {
    unsigned a, b, a_pitch, b_pitch, pitch;
};

template <class Element>
__device__ inline void concatenate(const typename Element::Value *a, const typename Element::Value *b,
                                   typename Element::Value *y, unsigned outputs, Joined joined) {
    launch_dependents();
    wait_for_launches_before();
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= outputs) {
        return;
    }
    unsigned pixel = i / joined.pitch, vector = i - pixel * joined.pitch;
    Channels<Element> channels = {};
    if (vector < joined.a) {
        channels = read_channels<Element>(a + ((size_t)pixel * joined.a_pitch + vector) * EACH<Element>);
    } else if (vector < joined.a + joined.b) {
        channels = read_channels<Element>(b + ((size_t)pixel * joined.b_pitch + vector - joined.a) * EACH<Element>);
    }
    write_channels<Element>(y + (size_t)i * EACH<Element>, channels);
}
// ANCHOR_END: concatenate

struct Enlarged {
    unsigned height, width;  // of the result
    unsigned factor;
    unsigned vectors;  // of a pixel
};

template <class Element>
__device__ inline void upsample(const typename Element::Value *x, typename Element::Value *y, unsigned outputs, Enlarged size) {
    launch_dependents();
    wait_for_launches_before();
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= outputs) {
        return;
    }
    unsigned pixel = i / size.vectors, vector = i - pixel * size.vectors;
    unsigned row = pixel / size.width, column = pixel - row * size.width;
    unsigned image = row / size.height, in_image = row - image * size.height;
    size_t from = ((size_t)image * (size.height / size.factor) + in_image / size.factor) * (size.width / size.factor) + column / size.factor;
    write_channels<Element>(y + (size_t)i * EACH<Element>, read_channels<Element>(x + (from * size.vectors + vector) * EACH<Element>));
}

#define JOIN_KERNELS(type, ELEMENT)                                                                                   \
    extern "C" __global__ void __launch_bounds__(256)                                                                 \
        concatenate_##type(const ELEMENT::Value *a, const ELEMENT::Value *b, ELEMENT::Value *y, unsigned outputs,     \
                           Joined joined) {                                                                           \
        concatenate<ELEMENT>(a, b, y, outputs, joined);                                                               \
    }                                                                                                                 \
    extern "C" __global__ void __launch_bounds__(256)                                                                 \
        upsample_##type(const ELEMENT::Value *x, ELEMENT::Value *y, unsigned outputs, Enlarged size) {                \
        upsample<ELEMENT>(x, y, outputs, size);                                                                       \
    }

JOIN_KERNELS(f16, F16)
JOIN_KERNELS(f32, F32)
