// Bias and ReLU in place, y = relu(y + bias): what follows a library's matrix product, in a launch of its own.
//
//     y: one run of n = batch · out values, changed in vectors of four (in_flight.cuh), which may lie in two rows, or more
//     where out < 4
//
// Limited by memory: it reads and writes all of y again, which the product has just written.
// run: linear // trial: linear

#include "in_flight.cuh"

// Not fmaxf, which would turn NaN into 0.
__device__ float clip(float x) {
    return x < 0.0f ? 0.0f : x;
}

// bias: [out]. n is below 2³¹; y lies at a multiple of 16 bytes.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) bias_relu(float *y, const float *bias, unsigned out, unsigned n) {
    auto of_vector = [=](unsigned i, float4 v) {
        unsigned column = 4 * i % out;
        auto next = [&] {
            float here = bias[column];
            column = column + 1 == out ? 0 : column + 1;
            return here;
        };
        // In this order, which an argument list would not promise.
        v.x = clip(v.x + next());
        v.y = clip(v.y + next());
        v.z = clip(v.z + next());
        v.w = clip(v.w + next());
        return v;
    };
    change(y, y, n, of_vector, [=](unsigned i, float value) { return clip(value + bias[i % out]); });
}
// ANCHOR_END: kernel
