// Mean and variance of each channel: 16-byte loads, sums that meet by warp shuffles, and many blocks per channel (stats.cuh),
// whose results a second kernel adds in a fixed order.
//
// The second stage gives the same bits every time; an atomic addition would not, since it adds in the order of arrival.
//
// Limited by memory. What is left to do is not speed: Σx² / M − mean² subtracts two large numbers where the mean is large
// (stats_04_welford.cu).
// run: norm // trial: norm
#include "stats.cuh"

struct Sums {
    float sum;
    float squares;
};

// ANCHOR: warp
// In lane 0: the sum over all lanes. All 32 take part.
__device__ Sums across_warp(Sums sums) {
    for (int offset = 16; offset > 0; offset /= 2) {
        sums.sum += __shfl_down_sync(0xffffffff, sums.sum, offset);
        sums.squares += __shfl_down_sync(0xffffffff, sums.squares, offset);
    }
    return sums;
}
// ANCHOR_END: warp

// partial: [channels, gridDim.x / channels], written once each. The other parameters: `each_slot`.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS)
    stats_partial(const float *x, Sums *partial, unsigned images, unsigned channels, unsigned plane, unsigned slots,
                  unsigned share) {
    Sums sums = {0.0f, 0.0f};
    each_slot(x, images, channels, plane, slots, share, [&](const Slot &slot) {
        for (unsigned i = 0; i < 4; i++) {
            sums.sum += slot.v[i];
            sums.squares += slot.v[i] * slot.v[i];
        }
    });
    sums = across_block(sums);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sums;
    }
}
// ANCHOR_END: kernel

// A block per channel, whose threads stride through the channel's `splits` partial sums.
// ANCHOR: finish
extern "C" __global__ void __launch_bounds__(THREADS)
    stats_finish(const Sums *partial, float *mean, float *variance, unsigned splits, float count  // M
    ) {
    unsigned c = blockIdx.x;
    Sums sums = {0.0f, 0.0f};
    for (unsigned s = threadIdx.x; s < splits; s += THREADS) {
        Sums more = partial[(size_t)c * splits + s];
        sums.sum += more.sum;
        sums.squares += more.squares;
    }
    sums = across_block(sums);
    if (threadIdx.x == 0) {
        float m = sums.sum / count;
        mean[c] = m;
        variance[c] = sums.squares / count - m * m;
    }
}
// ANCHOR_END: finish
