// The sum of each run of 32 values, one warp per run: in each round the upper half of the lanes passes its values down.
// run: broken 07 --repaired

// ANCHOR: kernel
// Blocks of one warp.
extern "C" __global__ void warp_sum(const float *x, float *sums, unsigned n) {
    unsigned lane = threadIdx.x;
    unsigned i = blockIdx.x * 32 + lane;
    float sum = 0.0f;
    if (i < n) {
        sum = x[i];
        // ANCHOR: repair
    }
    for (unsigned offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffff, sum, offset); // lanes without a value contribute a zero
    }
    // ANCHOR_END: repair
    if (lane == 0) {
        sums[blockIdx.x] = sum;
    }
}
// ANCHOR_END: kernel
