// Right values, but 8 bytes at a time.

extern "C" __global__ void all_reduce(const float *in, float *out, unsigned ranks, unsigned n) {
    unsigned quad = blockIdx.x * 256 + threadIdx.x, quads = n / 4, rank = blockIdx.y;
    if (quad >= quads) {
        return;
    }
    for (unsigned pair = 2 * quad; pair < 2 * quad + 2; ++pair) {
        float2 sum = {};
        for (unsigned peer = 0; peer < ranks; ++peer) {
            float2 v = reinterpret_cast<const float2 *>(in)[peer * 2 * quads + pair];
            sum.x += v.x;
            sum.y += v.y;
        }
        reinterpret_cast<float2 *>(out)[rank * 2 * quads + pair] = sum;
    }
}
