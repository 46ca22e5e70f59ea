// Each rank adds its own array to every result by atomics, on top of whatever was there, in any order.

extern "C" __global__ void all_reduce(const float *in, float *out, unsigned ranks, unsigned n) {
    unsigned quad = blockIdx.x * 256 + threadIdx.x, quads = n / 4, rank = blockIdx.y;
    if (quad >= quads) {
        return;
    }
    float4 v = reinterpret_cast<const float4 *>(in)[rank * quads + quad];
    for (unsigned peer = 0; peer < ranks; ++peer) {
        float *sum = out + peer * n + 4 * quad;
        atomicAdd(&sum[0], v.x);
        atomicAdd(&sum[1], v.y);
        atomicAdd(&sum[2], v.z);
        atomicAdd(&sum[3], v.w);
    }
}
