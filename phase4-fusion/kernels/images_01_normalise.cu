// Pixels from 0 to 255 become what a network sees, value · scale + shift with a scale and a shift per channel: [N, 3, H, W] bytes go over the
// link, a quarter of what f32 would take, and each thread widens four neighbours of a plane.
//
// Limit: the f32 values that it writes, 4 bytes per pixel, at the memory's bandwidth.
// run: test nhwc // trial: none, only its test prepares the inputs that it takes

constexpr int THREADS = 256;

struct Channels {
    float scale[3];
    float shift[3];
};

// `plane` is H · W, `count` 3 · N · H · W.
extern "C" __global__ void normalise(const unsigned char *pixels, float *values, unsigned plane, unsigned count,
                                     Channels channels) {
    unsigned first = 4 * (blockIdx.x * THREADS + threadIdx.x);
    if (first >= count) {
        return;
    }
    if (plane % 4 == 0) { // four neighbours are of one channel, and addresses are multiples of their size
        uchar4 four = *reinterpret_cast<const uchar4 *>(pixels + first);
        unsigned c = first / plane % 3;
        float scale = channels.scale[c], shift = channels.shift[c];
        *reinterpret_cast<float4 *>(values + first) =
            make_float4(__fmaf_rn(four.x, scale, shift), __fmaf_rn(four.y, scale, shift),
                        __fmaf_rn(four.z, scale, shift), __fmaf_rn(four.w, scale, shift));
        return;
    }
    for (unsigned i = first; i < min(first + 4, count); ++i) {
        unsigned c = i / plane % 3;
        values[i] = __fmaf_rn(pixels[i], channels.scale[c], channels.shift[c]);
    }
}
