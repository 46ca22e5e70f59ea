// Right values, but one after the other: four loads and four stores where one of each would do.

__device__ float normalise(float value, unsigned i, const float2 *scale_shift, unsigned channels, unsigned plane) {
    float2 of_channel = scale_shift[i / plane % channels];
    return value * of_channel.x + of_channel.y;
}

extern "C" __global__ void batch_norm(const float *x, const float2 *scale_shift, float *y, unsigned channels, unsigned plane,
                                      unsigned n) {
    unsigned i = 4 * (blockIdx.x * 256 + threadIdx.x);
    for (unsigned end = min(i + 4, n); i < end; ++i) {
        y[i] = normalise(x[i], i, scale_shift, channels, plane);
    }
}
