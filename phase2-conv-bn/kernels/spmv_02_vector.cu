// A sparse matrix times a vector, y = A·x, in CSR: a warp per row, whose lanes read neighbouring non-zeros.
//
//     warp 0   row 0 │ a a a · · …           lane l takes the non-zeros l, l + 32, … of the row
//     warp 1   row 1 │ a · · · · …           then the lanes' sums meet by shuffles
//     warp 2   row 2 │ a a a a a · …
//
// Limited by idle lanes, where a row has fewer than 32 non-zeros; and by the longest row still, for which one warp works alone.
// run: spmv // trial: spmv
constexpr unsigned THREADS = 256;
constexpr unsigned ROWS_PER_BLOCK = THREADS / 32;

// starts: [rows + 1]; columns and values: [starts[rows]]; x: [columns of A]; y: [rows]. A warp per row.
// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS)
    spmv(const unsigned *starts, const unsigned *columns, const float *values, const float *x, float *y, unsigned rows) {
    unsigned row = blockIdx.x * ROWS_PER_BLOCK + threadIdx.x / 32;
    if (row >= rows) {
        return;  // the whole warp
    }
    unsigned lane = threadIdx.x % 32;
    unsigned end = starts[row + 1];
    float sum = 0.0f;
    for (unsigned i = starts[row] + lane; i < end; i += 32) {
        sum += values[i] * x[columns[i]];
    }
    for (unsigned offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffff, sum, offset);
    }
    if (lane == 0) {
        y[row] = sum;
    }
}
// ANCHOR_END: kernel
