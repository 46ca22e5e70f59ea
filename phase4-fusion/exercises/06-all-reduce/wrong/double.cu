// Adds in double and rounds once at the end, which gives other bits than adding floats.

extern "C" __global__ void all_reduce(const float *in, float *out, unsigned ranks, unsigned n) {
    unsigned quad = blockIdx.x * 256 + threadIdx.x, quads = n / 4, rank = blockIdx.y;
    if (quad >= quads) {
        return;
    }
    double sum[4] = {};
    for (unsigned peer = 0; peer < ranks; ++peer) {
        float4 v = reinterpret_cast<const float4 *>(in)[peer * quads + quad];
        sum[0] += v.x;
        sum[1] += v.y;
        sum[2] += v.z;
        sum[3] += v.w;
    }
    reinterpret_cast<float4 *>(out)[rank * quads + quad] =
        make_float4(static_cast<float>(sum[0]), static_cast<float>(sum[1]), static_cast<float>(sum[2]), static_cast<float>(sum[3]));
}
