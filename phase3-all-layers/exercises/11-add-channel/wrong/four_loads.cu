// Right values, but four loads and four stores per thread, 16 bytes apart in a warp: each touches 16 sectors.

extern "C" __global__ void add_channel(float *y, const float *v, unsigned pixels, unsigned n) {
    unsigned first = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    for (unsigned i = first; i < first + 4 && i < n; ++i) {
        y[i] += v[i / pixels];
    }
}
