// BatchNorm for inference in 16-byte vectors: a thread loads four of them, then normalises, then stores.
//
//     x, y: one run of n values, cut into n / 4 vectors whatever the planes are
//     block b → vectors [1024·b, 1024·(b + 1)); thread t of it → vectors t, t + 256, t + 512, t + 768 of those
//
//     plane of 7 values:  0 0 0 0|0 0 0 1|1 1 1 1|1 1 2 2|2 …      a vector may lie in two planes, or (H·W = 1) in four
//
// So the planes' size does not matter to the loads: every address is a multiple of 16, in planes of 49 values too. Two
// divisions find the plane and channel of a vector's first value, and counting finds those of the next three.
//
// Limited by memory: 64 bytes in flight a thread, and some 20 instructions an element, of the 55 or so that an H200 could
// issue in the time that the element's 8 bytes take.

constexpr unsigned THREADS = 256;
// Loads of a thread in flight.
constexpr unsigned VECTORS = 4;

// scale_shift: [C], as `fold` of norm_02_scale_shift.cu makes it. y may be x. n = N·C·H·W, below 2³¹; x and y lie at
// multiples of 16 bytes.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS)
    scale_shift_vectors(const float *x, const float2 *scale_shift, float *y, unsigned channels,
                        unsigned plane,  // H·W
                        unsigned n) {
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
            unsigned q = 4 * i / plane;       // the plane of v[j].x
            unsigned p = 4 * i - q * plane;   // its place there
            unsigned c = q % channels;
            float2 of = scale_shift[c];
            auto normalise = [&](float &value) {
                if (p == plane) {
                    p = 0;
                    c = c + 1 == channels ? 0 : c + 1;
                    of = scale_shift[c];
                }
                value = value * of.x + of.y;
                p++;
            };
            normalise(v[j].x);
            normalise(v[j].y);
            normalise(v[j].z);
            normalise(v[j].w);
            reinterpret_cast<float4 *>(y)[i] = v[j];
        }
    }
    // Up to three values are left behind the last vector.
    if (blockIdx.x == 0 && threadIdx.x < n % 4) {
        unsigned i = n - 1 - threadIdx.x;
        float2 of = scale_shift[i / plane % channels];
        y[i] = x[i] * of.x + of.y;
    }
}
// ANCHOR_END: kernel
