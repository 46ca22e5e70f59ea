// Right values, but one lane adds up the sums of all 32, which takes it 32 steps where five exchanges are enough.

extern "C" __global__ void adaptive_pool(const float *x, float *y, int height, int width, int out_height, int out_width) {
    int column = blockIdx.x, row = blockIdx.y;
    x += blockIdx.z * height * width;
    int top = row * height / out_height, bottom = ((row + 1) * height + out_height - 1) / out_height;
    int left = column * width / out_width, right = ((column + 1) * width + out_width - 1) / out_width;
    int across = right - left, count = (bottom - top) * across;
    __shared__ float sums[32];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < count; i += 32) {
        sum += x[(top + i / across) * width + left + i % across];
    }
    sums[threadIdx.x] = sum;
    __syncwarp();
    if (threadIdx.x == 0) {
        sum = 0.0f;
        for (int lane = 0; lane < 32; ++lane) {
            sum += sums[lane];
        }
        y[(blockIdx.z * out_height + row) * out_width + column] = sum / count;
    }
}
