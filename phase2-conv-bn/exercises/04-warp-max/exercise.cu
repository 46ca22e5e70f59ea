// The largest value of each row of a row-major matrix of rows × columns: y[row].
//
// Blocks have 128 threads, which are four warps, and each warp takes a row. There are enough blocks for all rows. The number of
// columns is arbitrary.

extern "C" __global__ void row_max(const float *x, float *y, unsigned rows, unsigned columns) {
    unsigned lane = threadIdx.x % 32;
    unsigned row = blockIdx.x * 4 + threadIdx.x / 32;
    // Your code: the lanes share out the row, and each finds the largest of its values. Then __shfl_down_sync or __shfl_xor_sync
    // combines the 32 values, without shared memory. A lane may have no value at all.
}
