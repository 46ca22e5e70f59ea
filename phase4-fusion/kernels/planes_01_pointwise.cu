// What a network does to each value of an image in planes of f32 behind a convolution: y = activation(x) + e + r, with e per image and
// channel, and another image r. One pass in place of one for the activation and one for the sum.
//
// A thread has four neighbours of a plane, or, where planes are no multiple of four, one value. What is null is left out. Limited by
// memory.
// run: test nhwc // trial: nhwc
#include "epilogue.cuh"

struct Planes {
    unsigned count;     // values
    unsigned plane;     // H · W
    unsigned channels;  // C
    unsigned first, pitch;  // of e: the column that the first channel gets, and all columns
    int activation;
};

__device__ inline float activated(float value, int activation) {
    switch (activation) {
        case RELU: return value < 0.0f ? 0.0f : value;  // NaN stays NaN
        case GELU: return value * 0.5f * (1.0f + erff(value * 0.70710678f));
        case SILU: return value / (1.0f + expf(-value));
        default: return value;
    }
}

// ANCHOR: kernel
// EACH values of a thread lie in one plane.
template <int EACH, class Values>
__device__ inline void pointwise(const float *x, const float *e, const float *r, float *y, const Planes &planes) {
    unsigned i = (blockIdx.x * blockDim.x + threadIdx.x) * EACH;
    if (i >= planes.count) {
        return;
    }
    Values in = *reinterpret_cast<const Values *>(x + i), other = {}, out;
    if (r) {
        other = *reinterpret_cast<const Values *>(r + i);
    }
    unsigned row = i / planes.plane, image = row / planes.channels;
    float of_channel = e ? e[(size_t)image * planes.pitch + planes.first + (row - image * planes.channels)] : 0.0f;
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        (&out.x)[j] = activated((&in.x)[j], planes.activation) + of_channel + (&other.x)[j];
    }
    *reinterpret_cast<Values *>(y + i) = out;
}
// ANCHOR_END: kernel

struct One {
    float x;
};

extern "C" __global__ void __launch_bounds__(256)
    pointwise_4(const float *x, const float *e, const float *r, float *y, Planes planes) {
    pointwise<4, float4>(x, e, r, y, planes);
}

extern "C" __global__ void __launch_bounds__(256)
    pointwise_1(const float *x, const float *e, const float *r, float *y, Planes planes) {
    pointwise<1, One>(x, e, r, y, planes);
}
