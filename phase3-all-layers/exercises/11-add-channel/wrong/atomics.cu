// Right values, but added by atomics, which are one value each: no other thread has these values.

extern "C" __global__ void add_channel(float *y, const float *v, unsigned pixels, unsigned n) {
    unsigned i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) {
        return;
    }
    unsigned plane = i / pixels, end = (plane + 1) * pixels;  // of the first value; where its plane ends
    float more = v[plane];
    for (unsigned last = min(i + 4, n); i < last; ++i) {
        if (i == end) {
            more = v[++plane];
            end += pixels;
        }
        atomicAdd(y + i, more);
    }
}
