// The geometric series 1 + x + x² + … + x⁶⁴ in f16, one value per thread, as one would write it in f32.
//
// Limited by multiply-adds: the unit works on pairs of f16, and here the other half of each register is empty.
// run: ptx

#include <cuda_fp16.h>

constexpr unsigned TERMS = 64;

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(256) series(const __half *x, __half *y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        __half one = __ushort_as_half(0x3c00);
        __half v = x[i];
        __half p = one;
#pragma unroll
        for (unsigned k = 0; k < TERMS; k++) {
            p = __hfma(p, v, one);
        }
        y[i] = p;
    }
}
// ANCHOR_END: kernel
