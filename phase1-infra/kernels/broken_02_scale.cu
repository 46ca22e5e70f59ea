// y = factor · x: four elements per thread, so that fewer threads are launched.
// run: broken 02
// ANCHOR: kernel
extern "C" __global__ void scale(const float *x, float *y, float factor, unsigned n) {
    unsigned first = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (first < n) {
        for (unsigned i = first; i < first + 4; ++i) {
            y[i] = factor * x[i];
        }
    }
}
// ANCHOR_END: kernel
