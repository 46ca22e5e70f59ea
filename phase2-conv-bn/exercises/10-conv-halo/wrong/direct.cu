// Right values without a halo: every value of the image is read once for each window that covers it.

extern "C" __global__ void conv(const float *image, const float *weight, float *output, unsigned height, unsigned width) {
    __shared__ float taps[25];
    unsigned thread = threadIdx.y * 32 + threadIdx.x;
    if (thread < 25) {
        taps[thread] = weight[thread];
    }
    __syncthreads();
    int y = blockIdx.y * 8 + threadIdx.y, x = blockIdx.x * 32 + threadIdx.x;
    if (y >= height || x >= width) {
        return;
    }
    float sum = 0.0f;
    for (int r = 0; r < 5; ++r) {
        for (int s = 0; s < 5; ++s) {
            int row = y + r - 2, column = x + s - 2;
            if (row >= 0 && row < (int)height && column >= 0 && column < (int)width) {
                sum += image[row * width + column] * taps[r * 5 + s];
            }
        }
    }
    output[y * width + x] = sum;
}
