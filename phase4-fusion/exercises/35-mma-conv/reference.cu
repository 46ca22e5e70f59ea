extern "C" __global__ void reference(const double *x, const double *weight, double *y, unsigned images, unsigned height,
                                     unsigned width, unsigned channels, unsigned filters, unsigned stride) {
    unsigned out_height = (height - 1) / stride + 1, out_width = (width - 1) / stride + 1;
    for (unsigned i = 0; i < images * out_height * out_width * filters; ++i) {
        unsigned pixel = i / filters, filter = i % filters;
        unsigned image = pixel / (out_height * out_width), row = pixel / out_width % out_height, column = pixel % out_width;
        double sum = 0.0;
        for (unsigned tap = 0; tap < 9; ++tap) {
            unsigned y1 = row * stride + tap / 3, x1 = column * stride + tap % 3; // in the image with its padding
            if (y1 >= 1 && y1 <= height && x1 >= 1 && x1 <= width) {
                for (unsigned c = 0; c < channels; ++c) {
                    sum += x[((image * height + y1 - 1) * width + x1 - 1) * channels + c] * weight[(filter * 9 + tap) * channels + c];
                }
            }
        }
        y[i] = sum;
    }
}
