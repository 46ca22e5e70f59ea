// ReLU in 16-byte vectors, in place or out of place: a thread loads four of them, then clips, then stores (in_flight.cuh).
//
// Limited by memory, with 64 bytes in flight a thread where relu_01_naive.cu has 4.
// run: norm // trial: norm

#include "in_flight.cuh"

// Not fmaxf, which would turn NaN into 0.
__device__ float clip(float x) {
    return x < 0.0f ? 0.0f : x;
}

// y may be x. n is below 2³¹; x and y lie at multiples of 16 bytes.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) relu_vectors(const float *x, float *y, unsigned n) {
    auto of_vector = [](unsigned, float4 v) { return make_float4(clip(v.x), clip(v.y), clip(v.z), clip(v.w)); };
    change(x, y, n, of_vector, [](unsigned, float value) { return clip(value); });
}
// ANCHOR_END: kernel
