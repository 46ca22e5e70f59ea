// The geometric series 1 + x + x² + … + x⁶⁴ in f16, by Horner's rule: 64 multiply-adds per value, so that arithmetic counts
// and not memory. The file that includes this says how two values take a step together: `step`.
// run: ptx
#pragma once

#include <cuda_fp16.h>

constexpr unsigned TERMS = 64;
constexpr unsigned ONES = 0x3c003c00;  // two halves of 1.0

// p·x + 1 in both halves of a register.
__device__ __half2 step(__half2 p, __half2 x);

// x and y lie at multiples of 16 bytes. n / 8 + 1 threads: the last one takes the n % 8 values that are left.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(256) series(const __half *x, __half *y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    __half2 ones = reinterpret_cast<const __half2 &>(ONES);
    if (i < n / 8) {
        uint4 from = reinterpret_cast<const uint4 *>(x)[i];
        const __half2 *v = reinterpret_cast<const __half2 *>(&from);
        __half2 p[4] = {ones, ones, ones, ones};
#pragma unroll
        for (unsigned k = 0; k < TERMS; k++) {
            for (unsigned j = 0; j < 4; j++) {
                p[j] = step(p[j], v[j]);
            }
        }
        reinterpret_cast<uint4 *>(y)[i] = reinterpret_cast<const uint4 &>(p);
    } else if (i == n / 8) {
#pragma unroll 1
        for (unsigned at = n / 8 * 8; at < n; at++) {
            __half2 v = __halves2half2(x[at], x[at]);
            __half2 p = ones;
#pragma unroll 1
            for (unsigned k = 0; k < TERMS; k++) {
                p = step(p, v);
            }
            y[at] = __low2half(p);
        }
    }
}
// ANCHOR_END: kernel
