// The rows of a window are clipped at the bottom only: the first window begins a row before the image.

extern "C" __global__ void max_pool(const float *x, float *y, int height, int width) {
    int out_height = (height - 1) / 2 + 1, out_width = (width - 1) / 2 + 1;
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    if (row >= out_height || column >= out_width) {
        return;
    }
    x += blockIdx.z * height * width;
    y += blockIdx.z * out_height * out_width;
    float most = -INFINITY;
    for (int i = 2 * row - 1; i <= min(2 * row + 1, height - 1); ++i) {
        for (int j = max(2 * column - 1, 0); j <= min(2 * column + 1, width - 1); ++j) {
            most = fmaxf(most, x[i * width + j]);
        }
    }
    y[row * out_width + column] = most;
}
