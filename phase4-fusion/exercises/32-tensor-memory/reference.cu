extern "C" __global__ void reference(const double *a, const double *b, double *c, unsigned rows, unsigned columns, unsigned k) {
    for (unsigned row = 0; row < rows; ++row) {
        for (unsigned column = 0; column < columns; ++column) {
            double sum = 0.0;
            for (unsigned i = 0; i < k; ++i) {
                sum += a[row * k + i] * b[column * k + i];
            }
            c[row * columns + column] = sum;
        }
    }
}
