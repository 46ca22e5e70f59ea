// Concatenation over channels: one thread copies one value of [N, Ca, H, W] or [N, Cb, H, W] to [N, Ca + Cb, H, W].
//
//     image 0: a a a b b | image 1: a a a b b | …      a letter is a plane
//
// Limited by memory. It computes nothing; a convolution that reads from two tensors would make it unnecessary.
// run: test elementwise // trial: concatenate

// first = Ca·H·W and second = Cb·H·W, the values per image in a and in b. outputs = N·(first + second).
// ANCHOR: kernel
extern "C" __global__ void concatenate(const float *__restrict__ a, const float *__restrict__ b,
                                       float *__restrict__ output, unsigned first, unsigned second, unsigned outputs) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= outputs) {
        return;
    }
    unsigned image = i / (first + second), at = i % (first + second);
    output[i] = at < first ? a[image * first + at] : b[image * second + at - first];
}
// ANCHOR_END: kernel
