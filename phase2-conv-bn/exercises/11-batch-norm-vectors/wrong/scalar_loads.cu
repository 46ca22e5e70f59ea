// Right values, but four loads fill a vector: only the store is a wide one.

__device__ float normalise(float value, unsigned i, const float2 *scale_shift, unsigned channels, unsigned plane) {
    float2 of_channel = scale_shift[i / plane % channels];
    return value * of_channel.x + of_channel.y;
}

extern "C" __global__ void batch_norm(const float *x, const float2 *scale_shift, float *y, unsigned channels, unsigned plane,
                                      unsigned n) {
    unsigned i = 4 * (blockIdx.x * 256 + threadIdx.x);
    if (i + 3 < n) {
        float4 v;
        v.x = normalise(x[i], i, scale_shift, channels, plane);
        v.y = normalise(x[i + 1], i + 1, scale_shift, channels, plane);
        v.z = normalise(x[i + 2], i + 2, scale_shift, channels, plane);
        v.w = normalise(x[i + 3], i + 3, scale_shift, channels, plane);
        *reinterpret_cast<float4 *>(y + i) = v;
    } else {
        for (; i < n; ++i) {
            y[i] = normalise(x[i], i, scale_shift, channels, plane);
        }
    }
}
