// The running sums of each row of a row-major matrix of at most 256 columns: y[row][c] = x[row][0] + … + x[row][c].
//
// A block of 256 threads per row, a thread per column; there are as many blocks as rows.

extern "C" __global__ void row_scan(const float *x, float *y, unsigned columns) {
    __shared__ float of_warps[8];
    unsigned column = threadIdx.x, lane = column % 32, warp = column / 32;
    bool inside = column < columns;
    float sum = inside ? x[blockIdx.x * columns + column] : 0.0f;
    // Your code: first the running sums within each warp (__shfl_up_sync), then what the warps before it add. Use one barrier, or
    // two.
    if (inside) {
        y[blockIdx.x * columns + column] = sum;
    }
}
