// Writes an image [channels, height, width] as the matrix of its 3 × 3 patches, [channels · 9, pixels]: row (c · 3 + r) · 3 + s
// has, for each pixel (y, x) of the output, the value of channel c at row y · stride + r − 1 and column x · stride + s − 1. The
// image has one pixel of zero padding on each side.
//
// Blocks have 256 threads, and there are enough of them for all elements of the matrix, one per thread.

extern "C" __global__ void im2col(const float *image, float *patches, unsigned channels, unsigned height, unsigned width,
                                  unsigned stride) {
    unsigned out_width = (width - 1) / stride + 1, out_height = (height - 1) / stride + 1;
    unsigned pixels = out_height * out_width;
    unsigned i = blockIdx.x * 256 + threadIdx.x;
    if (i >= channels * 9 * pixels) {
        return;
    }
    // Your code: which element of the matrix does thread i write, and where in the image does it come from?
}
