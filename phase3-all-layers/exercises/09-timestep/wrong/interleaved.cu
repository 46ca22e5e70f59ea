// The cosine and the sine of a frequency are written side by side.

extern "C" __global__ void timestep(const float *steps, float *y, int batch, int half) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch * half) {
        return;
    }
    int row = i / half, j = i % half;
    const double RATE = -9.210340371976184;  // −ln(10000)
    double angle = steps[row] * exp(RATE * j / half);
    y += row * 2 * half;
    y[2 * j] = (float)cos(angle);
    y[2 * j + 1] = (float)sin(angle);
}
