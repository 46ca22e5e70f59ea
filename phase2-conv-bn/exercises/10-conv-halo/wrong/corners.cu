// Right values, but each thread fetches the corners and the sides of its own window: most values come several times.

extern "C" __global__ void conv(const float *image, const float *weight, float *output, unsigned height, unsigned width) {
    __shared__ float taps[25];
    __shared__ float halo[12][36];
    unsigned thread = threadIdx.y * 32 + threadIdx.x;
    if (thread < 25) {
        taps[thread] = weight[thread];
    }
    int top = blockIdx.y * 8 - 2, left = blockIdx.x * 32 - 2;
    for (unsigned r = 0; r < 5; r += 2) {
        for (unsigned s = 0; s < 5; s += 4) {
            int row = top + (int)(threadIdx.y + r), column = left + (int)(threadIdx.x + s);
            bool inside = row >= 0 && row < (int)height && column >= 0 && column < (int)width;
            halo[threadIdx.y + r][threadIdx.x + s] = inside ? image[row * width + column] : 0.0f;
        }
    }
    __syncthreads();
    float sum = 0.0f;
    for (unsigned r = 0; r < 5; ++r) {
        for (unsigned s = 0; s < 5; ++s) {
            sum += halo[threadIdx.y + r][threadIdx.x + s] * taps[r * 5 + s];
        }
    }
    unsigned y = blockIdx.y * 8 + threadIdx.y, x = blockIdx.x * 32 + threadIdx.x;
    if (y < height && x < width) {
        output[y * width + x] = sum;
    }
}
