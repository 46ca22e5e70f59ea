extern "C" __global__ void reference(const double *a, const double *b, const double *scales_a, const double *scales_b, double *c, unsigned rows,
                                     unsigned columns, unsigned k) {
    for (unsigned row = 0; row < rows; ++row) {
        for (unsigned column = 0; column < columns; ++column) {
            double sum = 0.0;
            for (unsigned block = 0; block < k / 32; ++block) {
                double part = 0.0;
                for (unsigned i = 32 * block; i < 32 * block + 32; ++i) {
                    part += a[row * k + i] * b[column * k + i];
                }
                sum += part * exp2(scales_a[row * (k / 32) + block] + scales_b[column * (k / 32) + block] - 254.0);
            }
            c[row * columns + column] = sum;
        }
    }
}
