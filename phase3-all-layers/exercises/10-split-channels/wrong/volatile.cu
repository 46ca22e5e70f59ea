// The array is volatile: each access happens, but nothing waits until the floats of other warps are there.

extern "C" __global__ void split_channels(const float *frame, float *planes, int height, int width, int pitch) {
    __shared__ volatile float values[3 * 128];
    int first = blockIdx.x * 128, row = blockIdx.y, column = first + threadIdx.x;
    int pixels = min(128, width - first);  // that this block has
    for (int i = threadIdx.x; i < 3 * pixels; i += 128) {
        values[i] = frame[row * pitch + 3 * first + i];
    }
    if (column < width) {
        for (int channel = 0; channel < 3; ++channel) {
            planes[(channel * height + row) * width + column] = values[3 * threadIdx.x + channel];
        }
    }
}
