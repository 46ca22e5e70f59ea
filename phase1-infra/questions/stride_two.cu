// A warp's load of every second value.

extern "C" __global__ void stride_two(const float *x, float *y) {
    y[threadIdx.x] = x[2 * threadIdx.x];
}
