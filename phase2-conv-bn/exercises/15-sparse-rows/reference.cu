// Expected values, in f64: y[row] = Σ values[row][i] · x[columns[row][i]] over the row's lengths[row] non-zeros.
extern "C" __global__ void reference(const double *lengths, const double *columns, const double *values, const double *x, double *y,
                                     unsigned rows, unsigned room) {
    for (unsigned row = 0; row < rows; ++row) {
        double sum = 0.0;
        for (unsigned i = 0; i < (unsigned)lengths[row]; ++i) {
            sum += values[row * room + i] * x[(unsigned)columns[row * room + i]];
        }
        y[row] = sum;
    }
}
