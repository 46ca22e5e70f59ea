// Images channels last, [N, H, W, C], in vectors of 16 bytes: neighbouring channels of a pixel. C is a multiple of a vector.
// run: test nhwc // trial: none, only its test prepares the inputs that it takes
#pragma once
#include "hopper.cuh"

// Values of a vector: eight f16, or four f32.
template <class Element>
constexpr int EACH = 16 / (int)sizeof(typename Element::Value);

template <class Element>
struct alignas(16) Channels {
    typename Element::Value values[EACH<Element>];
};

template <class Element>
__device__ inline Channels<Element> read_channels(const typename Element::Value *from) {
    Channels<Element> channels;
    *reinterpret_cast<uint4 *>(&channels) = *reinterpret_cast<const uint4 *>(from);
    return channels;
}

template <class Element>
__device__ inline void write_channels(typename Element::Value *to, const Channels<Element> &channels) {
    *reinterpret_cast<uint4 *>(to) = *reinterpret_cast<const uint4 *>(&channels);
}
