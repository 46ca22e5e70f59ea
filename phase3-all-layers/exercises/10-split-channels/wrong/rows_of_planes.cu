// Writes the three channels of a row one after the other, as if planes were [height][3][width]: with one row there is no difference.

extern "C" __global__ void split_channels(const float *frame, float *planes, int height, int width, int pitch) {
    __shared__ float values[3 * 128];
    int first = blockIdx.x * 128, row = blockIdx.y, column = first + threadIdx.x;
    int pixels = min(128, width - first);  // that this block has
    for (int i = threadIdx.x; i < 3 * pixels; i += 128) {
        values[i] = frame[row * pitch + 3 * first + i];
    }
    __syncthreads();
    if (column < width) {
        for (int channel = 0; channel < 3; ++channel) {
            planes[(row * 3 + channel) * width + column] = values[3 * threadIdx.x + channel];
        }
    }
}
