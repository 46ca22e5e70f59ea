// Right values, but every lane reads the whole plane.

extern "C" __global__ void average_pool(const float *x, float *y, int planes, int pixels) {
    int plane = blockIdx.x * 4 + threadIdx.y;
    if (plane >= planes) {
        return;
    }
    x += plane * pixels;
    float sum = 0.0f;
    for (int i = 0; i < pixels; ++i) {
        sum += x[i];
    }
    if (threadIdx.x == 0) {
        y[plane] = sum / pixels;
    }
}
