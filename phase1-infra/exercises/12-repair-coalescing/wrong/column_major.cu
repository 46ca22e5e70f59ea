// The index is that of a column-major matrix.

extern "C" __global__ void scale_rows(const float *x, const float *factors, float *y, unsigned rows, unsigned columns) {
    unsigned column = blockIdx.x * 128 + threadIdx.x;
    if (column < columns) {
        for (unsigned row = 0; row < rows; ++row) {
            y[column * rows + row] = factors[row] * x[column * rows + row];
        }
    }
}
