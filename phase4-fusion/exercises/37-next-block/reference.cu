extern "C" __global__ void reference(const double *a, const double *x, double *y, unsigned rows, unsigned columns) {
    for (unsigned row = 0; row < rows; ++row) {
        double sum = 0.0;
        for (unsigned column = 0; column < columns; ++column) {
            sum += a[row * columns + column] * x[column];
        }
        y[row] = sum;
    }
}
