extern "C" __global__ void reference(const double *a, const double *b, double *c, unsigned rows, unsigned columns) {
    for (unsigned i = 0; i < rows * columns; ++i) {
        double sum = 0.0;
        for (unsigned k = 0; k < 64; ++k) {
            sum += a[i / columns * 64 + k] * b[i % columns * 64 + k];
        }
        c[i] = sum;
    }
}
