// Right values, but each of the three loads of a warp touches all sectors of its pixels.

extern "C" __global__ void split_channels(const float *frame, float *planes, int height, int width, int pitch) {
    int first = blockIdx.x * 128, row = blockIdx.y, column = first + threadIdx.x;
    if (column < width) {
        for (int channel = 0; channel < 3; ++channel) {
            planes[(channel * height + row) * width + column] = frame[row * pitch + 3 * column + channel];
        }
    }
}
