// Right values, but the sum is stored first, and loaded again for the ReLU.

extern "C" __global__ void bias_relu(const float *x, const float *bias, float *y, unsigned rows, unsigned columns) {
    unsigned quad = blockIdx.x * 256 + threadIdx.x, quads = columns / 4;
    if (quad >= rows * quads) {
        return;
    }
    float4 v = reinterpret_cast<const float4 *>(x)[quad];
    float4 b = reinterpret_cast<const float4 *>(bias)[quad % quads];
    volatile float *sums = y + 4 * quad;
    sums[0] = v.x + b.x;
    sums[1] = v.y + b.y;
    sums[2] = v.z + b.z;
    sums[3] = v.w + b.w;
    for (int i = 0; i < 4; ++i) {
        sums[i] = fmaxf(sums[i], 0.0f);
    }
}
