// A store that one lane skips.

extern "C" __global__ void masked_store(const float *x, float *y) {
    if (threadIdx.x != 5) {
        y[threadIdx.x] = x[threadIdx.x];
    }
}
