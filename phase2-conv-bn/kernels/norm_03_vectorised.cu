// BatchNorm for inference in 16-byte vectors: a thread loads four of them, then normalises, then stores (in_flight.cuh).
//
//     x, y: one run of n values, cut into n / 4 vectors whatever the planes are
//
//     plane of 7 values:  0 0 0 0|0 0 0 1|1 1 1 1|1 1 2 2|2 …      a vector may lie in two planes, or (H·W = 1) in four
//
// So the planes' size does not matter to the loads: every address is a multiple of 16, in planes of 49 values too. Two
// divisions find the plane and channel of a vector's first value, and counting finds those of the next three.
//
// Limited by memory: 64 bytes in flight per thread, and some 11 instructions per element in PTX, of the 55 or so that an H200
// could issue in the time that the element's 8 bytes take.
// run: norm // trial: norm
#include "in_flight.cuh"

// scale_shift: [C], as `fold` of norm_02_scale_shift.cu makes it. y may be x. n = N·C·H·W, below 2³¹; x and y lie at
// multiples of 16 bytes.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS)
    scale_shift_vectors(const float *x, const float2 *scale_shift, float *y, unsigned channels,
                        unsigned plane,  // H·W
                        unsigned n) {
    auto of_vector = [=](unsigned i, float4 v) {
        unsigned q = 4 * i / plane;       // the plane of v.x
        unsigned p = 4 * i - q * plane;   // its place there
        unsigned c = q % channels;
        float2 of = scale_shift[c];
        auto normalise = [&](float value) {
            if (p == plane) {
                p = 0;
                c = c + 1 == channels ? 0 : c + 1;
                of = scale_shift[c];
            }
            p++;
            return value * of.x + of.y;
        };
        v.x = normalise(v.x);
        v.y = normalise(v.y);
        v.z = normalise(v.z);
        v.w = normalise(v.w);
        return v;
    };
    auto of_value = [=](unsigned i, float value) {
        float2 of = scale_shift[i / plane % channels];
        return value * of.x + of.y;
    };
    change(x, y, n, of_vector, of_value);
}
// ANCHOR_END: kernel
