// Constants without an f are doubles, and so is all that they touch.

__device__ float gelu_of(float x) {
    return 0.5 * x * (1.0 + erff(x * 0.70710678));
}

extern "C" __global__ void gelu(float *x, unsigned n) {
    unsigned first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
    float4 *vectors = reinterpret_cast<float4 *>(x);
    for (unsigned i = first; i < n / 4; i += stride) {
        float4 v = vectors[i];
        vectors[i] = make_float4(gelu_of(v.x), gelu_of(v.y), gelu_of(v.z), gelu_of(v.w));
    }
    unsigned last = n / 4 * 4 + first;
    if (last < n) {
        x[last] = gelu_of(x[last]);
    }
}
