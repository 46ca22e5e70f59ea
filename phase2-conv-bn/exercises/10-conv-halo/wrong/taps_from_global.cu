// Right values, but each of the 25 products fetches its weight from global memory.

extern "C" __global__ void conv(const float *image, const float *weight, float *output, unsigned height, unsigned width) {
    __shared__ float halo[12][36];
    unsigned thread = threadIdx.y * 32 + threadIdx.x;
    int top = blockIdx.y * 8 - 2, left = blockIdx.x * 32 - 2;
    for (unsigned at = thread; at < 12 * 36; at += 256) {
        int row = top + (int)(at / 36), column = left + (int)(at % 36);
        bool inside = row >= 0 && row < (int)height && column >= 0 && column < (int)width;
        halo[at / 36][at % 36] = inside ? image[row * width + column] : 0.0f;
    }
    __syncthreads();
    float sum = 0.0f;
    for (unsigned r = 0; r < 5; ++r) {
        for (unsigned s = 0; s < 5; ++s) {
            sum += halo[threadIdx.y + r][threadIdx.x + s] * weight[r * 5 + s];
        }
    }
    unsigned y = blockIdx.y * 8 + threadIdx.y, x = blockIdx.x * 32 + threadIdx.x;
    if (y < height && x < width) {
        output[y * width + x] = sum;
    }
}
