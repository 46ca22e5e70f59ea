// Right values, but all of the matrix is set to zero first, and then most of it is written again.

extern "C" __global__ void im2col(const float *image, float *patches, unsigned channels, unsigned height, unsigned width,
                                  unsigned stride) {
    unsigned out_width = (width - 1) / stride + 1, out_height = (height - 1) / stride + 1;
    unsigned pixels = out_height * out_width;
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    if (i >= channels * 9 * pixels) {
        return;
    }
    unsigned pixel = i % pixels, row_of_patches = i / pixels;
    unsigned c = row_of_patches / 9, r = row_of_patches % 9 / 3, s = row_of_patches % 3;
    int row = (int)(pixel / out_width * stride + r) - 1;
    int column = (int)(pixel % out_width * stride + s) - 1;
    bool inside = row >= 0 && row < (int)height && column >= 0 && column < (int)width;
    patches[i] = 0.0f;
    if (inside) {
        patches[i] = image[(c * height + row) * width + column];
    }
}
