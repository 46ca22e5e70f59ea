// Right values, but the four floats of a thread are neighbours, and those of a warp's load lie 16 bytes apart.

extern "C" __global__ void frame(const float *x, float *y, unsigned start, unsigned n) {
    unsigned first = 4 * (blockIdx.x * 256 + threadIdx.x);
    for (unsigned k = first; k < min(n, first + 4); ++k) {
        y[k] = x[start + k];
    }
}
