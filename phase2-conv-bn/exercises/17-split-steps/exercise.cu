// sums[row] += the sum of a row of steps · 32 values, for all rows. x is [rows][steps][32], and sums begins at 0.
//
// Blocks have 32 threads, one for each value of a step. There are any number of them: they share all steps of all rows evenly. With 3
// rows of 16 steps and 4 blocks:
//
//     steps     row 0 ─────────┤ row 1 ─────────┤ row 2 ─────────┤
//     blocks    0 ────────┤ 1 ────────┤ 2 ────────┤ 3 ───────────┤

// The sum of all lanes' values, in lane 0.
__device__ int warp_sum(int value) {
    for (unsigned offset = 16; offset > 0; offset /= 2) {
        value += __shfl_down_sync(0xffffffff, value, offset);
    }
    return value;
}

extern "C" __global__ void row_sums(const int *x, int *sums, unsigned rows, unsigned steps) {
    unsigned all = rows * steps, lane = threadIdx.x;
    // Your code: the first step of this block, and the step before which it stops.
    unsigned now = 0, end = 0;
    while (now < end) {
        // Your code: the row of this step, and the step before which this block's part of it stops.
        unsigned row = 0, stop = end;
        int sum = 0;
        for (; now < stop; ++now) {
            sum += x[now * 32 + lane];
        }
        sum = warp_sum(sum);
        if (lane == 0) {
            atomicAdd(&sums[row], sum);
        }
    }
}
