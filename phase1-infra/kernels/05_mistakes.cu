// Two classic bugs, to be run on the simulator: on a GPU the first may destroy the context, and the second never ends.
// run: errors
// ANCHOR: off_by_one
// `<=` where `<` is meant: thread n writes past the last element.
extern "C" __global__ void off_by_one(float *values, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) {
        values[i] = 1.0f;
    }
}
// ANCHOR_END: off_by_one

// ANCHOR: endless
// Waits for a flag that is never set.
extern "C" __global__ void endless(volatile unsigned *flag) {
    while (*flag == 0) {
    }
}
// ANCHOR_END: endless
