// Splits a frame whose pixels have three neighbouring values (NHWC, one image) into three planes (NCHW).
//
//     frame: [height][pitch], pixel p of a row at 3·p, 3·p + 1 and 3·p + 2; pitch ≥ 3 · width        planes: [3][height][width]
//
// One block of 128 threads per 128 pixels of a row: blockIdx.x counts along the row, blockIdx.y is the row.

extern "C" __global__ void split_channels(const float *frame, float *planes, int height, int width, int pitch) {
    int first = blockIdx.x * 128, row = blockIdx.y, column = first + threadIdx.x;
    int pixels = min(128, width - first);  // that this block has
    // Your code: this is right for the first plane, but a warp reads every third float. Let the block read all its floats in order
    // instead, whoever writes them later.
    if (column < width) {
        planes[row * width + column] = frame[row * pitch + 3 * column];
    }
}
