// Residual addition in place: one thread adds one element.
//
// Limited by memory alone: 8 bytes in and 4 bytes out for one addition. Phase 4 makes it the epilogue of the preceding
// convolution.
// run: test layers // trial: add

// ANCHOR: kernel
extern "C" __global__ void add(float *__restrict__ y, const float *__restrict__ x, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] += x[i];
    }
}
// ANCHOR_END: kernel
