// The sum of each run of 32 values, one block of one warp per run: in each round the upper half of the lanes passes its values down.
//
// Something is wrong. `check` says what it sees; put it right.

extern "C" __global__ void warp_sum(const float *x, float *sums, unsigned n) {
    unsigned lane = threadIdx.x;
    unsigned i = blockIdx.x * 32 + lane;
    float sum = 0.0f;
    if (i < n) {
        sum = x[i];
        for (unsigned distance = 16; distance > 0; distance /= 2) {
            sum += __shfl_down_sync(0xffffffff, sum, distance);
        }
    }
    if (lane == 0) {
        sums[blockIdx.x] = sum;
    }
}
