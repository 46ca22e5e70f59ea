// ReLU in place: one thread clips one element.
//
// Limited by memory alone: 4 bytes in, 4 bytes out, one comparison. In place it needs no second buffer, but it still
// reads and writes all of the tensor, just after BatchNorm wrote it; phase 4 makes the two one.
// run: norm // trial: norm
// ANCHOR: kernel
extern "C" __global__ void relu(float *x, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        // Not fmaxf: that would turn NaN into 0 and hide what went wrong before.
        x[i] = x[i] < 0.0f ? 0.0f : x[i];
    }
}
// ANCHOR_END: kernel
