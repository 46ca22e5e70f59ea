extern "C" __global__ void reference(const double *x, double *y, unsigned rows, unsigned columns) {
    for (unsigned column = 0; column < columns; ++column) {
        double sum = 0.0;
        for (unsigned row = 0; row < rows; ++row) {
            sum += x[row * columns + column];
            y[row * columns + column] = sum;
        }
    }
}
