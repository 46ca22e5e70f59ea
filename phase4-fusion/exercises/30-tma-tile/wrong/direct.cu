// Right values, but without a tile: every thread loads each element three times.

extern "C" __global__ void add_rows(const float *x, float *y, unsigned rows, unsigned columns) {
    unsigned top = 8 * blockIdx.y, column = 64 * blockIdx.x + threadIdx.x;
    for (unsigned row = top; row < min(top + 8, rows) && column < columns; ++row) {
        float sum = x[row * columns + column];
        if (row > 0) {
            sum += x[(row - 1) * columns + column];
        }
        if (row + 1 < rows) {
            sum += x[(row + 1) * columns + column];
        }
        y[row * columns + column] = sum;
    }
}
