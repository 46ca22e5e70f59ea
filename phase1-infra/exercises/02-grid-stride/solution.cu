// y[i] = factor · x[i] + y[i]: the grid goes over the vector in strides of its own size.

extern "C" __global__ void saxpy(float factor, const float *x, float *y, unsigned n) {
    unsigned stride = gridDim.x * blockDim.x;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        y[i] = factor * x[i] + y[i];
    }
}
