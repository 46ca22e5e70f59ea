// Right sums, but blocks take steps in turn, so that each row has as many parts as steps.

// The sum of all lanes' values, in lane 0.
__device__ int warp_sum(int value) {
    for (unsigned offset = 16; offset > 0; offset /= 2) {
        value += __shfl_down_sync(0xffffffff, value, offset);
    }
    return value;
}

extern "C" __global__ void row_sums(const int *x, int *sums, unsigned rows, unsigned steps) {
    unsigned all = rows * steps, lane = threadIdx.x;
    unsigned now = blockIdx.x, end = all;
    while (now < end) {
        unsigned row = now / steps;
        int sum = 0;
        sum += x[now * 32 + lane];
        now += gridDim.x;
        sum = warp_sum(sum);
        if (lane == 0) {
            atomicAdd(&sums[row], sum);
        }
    }
}
