// SiLU in 16-byte vectors, in place or out of place: x/(1 + e^(−x)) (phase 2's in_flight.cuh).
//
//     x, y: one run of n values, each thread has four vectors in flight, whatever the shape
//
// Limited by memory: 8 bytes per value for one exponential and one division. Below −88.7 the exponential is ∞ and the
// result −0, which is off by less than 3·10⁻³⁷.
// run: test elementwise // trial: silu

#include "../../phase2-conv-bn/kernels/in_flight.cuh"

__device__ float silu_of(float x) {
    return x / (1.0f + expf(-x));
}

// y may be x. n is below 2³¹; x and y are aligned to 16 bytes.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) silu(const float *x, float *y, unsigned n) {
    auto of_vector = [](unsigned, float4 v) {
        return make_float4(silu_of(v.x), silu_of(v.y), silu_of(v.z), silu_of(v.w));
    };
    change(x, y, n, of_vector, [](unsigned, float value) { return silu_of(value); });
}
// ANCHOR_END: kernel
