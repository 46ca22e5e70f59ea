// A slice leaves its sums in shared memory, as step 13 does but for the turned rows.

extern "C" __global__ void slice_sums(const float2 *x, float2 *y) {
    __shared__ float2 sums[16][32];  // 16 rows of 64 sums
    unsigned lane = threadIdx.x;
    for (unsigned column = 0; column < 32; column += 4) {
        // The fragment of a wgmma: a lane has two sums each of rows lane / 4 and lane / 4 + 8.
        sums[lane / 4][column + lane % 4] = x[8 * lane + column / 4];
        sums[lane / 4 + 8][column + lane % 4] = x[8 * lane + column / 4 + 256];
    }
    __syncwarp();
    y[lane] = sums[lane / 2][lane];
}
