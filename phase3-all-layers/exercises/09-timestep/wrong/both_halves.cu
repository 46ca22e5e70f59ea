// The exponent is divided by all columns of a row, not by the number of frequencies.

extern "C" __global__ void timestep(const float *steps, float *y, int batch, int half) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch * half) {
        return;
    }
    int row = i / half, j = i % half;
    const double RATE = -9.210340371976184;  // −ln(10000)
    double angle = steps[row] * exp(RATE * j / (2 * half));
    y += row * 2 * half;
    y[j] = (float)cos(angle);
    y[half + j] = (float)sin(angle);
}
