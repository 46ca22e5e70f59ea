// Convolves a plane of height × width with a window of 5 × 5: output[y][x] = Σ weight[r][s] · image[y + r − 2][x + s − 2], where
// the image is zero outside its edges. (As everywhere in deep learning, the window is not flipped.)
//
// Blocks have 32 × 8 threads, one per output. The grid has a block for each tile of 32 × 8 outputs.

extern "C" __global__ void conv(const float *image, const float *weight, float *output, unsigned height, unsigned width) {
    __shared__ float taps[25];
    __shared__ float halo[12][36];
    unsigned thread = threadIdx.y * 32 + threadIdx.x;
    if (thread < 25) {
        taps[thread] = weight[thread];
    }
    // Your code: fill the halo, which begins two rows above the block's outputs and two columns to their left. It has more values
    // than the block has threads. Then add up the 25 products.
    float sum = 0.0f;
    unsigned y = blockIdx.y * 8 + threadIdx.y, x = blockIdx.x * 32 + threadIdx.x;
    if (y < height && x < width) {
        output[y * width + x] = sum;
    }
}
