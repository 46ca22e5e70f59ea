// The frequency is a power in single precision: a late step multiplies its rounding error by several hundred.

extern "C" __global__ void timestep(const float *steps, float *y, int batch, int half) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch * half) {
        return;
    }
    int row = i / half, j = i % half;
    double angle = (double)steps[row] * powf(10000.0f, -(float)j / half);
    y += row * 2 * half;
    y[j] = (float)cos(angle);
    y[half + j] = (float)sin(angle);
}
