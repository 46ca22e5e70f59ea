// Right values, but a word of padding follows every 32: reading 3 apart had no conflicts, and now it has.

extern "C" __global__ void split_channels(const float *frame, float *planes, int height, int width, int pitch) {
    __shared__ float values[3 * 128 + 12];
    int first = blockIdx.x * 128, row = blockIdx.y, column = first + threadIdx.x;
    int pixels = min(128, width - first);  // that this block has
    for (int i = threadIdx.x; i < 3 * pixels; i += 128) {
        values[i + i / 32] = frame[row * pitch + 3 * first + i];
    }
    __syncthreads();
    if (column < width) {
        for (int channel = 0; channel < 3; ++channel) {
            planes[(channel * height + row) * width + column] = values[3 * threadIdx.x + channel + (3 * threadIdx.x + channel) / 32];
        }
    }
}
