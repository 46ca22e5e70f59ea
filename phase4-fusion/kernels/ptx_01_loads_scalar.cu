// y = 2.5·x, 4 bytes per load: the version that the other two are measured against.
//
// Limited by memory: 4 bytes in, 4 bytes out, one multiplication, and 4 bytes in flight per thread.
// run: ptx

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(256) loads(const float *x, float *y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = 2.5f * x[i];
    }
}
// ANCHOR_END: kernel
