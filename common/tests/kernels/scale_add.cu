// out = a·x + y, one thread per element; the last block may be ragged.
extern "C" __global__ void scale_add(const float *x, const float *y, float *out, float a, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = a * x[i] + y[i];
    }
}

// Adds one to each of n integers, so that the order of launches shows.
extern "C" __global__ void increment(unsigned *values, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        values[i] += 1;
    }
}
