// A column of a tile that is swizzled by three bits of the row.

extern "C" __global__ void half_swizzle(const float *x, float *y) {
    __shared__ float tile[32][32];
    unsigned lane = threadIdx.x;
    for (unsigned row = 0; row < 32; ++row) {
        tile[row][lane ^ (row % 8)] = x[32 * row + lane];
    }
    __syncwarp();
    y[lane] = tile[lane][5 ^ (lane % 8)];
}
