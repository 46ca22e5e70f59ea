// Takes the factor of the column.

extern "C" __global__ void scale_rows(const float *x, const float *factors, float *y, unsigned rows, unsigned columns) {
    unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns) {
        y[row * columns + column] = factors[column % rows] * x[row * columns + column];
    }
}
