// The windows are as large as the step between them, 2 × 2 pixels, as in another kind of pooling.

extern "C" __global__ void max_pool(const float *x, float *y, int height, int width) {
    int out_height = (height - 1) / 2 + 1, out_width = (width - 1) / 2 + 1;
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    if (row >= out_height || column >= out_width) {
        return;
    }
    x += blockIdx.z * height * width;
    y += blockIdx.z * out_height * out_width;
    float most = -INFINITY;
    for (int i = max(2 * row - 1, 0); i <= 2 * row; ++i) {
        for (int j = max(2 * column - 1, 0); j <= 2 * column; ++j) {
            most = fmaxf(most, x[i * width + j]);
        }
    }
    y[row * out_width + column] = most;
}
