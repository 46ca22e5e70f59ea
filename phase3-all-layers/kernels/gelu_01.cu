// Exact GELU in 16-byte vectors, in place or out of place: 0.5·x·(1 + erf(x/√2)) (phase 2's in_flight.cuh).
//
//     x, y: one run of n values, each thread has four vectors in flight, whatever the shape
//
// Limited by memory: 8 bytes per value for one error function. Phase 4 makes it the epilogue of the preceding linear
// layer.
// run: test elementwise // trial: gelu
#include "../../phase2-conv-bn/kernels/in_flight.cuh"

__device__ float gelu_of(float x) {
    const float HALF_ROOT = 0.70710678f;  // 1/√2
    return 0.5f * x * (1.0f + erff(x * HALF_ROOT));
}

// y may be x. n is below 2³¹; x and y are aligned to 16 bytes.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) gelu(const float *x, float *y, unsigned n) {
    auto of_vector = [](unsigned, float4 v) {
        return make_float4(gelu_of(v.x), gelu_of(v.y), gelu_of(v.z), gelu_of(v.w));
    };
    change(x, y, n, of_vector, [](unsigned, float value) { return gelu_of(value); });
}
// ANCHOR_END: kernel
