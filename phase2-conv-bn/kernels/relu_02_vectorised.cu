// ReLU in 16-byte vectors, in place or out of place: a thread loads four of them, then clips, then stores.
//
//     block b → vectors [1024·b, 1024·(b + 1)); thread t of it → vectors t, t + 256, t + 512, t + 768 of those
//
// Limited by memory, with 64 bytes in flight a thread where relu_01_naive.cu has 4.

constexpr unsigned THREADS = 256;
// Loads of a thread in flight.
constexpr unsigned VECTORS = 4;

// Not fmaxf, which would turn NaN into 0.
__device__ float clip(float x) {
    return x < 0.0f ? 0.0f : x;
}

// y may be x. n is below 2³¹; x and y lie at multiples of 16 bytes.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) relu_vectors(const float *x, float *y, unsigned n) {
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
            reinterpret_cast<float4 *>(y)[i] = make_float4(clip(v[j].x), clip(v[j].y), clip(v[j].z), clip(v[j].w));
        }
    }
    // Up to three values are left behind the last vector.
    if (blockIdx.x == 0 && threadIdx.x < n % 4) {
        unsigned i = n - 1 - threadIdx.x;
        y[i] = clip(x[i]);
    }
}
// ANCHOR_END: kernel
