// Fills each row of a matrix with the bias: one thread per value. A library's product then adds to it.
//
//     y [rows, out] row-major; value i is in column i % out
//
// Limited by memory: it writes 4 bytes per value, which the product reads and writes again.
// run: test layers // trial: bias_rows

// ANCHOR: kernel
extern "C" __global__ void bias_rows(const float *__restrict__ bias, float *__restrict__ y, unsigned out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = bias[i % out];
    }
}
// ANCHOR_END: kernel
