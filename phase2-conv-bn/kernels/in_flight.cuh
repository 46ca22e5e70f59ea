// A run of n floats changed in 16-byte vectors, four of a thread in flight.
//
//     block b → vectors [1024·b, 1024·(b + 1)); thread t of it → vectors t, t + 256, t + 512, t + 768 of those
// run: norm
#pragma once

constexpr unsigned THREADS = 256;
// Loads of a thread in flight.
constexpr unsigned VECTORS = 4;

// y[i] = of_value(i, x[i]) for each i < n, where of_vector(i, v) does the same for the four values from 4·i on. y may be x.
// n is below 2³¹; x and y lie at multiples of 16 bytes.
// ANCHOR: in_flight
template <typename Vector, typename Value>
__device__ void change(const float *x, float *y, unsigned n, Vector of_vector, Value of_value) {
    unsigned first = blockIdx.x * (VECTORS * THREADS) + threadIdx.x;
    float4 v[VECTORS];
    // All loads before the first use: four misses wait together.
#pragma unroll
    for (unsigned j = 0; j < VECTORS; j++) {
        unsigned i = first + j * THREADS;
        if (i < n / 4) {
            v[j] = reinterpret_cast<const float4 *>(x)[i];
        }
    }
#pragma unroll
    for (unsigned j = 0; j < VECTORS; j++) {
        unsigned i = first + j * THREADS;
        if (i < n / 4) {
            reinterpret_cast<float4 *>(y)[i] = of_vector(i, v[j]);
        }
    }
    // Up to three values are left after the last vector.
    if (blockIdx.x == 0 && threadIdx.x < n % 4) {
        unsigned i = n - 1 - threadIdx.x;
        y[i] = of_value(i, x[i]);
    }
}
// ANCHOR_END: in_flight
