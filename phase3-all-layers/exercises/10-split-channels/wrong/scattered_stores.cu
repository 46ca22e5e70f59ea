// Right values with loads in order, but each store of a warp goes to all three planes, where most sectors are not whole.

extern "C" __global__ void split_channels(const float *frame, float *planes, int height, int width, int pitch) {
    int first = blockIdx.x * 128, row = blockIdx.y;
    int pixels = min(128, width - first);  // that this block has
    for (int i = threadIdx.x; i < 3 * pixels; i += 128) {
        planes[(i % 3 * height + row) * width + first + i / 3] = frame[row * pitch + 3 * first + i];
    }
}
