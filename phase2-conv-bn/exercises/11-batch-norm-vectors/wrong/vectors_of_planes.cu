// Each plane is cut into vectors, but planes begin at a multiple of 16 bytes only if plane is a multiple of 4.

__device__ float normalise(float value, float2 of_channel) {
    return value * of_channel.x + of_channel.y;
}

extern "C" __global__ void batch_norm(const float *x, const float2 *scale_shift, float *y, unsigned channels, unsigned plane,
                                      unsigned n) {
    unsigned vectors = (plane + 3) / 4;
    for (unsigned t = blockIdx.x * 256 + threadIdx.x; t < n / plane * vectors; t += gridDim.x * 256) {
        unsigned i = t / vectors * plane + t % vectors * 4;
        unsigned end = t / vectors * plane + plane;
        float2 of_channel = scale_shift[t / vectors % channels];
        if (i + 3 < end) {
            float4 v = *reinterpret_cast<const float4 *>(x + i);
            v.x = normalise(v.x, of_channel);
            v.y = normalise(v.y, of_channel);
            v.z = normalise(v.z, of_channel);
            v.w = normalise(v.w, of_channel);
            *reinterpret_cast<float4 *>(y + i) = v;
        } else {
            for (; i < end; ++i) {
                y[i] = normalise(x[i], of_channel);
            }
        }
    }
}
