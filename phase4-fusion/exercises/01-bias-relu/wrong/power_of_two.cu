// The remainder is taken by a mask, as if there were a power of two of columns.

extern "C" __global__ void bias_relu(const float *x, const float *bias, float *y, unsigned rows, unsigned columns) {
    unsigned quad = blockIdx.x * 256 + threadIdx.x, quads = columns / 4;
    if (quad >= rows * quads) {
        return;
    }
    float4 v = reinterpret_cast<const float4 *>(x)[quad];
    float4 b = reinterpret_cast<const float4 *>(bias)[quad & (quads - 1)];
    v.x = fmaxf(v.x + b.x, 0.0f);
    v.y = fmaxf(v.y + b.y, 0.0f);
    v.z = fmaxf(v.z + b.z, 0.0f);
    v.w = fmaxf(v.w + b.w, 0.0f);
    reinterpret_cast<float4 *>(y)[quad] = v;
}
