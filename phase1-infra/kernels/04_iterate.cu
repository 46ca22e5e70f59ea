// y ← a·y + x, `rounds` times: an argument sets the run time, so that it can be matched to a copy's.
//
// One read of x and y, one write of y, and in between `rounds` dependent multiply-adds in registers: limited by
// arithmetic from a few dozen rounds on, where 01_vector_add.cu was limited by memory. x is the initial y.
// run: streams

// ANCHOR: kernel
extern "C" __global__ void iterate(float *values, float a, unsigned rounds, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float x = values[i];
        float y = x;
        for (unsigned round = 0; round < rounds; ++round) {
            y = a * y + x;
        }
        values[i] = y;
    }
}
// ANCHOR_END: kernel
