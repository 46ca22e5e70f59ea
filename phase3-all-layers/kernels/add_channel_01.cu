// Adds one value per channel in place, y[n, c, h, w] += v[n, c], in 16-byte vectors (phase 2's in_flight.cuh).
//
//     y: one run of n values, cut into vectors whatever the planes are
//
//     plane of 7 values:  0 0 0 0|0 0 0 1|1 1 1 1|1 1 2 2|2 …      a vector may span up to four planes
//
// One division finds the plane of a vector's first value; counting finds those of the next three.
//
// Limited by memory: 8 bytes per value for one addition. Phase 4 makes it part of the preceding kernel.
// run: test elementwise // trial: add_channel

#include "../../phase2-conv-bn/kernels/in_flight.cuh"

// of_plane: [N·C]. n = N·C·H·W, below 2³¹; y is aligned to 16 bytes.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) add_channel(float *y, const float *of_plane,
                                                                  unsigned plane,  // H·W
                                                                  unsigned n) {
    auto of_vector = [=](unsigned i, float4 v) {
        unsigned q = 4 * i / plane;      // the plane of v.x
        unsigned p = 4 * i - q * plane;  // its offset in the plane
        float more = of_plane[q];
        auto add = [&](float value) {
            if (p == plane) {
                p = 0;
                q++;
                more = of_plane[q];
            }
            p++;
            return value + more;
        };
        v.x = add(v.x);
        v.y = add(v.y);
        v.z = add(v.z);
        v.w = add(v.w);
        return v;
    };
    change(y, y, n, of_vector, [=](unsigned i, float value) { return value + of_plane[i / plane]; });
}
// ANCHOR_END: kernel
