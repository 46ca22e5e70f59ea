// Right values, but a cell's pixels are numbered column by column: neighbouring lanes read pixels that lie a row apart.

extern "C" __global__ void adaptive_pool(const float *x, float *y, int height, int width, int out_height, int out_width) {
    int column = blockIdx.x, row = blockIdx.y;
    x += blockIdx.z * height * width;
    int top = row * height / out_height, bottom = ((row + 1) * height + out_height - 1) / out_height;
    int left = column * width / out_width, right = ((column + 1) * width + out_width - 1) / out_width;
    int across = right - left, count = (bottom - top) * across;
    int down = bottom - top;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < count; i += 32) {
        sum += x[(top + i % down) * width + left + i / down];
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, distance);
    }
    if (threadIdx.x == 0) {
        y[(blockIdx.z * out_height + row) * out_width + column] = sum / count;
    }
}
