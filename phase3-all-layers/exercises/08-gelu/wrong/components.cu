// Right values, but a vector's four components are loaded and stored one by one, each a request of its own.

__device__ float gelu_of(float x) {
    return 0.5f * x * (1.0f + erff(x * 0.70710678f));
}

extern "C" __global__ void gelu(float *x, unsigned n) {
    unsigned first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
    float4 *vectors = reinterpret_cast<float4 *>(x);
    for (unsigned i = first; i < n / 4; i += stride) {
        vectors[i].x = gelu_of(vectors[i].x);
        vectors[i].y = gelu_of(vectors[i].y);
        vectors[i].z = gelu_of(vectors[i].z);
        vectors[i].w = gelu_of(vectors[i].w);
    }
    unsigned last = n / 4 * 4 + first;
    if (last < n) {
        x[last] = gelu_of(x[last]);
    }
}
