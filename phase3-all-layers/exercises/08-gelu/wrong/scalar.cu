// Right values, but one value per load and per store: four times the requests.

__device__ float gelu_of(float x) {
    return 0.5f * x * (1.0f + erff(x * 0.70710678f));
}

extern "C" __global__ void gelu(float *x, unsigned n) {
    unsigned first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
    for (unsigned i = first; i < n; i += stride) {
        x[i] = gelu_of(x[i]);
    }
}
