// All four values get the bias of one column.

extern "C" __global__ void bias_relu(const float *x, const float *bias, float *y, unsigned rows, unsigned columns) {
    unsigned quad = blockIdx.x * 256 + threadIdx.x, quads = columns / 4;
    if (quad >= rows * quads) {
        return;
    }
    float4 v = reinterpret_cast<const float4 *>(x)[quad];
    float b = bias[quad % quads];
    v.x = fmaxf(v.x + b, 0.0f);
    v.y = fmaxf(v.y + b, 0.0f);
    v.z = fmaxf(v.z + b, 0.0f);
    v.w = fmaxf(v.w + b, 0.0f);
    reinterpret_cast<float4 *>(y)[quad] = v;
}
