// Keeps every second value, without gaps.

extern "C" __global__ void compact_half(const float *x, float *y) {
    if (threadIdx.x % 2 == 0) {
        y[threadIdx.x / 2] = x[threadIdx.x];
    }
}
