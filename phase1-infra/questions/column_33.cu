// A column of a tile whose rows are one word longer than the number of banks.

extern "C" __global__ void column_33(const float *x, float *y) {
    __shared__ float tile[32][33];
    unsigned lane = threadIdx.x;
    for (unsigned row = 0; row < 32; ++row) {
        tile[row][lane] = x[32 * row + lane];
    }
    __syncwarp();
    y[lane] = tile[lane][5];
}
