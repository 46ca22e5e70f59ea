// Right values, but one thread of 32 does the whole row.

extern "C" __global__ void conv_bn_relu(const float *x, const float *weight, const float *gamma, const float *beta,
                                        const float *mean, const float *variance, float *y, int channels, int height, int width) {
    int row = blockIdx.y * 8 + threadIdx.y, filter = blockIdx.z;
    if (row >= height || threadIdx.x > 0) {
        return;
    }
    weight += filter * channels * 9;
    float scale = gamma[filter] * rsqrtf(variance[filter] + 1e-5f);
    for (int column = blockIdx.x * 32; column < min(blockIdx.x * 32 + 32, width); ++column) {
        float sum = 0.0f;
        for (int channel = 0; channel < channels; ++channel) {
            for (int i = 0; i < 3; ++i) {
                for (int j = 0; j < 3; ++j) {
                    int r = row + i - 1, c = column + j - 1;
                    if (r >= 0 && r < height && c >= 0 && c < width) {
                        sum += x[(channel * height + r) * width + c] * weight[channel * 9 + i * 3 + j];
                    }
                }
            }
        }
        y[(filter * height + row) * width + column] = fmaxf((sum - mean[filter]) * scale + beta[filter], 0.0f);
    }
}
