// The last block goes on to the end of its 1024 samples.

extern "C" __global__ void frame(const float *x, float *y, unsigned start, unsigned n) {
    unsigned first = blockIdx.x * 1024 + threadIdx.x;
    for (unsigned k = first; k < (blockIdx.x + 1) * 1024; k += 256) {
        y[k] = x[start + k];
    }
}
