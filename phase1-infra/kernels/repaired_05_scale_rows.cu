// Multiplies each row of a row-major matrix by its own factor: one thread per column.
// run: broken 05 --repaired

// ANCHOR: kernel
extern "C" __global__ void scale_rows(const float *x, const float *factors, float *y, unsigned rows, unsigned columns) {
    // ANCHOR: repair
    unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column < columns) {
        for (unsigned row = 0; row < rows; ++row) {
            // ANCHOR_END: repair
            y[row * columns + column] = factors[row] * x[row * columns + column];
        }
    }
}
// ANCHOR_END: kernel
