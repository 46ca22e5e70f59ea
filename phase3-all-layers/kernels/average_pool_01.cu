// Adaptive average pooling: one warp computes one output, the mean of its cell of the image.
//
// Cell i of `out` along a side of `size` begins at ⌊i·size / out⌋ and ends before ⌈(i + 1)·size / out⌉, so cells may
// overlap by one value and none is empty.
//
// Limited by memory for large planes; for ResNet's planes of 7 × 7, by the launch.
// run: test layers // trial: average_pool

// ANCHOR: kernel
extern "C" __global__ void adaptive_average_pool(const float *__restrict__ input, float *__restrict__ output,
                                                 unsigned outputs, int height, int width, int out_height, int out_width) {
    unsigned i = (unsigned)(((size_t)blockIdx.x * blockDim.x + threadIdx.x) / 32);
    int lane = threadIdx.x % 32;
    if (i >= outputs) {
        return;  // all lanes of the warp
    }
    long long column = i % out_width, row = i / out_width % out_height;
    int top = row * height / out_height, bottom = ((row + 1) * height + out_height - 1) / out_height;
    int left = column * width / out_width, right = ((column + 1) * width + out_width - 1) / out_width;
    const float *cell = input + (size_t)(i / out_width / out_height) * height * width + (size_t)top * width + left;
    int across = right - left, count = (bottom - top) * across;
    float sum = 0.0f;
    for (int at = lane; at < count; at += 32) {
        sum += cell[at / across * width + at % across];
    }
    for (int other = 16; other > 0; other /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, other);
    }
    if (lane == 0) {
        output[i] = sum / count;
    }
}
// ANCHOR_END: kernel
