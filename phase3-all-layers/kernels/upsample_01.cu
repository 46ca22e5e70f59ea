// Nearest-neighbour upsampling by a whole factor: one thread writes one output, the value of the input pixel it lies
// in.
//
//     factor 2:   a b   →   a a b b
//                 c d       a a b b
//                           c c d d
//                           c c d d
//
// Limited by memory, mostly by writes: factor² values out for each one in, which the caches hold meanwhile.
// run: test elementwise // trial: upsample

// outputs = N·C·H·W·factor².
// ANCHOR: kernel
extern "C" __global__ void upsample_nearest(const float *__restrict__ input, float *__restrict__ output,
                                            unsigned outputs, unsigned height, unsigned width, unsigned factor) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= outputs) {
        return;
    }
    unsigned across = width * factor, down = height * factor;
    unsigned column = i % across / factor, row = i / across % down / factor, plane = i / across / down;
    output[i] = input[(plane * height + row) * width + column];
}
// ANCHOR_END: kernel
