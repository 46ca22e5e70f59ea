// Leaves out the rank's own array.

extern "C" __global__ void all_reduce(const float *in, float *out, unsigned ranks, unsigned n) {
    unsigned quad = blockIdx.x * 256 + threadIdx.x, quads = n / 4, rank = blockIdx.y;
    if (quad >= quads) {
        return;
    }
    float4 sum = {};
    for (unsigned peer = 0; peer < ranks; ++peer) {
        if (peer == rank && ranks > 1) {
            continue;
        }
        float4 v = reinterpret_cast<const float4 *>(in)[peer * quads + quad];
        sum.x += v.x;
        sum.y += v.y;
        sum.z += v.z;
        sum.w += v.w;
    }
    reinterpret_cast<float4 *>(out)[rank * quads + quad] = sum;
}
