// Mean and variance of each channel, with the structure of stats_03_shuffle.cu, and (count, mean, m2) merged where that adds
// (sum, squares): a variance that survives a large mean.
//
//     m2 = Σ (x − mean)²       merging a and b, δ = mean_b − mean_a (Chan, Golub and LeVeque, 1979):
//
//         count = count_a + count_b
//         mean  = mean_a + δ · count_b / count
//         m2    = m2_a + m2_b + δ² · count_a · count_b / count
//
// With count_b = 1 these are Welford's formulas (1962). Each value is compared with a mean near it before it is squared, so
// nothing large is subtracted from something large. A vector of four is reduced by itself first and merged as one: a division
// for four values.
//
// Limited by memory, if the arithmetic fits into its shadow: 27 instructions per value where step 3 takes 18, of the 28 that an
// H200 could issue in the time that the value's 4 bytes take.
// run: norm // trial: norm

#include "stats.cuh"

struct Moments {
    float count;
    float mean;
    float m2;
};

// ANCHOR: merge
__device__ void merge(Moments &a, Moments b) {
    float count = a.count + b.count;
    if (b.count == 0.0f) {
        return;  // 0 / 0 where a is empty too
    }
    float delta = b.mean - a.mean;
    float part = b.count / count;
    a.mean += delta * part;
    a.m2 += b.m2 + delta * delta * a.count * part;
    a.count = count;
}
// ANCHOR_END: merge

// In lane 0: all lanes merged. All 32 take part.
__device__ Moments across_warp(Moments moments) {
    for (int offset = 16; offset > 0; offset /= 2) {
        Moments more;
        more.count = __shfl_down_sync(0xffffffff, moments.count, offset);
        more.mean = __shfl_down_sync(0xffffffff, moments.mean, offset);
        more.m2 = __shfl_down_sync(0xffffffff, moments.m2, offset);
        merge(moments, more);
    }
    return moments;
}

// partial: [channels, gridDim.x / channels], written once each. The other parameters: `each_slot`.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS)
    stats_partial(const float *x, Moments *partial, unsigned images, unsigned channels, unsigned plane, unsigned slots,
                  unsigned share) {
    Moments moments = {0.0f, 0.0f, 0.0f};
    each_slot(x, images, channels, plane, slots, share, [&](const Slot &slot) {
        const float *v = slot.v;
        if (slot.whole()) {
            float m = ((v[0] + v[1]) + (v[2] + v[3])) * 0.25f;
            float a = v[0] - m, b = v[1] - m, c = v[2] - m, d = v[3] - m;
            merge(moments, Moments{4.0f, m, (a * a + b * b) + (c * c + d * d)});
        } else {
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
                if (i >= slot.first && i < slot.end) {
                    merge(moments, Moments{1.0f, v[i], 0.0f});
                }
            }
        }
    });
    moments = across_block(moments);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = moments;
    }
}
// ANCHOR_END: kernel

// A block per channel, whose threads stride through the channel's `splits` partial results.
extern "C" __global__ void __launch_bounds__(THREADS)
    stats_finish(const Moments *partial, float *mean, float *variance, unsigned splits) {
    unsigned c = blockIdx.x;
    Moments moments = {0.0f, 0.0f, 0.0f};
    for (unsigned s = threadIdx.x; s < splits; s += THREADS) {
        merge(moments, partial[(size_t)c * splits + s]);
    }
    moments = across_block(moments);
    if (threadIdx.x == 0) {
        mean[c] = moments.mean;
        variance[c] = moments.m2 / moments.count;
    }
}
