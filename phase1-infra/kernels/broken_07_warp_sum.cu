// The sum of each run of 32 values, one warp a run: in each round the upper half of the lanes hands its values down.

// ANCHOR: kernel
// Blocks of whole warps.
extern "C" __global__ void warp_sum(const float *x, float *sums, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned lane = threadIdx.x % 32;
    float sum = i < n ? x[i] : 0.0f;
    for (unsigned offset = 16; offset > 0; offset /= 2) {
        if (lane < offset) {
            sum += __shfl_down_sync(0xffffffff, sum, offset);
        }
    }
    if (lane == 0 && i < n) {
        sums[i / 32] = sum;
    }
}
// ANCHOR_END: kernel
