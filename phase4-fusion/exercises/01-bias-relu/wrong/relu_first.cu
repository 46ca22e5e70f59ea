// The ReLU comes before the bias.

extern "C" __global__ void bias_relu(const float *x, const float *bias, float *y, unsigned rows, unsigned columns) {
    unsigned quad = blockIdx.x * 256 + threadIdx.x, quads = columns / 4;
    if (quad >= rows * quads) {
        return;
    }
    float4 v = reinterpret_cast<const float4 *>(x)[quad];
    float4 b = reinterpret_cast<const float4 *>(bias)[quad % quads];
    v.x = fmaxf(v.x, 0.0f) + b.x;
    v.y = fmaxf(v.y, 0.0f) + b.y;
    v.z = fmaxf(v.z, 0.0f) + b.z;
    v.w = fmaxf(v.w, 0.0f) + b.w;
    reinterpret_cast<float4 *>(y)[quad] = v;
}
