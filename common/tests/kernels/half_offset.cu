// A header beside the file and one of CUDA's: both are found wherever the kernel is compiled.
#include <cuda_fp16.h>

#include "offset.h"

extern "C" __global__ void half_offset(const __half *x, float *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = __half2float(x[i]) + OFFSET;
    }
}
