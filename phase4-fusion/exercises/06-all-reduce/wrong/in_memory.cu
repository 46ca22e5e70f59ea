// Right values, but the sum is kept in memory: each addition loads it and stores it again.

extern "C" __global__ void all_reduce(const float *in, float *out, unsigned ranks, unsigned n) {
    unsigned quad = blockIdx.x * 256 + threadIdx.x, quads = n / 4, rank = blockIdx.y;
    if (quad >= quads) {
        return;
    }
    volatile float *sum = out + 4 * (rank * quads + quad);
    for (int i = 0; i < 4; ++i) {
        sum[i] = 0.0f;
    }
    for (unsigned peer = 0; peer < ranks; ++peer) {
        float4 v = reinterpret_cast<const float4 *>(in)[peer * quads + quad];
        sum[0] += v.x;
        sum[1] += v.y;
        sum[2] += v.z;
        sum[3] += v.w;
    }
}
