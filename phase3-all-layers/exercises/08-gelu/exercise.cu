// x = GELU(x) in place, for n values: GELU(x) = x / 2 · (1 + erf(x / √2)).
//
// The grid does not grow with n: three blocks of 128 threads. x begins at a multiple of 16 bytes; n need not be a multiple of 4.

__device__ float gelu_of(float x) {
    return 0.5f * x * (1.0f + erff(x * 0.70710678f));
}

extern "C" __global__ void gelu(float *x, unsigned n) {
    unsigned first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
    // Your code: four values per load and per store. Who takes the values after the last whole vector?
    for (unsigned i = first; i < n; i += stride) {
        x[i] = x[i];
    }
}
