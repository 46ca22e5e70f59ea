// Right values, but one float at a time: four times the loads.

extern "C" __global__ void all_reduce(const float *in, float *out, unsigned ranks, unsigned n) {
    unsigned quad = blockIdx.x * 256 + threadIdx.x, quads = n / 4, rank = blockIdx.y;
    if (quad >= quads) {
        return;
    }
    for (unsigned i = 4 * quad; i < 4 * quad + 4; ++i) {
        float sum = 0.0f;
        for (unsigned peer = 0; peer < ranks; ++peer) {
            sum += in[peer * n + i];
        }
        out[rank * n + i] = sum;
    }
}
