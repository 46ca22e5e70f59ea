// The means of whole images, channels last, to f32: what follows is a linear layer of one row per image, which need not round.
//
// A block has 64 channels of f16 of one image, or 32 of f32: eight lanes side by side read 128 bytes of a pixel, and 32 such groups
// go through the pixels. A warp's four groups add up by shuffles, the warps in shared memory.
//
// Limited by latency: a block reads few kilobytes, in two or three loads per thread.
// nvrtc: --gpu-architecture=compute_90 // run: test nhwc // trial: nhwc_images
#include "nhwc.cuh"

// ANCHOR: kernel
constexpr int THREADS = 256, LANES = 8;  // lanes: vectors that a block has of a pixel
constexpr int GROUPS = THREADS / LANES, WARPS = THREADS / 32;

struct Image {
    int pixels;    // H · W
    int channels;  // C
    int vectors;   // of a pixel, zeros beyond C included
};

template <class Element>
__device__ inline void average_pool(const typename Element::Value *x, float *y, Image image) {
    __shared__ float sums[WARPS][LANES * EACH<Element>];
    launch_dependents();
    wait_for_launches_before();
    int lane = threadIdx.x % LANES, group = threadIdx.x / LANES, vector = blockIdx.x * LANES + lane;
    float sum[EACH<Element>] = {};
    if (vector < image.vectors) {
#pragma unroll 4
        for (int pixel = group; pixel < image.pixels; pixel += GROUPS) {
            size_t at = (size_t)blockIdx.y * image.pixels + pixel;
            Channels<Element> here = read_channels<Element>(x + (at * image.vectors + vector) * EACH<Element>);
#pragma unroll
            for (int k = 0; k < EACH<Element>; k++) {
                sum[k] += Element::unpack(here.values[k]);
            }
        }
    }
#pragma unroll
    for (int k = 0; k < EACH<Element>; k++) {
        sum[k] += __shfl_xor_sync(~0u, sum[k], 8);
        sum[k] += __shfl_xor_sync(~0u, sum[k], 16);
        if (threadIdx.x % 32 < LANES) {
            sums[threadIdx.x / 32][lane * EACH<Element> + k] = sum[k];
        }
    }
    __syncthreads();
    int channel = blockIdx.x * LANES * EACH<Element> + threadIdx.x;
    if (threadIdx.x < LANES * EACH<Element> && channel < image.channels) {
        float all = 0.0f;
#pragma unroll
        for (int warp = 0; warp < WARPS; warp++) {
            all += sums[warp][threadIdx.x];
        }
        y[(size_t)blockIdx.y * image.channels + channel] = all / image.pixels;
    }
}
// ANCHOR_END: kernel

extern "C" __global__ void __launch_bounds__(THREADS) average_pool_f16(const F16::Value *x, float *y, Image image) {
    average_pool<F16>(x, y, image);
}

extern "C" __global__ void __launch_bounds__(THREADS) average_pool_f32(const F32::Value *x, float *y, Image image) {
    average_pool<F32>(x, y, image);
}
