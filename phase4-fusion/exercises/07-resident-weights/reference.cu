extern "C" __global__ void reference(const double *x, const double *encode, const double *decode, double *y, unsigned inputs) {
    for (unsigned input = 0; input < inputs; ++input) {
        double latent[32];
        for (unsigned j = 0; j < 32; ++j) {
            double sum = 0.0;
            for (unsigned i = 0; i < 64; ++i) {
                sum += x[input * 64 + i] * encode[i * 32 + j];
            }
            latent[j] = sum > 0.0 ? sum : 0.0;
        }
        for (unsigned i = 0; i < 64; ++i) {
            double sum = 0.0;
            for (unsigned j = 0; j < 32; ++j) {
                sum += latent[j] * decode[j * 64 + i];
            }
            y[input * 64 + i] = sum;
        }
    }
}
