// Right values, but shared memory has no halo: what lies beyond the tile is fetched for each window again.

extern "C" __global__ void conv(const float *image, const float *weight, float *output, unsigned height, unsigned width) {
    __shared__ float taps[25];
    __shared__ float tile[8][32];
    unsigned thread = threadIdx.y * 32 + threadIdx.x;
    if (thread < 25) {
        taps[thread] = weight[thread];
    }
    int top = blockIdx.y * 8 - 2, left = blockIdx.x * 32 - 2;
    int row = top + 2 + threadIdx.y, column = left + 2 + threadIdx.x;
    tile[threadIdx.y][threadIdx.x] = row < (int)height && column < (int)width ? image[row * width + column] : 0.0f;
    __syncthreads();
    float sum = 0.0f;
    for (int r = -2; r <= 2; ++r) {
        for (int s = -2; s <= 2; ++s) {
            int in_y = threadIdx.y + r, in_x = threadIdx.x + s;
            float value = 0.0f;
            if (in_y >= 0 && in_y < 8 && in_x >= 0 && in_x < 32) {
                value = tile[in_y][in_x];
            } else if (row + r >= 0 && row + r < (int)height && column + s >= 0 && column + s < (int)width) {
                value = image[(row + r) * (int)width + column + s];
            }
            sum += value * taps[(r + 2) * 5 + s + 2];
        }
    }
    unsigned y = blockIdx.y * 8 + threadIdx.y, x = blockIdx.x * 32 + threadIdx.x;
    if (y < height && x < width) {
        output[y * width + x] = sum;
    }
}
