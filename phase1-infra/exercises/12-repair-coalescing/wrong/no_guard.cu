// Threads beyond the last column do elements of the next row.

extern "C" __global__ void scale_rows(const float *x, const float *factors, float *y, unsigned rows, unsigned columns) {
    unsigned column = blockIdx.x * 128 + threadIdx.x;
    if (column < blockDim.x * gridDim.x) {
        for (unsigned row = 0; row < rows; ++row) {
            y[row * columns + column] = factors[row] * x[row * columns + column];
        }
    }
}
