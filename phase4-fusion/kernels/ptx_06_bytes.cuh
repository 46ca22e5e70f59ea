// Weights of 8 bits become f16: y = scale · q, four of them per thread. The file that includes this says how the four bytes of
// a word become four halves: `halves`.
// run: ptx
#pragma once

#include <cuda_fp16.h>

struct Halves {
    __half2 low;   // of bytes 0 and 1
    __half2 high;  // of bytes 2 and 3
};

// The four signed bytes of a word, each exactly.
__device__ Halves halves(unsigned word);

// q and y lie at multiples of 16 bytes. n / 4 + 1 threads: the last one takes the n % 4 weights that are left.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(256) bytes(const signed char *q, const __half *scale, __half *y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    __half2 factor = __halves2half2(*scale, *scale);
    if (i < n / 4) {
        Halves four = halves(reinterpret_cast<const unsigned *>(q)[i]);
        __half2 scaled[2] = {__hmul2(four.low, factor), __hmul2(four.high, factor)};
        reinterpret_cast<uint2 *>(y)[i] = reinterpret_cast<const uint2 &>(scaled);
    } else if (i == n / 4) {
#pragma unroll 1
        for (unsigned k = n / 4 * 4; k < n; k++) {
            y[k] = __hmul(__short2half_rn(q[k]), *scale);
        }
    }
}
// ANCHOR_END: kernel
