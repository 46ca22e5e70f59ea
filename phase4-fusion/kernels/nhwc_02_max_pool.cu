// Max pooling, channels last: a thread makes eight channels of a pixel, or four of f32, from vectors of 16 bytes. All lanes of a warp
// read whole sectors, where phase 3's kernel reads every other value of a row.
//
// Values outside the image are ignored. A NaN wins over every number, so that it is not hidden.
//
// Limited by memory: a value is read once from memory, and from the caches once per window that contains it.
// nvrtc: --gpu-architecture=compute_90 // run: test nhwc // trial: nhwc_images
#include "nhwc.cuh"

struct Pool {
    int height, width, out_height, out_width;
    int window, stride, padding;
    int vectors;  // of a pixel
};

// ANCHOR: kernel
__device__ inline float larger(float a, float b) {
    float most;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
    return most;
}

__device__ inline unsigned short larger(unsigned short a, unsigned short b) {
    unsigned short most;
    asm("max.NaN.f16 %0, %1, %2;" : "=h"(most) : "h"(a), "h"(b));
    return most;
}

template <class Element>
__device__ inline void max_pool(const typename Element::Value *x, typename Element::Value *y, unsigned outputs, Pool pool) {
    launch_dependents();
    wait_for_launches_before();
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= outputs) {
        return;
    }
    unsigned pixel = i / pool.vectors, vector = i - pixel * pool.vectors;
    unsigned row_of = pixel / pool.out_width, column = pixel - row_of * pool.out_width;
    unsigned image = row_of / pool.out_height, row = row_of - image * pool.out_height;
    int top = row * pool.stride - pool.padding, left = column * pool.stride - pool.padding;
    int bottom = min(top + pool.window, pool.height), right = min(left + pool.window, pool.width);
    top = max(top, 0);
    left = max(left, 0);
    auto read = [&](int y_at, int x_at) {
        size_t at = ((size_t)image * pool.height + y_at) * pool.width + x_at;
        return read_channels<Element>(x + (at * pool.vectors + vector) * EACH<Element>);
    };
    Channels<Element> most = read(top, left);
    for (int y_at = top; y_at < bottom; y_at++) {
        for (int x_at = left; x_at < right; x_at++) {
            Channels<Element> here = read(y_at, x_at);
#pragma unroll
            for (int k = 0; k < EACH<Element>; k++) {
                most.values[k] = larger(most.values[k], here.values[k]);
            }
        }
    }
    write_channels<Element>(y + (size_t)i * EACH<Element>, most);
}
// ANCHOR_END: kernel

extern "C" __global__ void __launch_bounds__(256) max_pool_f16(const F16::Value *x, F16::Value *y, unsigned outputs, Pool pool) {
    max_pool<F16>(x, y, outputs, pool);
}

extern "C" __global__ void __launch_bounds__(256) max_pool_f32(const F32::Value *x, F32::Value *y, unsigned outputs, Pool pool) {
    max_pool<F32>(x, y, outputs, pool);
}
