// The values that are left at the end are written by every thread, where one should do it.

__device__ float normalise(float value, unsigned i, const float2 *scale_shift, unsigned channels, unsigned plane) {
    float2 of_channel = scale_shift[i / plane % channels];
    return value * of_channel.x + of_channel.y;
}

extern "C" __global__ void batch_norm(const float *x, const float2 *scale_shift, float *y, unsigned channels, unsigned plane,
                                      unsigned n) {
    unsigned i = 4 * (blockIdx.x * 256 + threadIdx.x);
    if (i + 3 < n) {
        float4 v = *reinterpret_cast<const float4 *>(x + i);
        v.x = normalise(v.x, i, scale_shift, channels, plane);
        v.y = normalise(v.y, i + 1, scale_shift, channels, plane);
        v.z = normalise(v.z, i + 2, scale_shift, channels, plane);
        v.w = normalise(v.w, i + 3, scale_shift, channels, plane);
        *reinterpret_cast<float4 *>(y + i) = v;
    }
    for (i = n / 4 * 4; i < n; ++i) {
        y[i] = normalise(x[i], i, scale_shift, channels, plane);
    }
}
