// Does not test columns: the padding is the other end of the row.

// sums += A · B for 16 rows, 8 columns and 16 values of k.
__device__ void multiply(float *sums, const unsigned *a, const unsigned *b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Images [images][height][width][channels], and the pixels of the output, out_height × out_width per image.
struct Images {
    const unsigned short *x;
    unsigned images, height, width, channels, stride, out_height, out_width;

    // Row `pixel` of A, at tap `tap` of the 3 × 3: channels `channel` and the next, or 0 in the padding and where there is no such pixel.
    __device__ unsigned at(unsigned pixel, unsigned tap, unsigned channel) const {
        unsigned row = pixel / out_width, image = row / out_height;
        int in_y = static_cast<int>(row % out_height * stride + tap / 3) - 1;
        int in_x = static_cast<int>(pixel % out_width * stride + tap % 3) - 1;
        if (image >= images || in_y < 0 || in_y >= static_cast<int>(height)) {
            return 0;
        }
        return *reinterpret_cast<const unsigned *>(x + ((image * height + in_y) * width + in_x) * channels + channel);
    }
};

// One of the 9 · channels pairs of a filter, 0 where there is no such filter.
__device__ unsigned from_b(const unsigned short *weight, unsigned filter, unsigned column, unsigned filters, unsigned depth) {
    return filter < filters ? *reinterpret_cast<const unsigned *>(weight + filter * depth + column) : 0;
}

extern "C" __global__ void conv(const unsigned short *x, const unsigned short *weight, float *y, unsigned images, unsigned height,
                                unsigned width, unsigned channels, unsigned filters, unsigned stride) {
    Images a = {x, images, height, width, channels, stride, (height - 1) / stride + 1, (width - 1) / stride + 1};
    unsigned pixels = images * a.out_height * a.out_width, depth = 9 * channels;
    unsigned top = 16 * blockIdx.y, left = 8 * blockIdx.x;
    unsigned group = threadIdx.x / 4, pair = 2 * (threadIdx.x % 4);
    float sums[4] = {};
    for (unsigned step = 0; step < depth; step += 16) { // one tap, 16 of its channels
        unsigned tap = step / channels, channel = step % channels + pair;
        unsigned fragment_a[4], fragment_b[2];
        for (unsigned i = 0; i < 4; ++i) {
            fragment_a[i] = a.at(top + group + i % 2 * 8, tap, channel + i / 2 * 8);
        }
        for (unsigned i = 0; i < 2; ++i) {
            fragment_b[i] = from_b(weight, left + group, step + pair + i * 8, filters, depth);
        }
        multiply(sums, fragment_a, fragment_b);
    }
    for (unsigned i = 0; i < 4; ++i) {
        unsigned pixel = top + group + i / 2 * 8, filter = left + pair + i % 2;
        if (pixel < pixels && filter < filters) {
            y[pixel * filters + filter] = sums[i];
        }
    }
}
