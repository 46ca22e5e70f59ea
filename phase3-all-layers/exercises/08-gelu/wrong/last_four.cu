// The last four values count as a vector, which need not begin at a multiple of 16 bytes and overlaps another one.

__device__ float gelu_of(float x) {
    return 0.5f * x * (1.0f + erff(x * 0.70710678f));
}

extern "C" __global__ void gelu(float *x, unsigned n) {
    unsigned first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
    float4 *vectors = reinterpret_cast<float4 *>(x);
    for (unsigned i = first; i < n / 4; i += stride) {
        float4 v = vectors[i];
        vectors[i] = make_float4(gelu_of(v.x), gelu_of(v.y), gelu_of(v.z), gelu_of(v.w));
    }
    if (first == 0 && n > 4 && n % 4 > 0) {
        float4 *last = reinterpret_cast<float4 *>(x + n - 4);
        float4 v = *last;
        *last = make_float4(gelu_of(v.x), gelu_of(v.y), gelu_of(v.z), gelu_of(v.w));
    }
}
