// The border counts as zeros, as in a convolution: negative windows at the edge give 0.

extern "C" __global__ void max_pool(const float *x, float *y, int height, int width) {
    int out_height = (height - 1) / 2 + 1, out_width = (width - 1) / 2 + 1;
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    if (row >= out_height || column >= out_width) {
        return;
    }
    x += blockIdx.z * height * width;
    y += blockIdx.z * out_height * out_width;
    float most = -INFINITY;
    for (int i = 2 * row - 1; i <= 2 * row + 1; ++i) {
        for (int j = 2 * column - 1; j <= 2 * column + 1; ++j) {
            bool inside = i >= 0 && i < height && j >= 0 && j < width;
            most = fmaxf(most, inside ? x[i * width + j] : 0.0f);
        }
    }
    y[row * out_width + column] = most;
}
