// Multiplies each row of a row-major matrix by its own factor: one thread per row.
// run: broken 05

// ANCHOR: kernel
extern "C" __global__ void scale_rows(const float *x, const float *factors, float *y, unsigned rows, unsigned columns) {
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        for (unsigned column = 0; column < columns; ++column) {
            y[row * columns + column] = factors[row] * x[row * columns + column];
        }
    }
}
// ANCHOR_END: kernel
