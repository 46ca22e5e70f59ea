extern "C" __global__ void reference(const double *a, const double *b, double *found, double *done, double *dot, unsigned n) {
    unsigned blocks = (n + 31) / 32;
    *dot = 0.0;
    for (unsigned block = 0; block < blocks; ++block) {
        found[block] = 0.0;
        for (unsigned i = 32 * block; i < 32 * block + 32 && i < n; ++i) {
            found[block] += a[i] * b[i];
        }
        *dot += found[block];
    }
    *done = blocks;
}
