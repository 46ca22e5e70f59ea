// The stride is a block's size: blocks do each other's elements a second time.

extern "C" __global__ void saxpy(float factor, const float *x, float *y, unsigned n) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x) {
        y[i] = factor * x[i] + y[i];
    }
}
