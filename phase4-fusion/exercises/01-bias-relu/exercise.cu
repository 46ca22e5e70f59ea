// y[r][c] = max(x[r][c] + bias[c], 0) for a matrix of rows × columns; columns is a multiple of 4.
//
// One thread for every four neighbouring values, in blocks of 256; the matrices begin at multiples of 16 bytes.

extern "C" __global__ void bias_relu(const float *x, const float *bias, float *y, unsigned rows, unsigned columns) {
    unsigned quad = blockIdx.x * 256 + threadIdx.x, quads = columns / 4;
    if (quad >= rows * quads) {
        return;
    }
    // Your code: the same with one load of x, one of bias and one store.
    for (unsigned i = 4 * quad; i < 4 * quad + 4; ++i) {
        y[i] = fmaxf(x[i] + bias[i % columns], 0.0f);
    }
}
