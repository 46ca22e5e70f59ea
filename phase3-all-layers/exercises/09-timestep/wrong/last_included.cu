// The exponent is divided by half − 1, so that the last frequency is 1 / 10000: a single frequency is 0 / 0.

extern "C" __global__ void timestep(const float *steps, float *y, int batch, int half) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch * half) {
        return;
    }
    int row = i / half, j = i % half;
    const double RATE = -9.210340371976184;  // −ln(10000)
    double angle = steps[row] * exp(RATE * j / (half - 1));
    y += row * 2 * half;
    y[j] = (float)cos(angle);
    y[half + j] = (float)sin(angle);
}
